"""Reads for people and programs: one tenant's tasks and steps, under row-level security, a bounded amount at a time.

What another tenant owns is not there: every answer about it is the answer about something that never existed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, Select, select

from stanchion.contracts import limits
from stanchion.db import tables
from stanchion.db.engine import Database

from .rows import Page, Row, missing

BARRIER: Final = "bar"  # the prefix of a barrier's public id

SCAN_ROWS: Final = 200_000  # rows that one page looks at: a rare filter costs more pages, never a full scan
ATTEMPTS_SHOWN: Final = 200
REFUSED_SHOWN: Final = 100
RUNS_SHOWN: Final = 100


def rows_of(connection: Connection, statement: Select[Any]) -> list[Row]:
    """The rows of a statement, by column name."""
    return [dict(row) for row in connection.execute(statement).mappings()]


_TASK = tables.task.c
_RUN = tables.run.c
_STEP = tables.step.c

TASK_COLUMNS: Final = (
    _TASK.task_id,
    _TASK.run_id,
    _TASK.workflow,
    _TASK.workflow_version.label("version"),
    _TASK.state,
    _TASK.priority,
    _TASK.tags,
    _TASK.goal,
    _TASK.idempotency_key,
    _TASK.deadline_at,
    _TASK.submitted_via,
    _TASK.submitted_by,
    _TASK.reason,
    _TASK.created_at,
    _TASK.updated_at,
    _TASK.ended_at,
    _TASK.payload_removed_at,
)
STEP_COLUMNS: Final = (
    _STEP.step_id,
    _STEP.run_id,
    _STEP.fan_id,
    _STEP.node,
    _STEP.kind,
    _STEP.idx.label("index"),
    _STEP.round,
    _STEP.state,
    _STEP.queue,
    _STEP.priority,
    _STEP.fence,
    _STEP.attempts,
    _STEP.losses,
    _STEP.max_attempts,
    _STEP.replaced_by,
    _STEP.created_at,
    _STEP.updated_at,
)


class Queries:
    """Under the task service's login; every call sees one tenant."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def task_summary(self, tenant_id: UUID, task_id: UUID) -> Row:
        """One task; raises NotFound."""
        with self.database.tenant(tenant_id) as connection:
            return task_row(connection, task_id)

    def steps(
        self,
        tenant_id: UUID,
        task_id: UUID,
        *,
        run_id: UUID | None = None,
        node: str | None = None,
        states: tuple[str, ...] | None = None,
        kind: str = "step",
        limit: int = limits.PAGE_ROWS,
        after: UUID | None = None,
    ) -> Page:
        """Steps (or, by `kind`, fan-outs) of the current run or of `run_id`, in order of birth; raises NotFound."""
        with self.database.tenant(tenant_id) as connection:
            run = task_row(connection, task_id)["run_id"] if run_id is None else _run_of(connection, task_id, run_id)
            scan = select(*STEP_COLUMNS).where(_STEP.run_id == run)
            if after is not None:
                scan = scan.where(_STEP.step_id > after)
            window = scan.order_by(_STEP.step_id).limit(SCAN_ROWS).subquery()
            found = select(window).where(window.c.kind == kind)
            if node is not None:
                found = found.where(window.c.node == node)
            if states is not None:
                found = found.where(window.c.state.in_(states))
            rows = rows_of(connection, found.order_by(window.c.step_id).limit(limit + 1))
            return _page(connection, rows, limit, "step_id", scan.order_by(_STEP.step_id))

    def states_of(self, tenant_id: UUID, steps: Sequence[UUID]) -> dict[UUID, str]:
        """The states of those steps that are there."""
        with self.database.tenant(tenant_id) as connection:
            rows = connection.execute(select(_STEP.step_id, _STEP.state).where(_STEP.step_id.in_(list(steps))))
            return {row.step_id: row.state for row in rows}

    def step(self, tenant_id: UUID, step_id: UUID, *, with_payload: bool) -> Row:
        """One step with its attempts, refused writes and, if asked for, its payloads; raises NotFound."""
        with self.database.tenant(tenant_id) as connection:
            found = rows_of(connection, select(*STEP_COLUMNS, *_payload_columns()).where(_STEP.step_id == step_id))
            if not found:
                raise missing("step")
            step = found[0]
            payload = {name: step.pop(name) for name in ("input", "input_blob")}
            step["task_id"] = connection.execute(select(_RUN.task_id).where(_RUN.run_id == step["run_id"])).scalar()
            step["attempt_list"] = _attempts(connection, step_id)
            step["refused_writes"] = _refused(connection, step_id)
            step["waits_for"] = rows_of(connection, _barriers_before(step_id))
            result = rows_of(connection, _result_of(step_id))
        step["late"] = result[0]["late"] if result else None
        if with_payload:
            step |= payload
            step["result"], step["result_blob"] = (result[0]["body"], result[0]["blob"]) if result else (None, None)
        return step


def task_row(connection: Connection, task_id: UUID) -> Row:
    """One task's row in a connection that shows one tenant; raises NotFound."""
    found = rows_of(
        connection,
        select(*TASK_COLUMNS, _RUN.paused_at)
        .outerjoin(tables.run, _RUN.run_id == _TASK.run_id)
        .where(_TASK.task_id == task_id),
    )
    if not found:
        raise missing("task")
    return found[0]


def runs_of(connection: Connection, task_id: UUID) -> list[Row]:
    """A task's runs, the newest first."""
    columns = ("run_id", "number", "state", "outcome", "reason", "retry_of", "paused_at", "created_at", "ended_at")
    statement = select(*(_RUN[name] for name in columns)).where(_RUN.task_id == task_id)
    return rows_of(connection, statement.order_by(_RUN.number.desc()).limit(RUNS_SHOWN))


def _run_of(connection: Connection, task_id: UUID, run_id: UUID) -> UUID:
    found = connection.execute(select(_RUN.run_id).where(_RUN.run_id == run_id, _RUN.task_id == task_id)).scalar()
    if found is None:
        raise missing("run")
    return run_id


def _page(connection: Connection, rows: list[Row], limit: int, key: str, scan: Select[Any]) -> Page:
    """The page of `rows` (one more than asked for, if there are more), or where the looking stopped."""
    if len(rows) > limit:
        return Page(rows[:limit], rows[limit - 1][key])
    last = connection.execute(scan.with_only_columns(scan.selected_columns[key]).offset(SCAN_ROWS - 1).limit(1))
    return Page(rows, last.scalar())


def _payload_columns() -> Sequence[Any]:
    return (_STEP.input, _STEP.input_blob)


def _attempts(connection: Connection, step_id: UUID) -> list[Row]:
    attempt, worker = tables.attempt.c, tables.worker.c
    statement = (
        select(
            attempt.fence,
            attempt.number,
            attempt.state,
            attempt.worker_id,
            worker.name.label("worker"),
            attempt.granted_at,
            attempt.started_at,
            attempt.ended_at,
            attempt.lease_until,
            attempt.deadline_at,
            attempt.counted,
            attempt.error,
            attempt.progress,
        )
        .outerjoin(tables.worker, worker.worker_id == attempt.worker_id)
        .where(attempt.step_id == step_id)
    )
    return rows_of(connection, statement.order_by(attempt.fence.desc()).limit(ATTEMPTS_SHOWN))


def _refused(connection: Connection, step_id: UUID) -> list[Row]:
    refused = tables.refused_write.c
    names = ("worker_id", "fence", "current_fence", "attempted", "why", "at")
    statement = select(*(refused[name] for name in names)).where(refused.step_id == step_id)
    return rows_of(connection, statement.order_by(refused.refused_id.desc()).limit(REFUSED_SHOWN))


def _barriers_before(step_id: UUID) -> Select[Any]:
    barrier = tables.barrier.c
    names = ("barrier_id", "kind", "rule", "state")
    return select(*(barrier[name] for name in names)).where(barrier.step_id == step_id)


def _result_of(step_id: UUID) -> Select[Any]:
    result = tables.result.c
    return select(result.body, result.blob, result.late).where(result.step_id == step_id)
