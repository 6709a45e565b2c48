"""Which documents there are: installed packages, modules, language topics, files and folders.

A source is a path, or one of the collections `@packages`, `@topics`, `@modules`. Listing opens no document; what a
listing already knows to be unreadable gets its reason on the way.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from .blocks import Unreadable
from .extract import package_text, python_version, read_bytes, reason_of, topic_text
from .modules import relevant_modules
from .shapes import DocumentRef

COLLECTIONS = ("@packages", "@topics", "@modules")
MAX_FILES = 5_000
_SKIPPED_FOLDERS = {"node_modules", "__pycache__", "site-packages", "venv", "dist-info"}
_PYTHON_LICENCE = "PSF-2.0"


class SourceError(ValueError):
    """A source that names nothing: the request is wrong, and trying again will not help."""


def list_documents(sources: Iterable[str] | None, words: list[str]) -> list[DocumentRef]:
    """Lists the documents of the given sources, or of all collections without any, each once, in a stable order.

    `words` are the topic's: `@modules` only gives the modules whose docstrings speak about them. Raises `SourceError`
    for a path that does not exist or a collection that is not known.
    """
    chosen = list(dict.fromkeys(sources or COLLECTIONS))
    documents: list[DocumentRef] = []
    roots = [source for source in chosen if not source.startswith("@")]
    for source in chosen:
        if source == "@packages":
            documents += packages()
        elif source == "@topics":
            documents += topics()
        elif source == "@modules":
            documents += relevant_modules(words)
        elif source.startswith("@"):
            raise SourceError(f"unknown collection {source!r}: there are {', '.join(COLLECTIONS)}")
        else:
            documents += files(Path(source), prefix=_prefix(source, roots))
    return _unique(documents)


def _unique(documents: list[DocumentRef]) -> list[DocumentRef]:
    """Gives a second document of the same id a suffix: two folders may hold files of the same relative path."""
    taken: dict[str, DocumentRef] = {}
    for document in documents:
        if (other := taken.get(document.id)) and other.where == document.where:
            continue
        id_, number = document.id, 2
        while id_ in taken:
            id_, number = f"{document.id}~{number}", number + 1
        taken[id_] = replace(document, id=id_)
    return list(taken.values())


def packages() -> list[DocumentRef]:
    """The installed distributions, one document each, by normalised name."""
    found: dict[str, DocumentRef] = {}
    for distribution in metadata.distributions():
        message = distribution.metadata
        name = message["Name"] if message is not None and "Name" in message else None
        if not name:
            continue  # a half-removed package: a folder without metadata
        key = re.sub(r"[-_.]+", "-", name).lower()
        found.setdefault(key, DocumentRef(f"pkg:{key}", "package", name, name, distribution.version, licence(message)))
    return [found[key] for key in sorted(found)]


def licence(message: metadata.PackageMetadata) -> str:
    """A package's licence in a few words: the SPDX expression, a short `License` field, or the classifier."""
    for field in ("License-Expression", "License"):
        value = str(message[field]).strip() if field in message else ""
        if value and "\n" not in value and len(value) <= 60 and value.upper() != "UNKNOWN":
            return value
    for classifier in message.get_all("Classifier") or []:
        if classifier.startswith("License ::"):
            return str(classifier).rsplit("::", 1)[-1].strip()
    return ""


def topics() -> list[DocumentRef]:
    """The language topics that ship with Python, one document each."""
    from pydoc_data.topics import topics as texts

    documents = []
    for name in sorted(texts):
        heading = str(texts[name]).lstrip().split("\n", 1)[0].strip().replace('"', "`")
        title = f"Python reference: {heading}"
        documents.append(DocumentRef(f"topic:{name}", "topic", title, name, python_version(), _PYTHON_LICENCE))
    return documents


def _prefix(source: str, roots: list[str]) -> str:
    """With several roots, ids start with the root's name so that one can see where a document comes from."""
    return f"{Path(source).resolve().name}/" if len(roots) > 1 and Path(source).is_dir() else ""


def files(root: Path, *, prefix: str = "") -> list[DocumentRef]:
    """The files below a folder, or one file, ids by their path below it.

    Hidden entries and dependency folders are passed over. Links are followed within the folder only, each folder once.
    Raises `SourceError` when `root` does not exist or lies outside `STANCHION_STUDIO_ROOTS` (folders, separated as in
    PATH), which an operator sets where those who submit must not read every file that a worker can.
    """
    root = Path(os.path.abspath(root.expanduser()))  # noqa: PTH100 - resolve() would follow links before the check
    _check_root(root)
    if not root.is_dir():
        return [_file(root, root.name, "")]
    documents: list[DocumentRef] = []
    for path, problem in _walk(root):
        if len(documents) == MAX_FILES:
            reason = f"the folder holds more than {MAX_FILES:,} files; the rest was not listed"
            documents.append(DocumentRef(f"file:{prefix}…", "file", f"{root.name}/…", str(root), problem=reason))
            break
        documents.append(_file(path, f"{prefix}{path.relative_to(root).as_posix()}", problem))
    if not documents:
        raise SourceError(f"{root} holds no files")
    return documents


def _check_root(root: Path) -> None:
    allowed = os.environ.get("STANCHION_STUDIO_ROOTS", "")
    real = root.resolve()
    if allowed and not any(
        real.is_relative_to(Path(folder).resolve()) for folder in allowed.split(os.pathsep) if folder
    ):
        raise SourceError(f"{root} lies outside STANCHION_STUDIO_ROOTS ({allowed})")
    if not os.path.lexists(root):
        raise SourceError(f"{root} does not exist")


def _file(path: Path, name: str, problem: str) -> DocumentRef:
    shown = name.encode(errors="surrogateescape").decode(errors="replace")
    if shown != name:
        problem = problem or "its name is not valid UTF-8, so it cannot be named in a task"
        return DocumentRef(f"file:{shown}", "file", shown, shown, problem=problem)
    return DocumentRef(f"file:{name}", "file", name, str(path), problem=problem)


def _walk(root: Path) -> Iterator[tuple[Path, str]]:
    """Yields files in order with a reason for those that cannot be read; visits each real folder once."""
    real_root = root.resolve()
    visited = {real_root}
    pending = [root]
    while pending:
        folder = pending.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            yield folder, reason_of(error)
            continue
        below: list[Path] = []
        for entry in entries:
            path = Path(entry.path)
            if entry.name.startswith(".") or entry.name.endswith(".egg-info"):
                continue
            is_folder, problem = _look(entry, path, real_root, visited)
            if problem or not is_folder:
                yield path, problem
            elif entry.name not in _SKIPPED_FOLDERS:
                below.append(path)
        pending.extend(reversed(below))


def _look(entry: os.DirEntry[str], path: Path, real_root: Path, visited: set[Path]) -> tuple[bool, str]:
    """Says whether an entry is a folder to enter, or why it cannot be used."""
    try:
        if entry.is_symlink():
            real = path.resolve(strict=True)
            if not real.is_relative_to(real_root):
                return False, "a symbolic link that leads outside the source folder"
        if not entry.is_dir():
            return False, "" if entry.is_file() else "not a regular file"
        real = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        return False, reason_of(error) if isinstance(error, OSError) else "a symbolic link that leads back to itself"
    if real in visited:
        return False, "a symbolic link that leads back to a folder already listed"
    visited.add(real)
    return True, ""


def raw_text(document: DocumentRef, limit: int) -> str:
    """The beginning of a document as it stands, for term statistics; empty when that needs more than reading it."""
    try:
        if document.kind == "package":
            return package_text(document.where)[0][:limit]
        if document.kind == "topic":
            return topic_text(document.where)[:limit]
        if document.kind == "file" and not document.problem and not document.where.lower().endswith(".pdf"):
            return read_bytes(Path(document.where))[:limit].decode("utf-8", errors="ignore")
    except Unreadable:
        return ""
    return ""
