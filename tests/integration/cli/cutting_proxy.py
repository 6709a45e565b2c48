"""A way to the API that breaks: it cuts connections before a request, or after it was done and before its answer."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

BYTES = 65_536


class CuttingProxy:
    """Passes bytes on to `port`. `cut_answers` answers are swallowed, and `cut_streams_after` bytes end one stream.

    A real server stands behind it: what it swallows was really done.
    """

    def __init__(self, port: int) -> None:
        self.target = port
        self.cut_answers = 0
        self.cut_stream_after = 0
        self.requests = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._closing = False
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing = True
        with contextlib.suppress(OSError):
            socket.create_connection(self._listener.getsockname(), timeout=1).close()
        self._thread.join(5)
        self._listener.close()
        for one in self._open:
            with contextlib.suppress(OSError):
                one.close()

    def cut_all(self) -> None:
        """End every connection; of a pair one end may follow the other by itself."""
        for one in list(self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._closing:
            client, _ = self._listener.accept()
            if self._closing:
                client.close()
                return
            server = socket.create_connection(("127.0.0.1", self.target))
            self._open += [client, server]
            threading.Thread(target=self._requests, args=(client, server), daemon=True).start()
            threading.Thread(target=self._answers, args=(server, client), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(BYTES):
                self.requests += data.count(b" HTTP/1.1\r\n")
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)

    def _answers(self, server: socket.socket, client: socket.socket) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while data := server.recv(BYTES):
                if self.cut_answers > 0:
                    self.cut_answers -= 1
                    break
                passed += len(data)
                limit = self.cut_stream_after
                if limit and passed > limit:
                    self.cut_stream_after = 0
                    client.sendall(data[: max(0, len(data) - (passed - limit))])
                    break
                client.sendall(data)
        for one in (client, server):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
