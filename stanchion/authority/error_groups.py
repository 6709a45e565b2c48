"""Errors in groups: of a tenant as they are kept, and of one run or fan-out; members a page at a time.

The maintenance worker puts failures into groups a few seconds after they happened, each once. What it has not come to
yet is added to the groups of a run while they are read, so that these are always up to date.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb
from sqlalchemy import Connection, func, select, text

from stanchion.contracts import payload
from stanchion.contracts.fingerprints import Fingerprint, fingerprint
from stanchion.db import tables
from stanchion.db.engine import Database

from .queries import rows_of
from .rows import Page, Row, missing

BATCH: Final = 1_000
GROUPS_OF_A_RUN: Final = 100
FRESH: Final = 2_000  # failed steps of a run that are not in a group yet, and are looked at all the same
WORKERS_SHOWN: Final = 10

_GROUP, _MEMBER = tables.error_group.c, tables.error_member.c
_STEP = tables.step.c

GROUP_COLUMNS: Final = tuple(column for column in _GROUP if column.name != "tenant_id")


@dataclass(frozen=True, slots=True)
class Mark:
    """What somebody says of a group; None leaves it as it is, an empty text clears it."""

    known: bool | None = None
    note: str | None = None
    link: str | None = None
    assigned_to: str | None = None


# The last error of each failed step that is in no group yet.
_FRESH_FAILURES = text("""
SELECT s.step_id, s.workflow, s.workflow_version AS version, s.node, a.worker_id, s.updated_at AS at, a.error
FROM stanchion.step s
LEFT JOIN LATERAL (SELECT t.error, t.worker_id FROM stanchion.attempt t
  WHERE t.step_id = s.step_id AND t.error IS NOT NULL ORDER BY t.fence DESC LIMIT 1) a ON true
WHERE s.run_id = :run AND s.state = 'failed' AND (CAST(:fan AS uuid) IS NULL OR s.fan_id = :fan)
  AND NOT EXISTS (SELECT FROM stanchion.error_member m WHERE m.run_id = s.run_id AND m.step_id = s.step_id)
LIMIT :most
""")


class ErrorGroups:
    """Under any login that reads them; marks under the task service's. Every call sees one tenant."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def page(
        self,
        tenant_id: UUID,
        *,
        limit: int,
        before: tuple[datetime, UUID] | None = None,
        workflow: str | None = None,
        known: bool | None = None,
    ) -> list[Row]:
        """Groups, the last seen first, from `before` (when it was last seen, and its id) on."""
        found = select(*GROUP_COLUMNS).where(_GROUP.tenant_id == tenant_id)
        if before is not None:
            found = found.where(func.row(_GROUP.last_at, _GROUP.group_id) < func.row(*before))
        if workflow is not None:
            found = found.where(_GROUP.workflow == workflow)
        if known is not None:
            found = found.where(_GROUP.known == known)
        with self.database.tenant(tenant_id) as connection:
            return rows_of(connection, found.order_by(_GROUP.last_at.desc(), _GROUP.group_id.desc()).limit(limit))

    def group(self, tenant_id: UUID, group_id: UUID) -> Row:
        """One group; raises NotFound."""
        found = select(*GROUP_COLUMNS).where(_GROUP.tenant_id == tenant_id, _GROUP.group_id == group_id)
        with self.database.tenant(tenant_id) as connection:
            rows = rows_of(connection, found)
        if not rows:
            raise missing("group of errors")
        return rows[0]

    def members(
        self, tenant_id: UUID, group_id: UUID, *, limit: int, before: UUID | None = None, run_id: UUID | None = None
    ) -> Page:
        """The steps whose last failure is in a group, the newest first, with how they stand now."""
        run, worker = tables.run.c, tables.worker.c
        columns = (_MEMBER.step_id, _MEMBER.run_id, _MEMBER.failures, _MEMBER.first_at, _MEMBER.last_at)
        chosen = select(*columns, _MEMBER.worker_id).where(_MEMBER.tenant_id == tenant_id, _MEMBER.group_id == group_id)
        if before is not None:
            chosen = chosen.where(_MEMBER.step_id < before)
        if run_id is not None:
            chosen = chosen.where(_MEMBER.run_id == run_id)
        page = chosen.order_by(_MEMBER.step_id.desc()).limit(limit + 1).subquery()
        found = (
            select(page, run.task_id, _STEP.state, _STEP.node, _STEP.idx.label("index"), worker.name.label("worker"))
            .join(tables.step, _STEP.step_id == page.c.step_id)
            .join(tables.run, run.run_id == page.c.run_id)
            .outerjoin(tables.worker, worker.worker_id == page.c.worker_id)
            .order_by(page.c.step_id.desc())
        )
        with self.database.tenant(tenant_id) as connection:
            rows = rows_of(connection, found)
        return Page(rows[:limit], rows[limit - 1]["step_id"] if len(rows) > limit else None)

    def of_run(self, tenant_id: UUID, run_id: UUID, fan_id: UUID | None = None) -> list[Row]:
        """The groups of the steps of a run (or of one fan-out in it) that have failed and stay so, the largest first.

        Each with `count`, `first_at`, `last_at`, the `example` and up to ten `workers`.
        """
        with self.database.tenant(tenant_id) as connection:
            kept = rows_of(connection, _kept(run_id, fan_id))
            given = {"run": run_id, "fan": fan_id, "most": FRESH}
            fresh = [dict(row) for row in connection.execute(_FRESH_FAILURES, given).mappings()]
            groups = _merged(kept, _grouped(fresh))
            names = self._names(connection, {one for row in groups for one in row["workers"]})
        for row in groups:
            row["workers"] = [names.get(one, str(one)) for one in row["workers"]]
        return groups

    @staticmethod
    def _names(connection: Connection, workers: set[UUID]) -> dict[UUID, str]:
        worker = tables.worker.c
        rows = rows_of(connection, select(worker.worker_id, worker.name).where(worker.worker_id.in_(workers)))
        return {row["worker_id"]: row["name"] for row in rows}

    def mark(self, tenant_id: UUID, group_id: UUID, mark: Mark, *, actor: str) -> Row:
        """Say something of a group; returns it. Raises NotFound."""
        rows = self.database.call(
            "maintain",
            "SELECT stanchion.mark_error(%s, %s, %s, %s, %s, %s, %s)",
            (tenant_id, group_id, mark.known, mark.note, mark.link, mark.assigned_to, actor),
        )
        if not rows[0][0]:
            raise missing("group of errors")
        return self.group(tenant_id, group_id)


class ErrorCollector:
    """Puts failures into groups, in the order of their events: each once, and none is skipped. Under the maintenance
    worker's login."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def collect(self, limit: int = BATCH) -> tuple[int, bool]:
        """Take the next failures; how many they were, and whether there are more."""
        rows = self.database.read("SELECT * FROM stanchion.next_failures(%s)", (limit,))
        if not rows:
            return 0, False
        failures = [_failure(number, *row[4:]) for number, row in enumerate(rows)]
        known = [one for one in failures if one is not None]
        (from_xid, from_id), (to_xid, to_id) = rows[0][:2], rows[-1][2:4]
        counted = self.database.call(
            "maintain",
            "SELECT stanchion.note_failures(%s, %s, %s, %s, %s)",
            (from_xid, from_id, to_xid, to_id, Jsonb(known, dumps=payload.dumps)),
        )
        # another worker was faster: what is next is for the next look
        return (len(known) if counted[0][0] else 0), len(rows) == limit


def _failure(number: int, *row: Any) -> dict[str, Any] | None:
    tenant_id, run_id, step_id, fan_id, workflow, version, node, worker_id, final, at, error = row
    if node is None:  # its step went with the history of its task
        return None
    found = fingerprint(workflow, node, error or {})
    return {
        "number": number,
        "group_id": str(found.group_id),
        "tenant_id": str(tenant_id),
        "run_id": str(run_id),
        "step_id": str(step_id),
        "fan_id": None if fan_id is None else str(fan_id),
        "worker_id": None if worker_id is None else str(worker_id),
        "version": version,
        "final": final,
        "at": at.isoformat(),
        "error": error or {},
        **_named(found),
    }


def _named(found: Fingerprint) -> dict[str, Any]:
    names = ("workflow", "node", "code", "type", "place", "message")
    return {name: getattr(found, name) for name in names}


def _kept(run_id: UUID, fan_id: UUID | None) -> Any:
    """The groups of failed steps, of what was put into groups."""
    members = (
        select(_MEMBER.group_id, _MEMBER.tenant_id, _MEMBER.worker_id, _MEMBER.last_at)
        .join(tables.step, _STEP.step_id == _MEMBER.step_id)
        .where(_MEMBER.run_id == run_id, _STEP.state == "failed")
    )
    if fan_id is not None:
        members = members.where(_MEMBER.fan_id == fan_id)
    inside = members.subquery()
    counted = (
        select(
            inside.c.group_id,
            func.count().label("count"),
            func.min(inside.c.last_at).label("first_at"),
            func.max(inside.c.last_at).label("last_at"),
            func.array_agg(inside.c.worker_id.distinct()).label("workers"),
        )
        .group_by(inside.c.group_id)
        .order_by(func.count().desc(), inside.c.group_id)
        .limit(GROUPS_OF_A_RUN)
        .subquery()
    )
    about = (_GROUP.workflow, _GROUP.node, _GROUP.code, _GROUP.type, _GROUP.place, _GROUP.message, _GROUP.example)
    return select(counted, *about, _GROUP.known, _GROUP.link).join(
        tables.error_group, _GROUP.group_id == counted.c.group_id
    )


def _grouped(failures: Sequence[Row]) -> list[Row]:
    groups = defaultdict[Fingerprint, list[Row]](list)
    for one in failures:
        groups[fingerprint(one["workflow"], one["node"], one["error"] or {})].append(one)
    return [
        {
            "group_id": found.group_id,
            "count": len(members),
            "first_at": min(one["at"] for one in members),
            "last_at": max(one["at"] for one in members),
            "workers": list({one["worker_id"] for one in members}),
            "example": members[0]["error"] or {},
            "known": False,
            "link": None,
            **_named(found),
        }
        for found, members in groups.items()
    ]


def _merged(kept: Sequence[Row], fresh: Sequence[Row]) -> list[Row]:
    groups = {row["group_id"]: dict(row) for row in kept}
    for row in fresh:
        known = groups.get(row["group_id"])
        if known is None:
            groups[row["group_id"]] = row
            continue
        known["count"] += row["count"]
        known["first_at"] = min(known["first_at"], row["first_at"])
        known["last_at"] = max(known["last_at"], row["last_at"])
        known["workers"] = list({*known["workers"], *row["workers"]})
    for row in groups.values():
        row["workers"] = [one for one in row["workers"] if one is not None][:WORKERS_SHOWN]
    return sorted(groups.values(), key=lambda row: (-row["count"], row["group_id"].int))
