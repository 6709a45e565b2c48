"""What is deployed: workflow versions and workers. They serve all tenants; counts are of the asking tenant alone."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from sqlalchemy import case, func, null, select, tuple_

from stanchion.contracts import limits
from stanchion.db import tables
from stanchion.db.engine import Database

from .queries import rows_of
from .rows import Row, missing

_WORKFLOW, _WORKER, _ATTEMPT = tables.workflow.c, tables.worker.c, tables.attempt.c

HIDDEN: Final = ("host", "pid")
"""What a tenant does not learn of a worker."""


class Inventory:
    """Under the task service's login."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def workflows(self, tenant_id: UUID, *, limit: int, after: tuple[str, int] | None = None) -> list[Row]:
        """Versions of workflows, by name, the newest version of each first."""
        found = select(_WORKFLOW.name, _WORKFLOW.version, _WORKFLOW.registered_at)
        if after is not None:
            found = found.where(tuple_(_WORKFLOW.name, -_WORKFLOW.version) > tuple_(after[0], -after[1]))
        with self.database.tenant(tenant_id) as connection:
            return rows_of(connection, found.order_by(_WORKFLOW.name, -_WORKFLOW.version).limit(limit))

    def workflow(self, tenant_id: UUID, name: str, version: int | None) -> Row:
        """One version (None: the newest) with its graph; raises NotFound."""
        found = select(_WORKFLOW.name, _WORKFLOW.version, _WORKFLOW.registered_at, _WORKFLOW.graph)
        found = found.where(_WORKFLOW.name == name)
        if version is not None:
            found = found.where(_WORKFLOW.version == version)
        with self.database.tenant(tenant_id) as connection:
            rows = rows_of(connection, found.order_by(_WORKFLOW.version.desc()).limit(1))
        if not rows:
            raise missing("workflow")
        return rows[0]

    def workers(
        self, tenant_id: UUID, *, of_all: bool, limit: int, before: UUID | None = None, state: str | None = None
    ) -> list[Row]:
        """Workers, the newest first; `running` counts what they hold of this tenant.

        Unless `of_all`, those that serve this tenant, without where they run: a host is shared with others.
        """
        held = (
            select(_ATTEMPT.worker_id, func.count().label("running"))
            .where(_ATTEMPT.ended_at.is_(None))
            .group_by(_ATTEMPT.worker_id)
            .subquery()
        )
        columns: list[Any] = [
            column for column in _WORKER if column.name not in ("running", "state", "tenants", *HIDDEN)
        ]
        columns += [_WORKER[name] if of_all else null().label(name) for name in HIDDEN]
        shown = _presence()
        found = select(*columns, shown.label("state"), func.coalesce(held.c.running, 0).label("running")).outerjoin(
            held, held.c.worker_id == _WORKER.worker_id
        )
        if not of_all:
            found = found.where(_WORKER.tenants.is_(None) | _WORKER.tenants.contains([tenant_id]))
        if before is not None:
            found = found.where(_WORKER.worker_id < before)
        if state is not None:
            found = found.where(shown == state)
        with self.database.tenant(tenant_id) as connection:
            return rows_of(connection, found.order_by(_WORKER.worker_id.desc()).limit(limit))

    def worker(self, tenant_id: UUID, worker_id: UUID, *, of_all: bool) -> Row:
        """One worker, as `workers` shows it; raises NotFound, also for one that serves others alone."""
        columns: list[Any] = [c for c in _WORKER if c.name not in ("state", "tenants", *HIDDEN)]
        columns += [_WORKER[name] if of_all else null().label(name) for name in HIDDEN]
        found = select(*columns, _presence().label("state")).where(_WORKER.worker_id == worker_id)
        if not of_all:
            found = found.where(_WORKER.tenants.is_(None) | _WORKER.tenants.contains([tenant_id]))
        with self.database.tenant(tenant_id) as connection:
            rows = rows_of(connection, found)
        if not rows:
            raise missing("worker")
        return rows[0]


def _presence() -> Any:
    """A worker's state: one that was killed never said that it is gone, and is silent."""
    heard = func.stanchion.clock() - func.make_interval(0, 0, 0, 0, 0, 0, limits.WORKER_SEEN_SECONDS)
    return case(
        (_WORKER.state == "gone", "gone"),
        (_WORKER.seen_at < heard, "silent"),
        (_WORKER.drain_requested, "draining"),
        else_=_WORKER.state,
    )
