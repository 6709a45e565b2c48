"""Sweeping: what uploads leave behind, and content that nothing names any more.

The store has no transactions, so the database decides first: content is marked as being removed, which no flip of the
same content can cross, then it is deleted, then that is noted. Whoever puts the same afterwards puts it anew.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice
from typing import Final, LiteralString
from uuid import UUID

from stanchion.db.engine import Database
from stanchion.runtime.clock import Deadline

from .objects import Objects

REMOVE_SECONDS: Final = 20.0
"""How long after a removal was marked its object may be deleted by who marked it."""
AGAIN: Final = timedelta(minutes=10)
"""After so long without its end a removal is marked again: its worker died. Far longer than REMOVE_SECONDS, since one
that deletes later might delete what was put in the meantime."""


class Sweeping:
    """Under the maintenance worker's login. Each call is bounded; repeat it while it finds something."""

    def __init__(self, database: Database, objects: Objects, grace: timedelta) -> None:
        self.database = database
        self.objects = objects
        self.grace = grace

    def abandon(self, limit: int) -> int:
        """Give up versions that did not become available within the grace time; returns how many."""
        return self._count("SELECT stanchion.abandon_versions(%s, %s)", self.grace, limit)

    def remove(self, limit: int) -> int:
        """Delete content whose removal was asked for; returns how much. Raises Unavailable."""
        if not self.objects.is_set:
            return 0
        deadline, done = Deadline(REMOVE_SECONDS), 0
        marked = self.database.call("maintain", "SELECT * FROM stanchion.begin_removals(%s, %s)", (AGAIN, limit))
        for tenant_id, sha256 in marked:
            store = self.objects.of(tenant_id)
            if deadline.passed:
                break  # what is left is marked again later: by now another worker may have it
            store.delete(sha256)
            self.database.call("maintain", "SELECT stanchion.note_removed(%s, %s)", (tenant_id, sha256))
            done += 1
        return done

    def forget(self, limit: int) -> int:
        """Forget removals that no upload can meet any more; returns how many."""
        return self._count("SELECT stanchion.forget_removals(%s, %s)", self.grace, limit)

    def next_tenant(self, after: UUID) -> UUID | None:
        """The tenant behind this one; None at the end, and when there is no store to look into."""
        if not self.objects.is_set:
            return None
        rows = self.database.read("SELECT stanchion.next_tenant(%s)", (after,))
        found: UUID | None = rows[0][0]
        return found

    def look(self, tenant_id: UUID, after: bytes | None, limit: int) -> tuple[bytes | None, int]:
        """Ask for the removal of objects that no version names, among the next `limit` of a tenant.

        Returns the last hash that was looked at (None at the end), and how many removals were asked for. What is
        younger than the grace time is left alone: its version may be about to be flipped.
        """
        found = list(islice(self.objects.of(tenant_id).list(self._before(), after), limit))
        if not found:
            return None, 0
        hashes = [one.sha256 for one in found]
        asked = self._count("SELECT stanchion.ask_removals(%s, %s)", tenant_id, hashes)
        return (hashes[-1] if len(found) == limit else None), asked

    def sweep_temporary(self, tenant_id: UUID) -> int:
        """Remove what uploads left under way when their process ended; returns how much."""
        return self.objects.of(tenant_id).sweep_temporary(self._before())

    def _before(self) -> datetime:
        now: datetime = self.database.read("SELECT stanchion.clock()")[0][0]
        return now - self.grace

    def _count(self, sql: LiteralString, *parameters: object) -> int:
        return int(self.database.call("maintain", sql, parameters)[0][0])
