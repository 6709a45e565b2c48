"""The one loop: call `run_once`, wait, again. A service's loops are this class around a function that does the work.

How long it waits follows from what `run_once` says: busy (True) waits `busy_wait`; nothing to do (False or None) waits
longer each time, from `busy_wait` up to `idle_wait`; a number is the seconds to the next thing that is due, at most
`idle_wait`. `wake` ends any wait at once; it is a hint, and a lost one costs at most `idle_wait`.

What an error means is its family. Unavailable: back off, with jitter. A transaction that lost a race: run again at
once. Superseded: another replica does it now, go on quietly. InvariantViolated: `on_crash`, the process ends. Anything
else is a bug in this loop alone: it is logged with its traceback, the loop backs off and goes on, and shows as unwell.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from stanchion.errors import InvariantViolated, StanchionError, Superseded, Unavailable
from stanchion.runtime.backoff import Backoff
from stanchion.runtime.clock import monotonic
from stanchion.runtime.logging import bind, get_logger
from stanchion.telemetry import metrics

_RACE: Final = "E-DB-03"  # deadlock victim or serialization failure
_RACES_IN_A_ROW: Final = 5  # after so many it is no race any more

log = get_logger()


@dataclass(frozen=True, slots=True)
class LoopHealth:
    """How a loop fares: seconds since its last success (None before the first), and what stopped it since."""

    name: str
    running: bool
    seconds_since_success: float | None
    failures: int
    last_error: str | None


class Loop:
    """A named loop in a thread of its own. `run_once` is what tests call; this adds time, errors and an end."""

    def __init__(
        self,
        name: str,
        run_once: Callable[[], bool | float | None],
        *,
        busy_wait: float = 0.0,
        idle_wait: float = 1.0,
        wake: threading.Event | None = None,
        runs_while_draining: bool = False,
        on_crash: Callable[[BaseException], None] | None = None,
    ) -> None:
        assert 0 <= busy_wait <= idle_wait, "a loop waits at least as long when idle as when busy"
        self.name = name
        self.run_once = run_once
        self.busy_wait = busy_wait
        self.idle_wait = idle_wait
        self.wake = wake or threading.Event()  # one per loop: a loop clears it
        self.runs_while_draining = runs_while_draining  # heartbeats must outlive the steps that they keep
        self.on_crash = on_crash
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._backoff = Backoff(0.05, 10.0)
        self._races = 0
        self._failures = 0
        self._idle = 0.0
        self._last_success: float | None = None
        self._last_error: str | None = None

    def start(self) -> None:
        """Start the thread; once."""
        assert self._thread is None, f"loop {self.name} was started before"
        self._thread = threading.Thread(target=self._run, name=f"loop-{self.name}", daemon=True)
        self._thread.start()

    def quiesce(self) -> None:
        """When the service drains: end after the pass it is in, unless it `runs_while_draining`; does not wait."""
        if not self.runs_while_draining:
            self._end()

    def busy(self) -> bool:
        """Whether it is in the last pass before its end."""
        return self._stopping.is_set() and self._thread is not None and self._thread.is_alive()

    def stop(self, timeout: float = 10.0) -> bool:
        """End it and wait up to `timeout` seconds for the pass it is in; True if it ended."""
        self._end()
        if self._thread is None or self._thread is threading.current_thread():
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _end(self) -> None:
        self._stopping.set()
        self.wake.set()

    @property
    def health(self) -> LoopHealth:
        """How it fares now."""
        since = None if self._last_success is None else monotonic() - self._last_success
        running = self._thread is not None and self._thread.is_alive()
        return LoopHealth(self.name, running, since, self._failures, self._last_error)

    def check(self, most_seconds: float = 30.0) -> str | None:
        """A health check: None while it succeeds, else what is wrong (no thread, or `most_seconds` of failures)."""
        health = self.health
        if not health.running and not self._stopping.is_set():
            return f"loop {self.name} does not run"
        if health.failures and (health.seconds_since_success is None or health.seconds_since_success > most_seconds):
            return f"loop {self.name} fails: {health.last_error}"
        return None

    def _run(self) -> None:
        with bind(loop=self.name):
            while not self._stopping.is_set():
                self.wake.clear()  # before the pass: what is woken during it gets another one
                if (wait := self._pass()) is None:
                    return
                if wait > 0 and not self._stopping.is_set():
                    self.wake.wait(wait)

    def _pass(self) -> float | None:
        """One call of `run_once`; the seconds to wait, or None to end."""
        started = time.perf_counter()
        try:
            answer = self.run_once()
        except InvariantViolated as error:
            self._failed(error)
            log.critical("loop.invariant_violated", code=error.code, what=error.what, exc_info=True)
            if self.on_crash is None:
                raise
            self.on_crash(error)
            return None
        except Exception as error:  # noqa: BLE001 - a loop's top: the family decides
            self._stopping.wait(self._wait_after(error))  # not `wake`: hints must not turn an outage into a busy loop
            return 0.0
        metrics.loop_seconds.labels(self.name).observe(time.perf_counter() - started)
        self._succeeded()
        return self._wait_for(answer)

    def _wait_for(self, answer: bool | float | None) -> float:
        if answer is True:
            self._idle = 0.0
            return self.busy_wait
        if answer is False or answer is None:
            # 1 ms is where doubling starts when there is no wait between busy passes.
            self._idle = min(self.idle_wait, max(self._idle * 2, self.busy_wait, 0.001))
            return self._idle
        self._idle = 0.0
        return min(self.idle_wait, max(self.busy_wait, float(answer)))

    def _wait_after(self, error: Exception) -> float:
        self._failed(error)
        wait = self._backoff.next()
        if isinstance(error, Superseded):
            log.info("loop.superseded", code=error.code, what=error.what)
        elif isinstance(error, Unavailable) and error.code == _RACE and self._races < _RACES_IN_A_ROW:
            self._races += 1
            wait = min(wait, 0.01 * self._races)
            log.debug("loop.retrying", code=error.code, what=error.what)
        elif isinstance(error, Unavailable):
            # Once at the start of an outage and then rarely: an outage of an hour is one fact, not ten thousand lines.
            say = log.warning if self._failures in (1, 10) or self._failures % 100 == 0 else log.debug
            say("loop.unavailable", code=error.code, what=error.what, failures=self._failures)
        else:
            log.error("loop.error", error=type(error).__name__, failures=self._failures, exc_info=True)
        return wait

    def _failed(self, error: BaseException) -> None:
        self._failures += 1
        self._last_error = error.code if isinstance(error, StanchionError) else type(error).__name__
        metrics.loop_errors.labels(self.name, _family(error)).inc()

    def _succeeded(self) -> None:
        if self._failures and self._races < self._failures:
            log.info("loop.recovered", failures=self._failures, last_error=self._last_error)
        self._failures = self._races = 0
        self._last_error = None
        self._last_success = monotonic()
        self._backoff.reset()


def _family(error: BaseException) -> str:
    for family in (Unavailable, Superseded, InvariantViolated):
        if isinstance(error, family):
            return family.__name__
    return "Rejected" if isinstance(error, StanchionError) else "unexpected"
