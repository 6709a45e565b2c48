"""Sharing of looks, words for numbers, and charts."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest

from services.orchestrator.dashboard import look
from services.orchestrator.dashboard.drawing.chart import chart, path
from services.orchestrator.dashboard.own_paths import own_path
from services.orchestrator.dashboard.remembered import Shared
from services.orchestrator.dashboard.shell import Taste
from services.orchestrator.dashboard.views.dead_letters import as_hex, as_text
from stanchion.state import (
    ApprovalState,
    AttemptState,
    BarrierState,
    OperationState,
    RunState,
    StepState,
    TaskState,
)

AT = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=n) for n in range(5)]


class TestShared:
    """One look for all who ask at once."""

    def test_nobody_gets_a_look_that_began_before_they_asked(self) -> None:
        """Two after each other are two looks."""
        shared, looks = Shared[int](), iter(range(10))
        assert [shared.get("k", lambda: next(looks)) for _ in range(3)] == [0, 1, 2]

    def test_all_who_wait_share_the_next_one(self) -> None:
        """Of twenty at once, the first looks and the others get one more between them."""
        shared, looks = Shared[int](), iter(range(100))
        began, go = threading.Event(), threading.Event()

        def slow() -> int:
            began.set()
            assert go.wait(10)
            return next(looks)

        found: list[int] = []
        threads = [threading.Thread(target=lambda: found.append(shared.get("k", slow))) for _ in range(20)]
        threads[0].start()
        assert began.wait(10)
        for thread in threads[1:]:
            thread.start()
        while shared._turns["k"].waiting < 20:
            threading.Event().wait(0.001)
        go.set()
        for thread in threads:
            thread.join(10)
        assert sorted(found) == [0] + [1] * 19
        assert not shared._turns

    def test_a_look_that_fails_fails_for_its_own(self) -> None:
        """The next one looks again."""
        shared = Shared[int]()
        with pytest.raises(ZeroDivisionError):
            shared.get("k", lambda: 1 // 0)
        assert shared.get("k", lambda: 5) == 5


class TestWords:
    """Numbers, times and states in words."""

    @pytest.mark.parametrize(
        ("seconds", "words"),
        [
            (None, ""),
            (0.04, "0.0 s"),
            (9.94, "9.9 s"),
            (12, "12 s"),
            (184, "3 m 04 s"),
            (3_840, "1 h 04 m"),
            (183_600, "2 d 03 h"),
        ],
    )
    def test_durations_have_two_units_at_most(self, seconds: float | None, words: str) -> None:
        assert look.duration(seconds) == words

    @pytest.mark.parametrize(("count", "words"), [(None, ""), (999, "999 B"), (1_500, "1.5 kB"), (2_000_000, "2.0 MB")])
    def test_sizes(self, count: int | None, words: str) -> None:
        assert look.size(count) == words

    @pytest.mark.parametrize(
        ("value", "words"),
        [(0, "0"), (9_999, "9,999"), (10_955, "10.9k"), (99_999, "99.9k"), (100_000, "100k"), (12_345_678, "12.3M")],
    )
    def test_what_is_not_all_never_looks_like_all(self, value: int, words: str) -> None:
        """Cut, and not rounded up."""
        assert look.about(value) == words

    def test_every_state_has_a_shape_on_purpose(self) -> None:
        """A new state must not be a dot by accident."""
        machines = (ApprovalState, AttemptState, BarrierState, OperationState, RunState, StepState, TaskState)
        states = {state.value for machine in machines for state in machine}
        dots = {state for state in states if look.shape(state) == "waiting"}
        assert dots == {"pending", "waiting", "prepared"}

    def test_a_part_that_is_there_is_never_invisible(self) -> None:
        """One failed of a hundred thousand is seen."""
        parts = look.shares({"succeeded": 99_999, "failed": 1}, 100_000)
        assert all(part["width"] > 0.9 for part in parts)
        assert sum(part["width"] for part in parts) == pytest.approx(100, abs=0.01)

    def test_a_long_value_is_cut_and_says_so(self) -> None:
        text = look.pretty({"a": "x" * 100_000})
        assert len(text) < 70_000
        assert text.endswith("more characters")


class TestCharts:
    """Lines over time."""

    def test_a_line_has_gaps_where_nobody_sampled(self) -> None:
        assert path([1, 2, None, 2, None], 2) == "M0 20H0.5L1.5 1M3 1H3.5"

    def test_nothing_at_all_is_a_flat_line(self) -> None:
        assert path([0, 0], 0) == "M0 39H0.5L1.5 39"

    def test_it_says_what_it_shows(self) -> None:
        """In a sentence, and in rows, the newest first."""
        found = chart("Rates", AT, [("in", "ready", [60, 120, None, 0, 30])], unit="/s", scale=1 / 60)
        assert found.said == "Rates: in 0.50/s; at most 2/s"
        assert [row[1] for row in found.rows] == [("0.50/s",), ("0/s",), ("–",), ("2/s",), ("1/s",)]


class TestEdges:
    """What comes from outside."""

    @pytest.mark.parametrize(
        "text", ["//evil", "https://evil", "\\\\evil", "/\\evil", "/a b", "/ä", "", None, "evil", "/\t/x"]
    )
    def test_one_is_sent_to_paths_of_this_site_alone(self, text: str | None) -> None:
        assert own_path(text) == "/"

    def test_a_path_of_this_site_stays(self) -> None:
        assert own_path("/tasks?q=state%3Afailed") == "/tasks?q=state%3Afailed"

    def test_bytes_are_shown_as_they_are(self) -> None:
        """What is no text shows as such, and nothing is lost in hex."""
        assert as_text(b"\xff\x00a") == "\ufffd\x00a"
        assert as_hex(b"ab\x00") == [("000000", "61 62 00", "ab.")]

    def test_a_taste_is_what_is_known(self) -> None:
        """Whatever stands in the cookie."""
        assert Taste(theme="dark").cookie == "theme:dark.zone:utc.density:cosy.keys:on"
