"""The wire: a server that can cut a connection without an answer, and that ends within a second."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import uvicorn
from fastapi import FastAPI
from starlette.responses import Response
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

LOOPBACK: Final = "127.0.0.1"
GRACE_SECONDS: Final = 0.2
"""How long requests may take to end before their connections are cut."""


class Cut(Response):
    """No answer: the connection is closed at once."""

    async def __call__(self, scope: Scope, receive: Receive, _send: Send) -> None:
        """Close the connection, and return when that is known."""
        scope["app"].state.cut(scope["client"])
        while (await receive())["type"] != "http.disconnect":
            pass


class Server(uvicorn.Server):
    """Serves an app on `listener`; `closing` is called before it waits for requests that are under way."""

    def __init__(self, app: FastAPI, listener: socket.socket, closing: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=H11Protocol,
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # the address of the other side is what names its connection
            )
        )
        app.state.cut = self.cut
        self.listener = listener
        self.closing = closing

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{LOOPBACK}:{self.listener.getsockname()[1]}"

    def cut(self, client: tuple[str, int]) -> None:
        """Close the connection from this address, whatever is under way on it."""
        for connection in list(self.server_state.connections):
            if isinstance(connection, H11Protocol) and connection.client == tuple(client):
                connection.transport.abort()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say where: a single line of JSON on standard output."""
        await super().startup(sockets)
        print(json.dumps({"url": self.url}), flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End what is under way; what has not ended then, such as half a request, is cut."""
        self.closing()
        asyncio.get_running_loop().call_later(GRACE_SECONDS, self._force)
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """End on SIGTERM and SIGINT, as a process that ended well and not as one that a signal killed."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end)
        yield

    def _end(self) -> None:
        self.should_exit = True

    def _force(self) -> None:
        for connection in list(self.server_state.connections):
            if isinstance(connection, H11Protocol):
                connection.transport.abort()


def listen(port: int) -> socket.socket:
    """A socket that only this machine reaches; raises OSError when the port is taken."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
    except OSError:
        listener.close()
        raise
    return listener
