"""A Metadata request over a plain socket: who is in this cluster?

The client library would do, but it opens threads, retries and logs; a look every 20 ms while a broker starts must not.
Format: https://kafka.apache.org/protocol (Metadata, version 4; both brokers speak it).
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

_API_KEY = 3
_API_VERSION = 4
_CORRELATION_ID = 1
_CLIENT_ID = b"stanchion-probe"
_TIMEOUT_SECONDS = 1.0
_ANSWER_LIMIT_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster as one of its brokers sees it: its id, and the registered brokers by id."""

    cluster_id: str | None
    brokers: dict[int, str]


def request_bytes() -> bytes:
    """Return a request for the brokers and no topics (naming one would create it on some brokers)."""
    header = struct.pack(">hhih", _API_KEY, _API_VERSION, _CORRELATION_ID, len(_CLIENT_ID)) + _CLIENT_ID
    body = struct.pack(">ib", 0, 0)
    return struct.pack(">i", len(header) + len(body)) + header + body


def parse_answer(payload: bytes) -> Cluster:
    """Read a Metadata answer without its length prefix. Raises ValueError when it is not one."""
    reader = _Reader(payload)
    if reader.number(">i") != _CORRELATION_ID:
        raise ValueError("the answer belongs to another request")
    reader.number(">i")  # throttle time
    brokers: dict[int, str] = {}
    for _ in range(reader.number(">i")):
        node = reader.number(">i")
        host = reader.text()
        brokers[node] = f"{host}:{reader.number('>i')}"
        reader.text()  # rack
    return Cluster(cluster_id=reader.text(), brokers=brokers)


def probe(host: str, port: int) -> Cluster | None:
    """Ask one broker; None when it does not answer, or not in Kafka's protocol."""
    try:
        with socket.create_connection((host, port), timeout=_TIMEOUT_SECONDS) as connection:
            connection.settimeout(_TIMEOUT_SECONDS)
            connection.sendall(request_bytes())
            length = struct.unpack(">i", _exactly(connection, 4))[0]
            if not 0 < length < _ANSWER_LIMIT_BYTES:
                return None
            return parse_answer(_exactly(connection, length))
    except (OSError, ValueError, struct.error):
        return None


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise ValueError("the connection ended in the middle of an answer")
        received += chunk
    return received


class _Reader:
    """Takes numbers and nullable texts from the front of a buffer."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._at = 0

    def number(self, form: str) -> int:
        value: int = struct.unpack_from(form, self._payload, self._at)[0]
        self._at += struct.calcsize(form)
        return value

    def text(self) -> str | None:
        length = self.number(">h")
        if length < 0:
            return None
        taken = self._payload[self._at : self._at + length]
        if len(taken) != length:
            raise ValueError("the answer is shorter than it says")
        self._at += length
        return taken.decode("utf-8")
