"""Operating system processes that outlive nobody: a gate before the start, an identity, an escalation at the end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

POLL_SECONDS = 0.02

# The child waits for one line before it becomes the server. The supervisor writes it after it has recorded the child;
# when the supervisor dies in between, `read` fails and no unrecorded server ever runs. A process id and a start time
# survive exec, so the record stays true. (A preexec_fn could do the same but may deadlock in a threaded parent.)
_GATE = 'read -r go || exit 75; exec "$@" </dev/null'


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of an ending: send `signal`, then wait up to `seconds`."""

    signal: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """What makes a process ours: id, birth (start time within this boot) and program; and how to end it."""

    name: str
    pid: int
    birth: str
    program: str
    ending: tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class Account:
    """The user that a child runs as when it must not be root."""

    name: str
    uid: int
    gid: int


def pause(seconds: float = POLL_SECONDS) -> None:
    """Wait between two looks at something that cannot notify us (another process's state)."""
    threading.Event().wait(seconds)


def eventually(condition: Callable[[], bool], seconds: float) -> bool:
    """Look until `condition` holds or `seconds` are over; return whether it held."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        pause()
    return True


def birth_of(pid: int) -> str | None:
    """Return what tells this process from a later one with the same id, or None when it is gone or a zombie."""
    if sys.platform == "linux":
        return _linux_birth(pid)
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except psutil.Error:
        return None


def _linux_birth(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The name stands in brackets and may itself contain blanks and brackets: count from the last one.
    fields = stat[stat.rindex(b")") + 2 :].split()
    if fields[0] in (b"Z", b"X"):
        return None
    return f"{_boot_id()}:{fields[19].decode('ascii')}"


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"


def is_alive(record: ProcessRecord) -> bool:
    """Return whether exactly this process still runs (not another one that got its id)."""
    if birth_of(record.pid) != record.birth:
        return False
    try:
        command = psutil.Process(record.pid).cmdline()
    except psutil.AccessDenied:
        return True
    except psutil.Error:
        return False
    return record.program in command or not command  # for a moment of its exec a process has no command line


def pids_in_folder(program: str, folder: Path) -> list[int]:
    """Return the live processes of this name whose working directory is `folder`."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.name() == program and process.cwd() == str(folder) and birth_of(process.pid) is not None:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def send_tree(record: ProcessRecord, signal_number: int) -> None:
    """Send a signal to exactly this process and to all that descend from it."""
    if not send(record, signal_number):
        return
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in psutil.Process(record.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.send_signal(signal_number)


def spawn_gated(
    command: Sequence[str],
    *,
    log: IO[bytes],
    cwd: Path,
    environment: Mapping[str, str],
    account: Account | None,
) -> subprocess.Popen[bytes]:
    """Start a child that waits for `open_gate` before it becomes `command`, in a session of its own.

    Its own session keeps a terminal's Ctrl-C away from the servers: the supervisor stops them in order.
    """
    return subprocess.Popen(
        ["/bin/sh", "-c", _GATE, "gate", *command],
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=subprocess.STDOUT,
        cwd=cwd,
        env=dict(environment),
        start_new_session=True,
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
    )


def open_gate(child: subprocess.Popen[bytes]) -> None:
    """Let a gated child become its command."""
    assert child.stdin is not None
    try:
        child.stdin.write(b"go\n")
        child.stdin.close()
    except BrokenPipeError:
        return  # the child died before: the caller's look at its exit code reports it


def send(record: ProcessRecord, signal_number: int) -> bool:
    """Send a signal to exactly this process; return False when it is gone."""
    if not is_alive(record):
        return False
    try:
        os.kill(record.pid, signal_number)
    except ProcessLookupError:
        return False
    return True


def end_all(records: Iterable[ProcessRecord]) -> list[ProcessRecord]:
    """End processes side by side, each by its own escalation; return those that nothing could end."""
    endings = [_Ending(record) for record in records]
    survivors: list[ProcessRecord] = []
    while endings:
        for ending in list(endings):
            if not ending.advance(time.monotonic()):
                endings.remove(ending)
                if ending.gave_up:
                    survivors.append(ending.record)
        if endings:
            pause()
    return survivors


class _Ending:
    """One process on its way out: signal after signal, none of them for longer than its stage says."""

    def __init__(self, record: ProcessRecord) -> None:
        self.record = record
        self.gave_up = False
        self._stages = iter((*record.ending, Stage(signal.SIGKILL, 5.0)))
        self._deadline = 0.0

    def advance(self, now: float) -> bool:
        """Return False when the process is gone or out of reach."""
        if not is_alive(self.record):
            return False
        if now < self._deadline:
            return True
        stage = next(self._stages, None)
        if stage is None:
            self.gave_up = True
            return False
        self._deadline = now + stage.seconds
        try:
            send(self.record, stage.signal)
            send_tree(self.record, signal.SIGCONT)  # a frozen process would keep the signal waiting for ever
        except PermissionError:
            self.gave_up = True
            return False
        return True
