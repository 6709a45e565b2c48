"""What a supervisor writes down under its root: the lock, and the processes that it started."""

from __future__ import annotations

import fcntl
import json
import os
import threading
import weakref
from dataclasses import asdict, dataclass, field
from pathlib import Path

from stanchion.embedded.errors import ROOT_IN_USE, EmbeddedError
from stanchion.embedded.processes import ProcessRecord, Stage

LOCK_NAME = "supervisor.lock"
STATE_NAME = "servers.json"


class RootLock:
    """At most one supervisor per root; the kernel frees it when the supervisor dies, however it dies."""

    def __init__(self, root: Path) -> None:
        self._path = root / LOCK_NAME
        self._fd: int | None = None

    def acquire(self) -> None:
        """Take the lock. Raises EmbeddedError (`E-SERVER-02`) when another supervisor has it."""
        if not self.try_acquire():
            raise EmbeddedError(
                ROOT_IN_USE,
                "another supervisor already runs its servers here",
                where=str(self._path.parent),
                why=f"{self._path.name} is locked by process {self._holder()}",
                fix="stop that process, or give this one another root (--root DIR)",
            )

    def try_acquire(self) -> bool:
        """Take the lock when it is free; return whether it is ours now."""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            return False
        os.ftruncate(fd, 0)
        os.write(fd, f"{os.getpid()}\n".encode("ascii"))
        self._fd = fd
        _held.add(self)
        return True

    def release(self) -> None:
        """Give the lock back; harmless when it is not held."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
            _held.discard(self)

    def _holder(self) -> str:
        try:
            return self._path.read_text(encoding="ascii").strip() or "unknown"
        except OSError:
            return "unknown"


_held: weakref.WeakSet[RootLock] = weakref.WeakSet()


def _let_go_in_child() -> None:
    # A forked copy shares the lock, and may outlive its parent: the root would stay locked. Closing does not unlock it.
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_let_go_in_child)


@dataclass(slots=True)
class State:
    """The content of `servers.json`."""

    run_id: str
    ephemeral: bool = False
    processes: list[ProcessRecord] = field(default_factory=list)
    endpoints: dict[str, str] = field(default_factory=dict)


class StateFile:
    """`<root>/servers.json`, replaced as a whole on every change so that a crash leaves the old or the new one."""

    def __init__(self, root: Path) -> None:
        self._path = root / STATE_NAME
        self._mutex = threading.Lock()
        self._state = State(run_id="")

    def begin(self, run_id: str, *, ephemeral: bool) -> None:
        """Open a new run with no processes."""
        with self._mutex:
            self._state = State(run_id=run_id, ephemeral=ephemeral)
            self._write()

    def record(self, process: ProcessRecord) -> None:
        """Write down a process before it may start; it takes the place of an earlier one of the same name."""
        with self._mutex:
            kept = [known for known in self._state.processes if known.name != process.name]
            self._state.processes = [*kept, process]
            self._write()

    def publish(self, endpoints: dict[str, str]) -> None:
        """Write down where the servers answer, for tools that look from outside."""
        with self._mutex:
            self._state.endpoints = endpoints
            self._write()

    def clear(self) -> None:
        """Remove the file: nothing of this run is left."""
        with self._mutex:
            self._path.unlink(missing_ok=True)

    def read(self) -> State | None:
        """Return what the last run wrote, or None when there is nothing that can be read."""
        try:
            document = json.loads(self._path.read_text(encoding="utf-8"))
            return State(
                run_id=document["run_id"],
                ephemeral=document["ephemeral"],
                processes=[_process(entry) for entry in document["processes"]],
                endpoints=document["endpoints"],
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _write(self) -> None:
        draft = self._path.with_suffix(".json.new")
        draft.write_text(json.dumps(asdict(self._state), indent=2), encoding="utf-8")
        draft.replace(self._path)


def _process(entry: dict[str, object]) -> ProcessRecord:
    stages = entry["ending"]
    if not isinstance(stages, list):
        raise TypeError("ending is not a list")
    return ProcessRecord(
        name=str(entry["name"]),
        pid=int(str(entry["pid"])),
        birth=str(entry["birth"]),
        program=str(entry["program"]),
        ending=tuple(Stage(signal=int(stage["signal"]), seconds=float(stage["seconds"])) for stage in stages),
    )
