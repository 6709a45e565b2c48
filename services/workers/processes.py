"""Isolated steps: each in a child process that can be killed, whatever its code does.

A child is kept for further steps as long as it behaves; importing the user's modules anew for each would cost half a
second. Asked to end, a step gets its grace there as in a thread. It is killed with its process when its lease is lost,
when it runs out of time, and when the worker ends.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

from stanchion.errors import InDoubt, LeaseLost, Unavailable
from stanchion.runtime.logging import get_logger
from stanchion.workflow.codec import Encoded

from .attempt import Attempt
from .child import ChildSettings, key_of, serve
from .executor import RaisedElsewhere

log = get_logger()

DIED: Final = "E-STEP-28"


class ProcessPool:
    """Child processes for isolated steps, started when the first one comes."""

    def __init__(self, settings: ChildSettings) -> None:
        self.settings = settings
        self._idle: list[_Child] = []
        self._running: dict[tuple[UUID, int], _Child] = {}
        self._all: set[_Child] = set()
        self._stopped = False

    async def run(self, attempt: Attempt) -> Encoded:
        """Run one step in a child and return what its code returned, as JSON. Cancelling kills the child.

        Raises RaisedElsewhere for what user code raised, LeaseLost when it stopped as it was told, and Unavailable when
        its process ended under it. A child that ended while it was idle is replaced, and costs the step nothing.
        """
        while True:
            child, fresh = (self._idle.pop(), False) if self._idle else (await asyncio.to_thread(self._spawn), True)
            try:
                return await self._run_in(child, attempt)
            except Unavailable:
                if fresh or child.began:
                    raise
                log.warning("step.child_replaced", node=attempt.lease.node, pid=child.process.pid)

    async def _run_in(self, child: _Child, attempt: Attempt) -> Encoded:
        key = key_of(attempt.lease)
        self._running[key] = child
        try:
            if attempt.stop_reason == "cancelled":
                child.ask_to_stop(attempt)
            kind, value = await child.run(attempt)
        except BaseException:
            self._all.discard(child)
            await asyncio.shield(asyncio.to_thread(child.kill))
            raise
        finally:
            self._running.pop(key, None)
        if self._stopped:
            child.kill()
        else:
            self._idle.append(child)
        match kind:
            case "raised":
                raise RaisedElsewhere(*value)
            case "stopped":
                raise LeaseLost(attempt.lease.node, fence=attempt.lease.fence, why=value)
            case "doubt":
                raise InDoubt(*value)
        encoded: Encoded = value
        return encoded

    def ask_to_stop(self, attempt: Attempt) -> None:
        """Let the step know, by `ctx.stopping`, that it should end; an async one is cancelled."""
        if child := self._running.get(key_of(attempt.lease)):
            child.ask_to_stop(attempt)

    def stop(self) -> None:
        """Kill all children."""
        self._stopped = True
        for child in list(self._all):
            child.kill()

    def _spawn(self) -> _Child:
        child = _Child(self.settings)
        self._all.add(child)
        return child


class _Child:
    """One child process and the pipe to it. All but `kill` is called on the event loop."""

    def __init__(self, settings: ChildSettings) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(
            target=serve,
            args=(theirs, settings, os.getpid()),
            name="stanchion-step",
            daemon=True,
        )
        self.process.start()
        theirs.close()
        self.began = False
        self._killing = threading.Lock()

    async def run(self, attempt: Attempt) -> tuple[str, Any]:
        """Send the step and wait for its end: ("returned", JSON), ("raised", (error, final)), ("stopped", why), or ("doubt",
        (error, delay))."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[tuple[str, Any]] = loop.create_future()
        self.began = False

        def readable() -> None:
            try:
                kind, value = self.pipe.recv()
            except (EOFError, OSError):
                loop.remove_reader(self.pipe.fileno())
                if not answer.done():
                    answer.set_exception(self._ended())
                return
            match kind:
                case "began":
                    self.began = True
                case "progress":
                    attempt.context.pass_on_progress(value)
                case _ if not answer.done():
                    answer.set_result((kind, value))

        loop.add_reader(self.pipe.fileno(), readable)
        try:
            try:
                self.pipe.send(("run", attempt.lease))
            except OSError:
                raise self._ended() from None
            return await answer
        finally:
            with suppress(OSError, ValueError):
                loop.remove_reader(self.pipe.fileno())

    def ask_to_stop(self, attempt: Attempt) -> None:
        with suppress(OSError):  # it has ended: whoever waits for its answer learns so
            self.pipe.send(("stop", key_of(attempt.lease)))

    def _ended(self) -> Unavailable:
        self.process.join(1)
        return Unavailable(
            DIED,
            f"the process of the step ended with {exit_text(self.process.exitcode)}",
            fix="look at what it does natively, or at its memory",
        )

    def kill(self) -> None:
        with self._killing:
            if self.process.is_alive():
                self.process.kill()
            self.process.join(5)
            self.pipe.close()


def exit_text(code: int | None) -> str:
    """An exit code in words."""
    if code is None:
        return "no exit code"
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
