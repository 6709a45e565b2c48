"""The overview on a terminal, and where pages are."""

from __future__ import annotations

from typing import Any

from services.orchestrator.dashboard.targets import PLACES as TARGETS
from stanchion.cli.top import BAR, bar, footer, lines
from stanchion.contracts import ids
from stanchion.contracts.pages import PLACES


def overview(**changes: Any) -> dict[str, Any]:
    """One queue with a backlog, one without."""
    crawl = {"queue": "crawl", "ready": 12_300, "ready_age_seconds": 62.0, "running": 384, "slots": 384}
    mail = {"queue": "mail", "ready": 0, "ready_age_seconds": None, "running": 0, "slots": 8}
    return {
        "queues": [
            crawl | {"rate_in": 240.2, "rate_out": 198.4, "advice": "workers needed to drain in 5 min: 6 (you have 4)"},
            mail | {"rate_in": None, "rate_out": None, "advice": "nothing waits"},
        ],
        "workers": {"active": 13, "draining": 1, "silent": 1, "gone": 4},
        "outbox": {"waiting": 14, "oldest_seconds": 0.3},
        "operations_in_doubt": 5,
        "approvals_open": None,
        "dead_letters": 100,
        "more_dead_letters": True,
    } | changes


def test_each_queue_is_a_line_with_its_bar_age_rates_and_advice() -> None:
    """What nobody measured is a question mark, what is not there a dash."""
    head, crawl, mail, foot = lines(overview(), ascii_only=True)
    assert head.split() == ["queue", "ready", "oldest", "in/s", "out/s", "slots", "advice"]
    assert crawl.split()[:7] == ["crawl", "#" * BAR, "12,300", "1", "m", "02", "s"]
    assert "240" in crawl
    assert crawl.endswith("6 (you have 4)")
    assert mail.split() == ["mail", "0", "-", "?", "?", "0/8", "nothing", "waits"]
    assert foot == (
        "workers 14 live, 1 silent · outbox 14, 0.3 s · unknown operations 5 · approvals ? · 100+ dead letters"
    )


def test_nothing_is_no_bar_and_something_is_one() -> None:
    """However small it is beside the largest."""
    assert bar(0, 10_000) == ""
    assert bar(1, 10_000) == "█ "
    assert bar(10_000, 10_000) == "█" * BAR + " "


def test_one_dead_letter_is_one() -> None:
    """Counts agree with their words."""
    assert footer(overview(dead_letters=1, more_dead_letters=False)).endswith("1 dead letter")


def test_the_command_line_and_the_dashboard_know_the_same_places() -> None:
    """An action's target leads to the page that `stanchion open` opens; a run is on the page of its task."""
    assert {prefix: place for prefix, place in TARGETS.items() if prefix in PLACES} == PLACES
    assert TARGETS[ids.RUN] == PLACES[ids.TASK]
