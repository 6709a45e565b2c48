"""Effects outside: look at the ledger, have the outside system asked, say what became of what nobody knows."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from stanchion.authority.operations import PAYLOADS
from stanchion.authority.rows import Row
from stanchion.authority.withholding import withheld
from stanchion.contracts import ids, limits
from stanchion.state import OperationState

from ..access import Caller, needs
from ..bodies import DoneBody, NotDoneBody, OpenBody, body_schema
from ..deps import Has
from ..params import Body, Cursor, Limit, StrictRoute, cursor_of, message, plain, some_of
from ..views import Paged
from ..views_effects import Compensating, OperationSettled, OperationSummary, OperationView

router = APIRouter(route_class=StrictRoute, tags=["operations"])


@router.get("/v1/operations", response_model=Paged[OperationSummary], **needs("task.read"))
def list_operations(
    *,
    deps: Has,
    caller: Caller,
    state: Annotated[str | None, Query(max_length=200, description="one or several, separated by commas")] = None,
    kind: Annotated[str | None, Query()] = None,
    task: Annotated[str | None, Query(max_length=64, description="those of a task")] = None,
    limit: Limit = limits.PAGE_ROWS,
    cursor: Cursor = None,
) -> Row:
    """Operations of the tenant, the newest first."""
    rows = deps.operations.page(
        caller.tenant_id,
        limit=limit + 1,
        before=cursor_of(cursor, ids.OPERATION),
        states=some_of(state, "state", tuple(OperationState)) or (),
        kind=plain(kind, "kind"),
        task_id=cursor_of(task, ids.TASK),
    )
    more = ids.public(ids.OPERATION, rows[limit - 1]["operation_id"]) if len(rows) > limit else None
    items = rows[:limit] if caller.sees_payloads else [_without_texts(row) for row in rows[:limit]]
    return {"items": items, "next": more}


@router.get("/v1/operations/{operation_id}", response_model=OperationView, **needs("task.read"))
def get_operation(deps: Has, caller: Caller, operation_id: str) -> Row:
    """One operation with its probes, and (with the right payload.read) what was sent and received."""
    parsed = ids.parse(operation_id, ids.OPERATION)
    found = deps.operations.get(caller.tenant_id, parsed, with_payload=caller.sees_payloads)
    if not caller.sees_payloads:
        probed = [probe | {"detail": withheld(probe["detail"])} for probe in found["probed"]]
        found = _without_texts(found) | {"probed": probed, "withheld": list(PAYLOADS)}
    return found | {"payload_hash": found["payload_hash"].hex()}


@router.post(
    "/v1/operations/{operation_id}/reconcile",
    status_code=202,
    response_model=OperationSettled,
    **needs("operation.settle"),
)
def reconcile(deps: Has, caller: Caller, operation_id: str) -> Row:
    """Have the outside system asked now what became of it; a worker does that."""
    parsed = ids.parse(operation_id, ids.OPERATION)
    return {"operation_id": parsed, "state": deps.handlers.probe_operation(caller, parsed)}


@router.post(
    "/v1/operations/{operation_id}/mark-done",
    response_model=OperationSettled,
    **body_schema(needs("operation.settle"), DoneBody),
)
def mark_done(deps: Has, caller: Caller, operation_id: str, body: Body) -> Row:
    """Say that an operation of unknown fate was done: why you think so, and what proves it."""
    parsed = ids.parse(operation_id, ids.OPERATION)
    told = message(DoneBody, body)
    state = deps.handlers.tell_operation(caller, parsed, done=True, told=told, receipt=told.receipt)
    return {"operation_id": parsed, "state": state}


@router.post(
    "/v1/operations/{operation_id}/mark-not-done",
    response_model=OperationSettled,
    **body_schema(needs("operation.settle"), NotDoneBody),
)
def mark_not_done(deps: Has, caller: Caller, operation_id: str, body: Body) -> Row:
    """Say that an operation of unknown fate was not done: its step sends it again, with the same key."""
    parsed = ids.parse(operation_id, ids.OPERATION)
    told = message(NotDoneBody, body)
    return {"operation_id": parsed, "state": deps.handlers.tell_operation(caller, parsed, done=False, told=told)}


@router.post(
    "/v1/operations/{operation_id}/compensate",
    status_code=202,
    response_model=Compensating,
    **body_schema(needs("operation.settle"), OpenBody),
)
def compensate(deps: Has, caller: Caller, operation_id: str, body: Body) -> Row:
    """Have an effect undone, as its operation declares; a worker does that, in a step of its own."""
    parsed = ids.parse(operation_id, ids.OPERATION)
    step = deps.handlers.compensate(caller, parsed, message(OpenBody, body).reason)
    return {"operation_id": parsed, "step_id": step}


def _without_texts(row: Row) -> Row:
    return row | {"error": withheld(row["error"])}
