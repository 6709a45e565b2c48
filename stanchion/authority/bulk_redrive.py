"""Dead letters sent again in bulk: what the maintenance worker asks of the database for it."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from stanchion.db.engine import Database

from .dead_letters import Kept
from .maintenance import Job


class BulkRedrive:
    """Under the maintenance worker's login."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def next(self, job: Job, after: UUID, limit: int) -> list[Kept]:
        """Letters that a job is about and that were not sent again yet, from `after` (exclusive) on, oldest first."""
        rows = self.database.read(
            "SELECT * FROM stanchion.next_redrives(%s, %s, %s, %s)", (job.key, job.tenant_id, after, limit)
        )
        return [Kept(*row) for row in rows]

    def note(self, job: Job, letters: Sequence[UUID]) -> int | None:
        """Record letters as sent, each once; returns how many were new, None when another worker has the job.

        Those that the relay had parked are put back into the outbox by this.
        """
        rows = self.database.call(
            "maintain",
            "SELECT stanchion.note_redriven(%s, %s, %s, %s)",
            (job.key, job.tenant_id, job.fence, list(letters)),
        )
        noted: int | None = rows[0][0]
        return noted
