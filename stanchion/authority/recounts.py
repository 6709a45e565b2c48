"""Recounts: whether a waiting join counts what its branches say, and the repair when something damaged a counter."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from stanchion.db.engine import Database


class Looked(NamedTuple):
    """Joins that were looked at: where to go on (None: that was the end), how many wait, those that count wrong."""

    last: UUID | None
    waiting: int
    wrong: list[UUID]


class Recounts:
    """Under the maintenance worker's login."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def look(self, after: UUID, older: timedelta, limit: int) -> Looked:
        """Look at the next `limit` joins: those that wait for longer than `older` are compared. Takes no locks."""
        rows = self.database.read("SELECT * FROM stanchion.miscounted_barriers(%s, %s, %s)", (after, older, limit))
        return Looked._make(rows[0])

    def repair(self, barrier_id: UUID) -> dict[str, Any] | None:
        """Set a join's counts right and let it open if that is due; the counts before and after.

        None when there is nothing wrong with it any more.
        """
        rows = self.database.call("maintain", "SELECT stanchion.recount_barrier(%s)", (barrier_id,))
        changed: dict[str, Any] | None = rows[0][0]
        return changed
