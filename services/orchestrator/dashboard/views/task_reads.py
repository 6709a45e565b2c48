"""Rows beside the API's own that the pages of tasks and steps show. Always a bounded amount of one tenant.

However many children a run has, a page takes the same number of statements: counts are the database's work, rows come
in pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, Select, cast, select, tuple_

from stanchion.authority.events import Cursor
from stanchion.authority.queries import rows_of
from stanchion.authority.rows import Row
from stanchion.db import tables

ATTEMPTS_SHOWN: Final = 200
NOTABLE_SHOWN: Final = 20
EVENTS_SHOWN: Final = 100
EVENTS_SCANNED: Final = 50_000  # of a run, for those of one step

_STEP, _ATTEMPT, _WORKER = tables.step.c, tables.attempt.c, tables.worker.c
_REFUSED, _EVENT = tables.refused_write.c, tables.event.c


def attempts_of(connection: Connection, steps: Sequence[UUID]) -> dict[UUID, list[Row]]:
    """The attempts of these steps, the newest first, each with whether it took over from a lost one."""
    statement = (
        select(*_attempt_columns())
        .outerjoin(tables.worker, _WORKER.worker_id == _ATTEMPT.worker_id)
        .where(_ATTEMPT.step_id.in_(steps))
        .order_by(_ATTEMPT.step_id, _ATTEMPT.fence.desc())
        .limit(ATTEMPTS_SHOWN)
    )
    found: dict[UUID, list[Row]] = {}
    for row in rows_of(connection, statement) if steps else ():
        found.setdefault(row["step_id"], []).append(row)
    for attempts in found.values():
        mark_take_overs(attempts)
    return found


def mark_take_overs(attempts: Sequence[Row]) -> None:
    """Set `take_over` on attempts, which come newest first: the one before was lost."""
    for place, row in enumerate(attempts, 1):
        row["take_over"] = place < len(attempts) and attempts[place]["state"] == "lost"


def _attempt_columns() -> list[Any]:
    names = ("step_id", "fence", "number", "state", "granted_at", "started_at", "ended_at", "lease_until", "error")
    return [*(_ATTEMPT[name] for name in names), _WORKER.name.label("worker"), _ATTEMPT.worker_id]


def named(connection: Connection, events: list[Row]) -> list[Row]:
    """Events with the names of the workers that caused them, where these are known."""
    workers = {row["actor"]: _uuid(row["actor"]) for row in events}
    known = select(_WORKER.worker_id, _WORKER.name).where(_WORKER.worker_id.in_([w for w in workers.values() if w]))
    names = dict(tuple(row) for row in connection.execute(known))
    for row in events:
        worker_id = workers[row["actor"]]
        row["actor"] = names.get(worker_id, row["actor"]) if worker_id else row["actor"]
    return events


def _uuid(text: str | None) -> UUID | None:
    try:
        return UUID(text or "")
    except ValueError:
        return None


def lost(run_id: UUID) -> Select[Any]:
    """Leases that ran out, and who has the step now."""
    return (
        select(*_attempt_columns(), _STEP.node, _STEP.idx.label("index"), _STEP.fan_id, _STEP.fence.label("current"))
        .select_from(
            tables.step.join(tables.attempt, _ATTEMPT.step_id == _STEP.step_id).outerjoin(
                tables.worker, _WORKER.worker_id == _ATTEMPT.worker_id
            )
        )
        .where(_STEP.run_id == run_id, _STEP.losses > 0, _ATTEMPT.state == "lost")
        .order_by(_ATTEMPT.ended_at.desc())
        .limit(NOTABLE_SHOWN)
    )


def refused(run_id: UUID) -> Select[Any]:
    """Writes that came with an old fence and changed nothing."""
    names = ("step_id", "fence", "current_fence", "attempted", "why", "at", "worker_id")
    return (
        select(
            *(_REFUSED[name] for name in names),
            _WORKER.name.label("worker"),
            _STEP.node,
            _STEP.idx.label("index"),
            _STEP.fan_id,
        )
        .select_from(
            tables.refused_write.outerjoin(tables.step, _STEP.step_id == _REFUSED.step_id).outerjoin(
                tables.worker, _WORKER.worker_id == _REFUSED.worker_id
            )
        )
        .where(_REFUSED.run_id == run_id)
        .order_by(_REFUSED.refused_id.desc())
        .limit(NOTABLE_SHOWN)
    )


def events(run_id: UUID, step_id: UUID | None = None, before: Cursor | None = None) -> Select[Any]:
    """The last events of a run, or of one of its steps, the newest first; of a large run only its end is looked at."""
    names = ("xid", "event_id", "at", "kind", "fence", "actor", "step_id", "body")
    columns = [_EVENT[name] for name in names]
    tail = select(*columns).where(_EVENT.run_id == run_id).order_by(_EVENT.xid.desc(), _EVENT.event_id.desc())
    if before is not None:
        tail = tail.where(
            tuple_(_EVENT.xid, _EVENT.event_id) < tuple_(cast(str(before.xid), _EVENT.xid.type), before.event_id)
        )
    if step_id is None:
        last = tail.limit(EVENTS_SHOWN + 1).subquery()
    else:
        window = tail.limit(EVENTS_SCANNED).subquery()
        newest = select(window).where(window.c.step_id == step_id)
        last = newest.order_by(window.c.xid.desc(), window.c.event_id.desc()).limit(EVENTS_SHOWN).subquery()
    return (
        select(last, _STEP.node, _STEP.idx.label("index"), _STEP.fan_id)
        .select_from(last.outerjoin(tables.step, _STEP.step_id == last.c.step_id))
        .order_by(last.c.xid.desc(), last.c.event_id.desc())
    )
