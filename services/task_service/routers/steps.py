"""Steps and the barriers between them: look, reopen, open by hand."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from stanchion.authority.queries import BARRIER
from stanchion.authority.rows import Row
from stanchion.authority.withholding import withheld
from stanchion.contracts import ids, limits
from stanchion.state.step import StepState

from ..access import Caller, needs
from ..bodies import OpenBody, ReopenBody, body_schema
from ..deps import Has
from ..params import Body, Cursor, Limit, StrictRoute, cursor_of, message, one_of, plain, some_of
from ..views import BarrierOpened, Paged, Reopened, StepSummary, StepView

router = APIRouter(route_class=StrictRoute, tags=["steps"])


@router.get("/v1/tasks/{task_id}/steps", response_model=Paged[StepSummary], **needs("task.read"))
def list_steps(
    *,
    deps: Has,
    caller: Caller,
    task_id: str,
    node: Annotated[str | None, Query()] = None,
    state: Annotated[str | None, Query(max_length=200, description="one or several, separated by commas")] = None,
    kind: Annotated[str | None, Query(description="step (children too), or fan: the fan-outs themselves")] = None,
    run: Annotated[str | None, Query(max_length=64, description="a run of the task; else the current one")] = None,
    limit: Limit = limits.PAGE_ROWS,
    cursor: Cursor = None,
) -> Row:
    """The steps of a run in the order of their making, children of fan-outs included."""
    page = deps.queries.steps(
        caller.tenant_id,
        ids.parse(task_id, ids.TASK),
        run_id=cursor_of(run, ids.RUN),
        node=plain(node, "node"),
        kind=one_of(kind, "kind", ("step", "fan")) or "step",
        states=some_of(state, "state", tuple(StepState)),
        limit=limit,
        after=cursor_of(cursor, ids.STEP),
    )
    return {"items": page.items, "next": page.next and ids.public(ids.STEP, page.next)}


@router.get("/v1/steps/{step_id}", response_model=StepView, **needs("task.read"))
def get_step(deps: Has, caller: Caller, step_id: str) -> Row:
    """A step with its attempts, what was refused, and (with the right payload.read) its input and result."""
    parsed = ids.parse(step_id, ids.STEP)
    step = deps.queries.step(caller.tenant_id, parsed, with_payload=caller.sees_payloads)
    if not caller.sees_payloads:
        step["withheld"] = ["input", "result"]
        step["attempt_list"] = [_without_texts(attempt) for attempt in step["attempt_list"]]
    for name in ("input", "result"):
        step[f"{name}_is_large"] = step.pop(f"{name}_blob", None) is not None
    return step


def _without_texts(attempt: Row) -> Row:
    lost = ["progress"] if attempt["progress"] is not None else []
    return attempt | {"error": withheld(attempt["error"]), "progress": None, "withheld": lost}


@router.post("/v1/steps/reopen", response_model=Reopened, **body_schema(needs("task.operate"), ReopenBody))
def reopen_steps(deps: Has, caller: Caller, body: Body) -> Row:
    """One more attempt for failed steps that hold a join, named one by one or as a node's failed ones up to a limit."""
    return deps.handlers.reopen(caller, message(ReopenBody, body))


@router.post(
    "/v1/barriers/{barrier_id}/open",
    response_model=BarrierOpened,
    **body_schema(needs("task.operate"), OpenBody),
)
def open_barrier(deps: Has, caller: Caller, barrier_id: str, body: Body) -> Row:
    """Open a join without the failed children that hold it; the reason is kept."""
    parsed = ids.parse(barrier_id, BARRIER)
    deps.handlers.open_barrier(caller, parsed, message(OpenBody, body).reason)
    return {"barrier_id": parsed, "state": "released"}
