"""Finds the modules, among thousands installed, whose docstrings speak about a topic.

Parsing all of them takes many seconds; searching their bytes takes a fraction of one. What is found here becomes a
document of its own and is parsed by the child that reads it.
"""

from __future__ import annotations

import math
import re
import sysconfig
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from importlib import metadata
from pathlib import Path
from typing import cast

from .blocks import Unreadable
from .extract import module_path, python_version
from .shapes import DocumentRef

MAX_MODULES = 50
MAX_PER_PACKAGE = 10
_LEAST_OF_BEST = 0.3
_SHORTEST = 80
_LONGEST_SOURCE = 2 * 1024 * 1024
_SKIPPED = {"tests", "test", "testing", "vendor", "vendored", "internal", "locale", "locales", "conftest", "setup"}
_SKIPPED_STDLIB = {
    "test", "idlelib", "lib2to3", "site-packages", "turtledemo", "ensurepip", "pydoc_data", "tkinter", "distutils",
    "turtle", "this", "antigravity", "dist-packages", "lib-dynload", "msilib",
}  # fmt: skip
_DOCSTRING = re.compile(rb'"""(.*?)"""', re.DOTALL)


@dataclass(frozen=True)
class _Module:
    document: DocumentRef
    counts: tuple[int, ...]
    named: tuple[bool, ...]
    size: int


def relevant_modules(words: list[str], limit: int = MAX_MODULES) -> list[DocumentRef]:
    """The modules whose docstrings hold the topic's words best, at most ten of one package, in a stable order."""
    needles = [_needle(word) for word in words if word.isascii()]
    if not needles:
        return []
    scanned = [module for document, path, about in _candidates() if (module := _scan(document, path, about, needles))]
    if not scanned:
        return []
    weights = [
        math.log(1 + len(scanned) / (1 + sum(1 for module in scanned if module.counts[index])))
        for index in range(len(needles))
    ]
    scores = sorted(((_score(module, weights), module.document) for module in scanned), key=lambda s: (-s[0], s[1].id))
    chosen: list[DocumentRef] = []
    owners: Counter[str] = Counter()
    for score, document in scores:
        owner = document.where.partition(":")[0]
        if score < _LEAST_OF_BEST * scores[0][0]:
            break
        if owners[owner] >= MAX_PER_PACKAGE:
            continue
        owners[owner] += 1
        chosen.append(document)
        if len(chosen) == limit:
            break
    return sorted(chosen, key=lambda document: document.id)


def _score(module: _Module, weights: list[float]) -> float:
    length = 0.5 + 0.5 * min(module.size, 40_000) / 8_000
    matched = [(weight, count) for weight, count in zip(weights, module.counts, strict=True) if count]
    coverage = sum(weight for weight, _ in matched) / (sum(weights) or 1.0)
    own_name = max((weight for weight, named in zip(weights, module.named, strict=True) if named), default=0.0)
    return 0.5 * own_name + coverage * sum(weight * count / (count + length) for weight, count in matched)


def _needle(word: str) -> tuple[bytes, re.Pattern[bytes]]:
    """What all forms of a word begin with: to look for anywhere (fast), and at the beginning of a word."""
    beginning = word.lower()[: max(4, len(word) - 3)].encode()
    return beginning, re.compile(rb"(?<![a-z])" + re.escape(beginning) + (b"" if len(word) > 4 else rb"s?(?![a-z])"))


def _scan(
    document: DocumentRef, path: Path, about: str, needles: list[tuple[bytes, re.Pattern[bytes]]]
) -> _Module | None:
    """Counts the words in a module's docstrings; None when none is in it or it cannot be read.

    What a module is called and what its package is for count thrice: `psycopg_pool` need not say what it pools.
    """
    try:
        if path.stat().st_size > _LONGEST_SOURCE:
            return None
        data = path.read_bytes().lower()
    except OSError:
        return None
    if not any(beginning in data for beginning, _ in needles):
        return None
    docstrings = b"\n".join(_DOCSTRING.findall(data))
    if len(docstrings) < _SHORTEST:
        return None
    names = re.sub(r"[._]", " ", f"{document.id} {about}").lower().encode()
    counts = tuple(len(pattern.findall(docstrings)) + 3 * len(pattern.findall(names)) for _, pattern in needles)
    last = document.id.rpartition(".")[2].lower().encode()
    named = tuple(pattern.match(last) is not None for _, pattern in needles)
    return _Module(document, counts, named, len(docstrings)) if any(counts) else None


def _candidates() -> Iterator[tuple[DocumentRef, Path, str]]:
    yield from _installed()
    yield from _standard_library()


def _installed() -> Iterator[tuple[DocumentRef, Path, str]]:
    from .sources import licence

    seen: set[str] = set()
    for distribution in metadata.distributions():
        message = cast(Message, distribution.metadata)
        name = str(message.get("Name") or "")
        if not name or name in seen:
            continue
        seen.add(name)
        terms, about = licence(distribution.metadata), str(message.get("Summary") or "")
        for file in distribution.files or []:
            relative = file.as_posix()
            if module := _public_module(relative):
                where = f"{name}:{relative}"
                title = f"{name}: {module}"
                path = Path(str(distribution.locate_file(file)))
                yield DocumentRef(f"module:{module}", "module", title, where, distribution.version, terms), path, about


def _standard_library() -> Iterator[tuple[DocumentRef, Path, str]]:
    root = Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        if set(relative.parts) & _SKIPPED_STDLIB or relative.stem in _SKIPPED_STDLIB:
            continue
        if module := _public_module(relative.as_posix()):
            title = f"Python library: {module}"
            document = DocumentRef(
                f"module:{module}", "module", title, f":{relative.as_posix()}", python_version(), "PSF-2.0"
            )
            yield document, path, ""


def _public_module(relative: str) -> str:
    """The dotted name of a module that users may import, or nothing for private modules, tests and scripts."""
    if not relative.endswith(".py") or relative.startswith(("..", "/")):
        return ""
    parts = relative[:-3].split("/")
    if parts[-1] == "__init__":
        parts.pop()
    if not parts or any(part.startswith(("_", "test_")) or not part.isidentifier() for part in parts):
        return ""
    return "" if set(parts) & _SKIPPED else ".".join(parts)


def docstring_text(document: DocumentRef, limit: int) -> str:
    """The docstrings of a module as raw text, found without parsing, for term statistics."""
    try:
        data = module_path(document.where).read_bytes()
    except (OSError, Unreadable):
        return ""
    return "\n\n".join(text.decode("utf-8", "ignore") for text in _DOCSTRING.findall(data))[:limit]
