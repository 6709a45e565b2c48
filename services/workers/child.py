"""The child's side of an isolated step: runs steps one after the other, in its main thread, until the pipe closes.

A thread of its own reads the pipe, so that a step learns that it should stop while its code runs. Only JSON and words
go back: an object of user code that can be sent can't always be received. Every word, in both directions, names the
attempt that it is for: what comes late, or from a copy of this process, must not be taken for another step's.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Final, NamedTuple
from uuid import UUID

from stanchion.authority.leases import Lease, Leases, Reach
from stanchion.authority.ledger import Ledger
from stanchion.authority.objects import Objects
from stanchion.contracts import limits, payload
from stanchion.db.engine import Database
from stanchion.errors import InDoubt, LeaseLost
from stanchion.runtime.clock import monotonic, pause
from stanchion.sdk.artifacts import ArtifactDoor
from stanchion.sdk.reading import arguments_of
from stanchion.workflow.codec import Encoded

from .attempt import Attempt
from .catalogue import Catalogue
from .executor import described
from .patience import Patience

WATCH_SECONDS: Final = 0.5
"""How often it is looked whether the worker lives, and whether there is progress to tell."""


class ChildSettings(NamedTuple):
    """What a child needs of its worker."""

    targets: Sequence[str]
    database_url: str
    objects_url: str | None
    worker_id: UUID


def serve(pipe: Connection, settings: ChildSettings, parent: int) -> None:
    """Run until the pipe closes or the worker ends, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.setsid()  # a group of its own: whatever a step leaves behind is killed with it
    multiprocessing.current_process().daemon = False  # one may have no processes of its own, and so no pools
    os.register_at_fork(after_in_child=pipe.close)  # a copy has nothing to say, nor holds the pipe open
    child = Child(pipe, parent)
    catalogue = Catalogue.load(settings.targets)
    database = Database(settings.database_url, name="step process", pool_size=1, overflow=1)
    leases = Leases(database, settings.worker_id, Reach(None, [], []), 0, Objects(settings.objects_url))
    while (lease := child.next_lease()) is not None:
        child.run(lease, catalogue, leases)


Key = tuple[UUID, int]


def key_of(lease: Lease) -> Key:
    """What tells an attempt from all others: a word that crosses with its end must not reach the next one."""
    return lease.step_id, lease.fence


class Child:
    """The pipe, and the attempt that runs."""

    def __init__(self, pipe: Connection, parent: int) -> None:
        self.pipe = pipe
        self.parent = parent
        self.attempt: Attempt | None = None
        self._pid = os.getpid()
        self._leases: queue.SimpleQueue[Lease | None] = queue.SimpleQueue()
        self._stop: Key | None = None  # asked for, maybe before the attempt was there
        self._lock = threading.RLock()
        threading.Thread(target=self._read, name="read", daemon=True).start()
        threading.Thread(target=self._watch, name="watch", daemon=True).start()

    def next_lease(self) -> Lease | None:
        """The next step to run; None at the end."""
        return self._leases.get()

    def run(self, lease: Lease, catalogue: Catalogue, leases: Leases) -> None:
        """Run one step and answer."""
        key = key_of(lease)
        self._send("began", key, None)
        try:
            step, node = catalogue.find(lease.workflow, lease.workflow_version, lease.node)
            attempt = Attempt(lease, step, node, monotonic(), Ledger(leases.database, leases.worker_id))
            self._begin(attempt)
            # the worker judges how long the lease can be trusted, and kills this process when it can't
            ask = Patience(attempt, on_the_loop_seconds=float("inf"))
            attempt.context.equip(ArtifactDoor(leases, lease, ask))
            arguments = step.codec.decode_args(**arguments_of(leases, lease, node, ask))
            value = step.fn(attempt.context, **arguments)
            if asyncio.iscoroutine(value):
                value = asyncio.run(self._cancellable(value))
            answer = "returned", _checked(step.codec.encode_result(value), lease.node, leases.objects.is_set)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is this attempt's outcome
            answer = self._judged(error, lease, catalogue)
        self._let_no_copy_pass()
        self._end()
        kind, value = answer
        self._send(kind, key, (value, _is_alone()))

    def _let_no_copy_pass(self) -> None:
        """User code that forks may let the copy come back to here. There is one answer, and the original gives it."""
        if os.getpid() != self._pid:
            os._exit(0)

    def _judged(self, error: BaseException, lease: Lease, catalogue: Catalogue) -> tuple[str, Any]:
        if isinstance(error, InDoubt):
            return "doubt", (error.error, error.delay_ms)
        stop = self.attempt.told() if self.attempt is not None else None
        if isinstance(error, LeaseLost) or (isinstance(error, asyncio.CancelledError) and stop is not None):
            return "stopped", stop or str(error)
        try:
            step, _ = catalogue.find(lease.workflow, lease.workflow_version, lease.node)
            final = not step.retryable(error)
        except LookupError:
            final = False
        return "raised", (described(error), final)

    # --- being told to stop ---

    def _begin(self, attempt: Attempt) -> None:
        with self._lock:
            self.attempt = attempt
            attempt.begin()
            if self._stop == key_of(attempt.lease):
                attempt.stop("cancelled")

    def _end(self) -> None:
        with self._lock:
            self.attempt = None

    async def _cancellable(self, value: Coroutine[Any, Any, Any]) -> Any:
        loop, me = asyncio.get_running_loop(), asyncio.current_task()
        attempt = self.attempt
        assert me is not None
        assert attempt is not None

        def interrupt() -> None:
            loop.call_soon_threadsafe(me.cancel)

        attempt.on_stop = interrupt
        if attempt.stop_reason is not None:
            me.cancel()
        try:
            return await value
        finally:
            self._let_no_copy_pass()  # it would end the loop, whose selector it shares with the original
            attempt.on_stop = None

    # --- threads ---

    def _read(self) -> None:
        while True:
            try:
                kind, key, value = self.pipe.recv()
            except (EOFError, OSError):
                self._leases.put(None)
                return
            if kind == "run":
                self._leases.put(value)
                continue
            with self._lock:
                self._stop = key
                attempt = self.attempt
            if attempt is not None and key == key_of(attempt.lease):
                attempt.stop("cancelled")

    def _watch(self) -> None:
        """The pipe's end is not enough while user code runs: look for the worker itself. And tell how far the step is."""
        told: Any = None
        while os.getppid() == self.parent:
            pause(WATCH_SECONDS)
            with self._lock:  # until it is sent: what is told after the end would be taken for the next step's
                attempt = self.attempt
                progress = attempt.context.take_progress() if attempt is not None else None
                if attempt is not None and progress is not None and progress is not told:
                    self._send("progress", key_of(attempt.lease), progress)
            told = progress
        os.killpg(0, signal.SIGKILL)  # nor may what its steps have started outlive the worker

    def _send(self, kind: str, key: Key, value: Any) -> None:
        with self._lock, suppress(OSError):  # the worker is gone, or about to kill this process
            self.pipe.send((kind, key, value))


def _is_alone() -> bool:
    """Whether the step has left no process behind. Those that ended are buried on the way: nobody waits for them now."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            return False


def _checked(encoded: Encoded, node: str, with_store: bool) -> Encoded:
    """A value too large to be stored is not worth the way: refused here."""
    most = limits.VALUE_BYTES if with_store else limits.BLOB_BYTES
    for part in ("value", "input", "items"):
        if (value := getattr(encoded, part, None)) is not None:
            payload.check_size(payload.size(value), most, f"what {node} returned")
    return encoded
