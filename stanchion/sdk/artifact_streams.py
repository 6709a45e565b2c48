"""The objects behind `ctx.artifact` and `ctx.open`: awaitable in an `async` step, blocking in a plain one."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Any

from stanchion.contracts import limits
from stanchion.contracts.artifacts import check_media_type, check_name
from stanchion.objects import Reader
from stanchion.objects.feed import Feed, cut_to
from stanchion.sdk.artifacts import ArtifactDoor, Content, MadeFrom, Source, source_of
from stanchion.workflow.artifact import Artifact

__all__ = ["ArtifactDownload", "ArtifactUpload", "ArtifactWriter", "AsyncArtifactReader", "AsyncArtifactWriter"]


class ArtifactUpload:
    """A version to be written: `await` it or call `put()` when its content was given, else use it in `async with` or
    `with` and write. Nothing is stored before; what is never used is warned of."""

    def __init__(
        self, door: ArtifactDoor, name: str, content: Content | None, media_type: str, made_from: MadeFrom
    ) -> None:
        self._used = True  # until its arguments are known to be good
        self._name = check_name(name)
        self._media_type = check_media_type(media_type)
        self._content = None if content is None else source_of(content)
        self._made_from = tuple(made_from)
        self._door = door
        self._writer: AsyncArtifactWriter | ArtifactWriter | None = None
        self._used = False

    def put(self) -> Artifact:
        """Store the content that was given, and return its version; blocks. For plain steps.

        Raises LeaseLost, TooLarge E-SIZE-01, Unavailable, NotFound for a version that it is made from.
        """
        self._used = True
        if self._content is None:
            raise TypeError(f"no content was given for {self._name}: use `with`, and write")
        return self._write(self._content)

    def __await__(self) -> Generator[Any, None, Artifact]:
        """The same, without blocking the event loop. For `async` steps."""
        self._used = True
        return asyncio.to_thread(self.put).__await__()

    async def __aenter__(self) -> AsyncArtifactWriter:
        self._writer = writer = AsyncArtifactWriter(self._streamed())
        return writer

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert isinstance(self._writer, AsyncArtifactWriter)
        await self._writer.finish(error)

    def __enter__(self) -> ArtifactWriter:
        self._writer = writer = ArtifactWriter(self._streamed())
        return writer

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert isinstance(self._writer, ArtifactWriter)
        self._writer.finish(error)

    def __del__(self) -> None:
        if not self._used:
            warnings.warn(
                f"the artifact {self._name!r} was never written: await it, or call put()", RuntimeWarning, stacklevel=2
            )

    def _streamed(self) -> Callable[[Source], Artifact]:
        self._used = True
        if self._content is not None:
            raise TypeError(f"the content of {self._name} was given: await it, or call put()")
        return self._write

    def _write(self, source: Source) -> Artifact:
        return self._door.put(self._name, source, self._media_type, self._made_from)


class _Writing:
    """A put that runs in a thread of its own and reads what is written here."""

    def __init__(self, write: Callable[[Source], Artifact], on_room: Callable[[], None] | None = None) -> None:
        self.feed = Feed(on_room)
        self.future: Future[Artifact] = Future()
        self.held = bytearray()
        self._write = write
        threading.Thread(target=self._run, name="artifact", daemon=True).start()

    def pieces(self, data: bytes | bytearray | memoryview) -> Iterator[bytes]:
        """What is full of all that was written so far; small writes wait until there is enough of them."""
        size = limits.ARTIFACT_CHUNK_BYTES
        if not self.held and len(data) >= size:
            whole = len(data) - len(data) % size
            yield from cut_to(memoryview(data)[:whole], size)
            data = memoryview(data)[whole:]
        self.held += data
        while len(self.held) >= size:
            piece = bytes(self.held[:size])
            del self.held[:size]
            yield piece

    def end(self, error: BaseException | None) -> None:
        """All was written, or it never will be."""
        if error is not None:
            self.feed.cut(error)
        else:
            self.feed.end()

    def _run(self) -> None:
        try:
            self.future.set_result(self._write(Source(lambda: self.feed, again=False)))
        except BaseException as error:  # noqa: BLE001 - LeaseLost too goes to the one who writes
            self.future.set_exception(error)
        finally:
            self.feed.close()


class _Written:
    """What both writers know once they are done."""

    _writing: _Writing

    @property
    def artifact(self) -> Artifact:
        """The version, once its `with` has ended; RuntimeError before."""
        if not self._writing.future.done():
            raise RuntimeError("the artifact is there when its `with` has ended")
        return self._writing.future.result()


class ArtifactWriter(_Written):
    """Writes the content of one version, in a plain step; `artifact` is the version once the `with` has ended."""

    def __init__(self, write: Callable[[Source], Artifact]) -> None:
        self._writing = _Writing(write)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write some of the content; waits while the store is slower than its writer. Raises what the store raises."""
        for piece in self._writing.pieces(data):
            self._writing.feed.wait(piece)
        if self._writing.feed.closed:
            self._writing.future.result()

    def finish(self, error: BaseException | None) -> None:
        """Called at the end of `with`: promotes what was written; after an error nothing is."""
        if error is None and self._writing.held:
            self._writing.feed.wait(bytes(self._writing.held))
        self._writing.end(error)
        if error is None:
            self._writing.future.result()


class AsyncArtifactWriter(_Written):
    """Writes the content of one version, in an `async` step; `artifact` is the version once the `with` has ended."""

    def __init__(self, write: Callable[[Source], Artifact]) -> None:
        loop = asyncio.get_running_loop()
        self._room = asyncio.Event()
        room = self._room

        def told() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(room.set)

        self._writing = _Writing(write, told)

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write some of the content; waits while the store is slower than its writer. Raises what the store raises."""
        for piece in self._writing.pieces(data):
            await self._hand_over(piece)
        if self._writing.feed.closed:
            await asyncio.wrap_future(self._writing.future)

    async def finish(self, error: BaseException | None) -> None:
        """Called at the end of `async with`: promotes what was written; after an error nothing is."""
        try:
            if error is None and self._writing.held:
                await self._hand_over(bytes(self._writing.held))
        except BaseException as cancelled:
            self._writing.end(cancelled)
            raise
        self._writing.end(error)
        if error is None:
            await asyncio.wrap_future(self._writing.future)

    async def _hand_over(self, piece: bytes) -> None:
        while True:
            self._room.clear()
            if self._writing.feed.offer(piece):
                return
            await self._room.wait()


class ArtifactDownload:
    """A version to be read: `with` gives its chunks in a plain step, `async with` in an `async` one; `await` and
    `read()` give all of it as bytes."""

    def __init__(self, door: ArtifactDoor, artifact: Artifact | str, start: int, end: int | None) -> None:
        self._open: Callable[[], Reader] = partial(door.open, artifact, start, end)
        self._reader: Reader | None = None

    def read(self) -> bytes:
        """All of it, in memory; blocks. Raises NotFound, LeaseLost, Unavailable."""
        with self._open() as reader:
            return b"".join(reader)

    def __await__(self) -> Generator[Any, None, bytes]:
        """The same, without blocking the event loop."""
        return asyncio.to_thread(self.read).__await__()

    def __enter__(self) -> Reader:
        self._reader = self._open()
        return self._reader

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._reader is not None:
            self._reader.close()

    async def __aenter__(self) -> AsyncArtifactReader:
        self._reader = await asyncio.to_thread(self._open)
        return AsyncArtifactReader(self._reader)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._reader is not None:
            await asyncio.to_thread(self._reader.close)


class AsyncArtifactReader(AsyncIterator[bytes]):
    """Chunks of a version, in order; `size` is how many bytes it gives."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.size = reader.size

    async def __anext__(self) -> bytes:
        chunk = await asyncio.to_thread(next, self._reader, None)
        if chunk is None:
            raise StopAsyncIteration
        return chunk
