"""The events of tasks, in an order in which none is ever skipped.

Numbers are drawn before a transaction commits, so the event with the higher number may be seen first; whoever reads
"everything above the last number" misses the other. Here the order is (transaction id, event id), and only events of
transactions below the oldest running one are shown: nothing can still appear among them or before them. `event_xid` is
what a transaction of this cluster counts as: after a restore into another cluster its ids begin anew, and go on from
those that were restored (see `stanchion.db.migrate`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self
from uuid import UUID

from sqlalchemy import Connection, text

from stanchion.db.engine import Database
from stanchion.errors import Unprocessable

from .queries import task_row
from .rows import Row

PAGE_EVENTS: Final = 500

_CURSOR = re.compile(r"([0-9]{1,20})-([0-9]{1,19})")
_XID_MAX: Final = 2**64 - 1
_ID_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """A place in the events of a task: behind the event `event_id` of transaction `xid`."""

    xid: int
    event_id: int

    def __str__(self) -> str:
        return f"{self.xid}-{self.event_id}"

    @classmethod
    def parse(cls, value: str | None, where: str) -> Self:
        """The place that a reader has come to; None: the beginning. Raises Unprocessable E-DATA-15."""
        if not value:
            return cls(0, 0)
        match = _CURSOR.fullmatch(value)
        if (
            match
            and (place := cls(int(match[1]), int(match[2])))
            and place.xid <= _XID_MAX
            and place.event_id <= _ID_MAX
        ):
            return place
        raise Unprocessable("E-DATA-15", "this is no id of an event", where=where, fix="send the last id as it came")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one reader waits for: a task's events behind `after`."""

    task_id: UUID
    after: Cursor


@dataclass(frozen=True, slots=True)
class Found:
    """What there was for one reader. `ended` says that the task has ended, and that nothing of it is still to come."""

    events: list[Row]
    ended: bool


@dataclass(frozen=True, slots=True)
class Glance:
    """One look: what was found, and the transactions below which everything has been shown."""

    found: list[Found]
    complete_below: int


# One look for all readers of a tenant. A run's index is by (xid, event id): each reads where it stands, and stops after
# a page. The horizon is taken in the same statement, hence the same snapshot, as the events. A task has ended for its
# reader once nothing that can be seen of it lies beyond the horizon.
_GLANCE = text("""
SELECT q.n, h.below::text::numeric AS below, e.*,
  t.ended_at IS NOT NULL AND NOT EXISTS (
    SELECT FROM stanchion.run r, stanchion.event v
    WHERE r.task_id = q.task_id AND v.run_id = r.run_id AND v.xid >= h.below
  ) AS ended
FROM unnest(CAST(:numbers AS int[]), CAST(:tasks AS uuid[]), CAST(:xids AS xid8[]), CAST(:ids AS bigint[]))
  AS q(n, task_id, xid, id)
JOIN stanchion.task t ON t.task_id = q.task_id
CROSS JOIN (SELECT stanchion.event_xid(pg_snapshot_xmin(pg_current_snapshot())) AS below) h
LEFT JOIN LATERAL (
  SELECT f.*, s.node, s.idx FROM stanchion.run r, LATERAL (
    SELECT v.xid::text::numeric AS xid, v.event_id, v.run_id, v.step_id, v.kind, v.version, v.fence, v.at, v.actor,
      v.body
    FROM stanchion.event v WHERE v.run_id = r.run_id AND (v.xid, v.event_id) > (q.xid, q.id) AND v.xid < h.below
    ORDER BY v.xid, v.event_id LIMIT :most) f
  LEFT JOIN stanchion.step s ON s.step_id = f.step_id
  WHERE r.task_id = q.task_id ORDER BY f.xid, f.event_id LIMIT :most) e ON true
ORDER BY q.n, e.xid, e.event_id
""")

_SHOWN = ("run_id", "step_id", "node", "idx", "kind", "version", "fence", "at", "actor", "body")


class Events:
    """Under the task service's login; every call sees one tenant."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def horizon(self, tenant_id: UUID, task_id: UUID) -> int:
        """The transaction id below which everything that has happened until now lies; raises NotFound."""
        with self.database.tenant(tenant_id) as connection:
            task_row(connection, task_id)
            found = connection.execute(
                text("SELECT stanchion.event_xid(pg_snapshot_xmax(pg_current_snapshot()))::text")
            ).scalar_one()
            return int(found)

    def glance(self, tenant_id: UUID, wanted: Sequence[Wanted], most: int = PAGE_EVENTS) -> Glance:
        """The next events for each of several readers of one tenant, at most `most` each."""
        with self.database.tenant(tenant_id) as connection:
            rows = _rows(connection, wanted, most)
        found = [Found([], False) for _ in wanted]
        below = 0
        for row in rows:
            below = int(row["below"])
            events = found[row["n"]].events
            if row["event_id"] is not None:
                shown = {name: row[name] for name in _SHOWN}
                events.append(shown | {"cursor": Cursor(int(row["xid"]), row["event_id"])})
            found[row["n"]] = Found(events, row["ended"])
        return Glance([Found(f.events, f.ended and len(f.events) < most) for f in found], below)


def _rows(connection: Connection, wanted: Sequence[Wanted], most: int) -> list[Any]:
    parameters = {
        "numbers": list(range(len(wanted))),
        "tasks": [one.task_id for one in wanted],
        "xids": [str(one.after.xid) for one in wanted],
        "ids": [one.after.event_id for one in wanted],
        "most": most,
    }
    return list(connection.execute(_GLANCE, parameters).mappings())
