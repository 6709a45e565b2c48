"""What every store of objects can do, and what it promises."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from datetime import datetime
from types import TracebackType
from typing import NamedTuple

from stanchion.errors import NotFound
from stanchion.objects.reader import Reader, verified


class Stored(NamedTuple):
    """What was put or verified: the SHA-256 of the content (32 bytes), and its size in bytes."""

    sha256: bytes
    size: int


class Listed(NamedTuple):
    """An object as it is listed: SHA-256 (32 bytes), size in bytes, and when it was last put, in UTC."""

    sha256: bytes
    size: int
    modified: datetime


class ObjectStore(ABC):
    """Objects named by the SHA-256 of their content; blocking calls, safe from several threads and processes.

    An object is there whole or not at all: no reader, and no crash at any moment, sees a part of one. What a killed
    process leaves behind is invisible and goes with `sweep_temporary`. Memory does not grow with an object's size.

    Every call may raise Unavailable: E-OBJ-04 (the store is away or full) or E-OBJ-05 (it refuses, or its folder or
    bucket is missing). A hash that is not 32 bytes is refused with Unprocessable E-OBJ-06.
    """

    @abstractmethod
    def put(
        self,
        chunks: Iterable[bytes],
        *,
        expected_sha256: bytes | None = None,
        expected_size: int | None = None,
        most_bytes: int,
    ) -> Stored:
        """Store the chunks as one object, and return its name once it is durable.

        All of `chunks` is read and hashed, whether or not the object exists: its name is no proof that the caller has
        the content. An object that exists is replaced by the same bytes; that mends a damaged one, and makes it young
        for `list`. Errors of `chunks` pass through, and nothing is stored.

        Raises TooLarge E-SIZE-01 above `most_bytes`, Unprocessable E-OBJ-02 where hash or size are not the expected.
        """

    @abstractmethod
    def open(self, sha256: bytes, *, start: int = 0, end: int | None = None) -> Reader:
        """The bytes [start, end) of an object, cut to its size like a slice; unverified.

        Raises NotFound E-OBJ-01 at once, ValueError for a negative start or an end before it.
        """

    @abstractmethod
    def stat(self, sha256: bytes) -> int | None:
        """The size of an object in bytes; None when it is not there."""

    @abstractmethod
    def delete(self, sha256: bytes) -> None:
        """Remove an object; harmless when it is not there. Whoever has it open may read on, or may be cut off."""

    @abstractmethod
    def within(self, scope: str) -> ObjectStore:
        """The store of what belongs to `scope` alone, over the same connections: closing it closes nothing.

        Nothing in it shows whether another scope has the same content. Raises Unprocessable E-OBJ-06 unless `scope` is
        one part of a name.
        """

    @abstractmethod
    def list(self, older_than: datetime, after: bytes | None = None) -> Iterator[Listed]:
        """The objects that were last put before `older_than`, in the order of their hashes, page by page.

        With `after`, those behind that hash.

        `older_than` needs a zone (else ValueError) and is compared with the store's own clock, to the second. Objects
        that are put or deleted meanwhile may be listed or not. What is no object of ours is passed over.
        """

    @abstractmethod
    def sweep_temporary(self, older_than: datetime) -> int:
        """Remove what uploads left behind that began, or last wrote, before `older_than`; returns how many.

        Choose a time longer than an upload takes: one that is swept while it runs fails with Unavailable E-OBJ-04.
        """

    @abstractmethod
    def put_if_absent(self, name: str, chunks: Iterable[bytes], *, most_bytes: int | None = None) -> bool:
        """Publish the chunks under a free name; False, with nothing changed, when the name is taken.

        Of several callers exactly one creates it. After a crash a repetition answers False for what the first try
        created: compare with `open_published`. Where the name is taken, `chunks` may not be read at all.

        Raises Unprocessable E-OBJ-06 for a hostile name, TooLarge E-SIZE-01 above `most_bytes`, and from a folder
        Conflict E-OBJ-09 where the name, or a beginning of it, is a folder of other names.
        """

    @abstractmethod
    def open_published(self, name: str, *, start: int = 0, end: int | None = None) -> Reader:
        """The bytes [start, end) of what was published under a name; raises as `open` does."""

    @abstractmethod
    def remove_published(self, name: str) -> None:
        """Take back what was published under a name; harmless when nothing is. Raises E-OBJ-06 and E-OBJ-09 as above."""

    @abstractmethod
    def close(self) -> None:
        """Give back connections; harmless to repeat."""

    def published(self, name: str) -> Stored | None:
        """What stands under a published name, read and hashed; None when nothing does. Raises as `open_published`."""
        try:
            reader = self.open_published(name)
        except NotFound:
            return None
        found = hashlib.sha256()
        with reader:
            for chunk in reader:
                found.update(chunk)
        return Stored(found.digest(), reader.size)

    def open_verified(self, sha256: bytes) -> Reader:
        """All bytes of an object; InvariantViolated E-OBJ-03 after the last one when they do not have its hash."""
        return verified(self.open(sha256), sha256)

    def verify(self, sha256: bytes) -> Stored:
        """Read an object and compare; raises NotFound E-OBJ-01, InvariantViolated E-OBJ-03."""
        with self.open_verified(sha256) as reader:
            return Stored(sha256, sum(len(chunk) for chunk in reader))

    def __enter__(self) -> ObjectStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def zoned(moment: datetime) -> datetime:
    """`moment` itself; ValueError when it has no zone."""
    if moment.tzinfo is None:
        raise ValueError("a time without a zone can't be compared with the store's")
    return moment
