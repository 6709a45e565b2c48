"""Isolated steps: each in a child process that can be killed, whatever its code does.

A child is kept for further steps as long as it behaves; importing the user's modules anew for each would cost half a
second. Asked to end, a step gets its grace there as in a thread. It is killed with its process when its lease is lost,
when it runs out of time, and when the worker ends; and whatever processes it started are killed with it.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

from stanchion.errors import InDoubt, LeaseLost, Unavailable
from stanchion.runtime.clock import Deadline, pause
from stanchion.runtime.logging import get_logger
from stanchion.workflow.codec import Encoded

from .attempt import Attempt
from .child import ChildSettings, key_of, serve
from .executor import RaisedElsewhere

log = get_logger()

DIED: Final = "E-STEP-28"

LOOK_SECONDS: Final = 0.2
"""How often it is looked whether the process lives. Its pipe tells sooner, unless a process that it forked holds that."""


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
            kind, value, alone = await child.run(attempt)
        except BaseException:
            self._all.discard(child)
            await asyncio.shield(asyncio.to_thread(child.kill))
            raise
        finally:
            self._running.pop(key, None)
        if self._stopped or not alone or not child.rest():
            self._all.discard(child)
            await asyncio.shield(asyncio.to_thread(child.kill))
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

    def kill_running(self) -> None:
        """Kill the children that are at work: nobody waits for their answers any more."""
        for key, child in list(self._running.items()):
            self._running.pop(key, None)
            self._all.discard(child)
            child.kill()

    def stop(self) -> None:
        """Kill all children."""
        self._stopped = True
        for child in list(self._all):
            child.kill()

    def _spawn(self) -> _Child:
        child = _Child(self.settings)
        self._all.add(child)
        if self._stopped:  # meanwhile
            child.kill()
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
            daemon=True,  # to this process, whose end never waits for it; in its own it is none
        )
        self.process.start()
        theirs.close()
        self.began = False
        self._killing = threading.Lock()
        self._killed = False

    async def run(self, attempt: Attempt) -> tuple[str, Any, bool]:
        """Send the step and wait for its end: ("returned", JSON), ("raised", (error, final)), ("stopped", why) or ("doubt",
        (error, delay)), and whether it left no process behind.

        Raises Unavailable when the process ends, or answers for another step: it is not to be used again then.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[tuple[str, Any, bool] | None] = loop.create_future()
        key = key_of(attempt.lease)
        self.began = False

        def end(with_answer: tuple[str, Any, bool] | None) -> None:
            if not answer.done():
                answer.set_result(with_answer)

        def readable() -> None:
            if answer.done():
                return  # what comes behind the answer is looked at before the next step
            try:
                kind, of, value = self.pipe.recv()
            except Exception:  # noqa: BLE001 - its end; or what is no word at all: user code can write there too
                loop.remove_reader(self.pipe.fileno())
                end(None)
                return
            match kind:
                case _ if of != key:
                    end(("stray", None, False))
                case "began":
                    self.began = True
                case "progress":
                    attempt.context.pass_on_progress(value)
                case _:
                    end((kind, *value))

        loop.add_reader(self.pipe.fileno(), readable)
        try:
            with suppress(OSError):  # it has ended: that is seen below
                self.pipe.send(("run", key, attempt.lease))
            while not (await asyncio.wait([answer], timeout=LOOK_SECONDS))[0]:
                if self.process.exitcode is not None:
                    self._drain(readable, answer.done)
                    end(None)
            came = answer.result()
        finally:
            with suppress(OSError, ValueError):
                loop.remove_reader(self.pipe.fileno())
        if came is None:
            raise await self._ended()
        if came[0] == "stray":
            raise Unavailable(DIED, "the process of the step answered for another one", fix="look for os.fork in it")
        return came

    def _drain(self, readable: Callable[[], None], done: Callable[[], bool]) -> None:
        """Read what it has said before it ended."""
        with suppress(OSError):
            while not done() and self.pipe.poll():
                readable()

    def rest(self) -> bool:
        """Between two steps; False when something is in the pipe that nobody asked for."""
        self.began = False
        try:
            return not self.pipe.poll()
        except OSError:
            return False

    def ask_to_stop(self, attempt: Attempt) -> None:
        with suppress(OSError):  # it has ended: whoever waits for its answer learns so
            self.pipe.send(("stop", key_of(attempt.lease), None))

    async def _ended(self) -> Unavailable:
        deadline = Deadline(1)
        while self.process.exitcode is None and not deadline.passed:
            await asyncio.sleep(0.01)  # its pipe closes a moment before it ends
        return Unavailable(
            DIED,
            f"the process of the step ended with {exit_text(self.process.exitcode)}",
            fix="look at what it does natively, or at its memory",
        )

    def kill(self) -> None:
        """End it and all that it has started; from any thread."""
        pid = self.process.pid
        assert pid is not None
        with self._killing:
            if self._killed:
                return
            self._killed = True
            # one that ended at rest was alone: it left no group, and its number may be another's by now
            if self.began or self.process.exitcode is None:
                with suppress(ProcessLookupError, PermissionError):  # it has no group yet, or nobody is left in it
                    os.killpg(pid, signal.SIGKILL)
            if self.process.exitcode is None:
                self.process.kill()
            deadline = Deadline(5)  # not `join`: what it forked may hold what that waits for
            while self.process.exitcode is None and not deadline.passed:
                pause(0.005)
            self.pipe.close()


def exit_text(code: int | None) -> str:
    """An exit code in words."""
    if code is None:
        return "no exit code"
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
