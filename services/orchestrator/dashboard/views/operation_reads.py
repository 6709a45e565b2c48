"""The ledger as lists of pages show it: what is unknown by how long it is, everything else by its age.

The unknown ones of a tenant are an index of their own, however many others there are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Select, func, select, tuple_

from stanchion.authority.queries import rows_of
from stanchion.authority.rows import Row
from stanchion.contracts import ids
from stanchion.db import tables
from stanchion.errors import Unprocessable

from ..view import Asked

SHOWN: Final = 50
SCANNED: Final = 50_000
"""Operations that one page looks at for a rare kind or state: it costs more pages, never a full scan."""
COUNTED: Final = 1_000

_OPERATION, _STEP, _TASK = tables.operation.c, tables.step.c, tables.task.c
_TIMER, _READY, _PROBE = tables.timer.c, tables.ready.c, tables.operation_probe.c
_NAMES: Final = (
    "operation_id", "task_id", "step_id", "kind", "key", "state", "sends", "probes", "request_key", "can_query",
    "unknown_since", "created_at", "updated_at",
)  # fmt: skip
_COLUMNS: Final = tuple(_OPERATION[name] for name in _NAMES)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page of unknown ones begins: behind this one. It may be known by now, so its time stands beside its id."""

    since: datetime
    operation_id: UUID

    def __str__(self) -> str:
        micros = (self.since - _EPOCH) // timedelta(microseconds=1)
        return f"{micros}.{ids.public(ids.OPERATION, self.operation_id)}"

    @classmethod
    def parse(cls, text: str, where: str) -> Place:
        """Read one; raises Unprocessable E-DATA-15."""
        match = re.fullmatch(r"([0-9]{1,17})\.(op_\w{26})", text, re.ASCII)
        if match is None:
            raise Unprocessable("E-DATA-15", "this is no place in a list of operations", where=where)
        return cls(_EPOCH + timedelta(microseconds=int(match[1])), ids.parse(match[2], ids.OPERATION))


@dataclass(frozen=True, slots=True)
class Filter:
    """Which operations; None means all."""

    state: str | None = None
    kind: str | None = None
    task_id: UUID | None = None


def unknown_ones(asked: Asked, wanted: Filter, after: Place | None) -> list[Row]:
    """Those of unknown fate, the oldest first; one more than is shown."""
    found = _of(asked, wanted.task_id).where(_OPERATION.state == "unknown")
    if wanted.kind is not None:
        found = found.where(_OPERATION.kind == wanted.kind)
    if after is not None:
        found = found.where(
            tuple_(_OPERATION.unknown_since, _OPERATION.operation_id) > (after.since, after.operation_id)
        )
    found = found.order_by(_OPERATION.unknown_since, _OPERATION.operation_id).limit(SHOWN + 1)
    return _shown(asked, found, lambda c: (c.unknown_since, c.operation_id))


def newest(asked: Asked, wanted: Filter, before: UUID | None) -> tuple[list[Row], UUID | None]:
    """The newest first, and where the next page begins, which may be behind rows that did not fit."""
    scan = _of(asked, wanted.task_id).order_by(_OPERATION.operation_id.desc()).limit(SCANNED)
    if before is not None:
        scan = scan.where(_OPERATION.operation_id < before)
    looked_at = scan.subquery()
    found = select(looked_at)
    if wanted.state is not None:
        found = found.where(looked_at.c.state == wanted.state)
    if wanted.kind is not None:
        found = found.where(looked_at.c.kind == wanted.kind)
    found = found.order_by(looked_at.c.operation_id.desc()).limit(SHOWN + 1)
    rows = _shown(asked, found, lambda c: (c.operation_id.desc(),))
    if len(rows) > SHOWN:
        return rows[:SHOWN], rows[SHOWN - 1]["operation_id"]
    last = select(looked_at.c.operation_id).offset(SCANNED - 1).limit(1)
    with asked.reads.database.tenant(asked.visitor.tenant_id) as connection:
        return rows, connection.execute(last).scalar()


def _of(asked: Asked, task_id: UUID | None) -> Select[Any]:
    found = select(*_COLUMNS).where(_OPERATION.tenant_id == asked.visitor.tenant_id)
    return found if task_id is None else found.where(_OPERATION.task_id == task_id)


def _shown(asked: Asked, page: Select[Any], order: Callable[[Any], tuple[Any, ...]]) -> list[Row]:
    """The rows of one page; what stands beside them is looked up for these alone."""
    rows = page.subquery()
    found = select(rows, _due(rows.c.step_id).label("due"), _asked_after(rows.c.step_id).label("asked"))
    return _rows(asked, found.order_by(*order(rows.c)))


def _due(step_id: Any) -> Any:
    """When it is asked after next, if that is later."""
    probe = (_TIMER.target_id == step_id) & (_TIMER.kind == "probe")
    return select(func.min(_TIMER.due_at)).where(probe).correlate(step_id.table).scalar_subquery()


def _asked_after(step_id: Any) -> Any:
    """Whether it is asked after without anybody's doing; else a person has to tell.

    As values and not as EXISTS: of that the planner may make a look at all steps that there are.
    """
    ready = select(_READY.since).where(_READY.step_id == step_id).correlate(step_id.table)
    step = select(_STEP.state).where(_STEP.step_id == step_id).correlate(step_id.table)
    return (
        _due(step_id).is_not(None)
        | ready.scalar_subquery().is_not(None)
        | (func.coalesce(step.scalar_subquery(), "") == "reconciling")
    )


def _rows(asked: Asked, found: Select[Any]) -> list[Row]:
    with asked.reads.database.tenant(asked.visitor.tenant_id) as connection:
        return rows_of(connection, found)


def unknown_counts(asked: Asked) -> Row:
    """How many are unknown (up to `COUNTED`), since when the oldest one is, and how many are asked after."""
    all_of_them = (
        select(_OPERATION.unknown_since, _asked_after(_OPERATION.step_id).label("asked"))
        .where(_OPERATION.tenant_id == asked.visitor.tenant_id, _OPERATION.state == "unknown")
        .order_by(_OPERATION.unknown_since)
        .limit(COUNTED)
        .subquery()
    )
    columns: tuple[Any, ...] = (
        func.count().label("count"),
        func.min(all_of_them.c.unknown_since).label("oldest"),
        func.count().filter(all_of_them.c.asked).label("asked"),
    )
    return _rows(asked, select(*columns).select_from(all_of_them))[0]


def last_settled(asked: Asked) -> Row | None:
    """The newest operation that somebody had to find out about, with what settled it; looked for among the newest ones."""
    window = (
        select(_OPERATION.operation_id, _OPERATION.kind, _OPERATION.key, _OPERATION.probes)
        .where(_OPERATION.tenant_id == asked.visitor.tenant_id)
        .order_by(_OPERATION.operation_id.desc())
        .limit(SCANNED // 5)
        .subquery()
    )
    one = select(window).where(window.c.probes > 0).order_by(window.c.operation_id.desc()).limit(1).subquery()
    found = (
        select(one, _PROBE.at, _PROBE.by)
        .join_from(one, tables.operation_probe, _PROBE.operation_id == one.c.operation_id)
        .where(_PROBE.conclusive)
        .order_by(_PROBE.number.desc())
    )
    return next(iter(_rows(asked, found.limit(1))), None)


def around(asked: Asked, row: Row) -> Row:
    """What stands beside one operation: its task, run and step, who sent it, when it is asked after, what undoes it."""
    run, attempt, worker = tables.run.c, tables.attempt.c, tables.worker.c
    joined = (
        tables.operation.join(tables.task, _TASK.task_id == _OPERATION.task_id)
        # a tenant's own operation outlives the run of another task that did it again
        .outerjoin(tables.run, run.run_id == _OPERATION.run_id)
        .outerjoin(tables.step, _STEP.step_id == _OPERATION.step_id)
        .outerjoin(tables.attempt, (attempt.step_id == _OPERATION.step_id) & (attempt.fence == _OPERATION.fence))
        .outerjoin(tables.worker, worker.worker_id == attempt.worker_id)
    )
    columns = (
        _TASK.workflow,
        run.state.label("run_state"),
        _STEP.node,
        _STEP.idx.label("index"),
        _STEP.fan_id,
        _STEP.kind.label("step_kind"),
        _STEP.state.label("step_state"),
        attempt.state.label("attempt_state"),
        attempt.ended_at.label("attempt_ended_at"),
        attempt.error.label("attempt_error"),
        attempt.worker_id,
        worker.name.label("worker"),
        _OPERATION.payload_blob.is_not(None).label("large"),
        _due(_OPERATION.step_id).label("due"),
        _asked_after(_OPERATION.step_id).label("asked"),
        func.stanchion.clock(type_=_OPERATION.created_at.type).label("now"),
    )
    found = select(*columns).select_from(joined).where(_OPERATION.operation_id == row["operation_id"])
    undo = select(_OPERATION.operation_id, _OPERATION.state).where(_OPERATION.compensates == row["operation_id"])
    with asked.reads.database.tenant(asked.visitor.tenant_id) as connection:
        beside = rows_of(connection, found)[0]
        return beside | {"undone_by": next(iter(rows_of(connection, undo.limit(1))), None)}
