"""Connections of one process to the database, kept for the next call.

A caller that finds none free makes one itself, and so learns at once that the server is away and why. psycopg_pool
connects in a background thread while its callers wait out their patience without a reason; SQLAlchemy's pool can't be
had without the rest of SQLAlchemy, a third of the start of a process that only calls functions.
"""

from __future__ import annotations

from threading import BoundedSemaphore, Lock
from typing import Any, Final

import psycopg

from stanchion.errors import Unavailable

STATEMENT_TIMEOUT_MS: Final = 30_000

Driver = psycopg.Connection[tuple[Any, ...]]


def connect_options(name: str, statement_timeout_ms: int) -> dict[str, Any]:
    """How every connection is made, ours and SQLAlchemy's."""
    return {
        "application_name": f"stanchion {name}"[:60],
        "connect_timeout": 5,
        # a server that vanished without a word (a dead host, a dropped route) shows within half a minute
        "tcp_user_timeout": 20_000,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "prepare_threshold": 1,
        "options": f"-c statement_timeout={statement_timeout_ms} -c timezone=UTC",
    }


def pool_is_empty() -> Unavailable:
    """All connections are taken, and stayed so for as long as a caller waits."""
    return Unavailable(
        "E-DB-10", "all connections of this process are in use", fix="raise the pool size, or ask less at once"
    )


class Pool:
    """At most `size + overflow` connections at once, `size` of which are kept. Thread-safe."""

    def __init__(self, url: str, options: dict[str, Any], size: int, overflow: int, wait_seconds: float) -> None:
        self._url = url
        self._options = options
        self._size = size
        self._wait_seconds = wait_seconds
        self._room = BoundedSemaphore(size + overflow)
        self._lock = Lock()
        self._idle: list[Driver] = []
        self._taken: set[Driver] = set()

    @property
    def taken(self) -> int:
        """How many connections callers have at this moment."""
        return len(self._taken)

    def take(self) -> Driver:
        """The connection that was used last, or a new one; raises Unavailable E-DB-10 or the driver's error."""
        if not self._room.acquire(timeout=self._wait_seconds):
            raise pool_is_empty()
        try:
            with self._lock:
                if self._idle:
                    found = self._idle.pop()
                    self._taken.add(found)
                    return found
            made: Driver = psycopg.connect(self._url, autocommit=True, **self._options)
        except BaseException:
            self._room.release()
            raise
        with self._lock:
            self._taken.add(made)
        return made

    def give(self, connection: Driver) -> None:
        """Back from a caller: kept if it is usable and there is room."""
        usable = not connection.closed and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        with self._lock:
            # what `empty` met in a caller's hands is not among the taken any more
            keep = usable and connection in self._taken and len(self._idle) < self._size
            self._taken.discard(connection)
            if keep:
                self._idle.append(connection)
        if not keep:
            connection.close()
        self._room.release()

    def empty(self) -> None:
        """Close all that nobody uses, and keep none of those in use: the server that they belong to is gone."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._taken.clear()
        for connection in idle:
            connection.close()
