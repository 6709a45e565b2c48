"""Content on its way in and out: streams between HTTP and the object store, so many at once and no more.

Whatever its size, a transfer holds a few chunks in memory. Uploads read the store's side in threads of their own: they
last as long as their senders are slow, and must not take those of other requests.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from stanchion.contracts import limits
from stanchion.errors import Unavailable
from stanchion.objects import Reader
from stanchion.objects.feed import Feed, cut_to

from .edge import BUSY
from .params import SLOW_BODY, TooSlow, refuse_encoded

T = TypeVar("T")

SILENT_SECONDS: Final = 60.0  # an upload that sends nothing for so long is given up


class Transfers:
    """How many uploads and downloads this process works on at once."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.under_way = 0
        self._lock = threading.Lock()
        self._threads: CapacityLimiter | None = None

    @contextmanager
    def one(self) -> Iterator[None]:
        """A place for one transfer; raises Unavailable E-BUSY-01 when there is none."""
        self.take()
        try:
            yield
        finally:
            self.give_back()

    def take(self) -> None:
        """Take a place, from any thread; raises Unavailable E-BUSY-01 when there is none."""
        with self._lock:
            if self.under_way >= self.most:
                raise Unavailable(BUSY, f"{self.most} uploads and downloads are under way here")
            self.under_way += 1

    def give_back(self) -> None:
        """Give a place back."""
        with self._lock:
            self.under_way -= 1

    async def in_thread(self, call: Callable[[], T]) -> T:
        """What `call` returns, in a thread of these transfers alone."""
        if self._threads is None:  # of the loop that runs the requests
            self._threads = CapacityLimiter(2 * self.most)
        return await run_sync(call, limiter=self._threads)

    async def receive(self, request: Request, keep: Callable[[Feed], T]) -> T:
        """Hand the body of a request to `keep`, which reads it in a thread; returns what that returns.

        A sender that leaves in the middle leaves nothing behind. Raises what `keep` raises, Encoded E-HTTP-04,
        Unavailable E-BUSY-01.
        """
        refuse_encoded(request)
        loop, room = asyncio.get_running_loop(), asyncio.Event()
        feed = Feed(lambda: _told(loop, room))

        def kept() -> T:
            try:
                return keep(feed)
            finally:
                feed.close()

        with self.one():
            keeping = asyncio.ensure_future(self.in_thread(kept))
            try:
                await _pump(request, feed, room)
            except BaseException as error:
                feed.cut(error)
                with suppress(BaseException):
                    await asyncio.shield(keeping)
                raise
            return await keeping


class Download(StreamingResponse):
    """An answer of content; its reader is closed and its place given back however it ends, begun or not."""

    def __init__(self, transfers: Transfers, reader: Reader, status: int, headers: dict[str, str]) -> None:
        super().__init__(self._chunks(), status, headers)
        self.transfers = transfers
        self.reader = reader

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.reader.close()
            self.transfers.give_back()

    async def _chunks(self) -> AsyncIterator[bytes]:
        """The chunks; the last one only once the reader has said that all of it was right."""
        held: bytes | None = None
        while True:
            chunk = await self.transfers.in_thread(lambda: next(self.reader, None))
            if held:
                yield held
            if chunk is None:
                return
            held = chunk


async def _pump(request: Request, feed: Feed, room: asyncio.Event) -> None:
    held = bytearray()
    body = request.stream().__aiter__()
    while not feed.closed:
        try:
            async with asyncio.timeout(SILENT_SECONDS):
                chunk = await anext(body, None)
        except TimeoutError:
            raise TooSlow(SLOW_BODY, f"nothing came for {SILENT_SECONDS:g} s") from None
        held += chunk or b""
        if chunk is None or len(held) >= limits.ARTIFACT_CHUNK_BYTES:
            for piece in cut_to(held, limits.ARTIFACT_CHUNK_BYTES):
                await _hand_over(feed, piece, room)
            held.clear()
        if chunk is None:
            feed.end()
            return


async def _hand_over(feed: Feed, piece: bytes, room: asyncio.Event) -> None:
    while True:
        room.clear()
        if feed.offer(piece):
            return
        await room.wait()


def _told(loop: asyncio.AbstractEventLoop, room: asyncio.Event) -> None:
    with suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(room.set)
