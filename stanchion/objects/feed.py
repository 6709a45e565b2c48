"""From one who writes to one who reads: chunks on their way into a store, a few at a time.

A store reads its source in a thread; who writes is a request or a step, maybe on an event loop. Neither may run ahead
of the other for more than a few chunks: that is what keeps an upload of any size in constant memory.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

HELD_CHUNKS: Final = 4


class Cut(Exception):  # noqa: N818 - it is what happened to the upload
    """Raised in whoever reads when the writer gave up; `__cause__` says why."""


class Feed(Iterator[bytes]):
    """A bounded queue of chunks between two threads. `on_room` is called, in the reader's thread, when there is room."""

    def __init__(self, on_room: Callable[[], None] | None = None, held: int = HELD_CHUNKS) -> None:
        self._changed = threading.Condition()
        self._chunks: deque[bytes] = deque()
        self._held = held
        self._on_room = on_room
        self._ended = False
        self._closed = False
        self._error: BaseException | None = None

    # --- who writes ---

    def offer(self, chunk: bytes) -> bool:
        """Hand over a chunk if there is room. When the reader has left nothing is kept, and the answer is True."""
        with self._changed:
            if not self._closed and len(self._chunks) >= self._held:
                return False
            if not self._closed:
                self._chunks.append(chunk)
                self._changed.notify_all()
            return True

    def wait(self, chunk: bytes) -> None:
        """Hand over a chunk as soon as there is room; blocks."""
        with self._changed:
            while not self._closed and len(self._chunks) >= self._held:
                self._changed.wait()
            if not self._closed:
                self._chunks.append(chunk)
                self._changed.notify_all()

    @property
    def closed(self) -> bool:
        """The reader has left: what is written goes nowhere."""
        return self._closed

    def end(self) -> None:
        """All was handed over."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def cut(self, error: BaseException | None) -> None:
        """It will never be whole: the reader gets Cut, so that nothing of it is stored."""
        with self._changed:
            self._error = error or RuntimeError("nobody writes any more")
            self._changed.notify_all()

    # --- who reads ---

    def __next__(self) -> bytes:
        with self._changed:
            while not self._chunks and not self._ended and self._error is None:
                self._changed.wait()
            if self._error is not None:
                raise Cut("the upload was given up") from self._error
            if not self._chunks:
                raise StopIteration
            chunk = self._chunks.popleft()
            self._changed.notify_all()
        self._tell()
        return chunk

    def close(self) -> None:
        """Leave: whoever writes never waits again."""
        with self._changed:
            self._closed = True
            self._chunks.clear()
            self._changed.notify_all()
        self._tell()

    def _tell(self) -> None:
        if self._on_room is not None:
            self._on_room()


def cut_to(data: bytes | bytearray | memoryview, size: int) -> Iterator[bytes]:
    """The same bytes in pieces of at most `size`; nothing for nothing."""
    view = memoryview(data).cast("B")
    for start in range(0, len(view), size):
        yield bytes(view[start : start + size])
