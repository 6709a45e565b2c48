"""A store in a folder: a local disk, or one that several machines mount.

An upload is a file under `temporary/`. Its content is on disk (fsync) before it is moved to its final name, and the
names that lead to it are on disk before `put` returns; so neither kill -9 nor a power cut shows half an object, and
none makes a stored one vanish. Files are 0600 and directories 0700: other accounts of the machine see nothing.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Literal

from stanchion.errors import Conflict, NotFound, Unavailable
from stanchion.objects import names
from stanchion.objects.inside import DIRECTORY, directory_of
from stanchion.objects.intake import Intake
from stanchion.objects.reader import CHUNK_BYTES, Reader, bounds
from stanchion.objects.store import Listed, ObjectStore, Stored, zoned


class FolderStore(ObjectStore):
    """Objects as files under one folder, which is created unless its own parent is missing.

    Raises Unavailable E-OBJ-05 when the folder can't be created: a mount that is not there would otherwise be written
    under its mount point. Needs a file system with hard links for `put_if_absent`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._durable: set[Path] = set()  # directories whose names, up to the folder, this process has synced
        if not folder.parent.is_dir() or (folder.exists() and not folder.is_dir()):
            raise Unavailable(
                "E-OBJ-05", "the folder of the store can't be made", where=str(folder), fix="create or mount its parent"
            )
        with _translated(folder), suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            _sync_directory(folder.parent)

    def put(
        self,
        chunks: Iterable[bytes],
        *,
        expected_sha256: bytes | None = None,
        expected_size: int | None = None,
        most_bytes: int,
    ) -> Stored:
        if expected_sha256 is not None:
            names.object_key(expected_sha256)
        intake = Intake(chunks, most_bytes=most_bytes, expected_sha256=expected_sha256, expected_size=expected_size)
        with self._uploaded(intake) as temporary:
            stored = intake.finish()
            final = self._folder / names.object_key(stored.sha256)
            with _translated(final):
                self._make_durable(final.parent)
                temporary.replace(final)  # atomic; of two that put the same content the later replaces the same bytes
                _sync_directory(final.parent)
        return stored

    def open(self, sha256: bytes, *, start: int = 0, end: int | None = None) -> Reader:
        return self._read(names.object_key(sha256), start, end)

    def stat(self, sha256: bytes) -> int | None:
        path = self._folder / names.object_key(sha256)
        with _translated(path):
            try:
                return path.stat(follow_symlinks=False).st_size
            except FileNotFoundError:
                self._must_be_there()
                return None

    def delete(self, sha256: bytes) -> None:
        path = self._folder / names.object_key(sha256)
        with _translated(path):
            path.unlink(missing_ok=True)  # not synced: one that a power cut brings back is listed, and deleted again

    def within(self, scope: str) -> FolderStore:
        return FolderStore(self._folder / names.scope_key(scope))

    def list(self, older_than: datetime, after: bytes | None = None) -> Iterator[Listed]:
        before, behind = zoned(older_than), after.hex() if after else ""
        for outer in _entries(self._folder / names.HASHED, behind[:2]):
            for inner in _entries(outer, behind[2:4] if outer.name == behind[:2] else ""):
                for path in _entries(inner, behind):
                    if path.name == behind:
                        continue
                    sha256 = names.hash_of(path.relative_to(self._folder).as_posix())
                    found = _seen(path) if sha256 else None
                    if sha256 and found and found[1] < before:
                        yield Listed(sha256, *found)

    def sweep_temporary(self, older_than: datetime) -> int:
        before, swept = zoned(older_than), 0
        for path in _entries(self._folder / names.TEMPORARY):
            found = _seen(path)
            if found and found[1] < before:  # written to last: an upload that goes on stays young
                with _translated(path):
                    path.unlink(missing_ok=True)
                swept += 1
        return swept

    def put_if_absent(self, name: str, chunks: Iterable[bytes], *, most_bytes: int | None = None) -> bool:
        key = names.published_key(name)
        with ExitStack() as held:
            with _translated(self._folder / key):
                try:
                    directory, last = held.enter_context(directory_of(self._folder, key, make=True))
                except NotADirectoryError as error:
                    raise _is_folder(name) from error
                if _taken(directory, last, name):
                    return False
            temporary = held.enter_context(self._uploaded(Intake(chunks, most_bytes=most_bytes)))
            with _translated(self._folder / key):
                try:
                    os.link(temporary, last, dst_dir_fd=directory)  # unlike a rename it fails when the name is taken
                    created = True
                except FileExistsError:
                    created = not _taken(directory, last, name)
                os.fsync(directory)  # also for the loser: what it is told exists must stay
        return created

    def open_published(self, name: str, *, start: int = 0, end: int | None = None) -> Reader:
        key = names.published_key(name)
        if (self._folder / key).is_symlink():
            raise _is_folder(name)
        return self._read(key, start, end)

    def remove_published(self, name: str) -> None:
        key = names.published_key(name)
        with _translated(self._folder / key):
            try:
                with directory_of(self._folder, key) as (directory, last):
                    if _taken(directory, last, name):
                        os.unlink(last, dir_fd=directory)
                    os.fsync(directory)  # also when it had gone: what is said to be taken back must not come again
            except (FileNotFoundError, NotADirectoryError):
                self._must_be_there()

    def close(self) -> None:
        pass

    @contextmanager
    def _uploaded(self, intake: Intake) -> Iterator[Path]:
        """A temporary file with all of the intake, on disk; gone afterwards unless it was moved."""
        path = self._folder / names.temporary_key()
        with _translated(path):
            self._make_durable(path.parent)
            file = _opened(path, "xb", CHUNK_BYTES)
        try:
            for chunk in intake:  # outside of `_translated`: an OSError of the source is the source's own
                with _translated(path):
                    file.write(chunk)
            with _translated(path):
                file.flush()
                os.fsync(file.fileno())
                file.close()
            yield path
        finally:
            with suppress(OSError):
                file.close()  # flushes what is left, which a full disk refuses once more
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def _read(self, key: str, start: int, end: int | None) -> Reader:
        path = self._folder / key
        with _translated(path):
            try:
                with directory_of(self._folder, key) as (directory, last):
                    file = _opened(Path(last), "rb", 0, directory)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                self._must_be_there()
                raise NotFound("E-OBJ-01", f"{key} is not in the store") from None
        try:
            with _translated(path):
                first, after = bounds(os.fstat(file.fileno()).st_size, start, end)
                file.seek(first)
        except BaseException:
            file.close()
            raise
        return Reader(_chunks(file, after - first, path), after - first, file.close)

    def _make_durable(self, directory: Path) -> None:
        """Make a directory under the folder, and sync each name on the way to it, also one that others made."""
        if directory in self._durable:
            return
        if directory != self._folder:
            self._make_durable(directory.parent)
            try:
                directory.mkdir(mode=0o700)
            except FileExistsError:
                if not directory.is_dir():
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory)) from None
            _sync_directory(directory.parent)
        self._durable.add(directory)

    def _must_be_there(self) -> None:
        """What is not found in a folder that is not there is not missing: nobody can say."""
        if not self._folder.is_dir():
            raise Unavailable("E-OBJ-04", "the folder of the store is gone", where=str(self._folder))


def _opened(path: Path, mode: Literal["rb", "xb"], buffering: int, directory: int | None = None) -> BinaryIO:
    """A file of this account alone, never through a symbolic link in its place. Whoever asked closes it."""
    return open(
        path,
        mode,
        buffering,
        opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o600, dir_fd=directory),
    )


def _chunks(file: BinaryIO, left: int, path: Path) -> Iterator[bytes]:
    while left > 0:
        with _translated(path):
            chunk = file.read(min(CHUNK_BYTES, left))
        if not chunk:
            return  # cut while it was read: the Reader counts, and says so
        left -= len(chunk)
        yield chunk


def _entries(directory: Path, least: str = "") -> Iterator[Path]:
    """What lies in a directory from the name `least` on, in order; nothing when it is not there, or is none.

    Holds one directory's names."""
    with _translated(directory):
        try:
            found = sorted(path for path in directory.iterdir() if path.name >= least)
        except (FileNotFoundError, NotADirectoryError):
            found = []
    yield from found


def _seen(path: Path) -> tuple[int, datetime] | None:
    """Size in bytes and last change of a file; None when it has just gone."""
    with _translated(path):
        try:
            found = path.stat(follow_symlinks=False)
        except FileNotFoundError:
            return None
    return found.st_size, datetime.fromtimestamp(found.st_mtime, UTC)


def _taken(directory: int, last: str, name: str) -> bool:
    """Whether a file is published there; Conflict E-OBJ-09 when it is a folder of other names, or a link elsewhere."""
    try:
        found = os.stat(last, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(found.st_mode):
        raise _is_folder(name)
    return True


def _is_folder(name: str) -> Conflict:
    why = "a part of it is a folder, a file, or a link that leads elsewhere"
    return Conflict("E-OBJ-09", f"{name} can't be published in this folder", why=why)


def _sync_directory(directory: Path) -> None:
    opened = os.open(directory, DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """An OSError of the store as Unavailable: refused, or away."""
    try:
        yield
    except PermissionError as error:
        raise Unavailable("E-OBJ-05", f"the store refuses: {error.strerror}", where=str(path)) from error
    except OSError as error:
        raise Unavailable("E-OBJ-04", f"the store fails: {error.strerror}", where=str(path)) from error
