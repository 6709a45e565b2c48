"""What comes in: counted and hashed while it passes, cut off at its limit, compared with what was announced."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from stanchion.errors import TooLarge, Unprocessable
from stanchion.objects.store import Stored


class Intake:
    """Iterates over the chunks of a source, once. Sizes are bytes; errors of the source pass through unchanged."""

    def __init__(
        self,
        chunks: Iterable[bytes],
        *,
        most_bytes: int | None = None,
        expected_sha256: bytes | None = None,
        expected_size: int | None = None,
    ) -> None:
        self._chunks = chunks
        self._most_bytes = most_bytes
        self._expected_sha256 = expected_sha256
        self._expected_size = expected_size
        self._hash = hashlib.sha256()
        self._size = 0
        if most_bytes is not None and expected_size is not None and expected_size > most_bytes:
            raise self._too_large(expected_size)  # before the first byte is asked for

    def __iter__(self) -> Iterator[bytes]:
        """The chunks; TooLarge E-SIZE-01 above `most_bytes`, Unprocessable E-OBJ-02 above the expected size."""
        for chunk in self._chunks:
            self._size += len(chunk)
            if self._most_bytes is not None and self._size > self._most_bytes:
                raise self._too_large(self._size)
            if self._expected_size is not None and self._size > self._expected_size:
                raise self._not_announced(f"more than {self._expected_size:,} bytes came")
            self._hash.update(chunk)
            if chunk:
                yield chunk

    def finish(self) -> Stored:
        """Hash and size, once all has passed; Unprocessable E-OBJ-02 where they are not the expected ones."""
        found = Stored(self._hash.digest(), self._size)
        if self._expected_size not in (None, found.size):
            raise self._not_announced(f"{found.size:,} bytes came, {self._expected_size:,} were announced")
        if self._expected_sha256 not in (None, found.sha256):
            raise self._not_announced(f"the bytes that came have the SHA-256 {found.sha256.hex()}")
        return found

    def _too_large(self, size: int) -> TooLarge:
        return TooLarge(
            "E-SIZE-01",
            f"the content is larger than {self._most_bytes:,} bytes",
            fix="send less, or raise the limit of whoever takes it",
            limit=self._most_bytes,
            size=size,
        )

    def _not_announced(self, what: str) -> Unprocessable:
        return Unprocessable("E-OBJ-02", what, why="nothing was stored", fix="send the content again")


def parts(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """The same bytes in parts of exactly `size` bytes, the last one shorter; holds one part and one chunk."""
    held = bytearray()
    for chunk in chunks:
        view, start = memoryview(chunk), 0
        while start < len(view):
            take = view[start : start + size - len(held)]
            held += take
            start += len(take)
            if len(held) == size:
                yield bytes(held)
                held.clear()
    if held:
        yield bytes(held)
