"""Why does it not move? Every reason that holds now, those that need somebody first; read from facts, never guessed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, any_, exists, func, select

from stanchion.contracts import ids, limits
from stanchion.contracts.failures import told
from stanchion.db import tables
from stanchion.db.engine import Database
from stanchion.errors import Unprocessable

from . import why_pipeline, why_texts
from .graph_view import arrived_at_barrier
from .queries import BARRIER, rows_of
from .rows import Row, missing
from .why_codes import Reason

LAG_SECONDS: Final = 5.0  # younger messages are on their way
UNTAKEN_OFFERS: Final = 4  # after 5, 10 and 20 s a step was offered again: a worker with a free slot took it long ago
STALLED_SECONDS: Final = 60  # a fan-out whose next chunk is due for so long is not planned any more
SHOWN: Final = 20  # of one kind: 10,000 running children are one line
COUNTED: Final = 10_000

KINDS: Final = {ids.TASK: "task", ids.RUN: "run", ids.STEP: "step", BARRIER: "barrier"}

_TASK, _RUN, _STEP = tables.task.c, tables.run.c, tables.step.c
_BARRIER, _ATTEMPT, _TIMER = tables.barrier.c, tables.attempt.c, tables.timer.c
_READY, _WORKER, _OPERATION = tables.ready.c, tables.worker.c, tables.operation.c
_APPROVAL, _VOTE = tables.approval.c, tables.approval_vote.c

# By name: a column that a later release adds must not be asked of an earlier schema.
_TASK_SHOWN = [_TASK[name] for name in ("task_id", "run_id", "state", "deadline_at")]
_RUN_SHOWN = [
    _RUN[name]
    for name in ("run_id", "tenant_id", "task_id", "state", "outcome", "reason", "paused_at", "updated_at", "ended_at")
]
_STEP_SHOWN = [_STEP[name] for name in ("step_id", "run_id", "fan_id", "node", "state", "waits", "holds", "updated_at")]
_BARRIER_SHOWN = [
    _BARRIER[name]
    for name in (
        "barrier_id",
        "run_id",
        "node",
        "kind",
        "rule",
        "need",
        "expected",
        "failed",
        "skipped",
        "on_failed",
        "state",
        "deadline_at",
        "created_at",
    )
]


@dataclass(frozen=True, slots=True)
class Why:
    """What was asked about, how it stands, and the reasons why it does not go on (none: it moves, or is done)."""

    kind: str
    id: UUID
    task_id: UUID
    state: str
    reasons: list[Reason]


class Asking:
    """Under the task service's login; every call sees one tenant."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def about(self, tenant_id: UUID, text: str) -> Why:
        """Why the task, run, step or barrier of this id does not move; raises NotFound, Unprocessable E-DATA-11."""
        candidates = _candidates(text)
        lag = self._outbox_lag()
        with self.database.tenant(tenant_id) as connection:
            for kind, value in candidates:
                look = getattr(_Look(connection, lag), kind)
                found: Why | None = look(value)
                if found is not None:
                    return found
        raise missing(candidates[0][0] if len(candidates) == 1 else "thing")

    def _outbox_lag(self) -> float:
        return float(self.database.read("SELECT oldest_seconds FROM stanchion.outbox_lag()")[0][0])


def _candidates(text: str) -> list[tuple[str, UUID]]:
    prefix = text.partition("_")[0].lower()
    if prefix in KINDS and "_" in text:
        return [(KINDS[prefix], ids.parse(text, prefix))]
    if "_" in text or "-" not in text:
        raise Unprocessable(
            "E-DATA-11",
            "this is no id of a task, run, step or barrier",
            fix="copy the id as it was shown: " + ", ".join(f"{prefix}_..." for prefix in KINDS),
        )
    value = ids.parse(text, ids.TASK)
    return [(kind, value) for kind in KINDS.values()]


class _Look:
    """One look at one thing, in one transaction."""

    def __init__(self, connection: Connection, lag: float) -> None:
        self.connection = connection
        self.lag = lag
        self.now = func.stanchion.clock()

    def rows(self, statement: Any) -> list[Row]:
        return rows_of(self.connection, statement)

    # --- what was asked about ---

    def task(self, task_id: UUID) -> Why | None:
        found = self.rows(select(*_TASK_SHOWN).where(_TASK.task_id == task_id))
        if not found:
            return None
        task = found[0]
        return Why("task", task_id, task_id, task["state"], self._of_run(task, task["run_id"]))

    def run(self, run_id: UUID) -> Why | None:
        found = self.rows(select(*_RUN_SHOWN).where(_RUN.run_id == run_id))
        if not found:
            return None
        task = self.rows(select(*_TASK_SHOWN).where(_TASK.task_id == found[0]["task_id"]))[0]
        return Why("run", run_id, task["task_id"], found[0]["state"], self._of_run(task, run_id))

    def step(self, step_id: UUID) -> Why | None:
        found = self.rows(select(*_STEP_SHOWN).where(_STEP.step_id == step_id))
        if not found:
            return None
        step = found[0]
        run = self.rows(select(*_RUN_SHOWN).where(_RUN.run_id == step["run_id"]))[0]
        this = _STEP.step_id == step_id
        reasons: list[Reason] = []
        if step["state"] in ("pending", "ready", "retry_wait", "leased", "running", "waiting"):
            reasons += why_texts.paused(run)
        if step["state"] == "pending":
            reasons += self._barriers(run, _BARRIER.step_id == step_id)
            if not reasons:
                reasons.append(
                    Reason("W-STEP", f"{step['node']} waits for {step['waits']} more of what it comes after")
                )
        reasons += [*self._ready(run, this), *self._leases(run, this), *self._retries(run, this)]
        reasons += [*self._planning(run, this), *self._doubts(this), *self._approvals(this)]
        if step["state"] == "failed":
            reasons += self._failed_step(step, run)
        return Why("step", step_id, run["task_id"], step["state"], why_texts.ordered(reasons))

    def barrier(self, barrier_id: UUID) -> Why | None:
        found = self.rows(select(*_BARRIER_SHOWN).where(_BARRIER.barrier_id == barrier_id))
        if not found:
            return None
        run = self.rows(select(*_RUN_SHOWN).where(_RUN.run_id == found[0]["run_id"]))[0]
        reasons = self._barriers(run, _BARRIER.barrier_id == barrier_id)
        if found[0]["state"] == "waiting":
            reasons += why_texts.paused(run)
        return Why("barrier", barrier_id, run["task_id"], found[0]["state"], why_texts.ordered(reasons))

    # --- what can hold a run ---

    def _of_run(self, task: Row, run_id: UUID) -> list[Reason]:
        run = self.rows(select(*_RUN_SHOWN).where(_RUN.run_id == run_id))[0]
        if run["ended_at"] is not None:
            return why_texts.ended(task, run)
        mine = _STEP.run_id == run_id
        reasons = [
            *why_texts.paused(run),
            *self._winding(run),
            *self._ready(run, mine),
            *self._leases(run, mine),
            *self._retries(run, mine),
            *self._doubts(mine),
            *self._approvals(mine),
            *self._planning(run, mine),
            *self._barriers(run, _BARRIER.run_id == run_id),
        ]
        if self.lag > LAG_SECONDS:
            reasons.append(
                Reason(
                    "W-OUTBOX",
                    f"the oldest message that waits to be published is {self.lag:.0f} s old",
                    fix=("stanchion doctor",),
                    details={"seconds": round(self.lag, 1)},
                )
            )
        if task["deadline_at"] is not None:
            reasons.append(Reason("W-DEADLINE", "the task ends at its deadline", until=task["deadline_at"]))
        return why_texts.ordered(reasons)

    def _winding(self, run: Row) -> list[Reason]:
        if run["state"] != "cancelling":
            return []
        held = _STEP.state.in_(("leased", "running"))
        count = self.connection.execute(select(func.count()).where(_STEP.run_id == run["run_id"], held)).scalar()
        what = "it was cancelled" if run["outcome"] == "cancelled" else "it has failed"
        text = f"{what} and is winding down" + (f": {count} steps still run and get their grace" if count else "")
        return [Reason("W-WINDING", text, since=run["updated_at"], details={"running": count})]

    def _ready(self, run: Row, which: Any) -> list[Reason]:
        """Ready steps by queue and version: nobody serves them, or they wait their turn."""
        groups = self.rows(
            select(
                _READY.queue,
                _READY.workflow,
                _READY.workflow_version,
                func.count().label("count"),
                func.min(_READY.since).label("since"),
                func.max(_READY.priority).label("priority"),
                func.max(_READY.offers).label("offers"),
            )
            .select_from(tables.step.join(tables.ready, _READY.step_id == _STEP.step_id))
            .where(which)
            .group_by(_READY.queue, _READY.workflow, _READY.workflow_version)
            .limit(SHOWN)
        )
        starts = run["paused_at"] is None and run["state"] in ("created", "running")
        held, groups = why_pipeline.held_back(self.connection, groups) if starts else ([], [])
        return [*held, *(self._ready_group(run, group) for group in groups)]

    def _ready_group(self, run: Row, group: Row) -> Reason:
        definition = f"{group['workflow']}@{group['workflow_version']}"
        seen = _WORKER.seen_at > self.now - func.make_interval(0, 0, 0, 0, 0, 0, limits.WORKER_SEEN_SECONDS)
        alive = (_WORKER.state == "active") & seen & _WORKER.queues.contains([group["queue"]])
        alive &= _WORKER.tenants.is_(None) | _WORKER.tenants.contains([run["tenant_id"]])
        both = select(func.count(), func.sum(_WORKER.slots), func.sum(_WORKER.running))
        row = self.connection.execute(both.where(alive, _WORKER.workflows.contains([definition]))).one()
        workers, slots, running = (int(number or 0) for number in row)
        what = f"{group['count']} ready {'step' if group['count'] == 1 else 'steps'} in queue {group['queue']}"
        details = {"queue": group["queue"], "workflow": definition, "ready": group["count"], "workers": workers}
        if not workers:
            others = self.connection.execute(select(func.count()).where(alive)).scalar()
            why = f"none of {others} on this queue has registered {definition}" if others else "none serves this queue"
            fix = (f"stanchion worker run <module with {group['workflow']}>", "stanchion worker list")
            return Reason("W-WORKER", f"no worker for {what}: {why}", group["since"], fix=fix, details=details)
        ahead = self._ahead(group)
        if group["offers"] >= UNTAKEN_OFFERS and running < slots:
            text = f"{what} were offered {group['offers']} times and not taken; {slots - running} of {slots} slots are free"
            ways = ("stanchion doctor", "stanchion dead list", f"stanchion worker drain <one that serves {definition}>")
            details |= {"offers": group["offers"], "free": slots - running}
            return Reason("W-UNTAKEN", text, group["since"], fix=ways, details=details)
        text = f"{what}, {ahead:,}{'+' if ahead >= COUNTED else ''} before them; {workers} workers serve it"
        return Reason("W-QUEUE", text, group["since"], details=details | {"ahead": ahead})

    def _ahead(self, group: Row) -> int:
        """What of this tenant comes before in the queue; what others have in it is not this tenant's to know."""
        earlier = (_READY.priority > group["priority"]) | (
            (_READY.priority == group["priority"]) & (_READY.since < group["since"])
        )
        window = select(_READY.step_id).where(_READY.queue == group["queue"], earlier).limit(COUNTED).subquery()
        return int(self.connection.execute(select(func.count()).select_from(window)).scalar() or 0)

    def _leases(self, run: Row, which: Any) -> list[Reason]:
        found = self.rows(
            select(
                _WORKER.name,
                _ATTEMPT.worker_id,
                (_ATTEMPT.lease_until < self.now).label("expired"),
                func.count().label("count"),
                func.min(_ATTEMPT.granted_at).label("since"),
                func.max(_ATTEMPT.lease_until).label("until"),
            )
            .select_from(
                tables.step.join(
                    tables.attempt, (_ATTEMPT.step_id == _STEP.step_id) & (_ATTEMPT.fence == _STEP.fence)
                ).outerjoin(tables.worker, _WORKER.worker_id == _ATTEMPT.worker_id)
            )
            .where(which, _STEP.state.in_(("leased", "running")), _ATTEMPT.ended_at.is_(None))
            .group_by(_WORKER.name, _ATTEMPT.worker_id, "expired")
            .order_by(func.min(_ATTEMPT.granted_at))
            .limit(SHOWN)
        )
        return [why_texts.lease(row) for row in found] if run["ended_at"] is None else []

    def _retries(self, run: Row, which: Any) -> list[Reason]:
        joined = tables.step.join(tables.timer, (_TIMER.target_id == _STEP.step_id) & (_TIMER.kind == "retry"))
        found = self.rows(
            select(
                func.count().label("count"),
                func.min(_TIMER.due_at).label("due"),
                func.min(_STEP.updated_at).label("since"),
            )
            .select_from(joined)
            .where(which, _STEP.state == "retry_wait")
        )[0]
        if not found["count"] or run["state"] == "cancelling":
            return []
        text = f"{found['count']} {'step waits' if found['count'] == 1 else 'steps wait'} for the next attempt"
        return [Reason("W-RETRY", text, found["since"], found["due"], details={"steps": found["count"]})]

    def _doubts(self, which: Any) -> list[Reason]:
        """Operations of unknown fate: they are asked after, or only a person can tell."""
        due = select(func.min(_TIMER.due_at)).where(_TIMER.target_id == _STEP.step_id, _TIMER.kind == "probe")
        asked = (
            exists().where(_READY.step_id == _STEP.step_id)
            | exists().where(_TIMER.target_id == _STEP.step_id, _TIMER.kind == "probe")
            | (_STEP.state != "unknown")
        )
        found = self.rows(
            select(
                *(_OPERATION[name] for name in ("operation_id", "kind", "unknown_since", "probes")),
                due.scalar_subquery().label("due"),
                asked.label("asked"),
            )
            .select_from(tables.step.join(tables.operation, _OPERATION.step_id == _STEP.step_id))
            .where(which, _OPERATION.state == "unknown")
            .order_by(_OPERATION.unknown_since)
            .limit(SHOWN)
        )
        return [why_texts.doubt(row) for row in found]

    def _approvals(self, which: Any) -> list[Reason]:
        approved = select(func.count()).where(_VOTE.approval_id == _APPROVAL.approval_id, _VOTE.vote == "approve")
        shown = ("approval_id", "node", "people", "teams", "needs", "created_at", "expires_at")
        joined = tables.step.join(
            tables.approval, (_APPROVAL.step_id == _STEP.step_id) & (_APPROVAL.fence == _STEP.fence)
        )
        found = self.rows(
            select(*(_APPROVAL[name] for name in shown), approved.scalar_subquery().label("approved"))
            .select_from(joined)
            .where(which, _STEP.state == "waiting", _APPROVAL.state == "requested")
            .order_by(_APPROVAL.approval_id)
            .limit(SHOWN)
        )
        return [why_texts.approval(row) for row in found]

    def _planning(self, run: Row, which: Any) -> list[Reason]:
        joined = tables.step.join(tables.timer, (_TIMER.target_id == _STEP.step_id) & (_TIMER.kind == "expand"))
        late = self.now - func.make_interval(0, 0, 0, 0, 0, 0, STALLED_SECONDS)
        since = func.min(_TIMER.due_at)
        found = self.rows(
            select(_STEP.node, since.label("since"), (since < late).label("late"))
            .select_from(joined)
            .where(which)
            .group_by(_STEP.node)
        )
        return [why_texts.planning(row, run) for row in found] if run["state"] != "cancelling" else []

    def _barriers(self, run: Row, which: Any) -> list[Reason]:
        """Joins that wait; of those with on_failed=hold what holds them.

        That is failed steps of their branches, and branches that an inner join ended: these can't be reopened.
        """
        branches = select(func.count()).where(_STEP.fan_id == _BARRIER.fan_id).correlate(tables.barrier)
        failed = branches.where(_STEP.state == "failed").scalar_subquery()
        lost = branches.where(_STEP.spoiled, _BARRIER.barrier_id == any_(_STEP.feeds)).scalar_subquery()
        inner = tables.barrier.alias("inner_join")
        ended = (
            select(func.min(inner.c.node))
            .select_from(inner.join(tables.step, _STEP.step_id == inner.c.step_id))
            .where(_STEP.fan_id == _BARRIER.fan_id, inner.c.kind == "gather", inner.c.state == "failed")
            .correlate(tables.barrier)
            .scalar_subquery()
        )
        holding = (failed.label("holding"), lost.label("lost"), ended.label("inner"))
        found = self.rows(
            select(*_BARRIER_SHOWN, arrived_at_barrier().label("arrived"), *holding)
            .where(which, _BARRIER.state == "waiting", _BARRIER.step_id.is_not(None))
            .order_by(_BARRIER.kind.desc(), _BARRIER.barrier_id)
            .limit(SHOWN)
        )
        return [why_texts.barrier(row, run) for row in found] if run["state"] in ("created", "running") else []

    def _failed_step(self, step: Row, run: Row) -> list[Reason]:
        error = self.connection.execute(
            select(_ATTEMPT.error)
            .where(_ATTEMPT.step_id == step["step_id"], _ATTEMPT.error.is_not(None))
            .order_by(_ATTEMPT.fence.desc())
            .limit(1)
        ).scalar()
        what = told(error)
        task = ids.public(ids.TASK, run["task_id"])
        text = f"it failed{f': {what}' if what else ''}"
        if run["state"] not in ("created", "running"):
            return [Reason("W-ENDED", text, step["updated_at"], fix=(f"stanchion task retry {task}",))]
        held = self._held_around(step)
        if held is None:
            return [Reason("W-ENDED", text, step["updated_at"])]
        barrier, is_own = held
        fix = f'stanchion task reopen {task} --node {step["node"]} --reason "..."'
        if not is_own:
            text += f"; the join over it is decided, and its branch holds the one before {barrier['node']}"
            fix = f'stanchion task open-barrier {ids.public(BARRIER, barrier["barrier_id"])} --reason "..."'
        return [Reason("W-ENDED", text, step["updated_at"], fix=(fix,))]

    def _held_around(self, step: Row) -> tuple[Row, bool] | None:
        """The join that waits for a decision about this step's branch, and whether the step itself may be reopened."""
        fan_id, is_own = step["fan_id"], True
        while fan_id is not None:
            waiting = (_BARRIER.fan_id == fan_id, _BARRIER.state == "waiting", _BARRIER.on_failed == "hold")
            columns = (_BARRIER.barrier_id, _BARRIER.node)
            found = self.rows(select(*columns).where(*waiting).order_by(_BARRIER.barrier_id).limit(1))
            if found:
                return found[0], is_own and step["holds"]
            outer = self.rows(select(_STEP.fan_id).where(_STEP.step_id == fan_id))
            fan_id, is_own = (outer[0]["fan_id"] if outer else None), False
        return None
