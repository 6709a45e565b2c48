"""What goes out: an iterator that can be closed, and that tells a whole answer from a cut one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from types import TracebackType

from stanchion.errors import InvariantViolated, Unavailable

CHUNK_BYTES = 1024 * 1024
"""Bytes of one chunk that is read; so much memory, and little more, is used for an object of any size."""


def bounds(size: int, start: int, end: int | None) -> tuple[int, int]:
    """The bytes [first, after) that a range means for an object of `size` bytes, cut to it as a slice is.

    ValueError for a negative start, or an end before it.
    """
    if start < 0 or (end is not None and end < start):
        raise ValueError(f"no range of bytes: [{start}, {end})")
    after = size if end is None else min(end, size)
    return min(start, after), after


class Reader(Iterator[bytes]):
    """Chunks of an object, in order. Close it, or use it in `with`; at its end it has closed itself.

    `size` is how many bytes it gives. Raises Unavailable E-OBJ-04 when fewer come: what was read so far is right, and
    can be continued with `start=`.
    """

    def __init__(self, chunks: Iterator[bytes], size: int, close: Callable[[], None]) -> None:
        self._chunks = chunks
        self._close = close
        self._given = 0
        self.size = size

    def __next__(self) -> bytes:
        try:
            chunk = next(self._chunks)
        except StopIteration:
            self.close()
            if self._given != self.size:
                raise Unavailable(
                    "E-OBJ-04",
                    f"the object broke off after {self._given:,} of {self.size:,} bytes",
                    fix="read it again",
                ) from None
            raise
        except BaseException:
            self.close()
            raise
        self._given += len(chunk)
        return chunk

    def close(self) -> None:
        """Give back the file or the connection; harmless to repeat."""
        self._close()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def verified(reader: Reader, sha256: bytes) -> Reader:
    """The same chunks; after the last one InvariantViolated E-OBJ-03, unless all together have this hash."""

    def chunks() -> Iterator[bytes]:
        found = hashlib.sha256()
        for chunk in reader:
            found.update(chunk)
            yield chunk
        if found.digest() != sha256:
            raise damaged(sha256, f"its {reader.size:,} bytes have the SHA-256 {found.hexdigest()}")

    return Reader(chunks(), reader.size, reader.close)


def damaged(sha256: bytes, why: str) -> InvariantViolated:
    """The error for an object that is not what its name says."""
    return InvariantViolated(
        "E-OBJ-03",
        f"object {sha256.hex()[:16]}… does not have the content it is named by",
        why=why,
        fix="put the same content again, which replaces it, or restore it from a backup",
    )
