"""The parts of a timeline: areas, bars, ticks, and the way that decided the end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from services.orchestrator.dashboard.views import timeline
from services.orchestrator.dashboard.views.timeline_reads import Lane, Window

START = datetime(2026, 1, 1, tzinfo=UTC)
WINDOW = Window(START, START + timedelta(seconds=100))


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def lane(name: str, last: float) -> Lane:
    """A lane whose last attempt ended at a time."""
    return Lane(name, (), 1, 0, 0, START, at(last), 0.0, 0.0)


def test_an_area_steps_where_its_counts_do() -> None:
    """Full height at the most, nothing where there is nothing, and it is closed."""
    assert timeline.area((0, 2, 2, 1, 0), 2) == "M0 20H1V0H3V10H4V20H5V20z"
    assert timeline.area((1, 1), 1) == "M0 20H0V0H2V20z"
    assert timeline.area((0, 0), 0) == ""


def test_something_little_is_still_seen() -> None:
    """One of a thousand has a height."""
    assert "V18.5" in timeline.area((1, 1_000), 1_000)


def test_an_attempt_is_split_into_waiting_and_running() -> None:
    """From when nothing but a worker was missing, over its lease, to its end; places are thousandths."""
    row = {"free_at": at(10), "granted_at": at(20), "started_at": at(25), "ended_at": at(75), "number": 1}
    assert [(bar.kind, bar.x, bar.width) for bar in timeline.bars(row, WINDOW, at(100))] == [
        ("queue", 100.0, 100.0),
        ("lease", 200.0, 50.0),
        ("run", 250.0, 500.0),
    ]


def test_an_open_attempt_runs_until_now() -> None:
    """A later attempt did not wait from the first one's begin on."""
    row = {"free_at": at(0), "granted_at": at(40), "started_at": None, "ended_at": None, "number": 2}
    assert [(bar.kind, bar.x, bar.width) for bar in timeline.bars(row, WINDOW, at(90))] == [("run", 400.0, 500.0)]


def test_the_way_that_decided_goes_back_over_what_came_last() -> None:
    """Of two before a step the later one counts; shares are of the whole time."""
    after = {"read": ("plan",), "draft": ("read", "aim")}
    lanes = [lane("plan", 10), lane("read", 70), lane("aim", 20), lane("draft", 100)]
    found = timeline.critical(after, lanes, WINDOW)
    assert [(one.name, round(one.share, 3)) for one in found] == [("plan", 0.1), ("read", 0.6), ("draft", 0.3)]


def test_a_circle_of_after_does_not_hang() -> None:
    """Each step is on the way once at most."""
    assert len(timeline.critical({"a": ("b",), "b": ("a",)}, [lane("a", 10), lane("b", 20)], WINDOW)) == 2


def test_ticks_begin_at_the_start_and_end_at_the_end() -> None:
    """Evenly."""
    found = timeline.ticks(WINDOW)
    assert [tick["at"] for tick in (found[0], found[-1])] == [WINDOW.start, WINDOW.end]
    assert len(found) == timeline.TICKS + 1
