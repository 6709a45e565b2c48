"""One embedded server: start on a port that it keeps, restart, kill, and a look whether it is ready."""

from __future__ import annotations

import abc
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from stanchion.embedded.errors import NOT_READY, EmbeddedError
from stanchion.embedded.ports import LOOPBACK, free_port, is_free
from stanchion.embedded.processes import (
    Account,
    ProcessRecord,
    Stage,
    birth_of,
    end_all,
    eventually,
    open_gate,
    pause,
    send,
    send_tree,
    spawn_gated,
)
from stanchion.embedded.state import StateFile

_BIND_TRIES = 5
_LOG_LIMIT_BYTES = 10 * 1024 * 1024


@dataclass(slots=True)
class Workspace:
    """What the servers of one supervisor share."""

    root: Path
    run_id: str
    state: StateFile
    fsync: bool = True
    closing: threading.Event = field(default_factory=threading.Event)

    def folder(self, name: str) -> Path:
        """Return `<root>/<name>`, made when missing."""
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder


class Server(abc.ABC):
    """One child process that serves on one loopback port.

    `supervise` says whether the supervisor starts it again when it dies. All methods may be called from any thread.
    """

    name: str
    ending: tuple[Stage, ...]
    start_seconds: float = 30.0

    def __init__(self, workspace: Workspace) -> None:
        self.supervise = True
        self.restarts = 0
        self._workspace = workspace
        self._lock = threading.RLock()
        self._port: int | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._record: ProcessRecord | None = None

    # -- what each kind of server says of itself --

    @property
    @abc.abstractmethod
    def url(self) -> str:
        """Where clients connect."""

    @abc.abstractmethod
    def command(self) -> Sequence[str]:
        """The program, by its path, and its arguments."""

    @abc.abstractmethod
    def answers(self) -> bool:
        """Return whether this very process serves a real request (another program on the port does not count)."""

    def prepare(self) -> None:  # noqa: B027  # most servers need nothing
        """Make what the first start needs (binaries, data); called before every start."""

    def after_start(self) -> None:  # noqa: B027  # most servers need nothing
        """Make what the first connection needs (a database); called after every start."""

    def folder(self) -> Path:
        """The working directory."""
        return self._workspace.folder(self.name)

    def account(self) -> Account | None:
        """The user that it runs as; None for the supervisor's own."""
        return None

    def environment(self) -> dict[str, str]:
        """The whole environment: the supervisor's own settings for servers (PGPORT and the like) must not leak in."""
        return {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C", "LC_ALL": "C", "TZ": "UTC"}

    # -- the handle --

    @property
    def port(self) -> int:
        """The loopback port, the same until the supervisor stops."""
        assert self._port is not None, f"{self.name} was not started"
        return self._port

    @property
    def pid(self) -> int:
        """The process id of the running (or last) process."""
        assert self._record is not None, f"{self.name} was not started"
        return self._record.pid

    @property
    def record(self) -> ProcessRecord | None:
        """What was written down of the running (or last) process."""
        return self._record

    @property
    def log_path(self) -> Path:
        """The file that gets the server's output."""
        return self._workspace.folder("logs") / f"{self.name}.log"

    def is_running(self) -> bool:
        """Return whether the process exists (it may not answer yet)."""
        child = self._child
        return child is not None and child.poll() is None

    def kill(self, signal_number: int = signal.SIGKILL) -> None:
        """Send a signal; after SIGKILL return once the process is gone."""
        if self._record is None or self._child is None:
            return
        send(self._record, signal_number)
        if signal_number == signal.SIGKILL:
            self._child.wait(timeout=10)

    def restart(self) -> None:
        """Stop it when it still runs, start it on the same port, return when it is ready.

        Raises EmbeddedError (`E-SERVER-04`) when it does not become ready.
        """
        with self._lock:
            self.stop()
            self.start()
            self.restarts += 1

    def revive(self) -> bool:
        """Start it again if it has died and is supervised; return whether that was needed."""
        with self._lock:
            if not self.supervise or self._child is None or self.is_running() or self._workspace.closing.is_set():
                return False
            self.start()
            self.restarts += 1
            return True

    def wait_ready(self, seconds: float = 30.0) -> None:
        """Return when it answers. Raises EmbeddedError (`E-SERVER-04`) when it does not within `seconds`."""
        if not eventually(lambda: self.is_running() and self.answers(), seconds):
            raise self._not_ready(f"no answer within {seconds:g} s")

    def start(self) -> None:
        """Start it and return when it answers; a taken port is replaced by another, on the first start only.

        Raises EmbeddedError (`E-SERVER-04`) when it ends early or does not answer in time.
        """
        with self._lock:
            self.prepare()
            may_move = self._port is None
            for _ in range(_BIND_TRIES):
                if may_move:
                    self._port = free_port()
                self._launch()
                if self._await_answer():
                    self.after_start()
                    return
                self.stop()
                if not may_move or is_free(self.port):
                    break  # it was not the port
            raise self._not_ready("it ended while it was starting")

    def freeze(self) -> None:
        """SIGSTOP the process and its children (PostgreSQL's backends are processes of their own)."""
        if self._record is not None:
            send_tree(self._record, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT the process and its children."""
        if self._record is not None:
            send_tree(self._record, signal.SIGCONT)

    def hold(self) -> AbstractContextManager[bool]:
        """Keep every other thread from starting or stopping it."""
        return self._lock

    def forget_port(self) -> None:
        """Let the next start choose a new port: the old one may have been taken while nothing ran."""
        self._port = None

    def stop(self) -> None:
        """End the process by its escalation; harmless when it does not run."""
        with self._lock:
            if self._record is not None:
                end_all([self._record])
            self.reap()

    def reap(self) -> None:
        """Collect the exit code of a process that has ended."""
        if self._child is not None:
            self._child.wait(timeout=10)

    def _launch(self) -> None:
        self._rotate_log()
        command = list(self.command())
        with self.log_path.open("ab") as log:
            child = spawn_gated(
                command, log=log, cwd=self.folder(), environment=self.environment(), account=self.account()
            )
        birth = birth_of(child.pid)
        self._child = child
        if birth is None:
            return  # it ended at the gate; waiting for its answer reports that
        self._record = ProcessRecord(self.name, child.pid, birth, command[0], self.ending)
        self._workspace.state.record(self._record)
        open_gate(child)

    def _await_answer(self) -> bool:
        deadline = time.monotonic() + self.start_seconds
        while not self._workspace.closing.is_set():
            if not self.is_running():
                return False
            if self.answers():
                return True
            if time.monotonic() >= deadline:
                self.stop()
                raise self._not_ready(f"no answer within {self.start_seconds:g} s")
            pause()
        return False

    def _rotate_log(self) -> None:
        path = self.log_path
        if path.exists() and path.stat().st_size > _LOG_LIMIT_BYTES:
            shutil.move(path, path.with_suffix(".log.1"))

    def _not_ready(self, why: str) -> EmbeddedError:
        return EmbeddedError(
            NOT_READY,
            f"{self.name} does not become ready",
            where=f"{LOOPBACK}:{self._port}, log {self.log_path}",
            why=f"{why}; its log ends: {tail(self.log_path)}",
            fix="see the log; a root that is broken can be removed with EmbeddedServers.clean (make clean)",
        )


def tail(path: Path, lines: int = 12) -> str:
    """Return the last lines of a log, or a note that there is none."""
    try:
        with path.open("rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - 8_192))
            text = log.read().decode("utf-8", "replace")
    except OSError:
        return "(no log)"
    return "\n".join(text.splitlines()[-lines:]) or "(empty)"
