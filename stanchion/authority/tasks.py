"""What may be asked of a task after it was accepted; each call is one transaction with its entry in the audit log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb
from sqlalchemy import Connection, case, func, select

from stanchion.contracts import payload
from stanchion.contracts.amounts import Number
from stanchion.contracts.ids import new_id
from stanchion.db import tables
from stanchion.db.engine import Database
from stanchion.errors import Conflict, NotFound, Unprocessable, register_code
from stanchion.state import TaskState
from stanchion.workflow import planner
from stanchion.workflow.anatomy import opens_scope
from stanchion.workflow.retrying import OldStep, plan_retry

from .outcomes import COMPLETED, NOT_ENDED
from .queries import rows_of
from .rows import Row, missing
from .workflows import Workflows

NOT_OPENED = register_code(
    "E-JOIN-22",
    "barrier can't be opened",
    status=409,
    meaning="Only a barrier that waits, and that nothing but failed children holds, can be opened by hand.",
    fix="Wait for the children that still run, or cancel the task.",
)
NOT_ITS_INPUT = register_code(
    "E-STEP-34",
    "edited input does not fit the step",
    status=422,
    meaning="A reopened step that is no child of a fan-out takes an edited input by the names of its arguments.",
    fix="Send an object with the arguments to replace; leave it out for the same input.",
)


class Tasks:
    """Under the task service's login."""

    def __init__(self, database: Database, workflows: Workflows) -> None:
        self.database = database
        self.workflows = workflows

    def cancel(self, tenant_id: UUID, task_id: UUID, *, reason: str, actor: str) -> str:
        """Ask for the end of a task; returns its state: cancelling or cancelled.

        Raises NotFound, and Conflict E-TASK-05 for a task that has ended, or is ending, in another way.
        """
        rows = self.database.call(
            "cancel", "SELECT stanchion.cancel_task(%s, %s, %s, %s)", (tenant_id, task_id, reason, actor)
        )
        state = str(rows[0][0])
        if state not in ("cancelling", "cancelled"):
            raise too_late(state)
        return state

    def pause(self, tenant_id: UUID, task_id: UUID, *, paused: bool, actor: str) -> bool:
        """Pause or resume; True if that changed something. Raises NotFound, and Conflict E-TASK-05 after the end."""
        rows = self.database.call(
            "pause", "SELECT stanchion.pause_task(%s, %s, %s, %s)", (tenant_id, task_id, paused, actor)
        )
        return bool(rows[0][0])

    def retry(
        self,
        tenant_id: UUID,
        task_id: UUID,
        *,
        reason: str,
        actor: str,
        budget: Mapping[str, Number] | None = None,
    ) -> tuple[UUID, list[str]]:
        """A new run of a task that failed or was cancelled; returns its id, and the nodes whose results it takes over.

        Raises NotFound, and Conflict E-TASK-07 for a task that goes on, E-TASK-09 for one that is completed,
        E-BUD-02 for one that has spent more than it may, by the `budget` that is given or the one before.
        """
        plan = retry_plan(self.database, self.workflows, tenant_id, task_id)
        self.database.call(
            "retry",
            "SELECT stanchion.retry_task(%s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (
                tenant_id,
                task_id,
                plan.run_id,
                plan.open,
                _json(plan.steps),
                _json(plan.barriers),
                _json({"nodes": plan.kept, "reason": reason}),
                actor,
                None if not budget else _json(budget),
            ),
        )
        return plan.run_id, plan.kept

    def reopen(
        self, tenant_id: UUID, steps: Sequence[UUID], *, step_input: Any | None, reason: str, actor: str
    ) -> list[UUID]:
        """Reopen failed steps that hold a barrier; returns those that were reopened.

        An edited input is the item of a child; any other step gets the arguments that it names, before those that come
        from other steps. Raises Unprocessable E-STEP-34 for what names no arguments of each of the steps.
        """
        edited = None if step_input is None else _json(step_input)
        if step_input is not None:
            self._check_edited(tenant_id, steps, step_input)
        rows = self.database.call(
            "reopen",
            "SELECT * FROM stanchion.reopen_steps(%s, %s, %s, %s, %s)",
            (tenant_id, list(steps), edited, reason, actor),
        )
        return [row[0] for row in rows]

    def _check_edited(self, tenant_id: UUID, steps: Sequence[UUID], step_input: Any) -> None:
        """An argument that no step has would be left out without a word."""
        step = tables.step.c
        columns = (step.workflow, step.workflow_version, step.node)
        with self.database.tenant(tenant_id) as connection:
            found = rows_of(connection, select(*columns).where(step.step_id.in_(list(steps))).distinct())
        for row in found:
            node = self.workflows.get(row["workflow"], row["workflow_version"]).node(row["node"])
            takes = {param.name for param in node.params}
            if opens_scope(node) or (isinstance(step_input, dict) and step_input.keys() <= takes):
                continue
            what = f"the input for {node.name} names no arguments of it"
            if isinstance(step_input, dict):
                what = f"{node.name} takes no argument {', '.join(sorted(step_input.keys() - takes))}"
            fix = f"send an object with any of {', '.join(sorted(takes))}" if takes else "reopen it without an input"
            raise Unprocessable(
                NOT_ITS_INPUT,
                what,
                where="$.input",
                why="its arguments come from other steps: an edited input replaces those that it names",
                fix=fix,
            )

    def open_barrier(self, tenant_id: UUID, barrier_id: UUID, *, reason: str, actor: str) -> None:
        """Open a barrier without the failed children that hold it.

        Raises NotFound, and Conflict E-JOIN-22 when it is decided already, or when not only failed ones are missing.
        """
        self.database.call(
            "open_barrier", "SELECT stanchion.open_barrier(%s, %s, %s, %s)", (tenant_id, barrier_id, reason, actor)
        )

    def drain(self, tenant_id: UUID, worker_id: UUID, *, actor: str, only_of: UUID | None = None) -> None:
        """Ask a worker to take no new work and to end after what it runs; raises NotFound for one that is gone.

        With `only_of`, one that serves anybody but this tenant is not found either.
        """
        rows = self.database.read(
            "SELECT stanchion.drain_worker(%s, %s, %s, %s)", (worker_id, only_of, tenant_id, actor)
        )
        if not rows or not rows[0][0]:
            raise NotFound("E-FIND-01", "there is no such worker, or it has ended")


@dataclass(frozen=True, slots=True)
class RetryPlan:
    """What a new run of a task begins with, and the nodes whose results it takes over."""

    run_id: UUID
    open: int
    steps: list[dict[str, Any]]
    barriers: list[dict[str, Any]]
    kept: list[str]


def retry_plan(database: Database, workflows: Workflows, tenant_id: UUID, task_id: UUID) -> RetryPlan:
    """Work out the retry of a task as it stands; raises as `Tasks.retry`."""
    with database.tenant(tenant_id) as connection:
        task = _task_to_retry(connection, task_id)
        old = [OldStep(**row) for row in rows_of(connection, _outside_fans(task["run_id"]))]
    graph = workflows.get(task["workflow"], task["workflow_version"])
    place = planner.Place(tenant_id, new_id(), priority=task["priority"])
    blob = task["input_blob"].hex() if task["input_blob"] is not None else None
    plan, adoption = plan_retry(graph, place, task["input"], blob, old)
    return RetryPlan(place.run_id, plan.open, plan.steps, plan.barriers, adoption.kept)


def _json(value: Any) -> Jsonb:
    return Jsonb(value, dumps=payload.dumps)


def _task_to_retry(connection: Connection, task_id: UUID) -> Row:
    task = tables.task.c
    names = ("run_id", "workflow", "workflow_version", "state", "priority", "input", "input_blob")
    found = rows_of(connection, select(*(task[name] for name in names)).where(task.task_id == task_id))
    if not found:
        raise missing("task")
    if found[0]["state"] not in ("failed", "cancelled", "rejected"):  # the database decides; this spares it the plan
        state = found[0]["state"]
        code = COMPLETED if state == TaskState.COMPLETED else NOT_ENDED
        raise Conflict(code, f"a task that is {state} is not retried", state=state)
    return found[0]


def _outside_fans(run_id: UUID) -> Any:
    step = tables.step.c
    # a decision that allows nothing any more is asked for anew, and what came after it runs again
    lapsed = (step.state == "succeeded") & func.stanchion.has_lapsed(step.tenant_id, step.step_id)
    state = case((lapsed, "lapsed"), else_=step.state).label("state")
    columns = (step.step_id, state, step.round, step.input, step.input_blob)
    replaced = step.replaced_by.is_not(None).label("replaced")
    own = (func.coalesce(step.answers, step.node) == step.node).label("own")
    return select(func.coalesce(step.answers, step.node).label("node"), *columns, replaced, own).where(
        step.run_id == run_id, step.fan_id.is_(None)
    )


def too_late(state: str) -> Conflict:
    """The answer to a cancel that came after the end was decided."""
    ended = state in ("completed", "failed")
    return Conflict(
        "E-TASK-05",
        f"the task is {state}: it can't be cancelled any more" if ended else "the task has failed and is winding down",
        fix=None if ended else "wait for its end",
        state=state,
    )
