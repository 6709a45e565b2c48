"""The one loop: waits that fit, errors by family, an end in time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stanchion.errors import InvariantViolated, NotFound, Superseded, Unavailable
from stanchion.runtime.clock import Deadline, pause
from stanchion.runtime.loop import Loop
from stanchion.telemetry import metrics


def eventually(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = Deadline(seconds)
    while not condition():
        assert not deadline.passed, "not in time"
        pause(0.002)


class Script:
    """A run_once that plays answers and errors in turn, then repeats the last one."""

    def __init__(self, *steps: Any) -> None:
        self.steps = list(steps)
        self.calls = 0

    def __call__(self) -> bool | float | None:
        step = self.steps[min(self.calls, len(self.steps) - 1)]
        self.calls += 1
        if isinstance(step, BaseException):
            raise step
        answer: bool | float | None = step
        return answer


@pytest.fixture
def loops() -> Iterator[Callable[..., Loop]]:
    made: list[Loop] = []

    def make(*steps: Any, **options: Any) -> Loop:
        loop = Loop("test", Script(*steps), **options)
        made.append(loop)
        return loop

    yield make
    for loop in made:
        assert loop.stop(10)


def script(loop: Loop) -> Script:
    found = loop.run_once
    assert isinstance(found, Script)
    return found


class TestWaiting:
    def test_goes_on_at_once_while_busy(self, loops: Callable[..., Loop]) -> None:
        """True means that there is more."""
        loop = loops(True, idle_wait=60)
        loop.start()
        eventually(lambda: script(loop).calls > 50)

    @pytest.mark.parametrize("answer", [False, None])
    def test_waits_longer_each_time_nothing_is_there(self, loops: Callable[..., Loop], answer: bool | None) -> None:
        """From the least wait to the most, doubling."""
        loop = loops(answer, busy_wait=0.01, idle_wait=0.1)
        waits = [loop._wait_for(answer) for _ in range(6)]
        assert waits == pytest.approx([0.01, 0.02, 0.04, 0.08, 0.1, 0.1])
        assert loop._wait_for(True) == pytest.approx(0.01)
        assert loop._wait_for(answer) == pytest.approx(0.01)

    def test_a_number_is_the_time_to_the_next_thing_due(self, loops: Callable[..., Loop]) -> None:
        """Never beyond the most, since a hint may have got lost."""
        loop = loops(True, busy_wait=0.01, idle_wait=1.0)
        assert [loop._wait_for(given) for given in (0.5, 99.0, 0.0, -3.0)] == pytest.approx([0.5, 1.0, 0.01, 0.01])

    def test_a_hint_ends_the_wait(self, loops: Callable[..., Loop]) -> None:
        """An idle wait of a minute is over at once."""
        loop = loops(60.0, idle_wait=60)
        loop.start()
        eventually(lambda: script(loop).calls == 1)
        loop.wake.set()
        eventually(lambda: script(loop).calls == 2)

    def test_a_hint_during_a_pass_gives_another_pass(self, loops: Callable[..., Loop]) -> None:
        """What arrived while it looked elsewhere is not slept over."""
        wake = threading.Event()
        calls = []

        def once() -> float:
            calls.append(1)
            if len(calls) == 1:
                wake.set()
            return 60.0

        loop = Loop("test", once, idle_wait=60, wake=wake)
        loop.start()
        try:
            eventually(lambda: len(calls) == 2)
        finally:
            assert loop.stop(10)


class TestErrors:
    def test_an_outage_is_waited_out(self, loops: Callable[..., Loop]) -> None:
        """Unavailable backs off, shows, and is forgotten after the first success."""
        loop = loops(Unavailable("E-DB-01", "away"), Unavailable("E-DB-01", "away"), 60.0, idle_wait=60)
        assert loop._pass() == 0.0
        assert (loop.health.failures, loop.health.last_error) == (1, "E-DB-01")
        loop.start()
        eventually(lambda: loop.health.failures == 0)
        assert loop.health.seconds_since_success is not None

    def test_hints_do_not_turn_an_outage_into_a_busy_loop(self, loops: Callable[..., Loop]) -> None:
        """Only time ends the wait after an error."""
        loop = loops(Unavailable("E-DB-01", "away"), idle_wait=60)
        loop._backoff.first = loop._backoff.most = 5.0
        loop.start()
        eventually(lambda: script(loop).calls == 1)
        for _ in range(100):
            loop.wake.set()
        pause(0.05)
        assert script(loop).calls == 1

    def test_a_lost_race_is_run_again_at_once(self, loops: Callable[..., Loop]) -> None:
        """A deadlock is no outage: no growing wait for the first few."""
        loop = loops(True)
        race = Unavailable("E-DB-03", "deadlock detected")
        assert [loop._wait_after(race) <= 0.05 for _ in range(5)] == [True] * 5
        for _ in range(10):
            loop._wait_after(race)
        assert loop._backoff.ceiling == pytest.approx(10.0)

    def test_being_superseded_is_no_news(self, loops: Callable[..., Loop]) -> None:
        """Another replica does the work; this one goes on."""
        loop = loops(Superseded("E-LEASE-01", "partition taken"), 60.0, idle_wait=60)
        loop.start()
        eventually(lambda: script(loop).calls == 2)

    def test_a_broken_invariant_ends_the_process(self, loops: Callable[..., Loop]) -> None:
        """Nobody builds on a broken fact."""
        crashes: list[BaseException] = []
        broken = InvariantViolated("E-STATE-01", "succeeded -> running")
        loop = loops(broken, True, on_crash=crashes.append)
        loop.start()
        eventually(lambda: crashes == [broken])
        eventually(lambda: not loop.health.running)
        assert script(loop).calls == 1
        assert loop.check() == "loop test does not run"

    @pytest.mark.parametrize(
        "error", [TypeError("bug"), NotFound("E-FIND-01", "gone"), KeyError("x")], ids=["type", "rejected", "key"]
    )
    def test_any_other_error_is_this_loops_alone(self, loops: Callable[..., Loop], error: Exception) -> None:
        """It is counted and shown, and the loop goes on: one bad row must not stop a whole service."""
        before = (
            metrics.REGISTRY.get_sample_value("stanchion_loop_errors_total", {"loop": "test", "family": "unexpected"})
            or 0
        )
        loop = loops(error, 60.0, idle_wait=60)
        loop.start()
        eventually(lambda: script(loop).calls == 2)
        after = (
            metrics.REGISTRY.get_sample_value("stanchion_loop_errors_total", {"loop": "test", "family": "unexpected"})
            or 0
        )
        assert after - before == (0 if isinstance(error, NotFound) else 1)

    def test_a_check_tolerates_a_short_failure(self, loops: Callable[..., Loop]) -> None:
        """Only what lasts makes a service unwell."""
        loop = loops(60.0, idle_wait=60)
        loop.start()
        eventually(lambda: loop.health.seconds_since_success is not None)
        loop._failed(Unavailable("E-DB-01", "away"))
        assert loop.check(most_seconds=30) is None
        assert loop.check(most_seconds=0) == "loop test fails: E-DB-01"


class TestEnding:
    def test_stops_at_once_while_it_waits(self, loops: Callable[..., Loop]) -> None:
        """A minute's wait is no reason to wait a minute."""
        loop = loops(60.0, idle_wait=60)
        loop.start()
        eventually(lambda: script(loop).calls == 1)
        assert loop.stop(5)
        assert not loop.health.running

    def test_stops_at_once_while_it_backs_off(self, loops: Callable[..., Loop]) -> None:
        """An outage neither."""
        loop = loops(Unavailable("E-DB-01", "away"), idle_wait=60)
        loop._backoff.first = loop._backoff.most = 60.0
        loop.start()
        eventually(lambda: script(loop).calls == 1)
        assert loop.stop(5)

    def test_lets_the_pass_it_is_in_end(self) -> None:
        """And says when it did not in time."""
        go = threading.Event()
        entered = threading.Event()

        def once() -> bool:
            entered.set()
            go.wait(10)
            return True

        loop = Loop("slow", once)
        loop.start()
        assert entered.wait(10)
        assert not loop.stop(0.01)
        assert loop.busy()
        go.set()
        assert loop.stop(10)
        assert not loop.busy()

    def test_a_loop_that_runs_while_draining_ignores_the_quiesce(self, loops: Callable[..., Loop]) -> None:
        """Heartbeats must outlive the steps that they keep."""
        heartbeat = loops(True, busy_wait=0.001, idle_wait=1, runs_while_draining=True)
        other = loops(True, busy_wait=0.001, idle_wait=1)
        for loop in (heartbeat, other):
            loop.start()
            loop.quiesce()
        eventually(lambda: not other.health.running)
        calls = script(heartbeat).calls
        eventually(lambda: script(heartbeat).calls > calls)
        assert not heartbeat.busy()

    def test_may_be_stopped_before_it_was_started(self) -> None:
        """A service whose start failed half-way stops all the same."""
        assert Loop("never", lambda: True).stop(1)
