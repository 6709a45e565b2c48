"""Ending what a killed supervisor left behind, and removing what a root holds."""

from __future__ import annotations

import shutil
from pathlib import Path

from stanchion.embedded.errors import UNSAFE_FOLDER, EmbeddedError
from stanchion.embedded.postgres_home import remove_outside
from stanchion.embedded.processes import end_all
from stanchion.embedded.state import LOCK_NAME, STATE_NAME, RootLock, StateFile

# Only these are ever removed: a root may be a folder that holds other things too.
_FOLDERS = ("postgres", "tansu", "valkey", "apache-kafka", "logs", "bin")
_FILES = (STATE_NAME, f"{STATE_NAME}.new", LOCK_NAME)


def end_leftovers(root: Path, run_id: str | None = None) -> int:
    """End the recorded servers of an earlier run that still live, and return how many there were.

    With `run_id`, only when the record is of that run. A process is ended only when its id, its start time and its
    program are those recorded, so that an id given to somebody else's process since is left alone.
    """
    state = StateFile(root).read()
    if state is None or (run_id is not None and state.run_id != run_id):
        return 0
    end_all(state.processes)
    return len(state.processes)


def remove_all(root: Path) -> None:
    """Remove everything that embedded servers made for this root, here and outside; the caller holds the lock."""
    for name in _FOLDERS:
        shutil.rmtree(root / name, ignore_errors=True)
    for name in _FILES:
        (root / name).unlink(missing_ok=True)
    remove_outside(root)
    try:
        root.rmdir()
    except OSError:
        return  # it holds something that is not ours


def clean(root: Path) -> None:
    """End leftovers and remove everything of a root. Raises EmbeddedError (`E-SERVER-02`) while it is in use."""
    if not root.is_dir():
        remove_outside(root)
        return
    lock = RootLock(root)
    lock.acquire()
    try:
        end_leftovers(root)
        remove_all(root)
    finally:
        lock.release()


def refuse_foreign_content(root: Path) -> None:
    """Raise EmbeddedError (`E-SERVER-06`) when a root to be removed at the end holds what is not ours."""
    foreign = sorted(entry.name for entry in root.iterdir() if entry.name not in (*_FOLDERS, *_FILES))
    if foreign:
        raise EmbeddedError(
            UNSAFE_FOLDER,
            "an ephemeral root must hold nothing else",
            where=str(root),
            why=f"it would be removed at the end, and it holds {', '.join(foreign[:5])}",
            fix="give it an empty or a new folder",
        )
