"""What the pages read: the functions behind the API, and a few rows beside them. Always a bounded amount of one tenant.

However many children a run has, a page takes the same number of statements: counts are the database's work, rows come
in pages.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

from sqlalchemy import Connection, Select, select

from stanchion.authority.graph_view import GraphView
from stanchion.authority.queries import Queries, TaskFilter, rows_of
from stanchion.authority.rows import Page, Row
from stanchion.authority.why import Asking
from stanchion.authority.why_codes import Reason
from stanchion.authority.workflows import Workflows
from stanchion.contracts import ids
from stanchion.db import tables
from stanchion.db.engine import Database
from stanchion.runtime.clock import monotonic

TASKS_SHOWN: Final = 50
STEPS_SHOWN: Final = 50
ATTEMPTS_SHOWN: Final = 200
NOTABLE_SHOWN: Final = 20
EVENTS_SHOWN: Final = 30
EVENTS_SCANNED: Final = 50_000  # of a run, for those of one step
STATEMENT_SECONDS: Final = 5  # a page that takes longer is given up
REMEMBERED_SECONDS: Final = 1.0  # all who watch one task share one look at it
REMEMBERED: Final = 200

T = TypeVar("T")

_STEP, _ATTEMPT, _WORKER = tables.step.c, tables.attempt.c, tables.worker.c
_REFUSED, _EVENT = tables.refused_write.c, tables.event.c


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which steps of a task are listed: of a node, in a state, from a place on."""

    node: str | None = None
    state: str | None = None
    after: UUID | None = None


@dataclass(frozen=True, slots=True)
class TaskPage:
    """All that the page of a task shows."""

    task: Row
    reasons: Sequence[Reason]
    lost: Sequence[Row]
    refused: Sequence[Row]
    steps: Page
    attempts: dict[UUID, list[Row]]
    events: Sequence[Row]


@dataclass(frozen=True, slots=True)
class StepPage:
    """All that the page of a step shows."""

    step: Row
    events: Sequence[Row]


class PageQueries:
    """Under the orchestrator's login, over connections of the pages' own."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.queries = Queries(database)
        self.graph = GraphView(database, Workflows(database))
        self.asking = Asking(database)
        self._looks: Remembered[TaskPage] = Remembered(REMEMBERED_SECONDS, REMEMBERED)

    def tasks(self, tenant_id: UUID, wanted: TaskFilter, before: UUID | None) -> Page:
        """The newest tasks, from `before` (exclusive) on."""
        return self.queries.tasks(tenant_id, wanted, limit=TASKS_SHOWN, before=before)

    def task(self, tenant_id: UUID, task_id: UUID, wanted: Wanted) -> TaskPage:
        """A task's page, a second old at most, of a large run ten; raises NotFound."""
        return self._looks.get((tenant_id, task_id, wanted), lambda: self._task(tenant_id, task_id, wanted))

    def step(self, tenant_id: UUID, step_id: UUID) -> StepPage:
        """A step's page, without payloads; raises NotFound."""
        step = self.queries.step(tenant_id, step_id, with_payload=False)
        with self.database.tenant(tenant_id) as connection:
            return StepPage(step, _named(connection, rows_of(connection, _events(step["run_id"], step_id))))

    def _task(self, tenant_id: UUID, task_id: UUID, wanted: Wanted) -> TaskPage:
        task = self.graph.task(tenant_id, task_id, with_payload=False)
        reasons: Sequence[Reason] = ()
        if task["ended_at"] is None:
            reasons = self.asking.about(tenant_id, ids.public(ids.TASK, task_id)).reasons
        steps = self.queries.steps(
            tenant_id,
            task_id,
            node=wanted.node,
            states=(wanted.state,) if wanted.state else None,
            limit=STEPS_SHOWN,
            after=wanted.after,
        )
        run_id = task["run_id"]
        with self.database.tenant(tenant_id) as connection:
            return TaskPage(
                task,
                reasons,
                # only a run that has any is searched for them
                rows_of(connection, _lost(run_id)) if any(n["take_overs"] for n in task["nodes"]) else (),
                rows_of(connection, _refused(run_id)) if any(n["refused_writes"] for n in task["nodes"]) else (),
                steps,
                _attempts(connection, [row["step_id"] for row in steps.items]),
                _named(connection, rows_of(connection, _events(run_id))),
            )


class Remembered(Generic[T]):
    """Answers that are a moment old, one look at a time for each key: watchers must not cost a query each."""

    def __init__(self, seconds: float, most: int) -> None:
        self.seconds = seconds
        self.most = most
        self._lock = threading.Lock()
        self._known: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()
        self._looking: dict[Hashable, threading.Lock] = {}

    def get(self, key: Hashable, look: Callable[[], T]) -> T:
        """The answer for `key`, from `look` when there is none that is young enough."""
        with self._lock:
            turn = self._looking.setdefault(key, threading.Lock())
        try:
            with turn:
                with self._lock:
                    found = self._known.get(key)
                if found is not None and found[0] > monotonic():
                    return found[1]
                began = monotonic()
                answer = look()
                now = monotonic()
                # a look that is dear is kept for longer: those who watch a large run take a tenth of a core at most
                keep = max(self.seconds, min((now - began) * 10, self.seconds * 10))
                with self._lock:
                    self._known[key] = (now + keep, answer)
                    self._known.move_to_end(key)
                    while len(self._known) > self.most:
                        self._known.popitem(last=False)
                return answer
        finally:
            with self._lock:
                if not turn.locked():
                    self._looking.pop(key, None)


def _attempts(connection: Connection, steps: Sequence[UUID]) -> dict[UUID, list[Row]]:
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


def _named(connection: Connection, events: list[Row]) -> list[Row]:
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


def _lost(run_id: UUID) -> Select[Any]:
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


def _refused(run_id: UUID) -> Select[Any]:
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


def _events(run_id: UUID, step_id: UUID | None = None) -> Select[Any]:
    """The last events of a run, or of one of its steps, the newest first; of a large run only its end is looked at."""
    columns = (_EVENT.xid, _EVENT.event_id, _EVENT.at, _EVENT.kind, _EVENT.fence, _EVENT.actor, _EVENT.step_id)
    tail = select(*columns).where(_EVENT.run_id == run_id).order_by(_EVENT.xid.desc(), _EVENT.event_id.desc())
    if step_id is None:
        last = tail.limit(EVENTS_SHOWN).subquery()
    else:
        window = tail.limit(EVENTS_SCANNED).subquery()
        newest = select(window).where(window.c.step_id == step_id)
        last = newest.order_by(window.c.xid.desc(), window.c.event_id.desc()).limit(EVENTS_SHOWN).subquery()
    return (
        select(last, _STEP.node, _STEP.idx.label("index"), _STEP.fan_id)
        .select_from(last.outerjoin(tables.step, _STEP.step_id == last.c.step_id))
        .order_by(last.c.xid.desc(), last.c.event_id.desc())
    )
