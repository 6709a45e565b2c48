"""What could run, what runs, and what is due: ready steps and their workers, leases, retries, fan-outs to be made."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from sqlalchemy import Text, and_, cast, func, or_, select

from stanchion.db import tables

from . import why_pipeline
from . import why_texts as texts
from .rows import Row
from .why_codes import Reason
from .why_look import SHOWN, Look, Scope, may_be_leased, seen_lately

UNTAKEN_OFFERS: Final = 4  # after 5, 10 and 20 s a step was offered again: a worker with a free slot took it long ago
COUNTED: Final = 10_000
WORKERS_READ: Final = 2_000
SILENT_SECONDS: Final = 15  # three reports of its presence are missing
PACE_SECONDS: Final = 10
PACE_ROWS: Final = 5_000

_STEP, _READY, _WORKER = tables.step.c, tables.ready.c, tables.worker.c
_ATTEMPT, _TIMER, _EVENT = tables.attempt.c, tables.timer.c, tables.event.c


def ready(look: Look, run: Row, scope: Scope) -> list[Reason]:
    """Ready steps (and probes that are due) by queue and version: nobody serves them, or they wait their turn."""
    groups = look.rows(_ready_groups(scope.steps & may_be_leased(run)))
    if not groups:
        return []
    reasons, groups = why_pipeline.held_back(look, groups)
    workers = look.rows(_workers_of(look, run, {group["queue"] for group in groups})) if groups else []
    for group in groups:
        reasons += _ready_group(look, group, workers)
    return reasons


def _ready_groups(which: Any) -> Any:
    columns = (_READY.queue, _READY.workflow, _READY.workflow_version)
    return (
        select(
            *columns,
            func.count().label("count"),
            func.count().filter(_STEP.state == "unknown").label("probes"),
            func.count().filter(_STEP.losses > 1).label("suspects"),
            func.min(_READY.since).label("since"),
            func.max(_READY.priority).label("priority"),
            func.max(_READY.offers).label("offers"),
            func.any_value(_READY.node).label("node"),
            func.any_value(_READY.step_id).label("step_id"),
        )
        .select_from(tables.step.join(tables.ready, _READY.step_id == _STEP.step_id))
        .where(which)
        .group_by(*columns)
        .order_by(func.min(_READY.since))
        .limit(SHOWN)
    )


def _workers_of(look: Look, run: Row, queues: set[str]) -> Any:
    """Workers of these queues that serve this tenant: those that are there, and those that were."""
    mine = or_(_WORKER.tenants.is_(None), _WORKER.tenants.contains([run["tenant_id"]]))
    shown = ("worker_id", "name", "queues", "workflows", "slots", "running", "state", "seen_at")
    return (
        select(*(_WORKER[name] for name in shown), seen_lately(look.now).label("alive"))
        .where(_WORKER.queues.overlap(sorted(queues)), mine)
        .order_by(_WORKER.seen_at.desc())
        .limit(WORKERS_READ)
    )


def _ready_group(look: Look, group: Row, workers: list[Row]) -> list[Reason]:
    wanted = f"{group['workflow']}@{group['workflow_version']}"
    here = [w for w in workers if group["queue"] in w["queues"]]
    alive = [w for w in here if w["alive"]]
    able = [w for w in alive if wanted in w["workflows"]]
    if not able:
        had = [w for w in here if wanted in w["workflows"]]
        return [texts.no_worker(look, group, alive, had[0] if had else None)]
    slots, busy = sum(w["slots"] for w in able), sum(min(w["running"], w["slots"]) for w in able)
    if busy < slots:
        if group["offers"] >= UNTAKEN_OFFERS:
            return [texts.untaken(group, able, slots, busy)]
        return [texts.placed(look, group, able, slots, busy)]
    return _in_line(look, group, able, slots)


def _in_line(look: Look, group: Row, able: list[Row], slots: int) -> list[Reason]:
    """All slots are busy: how many of this tenant are before these, and how fast its steps go."""
    higher, ahead = _ahead(look, group, sorted({one for worker in able for one in worker["workflows"]}))
    look.could_not(f"what other tenants have in queue {group['queue']}: only their own people see it")
    found = [texts.capacity(group, able, slots, ahead, _pace(look, group["queue"]))]
    return [texts.priority(group, higher), *found] if higher else found


def _ahead(look: Look, group: Row, served: list[str]) -> tuple[int, int]:
    """What of this tenant the same workers take before: of a higher priority, and in all; up to COUNTED."""
    higher = _READY.priority > group["priority"]
    definition = _READY.workflow + "@" + cast(_READY.workflow_version, Text)
    earlier = (_READY.priority == group["priority"]) & (_READY.since < group["since"])
    window = (
        select(higher.label("higher"))
        .where(_READY.queue == group["queue"], or_(higher, earlier), definition.in_(served))
        .limit(COUNTED)
    ).subquery()
    row = look.rows(
        select(func.count().filter(window.c.higher).label("higher"), func.count().label("ahead")).select_from(window)
    )
    return int(row[0]["higher"]), int(row[0]["ahead"])


def _pace(look: Look, queue: str) -> float:
    """How many of this tenant's steps of a queue ended in a second, lately; 0 when none did, or more than are counted."""
    lately = _EVENT.at > look.now - timedelta(seconds=PACE_SECONDS)
    window = (
        select(_EVENT.step_id)
        .where(lately, _EVENT.kind.in_(("StepSucceeded", "StepFailed")))
        .limit(PACE_ROWS)
        .subquery()
    )
    joined = window.join(tables.step, window.c.step_id == _STEP.step_id)
    counts = select(func.count().filter(_STEP.queue == queue).label("count"), func.count().label("all")).select_from(
        joined
    )
    row = look.rows(counts)[0]
    if row["all"] >= PACE_ROWS:
        look.could_not(f"how fast queue {queue} goes: more than {PACE_ROWS:,} steps ended in the last {PACE_SECONDS} s")
        return 0.0
    return float(row["count"]) / PACE_SECONDS


def leases(look: Look, run: Row, scope: Scope) -> list[Reason]:
    """What is at work, one line a node; and what is lost, or about to be under silent workers."""
    joined = tables.step.join(
        tables.attempt, and_(_ATTEMPT.step_id == _STEP.step_id, _ATTEMPT.fence == _STEP.fence)
    ).outerjoin(tables.worker, _WORKER.worker_id == _ATTEMPT.worker_id)
    expired = _ATTEMPT.lease_until < look.now
    silent = func.coalesce(
        (_WORKER.seen_at < look.now - timedelta(seconds=SILENT_SECONDS)) | (_WORKER.state == "gone"), False
    )
    held = and_(scope.steps, _STEP.state.in_(("leased", "running", "reconciling")), _ATTEMPT.ended_at.is_(None))
    facts = (
        func.count().label("count"),
        func.count(_ATTEMPT.worker_id.distinct()).label("workers"),
        func.min(_ATTEMPT.granted_at).label("since"),
        func.min(_ATTEMPT.lease_until).label("lease_until"),
        func.min(_ATTEMPT.deadline_at).label("deadline_at"),
        func.max(_ATTEMPT.number).label("number"),
        func.max(_STEP.fence).label("fence"),
        func.min(_WORKER.seen_at).label("seen_at"),
        func.any_value(_STEP.step_id).label("step_id"),
        func.any_value(_STEP.node).label("node"),
        func.any_value(_ATTEMPT.worker_id).label("worker_id"),
        func.any_value(_WORKER.name).label("name"),
        func.any_value(_WORKER.state).label("state"),
    )
    chosen = select(*facts, expired.label("expired")).select_from(joined)
    lost = chosen.where(held, or_(expired, silent)).group_by("expired").order_by(func.min(_ATTEMPT.lease_until))
    well = chosen.where(held, ~expired, ~silent, _STEP.state != "reconciling").group_by("expired", _STEP.node)
    well = well.order_by(func.min(_ATTEMPT.granted_at)).limit(SHOWN)
    gone = [texts.lost(look, row) for row in look.rows(lost)]
    return gone + [texts.lease(look, run, row) for row in look.rows(well)]


def retries(look: Look, run: Row, scope: Scope) -> list[Reason]:
    """Steps between two attempts: how many, and of the next one when and why."""
    joined = tables.step.join(tables.timer, and_(_TIMER.target_id == _STEP.step_id, _TIMER.kind == "retry"))
    which = and_(scope.steps, _STEP.state == "retry_wait")
    if run["state"] == "cancelling":
        which &= _STEP.kind == "undo"  # the others are cancelled in a moment
    error = (
        select(_ATTEMPT.error)
        .where(_ATTEMPT.step_id == _STEP.step_id, _ATTEMPT.error.is_not(None))
        .order_by(_ATTEMPT.fence.desc())
        .limit(1)
        .correlate(tables.step)
        .scalar_subquery()
    )
    shown = [_STEP[name] for name in ("step_id", "node", "attempts", "max_attempts", "updated_at")]
    row = look.first(
        select(*shown, _TIMER.due_at, error.label("error"), func.count().over().label("count"))
        .select_from(joined)
        .where(which)
        .order_by(_TIMER.due_at)
    )
    return [texts.retry(look, run, row)] if row else []


def planning(look: Look, run: Row, scope: Scope) -> list[Reason]:
    """Fan-outs whose children are not all there."""
    if run["state"] == "cancelling":
        return []
    joined = tables.step.join(tables.timer, and_(_TIMER.target_id == _STEP.step_id, _TIMER.kind == "expand"))
    found = look.rows(
        select(
            _STEP.node,
            func.count().label("count"),
            func.min(_TIMER.due_at).label("since"),
            func.any_value(_STEP.step_id).label("step_id"),
        )
        .select_from(joined)
        .where(scope.steps)
        .group_by(_STEP.node)
        .limit(SHOWN)
    )
    if found:
        look.could_not("whether an orchestrator is at work: none leaves a row; only what it leaves undone shows")
    return [texts.planning(look, run, row) for row in found]


def deadlines(look: Look, run: Row, task: Row | None, step: Row | None) -> list[Reason]:
    """The time at which the task or the step ends, finished or not."""
    kinds = ("task_deadline",) if step is None else ("start_deadline", "step_deadline")
    target = step["step_id"] if step is not None else task["task_id"] if task is not None else None
    found = look.rows(
        select(_TIMER.kind, _TIMER.due_at, _TIMER.run_id)
        .where(_TIMER.target_id == target, _TIMER.kind.in_(kinds), _TIMER.run_id == run["run_id"])
        .order_by(_TIMER.due_at)
    )
    return [texts.deadline(look, run, row) for row in found]
