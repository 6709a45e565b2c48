"""A TCP proxy between a process and a server, in a thread of its own: passes on, cuts, or swallows."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from types import TracebackType
from typing import Self


class TcpProxy:
    """`port` on loopback leads to `target`.

    `cut()` resets all connections and refuses new ones. `swallow()` keeps them open and lets nothing through, as a
    network does that drops every packet. `heal()` lets everything through again; what was swallowed stays lost, and
    its connections are reset.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.port = 0
        self._mode = "pass"
        self._loop = asyncio.new_event_loop()
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def cut(self) -> None:
        """Reset what is open, refuse what comes."""
        self._change("cut", reset=True)

    def swallow(self) -> None:
        """Let nothing through, and say nothing."""
        self._change("swallow", reset=False)

    def heal(self) -> None:
        """Pass on again."""
        self._change("pass", reset=self._mode == "swallow")

    def _change(self, mode: str, *, reset: bool) -> None:
        async def change() -> None:
            self._mode = mode
            if reset:
                for pair in list(self._pairs):
                    _reset(pair)

        asyncio.run_coroutine_threadsafe(change(), self._loop).result(10)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        self._server.close()
        for pair in list(self._pairs):
            _reset(pair)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._connect(reader, writer)
        finally:
            self._tasks.discard(task)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._mode == "cut":
            writer.transport.abort()
            return
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection(*self.target)
        except OSError:
            writer.transport.abort()
            return
        pair = (writer, upstream_writer)
        self._pairs.add(pair)
        try:
            await asyncio.gather(self._pump(reader, upstream_writer), self._pump(upstream_reader, writer))
        finally:
            self._pairs.discard(pair)
            for end in pair:
                end.transport.abort()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                if self._mode == "swallow":
                    continue
                sink.write(data)
                await sink.drain()
        except OSError:
            pass
        finally:
            sink.close()


def _reset(pair: tuple[asyncio.StreamWriter, asyncio.StreamWriter]) -> None:
    for end in pair:
        raw = end.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a RST, not a polite end
        end.transport.abort()
