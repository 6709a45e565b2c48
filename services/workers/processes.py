"""Isolated steps: each in a child process that can be killed, whatever its code does.

A child is kept for further steps as long as it behaves; importing the user's modules anew for each would cost half a
second. It is killed when its step is told to stop, or runs out of time, and when the worker ends.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from stanchion.authority.leases import Leases, Reach
from stanchion.db.engine import Database
from stanchion.errors import StanchionError, Unavailable
from stanchion.sdk.reading import arguments_of

from .attempt import Attempt
from .catalogue import Catalogue


class ProcessPool:
    """Child processes for isolated steps, started when the first one comes."""

    def __init__(self, targets: Sequence[str], database_url: str) -> None:
        self.targets = tuple(targets)
        self.database_url = database_url
        self._idle: list[_Child] = []
        self._all: set[_Child] = set()
        self._stopped = False

    async def run(self, attempt: Attempt) -> Any:
        """Run one step in a child and return what its code returned; raises what it raised. Cancelling kills the child."""
        child = self._idle.pop() if self._idle else await asyncio.to_thread(self._spawn)
        try:
            kind, value = await child.run(attempt)
        except BaseException:
            self._all.discard(child)
            await asyncio.shield(asyncio.to_thread(child.kill))
            raise
        if self._stopped:
            child.kill()
        else:
            self._idle.append(child)
        if kind == "raised":
            raise value
        return value

    def stop(self) -> None:
        """Kill all children."""
        self._stopped = True
        for child in list(self._all):
            child.kill()

    def _spawn(self) -> _Child:
        child = _Child(self.targets, self.database_url)
        self._all.add(child)
        return child


class _Child:
    """One child process and the pipe to it."""

    def __init__(self, targets: Sequence[str], database_url: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(
            target=serve, args=(theirs, targets, database_url, os.getpid()), name="stanchion-step", daemon=True
        )
        self.process.start()
        theirs.close()

    async def run(self, attempt: Attempt) -> tuple[str, Any]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[tuple[str, Any]] = loop.create_future()
        self.pipe.send((attempt.lease, attempt.node.name))

        def readable() -> None:
            loop.remove_reader(self.pipe.fileno())
            try:
                kind, value = self.pipe.recv()
            except (EOFError, OSError):
                self.process.join(1)
                error = Unavailable(
                    "E-STEP-28",
                    f"the process of the step ended with {exit_text(self.process.exitcode)}",
                    fix="look at what it does natively, or at its memory",
                )
                if not answer.done():
                    answer.set_exception(error)
                return
            if not answer.done():
                answer.set_result((kind, value))

        loop.add_reader(self.pipe.fileno(), readable)
        try:
            return await answer
        finally:
            with suppress(OSError, ValueError):
                loop.remove_reader(self.pipe.fileno())

    def kill(self) -> None:
        if self.process.is_alive():
            self.process.kill()
        self.process.join(5)
        self.pipe.close()


def exit_text(code: int | None) -> str:
    """An exit code in words."""
    if code is None:
        return "no exit code"
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def serve(pipe: Connection, targets: Sequence[str], database_url: str, parent: int) -> None:
    """The child's side: run steps one after the other until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with(parent)
    catalogue = Catalogue.load(targets)
    database = Database(database_url, name="step process", pool_size=1, overflow=1)
    while True:
        try:
            lease, _name = pipe.recv()
        except (EOFError, OSError):
            return
        step, node = catalogue.find(lease.workflow, lease.workflow_version, lease.node)
        attempt = Attempt(lease, step, node)
        leases = Leases(database, lease.step_id, Reach(None, [], []), 0)
        try:
            arguments = step.codec.decode_args(**arguments_of(leases, lease, node))
            value = step.fn(attempt.context, **arguments)
            if asyncio.iscoroutine(value):
                value = asyncio.run(_await(value))
            _answer(pipe, "returned", value)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the worker judges it
            _answer(pipe, "raised", error)


async def _await(value: Any) -> Any:
    return await value


def _answer(pipe: Connection, kind: str, value: Any) -> None:
    try:
        pipe.send((kind, value))
    except Exception as error:  # noqa: BLE001 - a value or an error that can't be pickled must still be told
        what = (
            f"{type(value).__name__}: {value}"
            if kind == "raised"
            else f"a {type(value).__name__} can't leave its process ({type(error).__name__})"
        )
        pipe.send(("raised", StanchionError("E-STEP-27", what[:1000])))


def _die_with(parent: int) -> None:
    """End this process when the worker ends, however it ends: the pipe's end is not enough while user code runs."""
    import threading

    from stanchion.runtime.clock import pause

    def watch() -> None:
        while os.getppid() == parent:
            pause(0.5)
        os._exit(0)

    threading.Thread(target=watch, name="die-with-parent", daemon=True).start()
