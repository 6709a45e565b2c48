"""A small process that outlives its supervisor by a moment, and ends the servers that it left.

Run as `python -m stanchion.embedded.watcher ROOT RUN_ID SUPERVISOR_PID`. Its standard input is a pipe that only the
supervisor holds: the pipe ends when the supervisor does, also by SIGKILL. (A signal on the parent's death would fire
when the *thread* that started the child ends, is cleared when the child changes its user, and exists on Linux only.)
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from pathlib import Path

from stanchion.embedded.leftovers import end_leftovers, remove_all
from stanchion.embedded.state import RootLock, StateFile

_LOOK_SECONDS = 1.0


def await_end(supervisor: int) -> None:
    """Return when the supervisor is gone. A forked child may hold the pipe open, so its process is watched too."""
    watched: list[int] = [sys.stdin.fileno()]
    with contextlib.suppress(BrokenPipeError):  # the supervisor may be gone already
        os.write(sys.stdout.fileno(), b"ready\n")
    if hasattr(os, "pidfd_open"):
        try:
            watched.append(os.pidfd_open(supervisor))
        except OSError:
            if os.getppid() != supervisor:
                return  # gone already
    timeout = None if len(watched) > 1 else _LOOK_SECONDS
    while os.getppid() == supervisor:
        ready, _, _ = select.select(watched, [], [], timeout)
        if ready:
            return


def main(arguments: list[str]) -> int:
    """Wait, then end what the run has left; remove an ephemeral root as well."""
    root, run_id, supervisor = Path(arguments[0]), arguments[1], int(arguments[2])
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)  # it leaves with its supervisor and not before
    await_end(supervisor)
    state = StateFile(root).read()
    if state is None or state.run_id != run_id:
        return 0
    end_leftovers(root, run_id)
    lock = RootLock(root)
    # Without the lock a new supervisor is at work here already, and the folder is its own.
    if state.ephemeral and lock.try_acquire():
        remove_all(root)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
