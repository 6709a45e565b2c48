"""A receiver of webhooks: a real HTTP server that answers as it is told to, and keeps what came."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Behaviour = Callable[["Handler", bytes], None]


@dataclass(frozen=True)
class Call:
    """One request that came."""

    path: str
    headers: dict[str, str]
    body: bytes = field(repr=False)


class Handler(BaseHTTPRequestHandler):
    """Keeps each request, then behaves."""

    protocol_version = "HTTP/1.1"
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.calls.append(Call(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        self.server.behaviour(self, body)

    do_GET = do_POST

    def answer(self, status: int, content: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Nothing: the calls are kept."""


class Receiver(ThreadingHTTPServer):
    """`behaviour` may be changed at any time; `calls` is all that came, in order."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.calls: list[Call] = []
        self.behaviour: Behaviour = accept
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever called has hung up: that is what some tests do."""


def accept(handler: Handler, _body: bytes) -> None:
    """204."""
    handler.answer(204)


def refuse(handler: Handler, _body: bytes) -> None:
    """500, with a text that must not be kept."""
    handler.answer(500, b"the endpoint says: canary-4711")
