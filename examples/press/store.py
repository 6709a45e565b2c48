"""The SQLite file: one connection in one thread, one transaction for each piece of work.

WAL with synchronous=FULL: what was committed is in the file when the answer leaves, and a kill loses nothing of it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

SCHEMA: Final = Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")
BUSY_MILLISECONDS: Final = 5_000


class Store:
    """Opens `path`, or creates it; raises sqlite3.Error when it is no database or can't be written."""

    def __init__(self, path: Path) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="press-store")
        self._db = self._thread.submit(_opened, path).result()

    async def run(self, work: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do `work(connection, ...)` in a transaction of its own, behind what was asked for before."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._transaction, lambda db: work(db, *args, **kwargs))

    def _transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        self._db.execute("BEGIN IMMEDIATE")  # so that a second process on this file waits, and decides after us
        try:
            result = work(self._db)
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")
        return result

    def close(self) -> None:
        """Finish what has begun and close the file."""
        self._thread.submit(self._db.close).result()
        self._thread.shutdown()


def _opened(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None)
    db.row_factory = sqlite3.Row
    db.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.executescript(SCHEMA)
    return db
