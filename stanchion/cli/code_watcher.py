"""Notices that the code of a target has changed, by looking at times of files: works on every file system.

The code of a target is its file and what that imports, and so on: a file that no workflow reads restarts no worker.
Nothing is imported: the code may be broken right now, and then what it imported before counts.
"""

from __future__ import annotations

import ast
import os
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_FILES_MOST: Final = 2_000
_NOT_OURS: Final = frozenset({*sys.stdlib_module_names, "stanchion"})

Stamp = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Read:
    """What a file imports, as it was with this stamp: dotted names."""

    stamp: Stamp
    names: tuple[str, ...]


class CodeWatcher:
    """Remembers the Python files of the targets; `changed()` says which differ from the last look."""

    def __init__(self, targets: Sequence[str], cwd: Path) -> None:
        self._places = [_place(target) for target in targets]
        self._cwd = cwd
        self._reads: dict[Path, _Read] = {}
        self._seen = self._look()

    def changed(self) -> list[Path]:
        """The files that are new, gone or different since the last call."""
        now = self._look()
        before, self._seen = self._seen, now
        return sorted(path for path in {*now, *before} if now.get(path) != before.get(path))

    def _look(self) -> dict[Path, Stamp]:
        roots, waiting = self._starts()
        found: dict[Path, Stamp] = {}
        names: set[str] = set()
        while waiting and len(found) < _FILES_MOST:
            path = waiting.pop()
            if path in found or (stamp := _stamp(path)) is None:
                continue  # an editor that replaces files: the next look sees it
            found[path] = stamp
            for name in self._imports(path, stamp):
                if name not in names:
                    names.add(name)
                    waiting += _files_of(name, roots)
        return found

    def _starts(self) -> tuple[list[Path], list[Path]]:
        """Where modules are looked for, and the files of the targets."""
        roots, files, modules = [self._cwd], [], []
        for place in self._places:
            if place.endswith(".py") or os.sep in place:
                file = (self._cwd / place).resolve()
                files.append(file)
                roots.append(_root_of(file))
            else:
                modules.append(place)
        roots = list(dict.fromkeys([*roots, *_own_roots()]))
        return roots, files + [file for module in modules for file in _files_of(module, roots)]

    def _imports(self, path: Path, stamp: Stamp) -> tuple[str, ...]:
        known = self._reads.get(path)
        if known is None or known.stamp != stamp:
            try:
                names = tuple(_imported(ast.parse(path.read_bytes()), path))
            except (OSError, SyntaxError, ValueError, RecursionError):
                names = known.names if known is not None else ()
            known = self._reads[path] = _Read(stamp, names)
        return known.names


def _place(target: str) -> str:
    place, colon, attribute = target.rpartition(":")
    return place if colon and "/" not in attribute else target


def _stamp(path: Path) -> Stamp | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _root_of(file: Path) -> Path:
    """The folder from which a file is imported: above its packages."""
    root = file.parent
    while (root / "__init__.py").is_file():
        root = root.parent
    return root


def _own_roots() -> Iterator[Path]:
    """Folders on the path that hold somebody's own code: not what was installed."""
    installed = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    for entry in sys.path:
        folder = Path(entry or ".").resolve()
        if folder.is_dir() and not any(folder.is_relative_to(one) for one in installed):
            yield folder


def _files_of(name: str, roots: Sequence[Path]) -> list[Path]:
    """The files that importing a module runs, its packages' first; what is not found here is not ours."""
    parts = name.split(".")
    if parts[0] in _NOT_OURS:
        return []
    for root in roots:
        found, folder = [], root
        for part in parts:
            module, folder = folder / f"{part}.py", folder / part
            if (folder / "__init__.py").is_file():
                found.append(folder / "__init__.py")
            elif module.is_file():
                found.append(module)
        if found:
            return [path.resolve() for path in found]
    return []


def _imported(tree: ast.AST, path: Path) -> Iterator[str]:
    """The modules that a file imports anywhere, and what may be modules among the names that it takes out of them."""
    root = _root_of(path)
    package = path.parent.relative_to(root).parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            inside = package[: len(package) + 1 - node.level] if node.level else ()
            module = ".".join([*inside, *([node.module] if node.module else [])])
            if module:
                yield module
            for one in node.names:
                yield f"{module}.{one.name}" if module else one.name
