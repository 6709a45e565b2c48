"""Closes the socket of a connection that failed; kafka-python leaves it to the garbage collector.

Clients try again every second while a broker is away: an outage of an hour would hold thousands of descriptors until
the collector happens to run.
"""

from __future__ import annotations

from typing import Any

from stanchion.bus.library import KafkaNetSocket

_original = KafkaNetSocket.sock_connect


def install() -> None:
    """Put it in place; once, and for the whole process."""
    KafkaNetSocket.sock_connect = _connect


async def _connect(self: Any, net: Any, sock: Any, address: Any, timeout_at: float | None = None) -> Any:
    try:
        return await _original(self, net, sock, address, timeout_at=timeout_at)
    except BaseException:
        sock.close()
        raise
