"""Acts on a task that is there: pause, resume, retry."""

from __future__ import annotations

from uuid import UUID

from fastapi import APIRouter

from stanchion.authority.keys import Principal
from stanchion.authority.rows import Row
from stanchion.contracts import ids

from ..access import Caller, needs
from ..bodies import ReasonBody, RetryBody, body_schema
from ..deps import Deps, Has
from ..params import Body, StrictRoute, message
from ..views import Retried, TaskState

router = APIRouter(route_class=StrictRoute, tags=["tasks"])

OPERATE = body_schema(needs("task.operate"), ReasonBody, required=False)


@router.post("/v1/tasks/{task_id}/pause", response_model=TaskState, **OPERATE)
def pause_task(deps: Has, caller: Caller, task_id: str, body: Body) -> Row:
    """Start nothing new of a task; what runs goes on. Pausing again changes nothing."""
    return _paused(deps, caller, ids.parse(task_id, ids.TASK), body, paused=True)


@router.post("/v1/tasks/{task_id}/resume", response_model=TaskState, **OPERATE)
def resume_task(deps: Has, caller: Caller, task_id: str, body: Body) -> Row:
    """Go on with a paused task."""
    return _paused(deps, caller, ids.parse(task_id, ids.TASK), body, paused=False)


@router.post(
    "/v1/tasks/{task_id}/retry",
    status_code=201,
    response_model=Retried,
    **body_schema(needs("task.operate"), RetryBody, required=False),
)
def retry_task(deps: Has, caller: Caller, task_id: str, body: Body) -> Row:
    """A new run of a task that failed or was cancelled; what succeeded, and still fits, is taken over.

    It spends of the task's budget, as all runs do; 409 E-BUD-02 when that is overspent and no larger one is given."""
    parsed = ids.parse(task_id, ids.TASK)
    asked = message(RetryBody, body)
    run_id, kept = deps.handlers.retry(caller, parsed, asked.reason, asked.budget)
    return {"task_id": parsed, "run_id": run_id, "state": "accepted", "kept": kept}


def _paused(deps: Deps, caller: Principal, task_id: UUID, body: bytes, *, paused: bool) -> Row:
    message(ReasonBody, body)
    deps.handlers.pause(caller, task_id, paused=paused)
    task = deps.queries.task_summary(caller.tenant_id, task_id)
    return {"task_id": task_id, "run_id": task["run_id"], "state": task["state"], "paused": paused}
