"""Rebuilding what is derived: rows in ready, timers, open counts and joins' counts, from steps and joins themselves.

Without `apply` it only tells what it would do. Measured durations are dropped: workers measure anew. It needs to see all
tenants, so it runs under the administrator's URL, and may run while work goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, LiteralString
from uuid import UUID

from stanchion.db import grants
from stanchion.db.engine import Database

PAGE: Final = 200


@dataclass(frozen=True, slots=True)
class Repair:
    """One thing that was wrong: a row of `what` (ready, timer, barrier, run), by its key."""

    run_id: UUID | None
    what: str
    which: UUID
    detail: str

    def __str__(self) -> str:
        return f"{self.what} {self.which}: {self.detail}"


def rebuild(database: Database, run_id: UUID | None = None, *, apply: bool = False) -> Iterator[Repair]:
    """What is wrong in derived rows, of one run or of all; with `apply` each run is put right in one transaction.

    `database` is opened with the administrator's URL. Raises Unavailable.
    """
    runs = iter([run_id]) if run_id is not None else _live(database)
    for each in runs:
        for what, which, detail in _as_owner(database, "SELECT * FROM stanchion.rebuild_run(%s, %s)", (each, apply)):
            yield Repair(each, what, which, detail)
    if run_id is None:
        for what, which, detail in _as_owner(database, "SELECT * FROM stanchion.rebuild_rest(%s)", (apply,)):
            yield Repair(None, what, which, detail)


def _live(database: Database) -> Iterator[UUID]:
    after = UUID(int=0)
    while True:
        rows = _as_owner(
            database,
            "SELECT run_id FROM stanchion.run WHERE run_id > %s AND ended_at IS NULL ORDER BY run_id LIMIT %s",
            (after, PAGE),
        )
        if not rows:
            return
        yield from (r[0] for r in rows)
        after = rows[-1][0]


def _as_owner(database: Database, sql: LiteralString, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """One statement in a transaction of its own, as the schema's owner: row-level security shows it every tenant."""
    with database.connection() as connection, connection.transaction():
        connection.execute(f"SET LOCAL ROLE {grants.OWNER}")
        return connection.execute(sql, parameters).fetchall()
