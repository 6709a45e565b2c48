"""An event loop in a thread of its own that goes on, whatever the code on it does to it.

Anything on a loop can end it: `loop.stop()`, or a SystemExit in a task that nobody waits for, which asyncio lets out
through `run_forever`. What is on the loop is unharmed by that, so the same loop is run again. One that falls over and
over gets a successor; what was on it is lost then, and `on_lost` says so to whoever put it there.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from stanchion.runtime.clock import Deadline, monotonic
from stanchion.runtime.logging import get_logger

log = get_logger()

FALLS: Final = 500
FALLS_SECONDS: Final = 1.0
"""So many falls within so many seconds are a callback that calls itself: only giving the loop up ends that. Many steps that
each let the loop fall once must not come near it: giving it up costs those beside them an attempt."""
END_SECONDS: Final = 1.0
"""What tasks get to end once they were cancelled."""

_LEFT: Final[list[Any]] = []  # tasks that swallow even that: collecting them would throw into their code once more


class EventLoop:
    """`on_start` is called on each new loop, `on_lost` in its thread when one was given up. A part of a `Service`."""

    def __init__(self, name: str, on_start: Callable[[], None], on_lost: Callable[[], None]) -> None:
        self.name = name
        self.on_start = on_start
        self.on_lost = on_lost
        self.loop: asyncio.AbstractEventLoop
        self._ending = threading.Event()
        self._began = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread; once."""
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name=self.name, daemon=True)
        self._thread.start()
        self._began.wait(10)

    def call(self, callback: Callable[[], object]) -> None:
        """Let the loop call something; from any thread. One that is given up at this moment does not: its successor
        begins with `on_start`."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(callback)

    def stop(self, timeout: float) -> bool:
        """End the loop, and cancel what is on it; True if the thread ended."""
        self._ending.set()
        if self._thread is None:
            return True
        self.call(self.loop.stop)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def ending(self) -> bool:
        """Whether it is about to end on request: a cancel may be ours then."""
        return self._ending.is_set()

    def check(self) -> str | None:
        """A health check: None while its thread lives."""
        if self._thread is None or self._thread.is_alive() or self.ending:
            return None
        return "the thread of the event loop has ended"

    # --- its thread ---

    def _serve(self) -> None:
        try:
            while self._has_another():
                pass
        except Exception:
            log.critical("service.failed", part=self.name, exc_info=True)  # `check` says so to who may end the process
        self._began.set()

    def _has_another(self) -> bool:
        """Live through one loop; True when another takes over."""
        loop = self.loop
        try:
            answered = self._run(loop)
            if not self.ending:
                self.on_lost()
                if not answered:
                    raise RuntimeError("an event loop can't be run in this process")
                self.loop = asyncio.new_event_loop()  # before the old one ends: nothing more may begin there
        finally:
            _close(loop)
        return not self.ending

    def _run(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Until the end, or until it is to be given up; False when it never answered."""
        falls = deque[float](maxlen=FALLS)
        answered = False

        def begin() -> None:
            nonlocal answered
            answered = True
            self.on_start()
            self._began.set()

        loop.call_soon(begin)
        while not self.ending and not loop.is_closed():
            error: BaseException | None = None
            try:
                loop.run_forever()
            except BaseException as escaped:  # noqa: BLE001 - whatever code on the loop lets out: the others on it go on
                error = escaped
            if self.ending:
                break
            now = monotonic()
            news = not falls or now - falls[-1] > 1
            falls.append(now)
            lost = loop.is_closed() or (len(falls) == FALLS and now - falls[0] < FALLS_SECONDS)
            if lost or news:
                _say(error, lost)
            if lost:
                break
        return answered


def _say(error: BaseException | None, lost: bool) -> None:
    with suppress(Exception):  # the log may be what that code has broken
        log.error("worker.loop_fell", error="it was stopped" if error is None else type(error).__name__, lost=lost)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what is left, and wait for it no longer than END_SECONDS."""
    if loop.is_closed():
        return
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    ending, deadline = loop.create_task(_end(left)), Deadline(END_SECONDS * 2)
    while not ending.done() and not deadline.passed:
        with suppress(BaseException):  # it may fall here too
            loop.run_until_complete(ending)
    if left := asyncio.all_tasks(loop):
        _LEFT.append((loop, left))
    else:
        loop.close()


async def _end(tasks: set[asyncio.Task[Any]]) -> None:
    if tasks:
        await asyncio.wait(tasks, timeout=END_SECONDS)
    await asyncio.wait_for(asyncio.get_running_loop().shutdown_asyncgens(), END_SECONDS)
