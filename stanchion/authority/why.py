"""Why does it not move? From what was asked about to what really holds it; read from facts, never guessed.

Always at least one reason, those that need somebody first. What decides here are the columns, and the predicates, by
which work is handed out and taken back: so this and they can't disagree. A look takes a number of statements that does
not depend on how many steps there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, exists, select

from stanchion.contracts import ids
from stanchion.contracts.actions import act
from stanchion.db import tables
from stanchion.db.engine import Database
from stanchion.errors import Unprocessable

from . import why_around as around
from . import why_end_texts as ends
from . import why_wait_texts as texts
from . import why_waits as waits
from . import why_work as work
from .graph_view import arrived_at_barrier
from .queries import BARRIER
from .rows import Row, missing
from .why_codes import Reason, ordered
from .why_look import Look, Scope, before, inside_fan, only, whole_run
from .why_words import tsk
from .workflows import Workflows

KINDS: Final = {ids.TASK: "task", ids.RUN: "run", ids.STEP: "step", BARRIER: "barrier"}

_STEP, _BARRIER, _EVENT, _OPERATION = tables.step.c, tables.barrier.c, tables.event.c, tables.operation.c
_BARRIER_SHOWN: Final = [
    _BARRIER[name]
    for name in (
        "barrier_id",
        "run_id",
        "step_id",
        "fan_id",
        "node",
        "kind",
        "rule",
        "need",
        "expected",
        "failed",
        "skipped",
        "state",
        "released_at",
        "created_at",
    )
]
_NEAR: Final = timedelta(seconds=10)  # an event is written in the same transaction, moments later
_IDLE: Final = ("pending", "ready", "retry_wait")  # what a pause keeps from going on
_BESIDE: Final = frozenset({"W-DEADLINE", "W-OUTBOX", "W-RELAY-DOWN", "W-POISON", "W-DB", "W-BARRIER-LATE"})
_BEHIND: Final = frozenset({"W-BARRIER", "W-UPSTREAM"})
"""Reasons that only say that something else has to come first: alone they explain nothing."""


@dataclass(frozen=True, slots=True)
class Why:
    """What was asked about, how it stands, what holds it (at least one line), and what could not be checked."""

    kind: str
    id: UUID
    task_id: UUID
    state: str
    reasons: list[Reason]
    unchecked: list[str]


class Asking:
    """Under the login of the task service or of the dashboard; every call sees one tenant."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.workflows = Workflows(database)

    def about(self, tenant_id: UUID, text: str) -> Why:
        """Why the task, run, step or barrier of this id does not move; raises NotFound, Unprocessable E-DATA-11."""
        candidates = _candidates(text)
        waiting, lag = self.database.read("SELECT waiting, oldest_seconds FROM stanchion.outbox_lag()")[0]
        with self.database.tenant(tenant_id) as connection:
            walk = self._walk(connection, tenant_id)
            walk.look.waiting_messages, walk.look.lag_seconds = int(waiting), float(lag)
            for kind, value in candidates:
                found: Why | None = getattr(walk, kind)(value)
                if found is not None:
                    return found
        raise missing(candidates[0][0] if len(candidates) == 1 else "thing")

    def _walk(self, connection: Connection, tenant_id: UUID) -> _Walk:
        standing = connection.execute(around.STANDING).one()
        return _Walk(Look(connection, tenant_id, standing.now), standing, self.workflows)


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


class _Walk:
    """From one thing to what holds it, in one transaction."""

    def __init__(self, look: Look, standing: Any, workflows: Workflows) -> None:
        self.look = look
        self.standing = standing
        self.workflows = workflows

    # --- what was asked about ---

    def task(self, task_id: UUID) -> Why | None:
        task = self.look.task(task_id)
        if task is None:
            return None
        run = self._run_of(task["run_id"])
        return self._answer("task", task_id, run, task["state"], self._of_run(task, run))

    def run(self, run_id: UUID) -> Why | None:
        run = self.look.run(run_id)
        if run is None:
            return None
        return self._answer("run", run_id, run, run["state"], self._of_run(self._task_of(run), run))

    def step(self, step_id: UUID) -> Why | None:
        step = self.look.step(step_id)
        if step is None:
            return None
        run = self._run_of(step["run_id"])
        reasons = [*self._of_step(step, run), *waits.late(self.look, step)]
        if step["state"] in waits.ENDED:
            reasons += waits.doubts(self.look, run, only(step))
        else:
            reasons += work.deadlines(self.look, run, None, step) if run["ended_at"] is None else []
            reasons += around.damage(self.look, run, step_id)
            if not _explained(reasons):
                reasons.append(
                    ends.damaged(run, f"{step['node']} is {step['state']}, and no row says how it goes on", step_id)
                )
        return self._answer("step", step_id, run, step["state"], reasons)

    def barrier(self, barrier_id: UUID) -> Why | None:
        found = self.look.first(
            select(*_BARRIER_SHOWN, arrived_at_barrier().label("arrived")).where(_BARRIER.barrier_id == barrier_id)
        )
        if found is None:
            return None
        run = self._run_of(found["run_id"])
        if found["state"] != "waiting":
            held = self.look.step(found["step_id"]) if found["state"] == "failed" and found["step_id"] else None
            reasons = [ends.decided(self.look, found, self._skipped(held))]
            if found["state"] == "released" and found["kind"] == "gather":
                reasons += waits.late_at(self.look, found)
        else:
            reasons = self._of_barrier(found, run)
        return self._answer("barrier", barrier_id, run, found["state"], reasons)

    def _answer(self, kind: str, value: UUID, run: Row, state: str, reasons: list[Reason]) -> Why:
        reasons += around.database(self.look, self.standing)
        return Why(kind, value, run["task_id"], state, ordered(reasons), self.look.unchecked)

    def _run_of(self, run_id: UUID) -> Row:
        run = self.look.run(run_id)
        assert run is not None, "what belongs to a run is removed with it"
        return run

    def _task_of(self, run: Row) -> Row:
        task = self.look.task(run["task_id"])
        assert task is not None, "a run is removed with its task"
        return task

    # --- what can hold it ---

    def _of_run(self, task: Row, run: Row) -> list[Reason]:
        scope = whole_run(run["run_id"])
        if run["ended_at"] is not None:
            return self._of_ended(task, run, scope)
        at_work = self._active(run, scope)
        reasons = [*waits.winding(self.look, run), *at_work]
        reasons += self._paused(run, sum(r.details["steps"] for r in at_work if r.code == "W-LEASE"))
        reasons += around.damage(self.look, run)
        if not _explained(reasons):
            reasons.append(ends.damaged(run, "nothing of it is ready, leased, due, or asked of anybody"))
        if run["state"] != "cancelling":
            reasons += work.deadlines(self.look, run, task, None)
        return [*reasons, *around.poison(self.look, run), *around.pace(self.look, run, reasons)]

    def _of_ended(self, task: Row, run: Row, scope: Scope) -> list[Reason]:
        """What has ended; an effect of it that is in doubt, or being undone, is still somebody's business."""
        reasons = [ends.ended(self.look, task, run), *waits.doubts(self.look, run, scope)]
        undoable = exists().where(_OPERATION.run_id == run["run_id"], _OPERATION.undo_kind.is_not(None))
        if self.look.rows(select(undoable.label("undoable")))[0]["undoable"]:
            undo = Scope(scope.steps & (_STEP.kind == "undo"), scope.barriers)
            reasons += work.ready(self.look, run, undo)
            reasons += [*work.leases(self.look, run, undo), *work.retries(self.look, run, undo)]
        return reasons

    def _active(self, run: Row, scope: Scope) -> list[Reason]:
        """All that is under way, or waits for something outside of the run, among some steps."""
        started = [*work.ready(self.look, run, scope), *work.planning(self.look, run, scope)]
        if started:
            started += around.messages(self.look)
        return [
            *started,
            *work.leases(self.look, run, scope),
            *work.retries(self.look, run, scope),
            *waits.doubts(self.look, run, scope),
            *waits.approvals(self.look, scope),
            *waits.barriers(self.look, run, scope),
        ]

    def _of_step(self, step: Row, run: Row) -> list[Reason]:
        if step["state"] == "failed":
            return [self._failed(step, run)]
        if step["state"] in waits.ENDED:
            return [ends.settled(self.look, step, self._skipped(step))]
        reasons = waits.winding(self.look, run) if step["kind"] != "undo" else []
        if step["kind"] == "fan" or (step["state"] in _IDLE and step["kind"] != "undo"):
            reasons += self._paused(run)
        if step["state"] == "pending":
            return reasons + self._before(step, run, waits.barriers(self.look, run, only(step)))
        if step["kind"] == "fan":
            joins = Scope(only(step).steps, _BARRIER.fan_id == step["step_id"])
            return reasons + self._inside(step, run, waits.barriers(self.look, run, joins))
        return [*reasons, *self._active(run, only(step))]

    def _inside(self, fan: Row, run: Row, joins: list[Reason]) -> list[Reason]:
        """Beside its joins what the branches of a fan-out do; before it has opened, what it waits for itself."""
        if fan["state"] == "pending":
            return self._before(fan, run, joins)
        inside = inside_fan(run["run_id"], fan["step_id"])
        return [*joins, *work.planning(self.look, run, only(fan)), *self._active(run, inside)]

    def _before(self, step: Row, run: Row, joins: list[Reason]) -> list[Reason]:
        """Beside its joins what a pending step waits for, and what holds that in turn."""
        graph = self.workflows.get(run["workflow"], run["workflow_version"])
        scope = before(graph, step)
        reasons = [*joins, *waits.upstream(self.look, graph, step, scope), *self._active(run, scope)]
        if any(reason.code == "W-HELD" for reason in reasons) or run["state"] == "cancelling":
            return reasons
        # its branch may stand still since an earlier step of it failed, and a join further out holds for that
        failed = self.look.a_step(scope.steps & (_STEP.state == "failed") & _STEP.holds)
        if failed is not None and self._held_around(failed) is not None:
            reasons.append(self._failed(failed, run))
        return reasons

    def _of_barrier(self, barrier: Row, run: Row) -> list[Reason]:
        own = Scope(_STEP.step_id == barrier["step_id"], _BARRIER.barrier_id == barrier["barrier_id"])
        reasons = [*waits.winding(self.look, run), *self._paused(run)]
        joins = waits.barriers(self.look, run, own)
        step = self.look.step(barrier["fan_id"] or barrier["step_id"])
        assert step is not None, "a barrier is removed with what it holds"
        reasons += self._inside(step, run, joins) if step["kind"] == "fan" else self._before(step, run, joins)
        reasons += around.damage(self.look, run, barrier["barrier_id"])
        if not _explained(reasons):
            reasons.append(ends.damaged(run, "nothing that the join waits for is under way"))
        return reasons

    def _paused(self, run: Row, held: int = 0) -> list[Reason]:
        if run["paused_at"] is None or run["ended_at"] is not None:
            return []
        by = self.look.first(
            select(_EVENT.actor).where(
                _EVENT.run_id == run["run_id"], _EVENT.at == run["paused_at"], _EVENT.kind == "RunPaused"
            )
        )
        return [texts.paused(self.look, run, by["actor"] if by else None, held)]

    def _failed(self, step: Row, run: Row) -> Reason:
        """A step that failed for good: what can still be done depends on its run, and on the joins over it."""
        attempt = tables.attempt.c
        found = self.look.first(
            select(attempt.error)
            .where(attempt.step_id == step["step_id"], attempt.error.is_not(None))
            .order_by(attempt.fence.desc())
        )
        error = found["error"] if found else None
        if run["ended_at"] is not None:
            task = self._task_of(run)
            if task["run_id"] == run["run_id"] and task["state"] != "completed":
                return ends.failed(self.look, step, error, "", (act("task.retry", tsk(run)),), None)
            then = f"Nothing; the task is {task['state']}, in run {task['runs']}."
            return ends.failed(self.look, step, error, then, (), None)
        held = self._held_around(step) if run["state"] != "cancelling" else None
        if held is None:
            then = "Nothing: it stays failed; its run goes on without it, or ends."
            return ends.failed(self.look, step, error, then, (), None)
        return ends.failed(self.look, step, error, "", (ends.way_out(step, run, held),), held)

    def _held_around(self, step: Row) -> Row | None:
        """The join that waits for a decision about this step's branch, and whether the step itself may be reopened."""
        fan_id, is_own = step["fan_id"], True
        while fan_id is not None:
            waiting = (_BARRIER.fan_id == fan_id, _BARRIER.state == "waiting", _BARRIER.on_failed == "hold")
            columns = (_BARRIER.barrier_id, _BARRIER.node)
            found = self.look.first(select(*columns).where(*waiting).order_by(_BARRIER.barrier_id))
            if found:
                return found | {"is_own": is_own and step["holds"]}
            outer = self.look.step(fan_id)
            fan_id, is_own = (outer["fan_id"] if outer else None), False
        return None

    def _skipped(self, step: Row | None) -> Any:
        """Why a step was skipped: what the event of that says."""
        if step is None or step["state"] != "skipped":
            return None
        around_then = _EVENT.at.between(step["updated_at"] - _NEAR, step["updated_at"] + _NEAR)
        which = (_EVENT.run_id == step["run_id"], _EVENT.step_id == step["step_id"], _EVENT.kind == "StepSkipped")
        found = self.look.first(select(_EVENT.body).where(around_then, *which))
        return found["body"] if found else None


def _explained(reasons: list[Reason]) -> bool:
    """Whether anything in it is more than the consequence of something else."""
    return any(reason.code not in _BESIDE | _BEHIND for reason in reasons)
