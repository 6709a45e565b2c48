"""Whether a run has moved: the place of its newest event, for many runs in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import text

from stanchion.db.engine import Database

Beat = tuple[int, int]
"""Transaction and number of a run's newest event; not the place to go on reading from (see `events.Cursor`)."""

_NEWEST = text("""
SELECT q.run_id, e.xid::text::numeric AS xid, e.event_id
FROM unnest(CAST(:runs AS uuid[])) AS q(run_id)
CROSS JOIN LATERAL (
  SELECT v.xid, v.event_id FROM stanchion.event v WHERE v.run_id = q.run_id ORDER BY v.xid DESC, v.event_id DESC LIMIT 1
) e
""")


class Pulse:
    """Under a login that reads; each tenant's runs are asked for as that tenant."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def of(self, runs: Sequence[tuple[UUID, UUID]]) -> dict[tuple[UUID, UUID], Beat]:
        """The newest event of each run, by (tenant, run); a run without one is left out."""
        found: dict[tuple[UUID, UUID], Beat] = {}
        by_tenant: dict[UUID, list[UUID]] = {}
        for tenant_id, run_id in runs:
            by_tenant.setdefault(tenant_id, []).append(run_id)
        for tenant_id, wanted in by_tenant.items():
            with self.database.tenant(tenant_id) as connection:
                for row in connection.execute(_NEWEST, {"runs": wanted}):
                    found[tenant_id, row.run_id] = (int(row.xid), int(row.event_id))
        return found
