"""The life of a service process: start its parts in order, wait for a signal, drain, stop them in reverse, exit.

SIGTERM or SIGINT: every part is asked to take no new work (`quiesce`), those that are busy may finish within
`drain_seconds`, then all are stopped. A second signal skips that wait, a third ends the process where it stands. When a
part can't go on (`fail`), there is no draining. Exit codes: 0 stopped on request, 1 failed in our code, 2 wrong
settings, 6 something needed at the start can't be reached.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType
from typing import Final, Protocol, TypeVar

from stanchion.errors import Rejected, StanchionError, Unavailable
from stanchion.runtime.clock import Deadline
from stanchion.runtime.logging import get_logger
from stanchion.runtime.loop import Loop

EXIT_STOPPED: Final = 0
EXIT_FAILED: Final = 1
EXIT_SETTINGS: Final = 2
EXIT_UNREACHABLE: Final = 6

log = get_logger()


class Part(Protocol):
    """Something with a life: a loop, a consumer, an HTTP server.

    Two more methods count when a part has them: `quiesce()` (take no new work; does not wait) and `busy() -> bool`
    (work is still under way).
    """

    def start(self) -> object:
        """Begin; raising ends the start of the whole service."""

    def stop(self, timeout: float) -> object:
        """End within `timeout` seconds; False if it could not."""


P = TypeVar("P", bound=Part)


class Service:
    """The parts of one process, in the order in which they start."""

    def __init__(self, name: str, *, drain_seconds: float = 30.0, stop_seconds: float = 5.0) -> None:
        self.name = name
        self.drain_seconds = drain_seconds
        self.stop_seconds = stop_seconds  # for each part
        self.parts: list[tuple[str, Part]] = []
        self.failure: BaseException | None = None
        self._signals = 0
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)

    def add(self, part: P, name: str | None = None) -> P:
        """Add a part after those that are there, and return it; a loop's crash becomes the service's."""
        if isinstance(part, Loop) and part.on_crash is None:
            part.on_crash = self.fail
        self.parts.append((name or str(getattr(part, "name", type(part).__name__)), part))
        return part

    def add_loop(
        self,
        name: str,
        run_once: Callable[[], bool | float | None],
        *,
        busy_wait: float = 0.0,
        idle_wait: float = 1.0,
        wake: threading.Event | None = None,
        runs_while_draining: bool = False,
    ) -> Loop:
        """Add a loop around `run_once`; see `Loop`."""
        loop = Loop(
            name,
            run_once,
            busy_wait=busy_wait,
            idle_wait=idle_wait,
            wake=wake,
            runs_while_draining=runs_while_draining,
        )
        return self.add(loop)

    def request_stop(self) -> None:
        """What a signal does; callable from any thread and from a signal handler."""
        self._signals += 1
        self._poke()

    def fail(self, error: BaseException) -> None:
        """A part can't go on: the process ends with code 1; callable from any thread."""
        if self.failure is None:
            self.failure = error
        self._poke()

    def run(self) -> int:
        """Run to the end; the exit code."""
        before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        # The interpreter itself writes to the pipe: a handler runs between two bytecodes, so that of a signal which comes
        # on the way into `select` would run when that has ended.
        wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        started: list[tuple[str, Part]] = []
        try:
            log.info("service.starting", parts=[name for name, _ in self.parts])
            code = self._start(started)
            if code == EXIT_STOPPED:
                self._wait_for_end()
                self._drain(started)
            self._stop(started)
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)
            self._close()
        code = EXIT_FAILED if self.failure is not None and code == EXIT_STOPPED else code
        log.info("service.stopped", code=code)
        return code

    def _start(self, started: list[tuple[str, Part]]) -> int:
        for name, part in self.parts:
            if self._signals:
                return EXIT_STOPPED
            try:
                part.start()
            except StanchionError as error:
                log.critical("service.failed", part=name, code=error.code, what=error.what, fix=error.fix)
                return exit_code(error)
            except Exception:
                log.critical("service.failed", part=name, exc_info=True)
                return EXIT_FAILED
            started.append((name, part))
        log.info("service.ready")
        return EXIT_STOPPED

    def _wait_for_end(self) -> None:
        while not self._signals and self.failure is None:
            self._wait(3_600.0)

    def _drain(self, started: Sequence[tuple[str, Part]]) -> None:
        if self.failure is not None:
            log.critical("service.failed", error=type(self.failure).__name__, what=str(self.failure))
            return
        log.info("service.draining", seconds=self.drain_seconds)
        for name, part in reversed(started):
            if quiesce := getattr(part, "quiesce", None):
                self._guarded(name, quiesce)
        deadline = Deadline(self.drain_seconds)
        while busy := [name for name, part in started if _busy(part)]:
            if self._signals > 1 or deadline.passed or self.failure is not None:
                log.warning("service.drain_skipped", busy=busy, signals=self._signals)
                return
            self._wait(min(0.05, deadline.left))

    def _stop(self, started: Sequence[tuple[str, Part]]) -> None:
        for name, part in reversed(started):
            ended = self._guarded(name, lambda part=part: part.stop(self.stop_seconds))  # type: ignore[misc]  # a default binds the loop variable
            if ended is False:
                log.error("service.part_stuck", part=name, seconds=self.stop_seconds)

    def _guarded(self, name: str, call: Callable[[], object]) -> object:
        try:
            return call()
        except Exception as error:
            log.error("service.part_stuck", part=name, exc_info=True)
            self.failure = self.failure or error
            return None

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        # A handler runs between two bytecodes of the main thread, which may hold any lock: no Event, no log in here.
        self.request_stop()
        if self._signals >= 3:
            os._exit(EXIT_FAILED)

    def _poke(self) -> None:
        with suppress(OSError):  # full: whoever reads wakes up anyhow; closed: nobody reads any more
            os.write(self._writer, b".")

    def _close(self) -> None:
        writer, self._writer = self._writer, -1
        os.close(writer)
        os.close(self._reader)

    def _wait(self, seconds: float) -> None:
        ready, _, _ = select.select([self._reader], [], [], seconds)
        if ready:
            os.read(self._reader, 64)


def _busy(part: Part) -> bool:
    busy = getattr(part, "busy", None)
    return bool(busy()) if busy is not None else False


def exit_code(error: BaseException) -> int:
    """The exit code for an error that ended the start of a process."""
    if isinstance(error, Rejected):
        return EXIT_SETTINGS
    return EXIT_UNREACHABLE if isinstance(error, Unavailable) else EXIT_FAILED


def run(service: Service) -> int:
    """Run a service to its end and return the exit code for `sys.exit`."""
    return service.run()


def main(build: Callable[[Sequence[str]], Service], argv: Sequence[str] | None = None) -> int:
    """The body of every `__main__`: build the service from the flags, run it; errors of the build become exit codes."""
    try:
        service = build(sys.argv[1:] if argv is None else argv)
    except StanchionError as error:
        sys.stderr.write(f"{error}\n")
        return exit_code(error)
    return run(service)
