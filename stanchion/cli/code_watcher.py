"""Notices that the code of a target has changed, by looking at times of files: works on every file system."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

_FILES_MOST: Final = 2_000
_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages"})


class CodeWatcher:
    """Remembers the Python files beside the targets; `changed()` says which differ from the last look."""

    def __init__(self, targets: Sequence[str], cwd: Path) -> None:
        self.folders = sorted({folder for target in targets if (folder := folder_of(target, cwd)) is not None})
        self._seen = self._look()

    def changed(self) -> list[Path]:
        """The files that are new, gone or different since the last call."""
        now = self._look()
        before, self._seen = self._seen, now
        return sorted(path for path in {*now, *before} if now.get(path) != before.get(path))

    def _look(self) -> dict[Path, tuple[int, int]]:
        found: dict[Path, tuple[int, int]] = {}
        for folder in self.folders:
            for path in _python_files(folder):
                try:
                    status = path.stat()
                except OSError:
                    continue  # an editor that replaces files: the next look sees it
                found[path] = (status.st_mtime_ns, status.st_size)
                if len(found) >= _FILES_MOST:
                    return found
        return found


def folder_of(target: str, cwd: Path) -> Path | None:
    """The folder that holds the code of a target (`path/file.py`, `package.module`, with `:attribute`), or None.

    Nothing is imported: the code may be broken right now.
    """
    place, colon, attribute = target.rpartition(":")
    if not colon or "/" in attribute:
        place = target
    if place.endswith(".py") or os.sep in place:
        return (cwd / place).resolve().parent
    path: list[str] = [str(cwd), *sys.path]
    folder: Path | None = None
    for part in place.split("."):
        spec = PathFinder.find_spec(part, path)
        if spec is None:
            return folder
        if spec.submodule_search_locations:
            path = list(spec.submodule_search_locations)
            folder = Path(path[0]) if path else folder
        elif spec.origin:
            return Path(spec.origin).parent
    return folder


def _python_files(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED)
        for name in files:
            if name.endswith(".py"):
                yield Path(place) / name
