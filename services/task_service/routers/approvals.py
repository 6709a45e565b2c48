"""Approvals: what waits for whom, what exactly is asked, and what people say about it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from stanchion.authority.approvals import PAYLOADS
from stanchion.authority.rows import Row
from stanchion.contracts import ids, limits
from stanchion.state import ApprovalState

from ..access import Caller, needs
from ..bodies import OpenBody, body_schema
from ..bodies_people import AskBackBody, DelegateBody, EditBody, VoteBody
from ..deps import Has
from ..params import Body, Cursor, Limit, StrictRoute, cursor_of, message, some_of
from ..views import Paged
from ..views_approvals import ApprovalSummary, ApprovalView, Decided, Edited

router = APIRouter(route_class=StrictRoute, tags=["approvals"])


@router.get("/v1/approvals", response_model=Paged[ApprovalSummary], **needs("task.read"))
def list_approvals(
    *,
    deps: Has,
    caller: Caller,
    state: Annotated[str | None, Query(max_length=200, description="one or several, separated by commas")] = None,
    task: Annotated[str | None, Query(max_length=64, description="those of a task")] = None,
    limit: Limit = limits.PAGE_ROWS,
    cursor: Cursor = None,
) -> Row:
    """Approvals of the tenant, the newest first."""
    rows = deps.approvals.page(
        caller.tenant_id,
        limit=limit + 1,
        before=cursor_of(cursor, ids.APPROVAL),
        states=some_of(state, "state", tuple(ApprovalState)) or (),
        task_id=cursor_of(task, ids.TASK),
    )
    return _paged(rows, limit)


@router.get("/v1/approvals/inbox", response_model=Paged[ApprovalSummary], **needs("approval.decide"))
def inbox(deps: Has, caller: Caller, limit: Limit = limits.PAGE_ROWS, cursor: Cursor = None) -> Row:
    """What waits for one's own decision now, by name, by team or since it was passed on; the least time left first."""
    if caller.signed_in is None:
        return {"items": [], "next": None}
    rows = deps.approvals.inbox(
        caller.tenant_id, caller.signed_in.person_id, limit=limit + 1, after=cursor_of(cursor, ids.APPROVAL)
    )
    return _paged(rows, limit)


@router.get("/v1/approvals/{approval_id}", response_model=ApprovalView, **needs("task.read"))
def get_approval(deps: Has, caller: Caller, approval_id: str) -> Row:
    """One approval: what is asked, (with the right payload.read) what is shown, and what was said."""
    found = deps.approvals.get(caller.tenant_id, ids.parse(approval_id, ids.APPROVAL))
    if caller.sees_payloads:
        return found
    shown = {name: value for name, value in found.items() if name not in PAYLOADS}
    return shown | {"votes": [vote | {"comment": None} for vote in found["votes"]], "withheld": list(PAYLOADS)}


@router.post(
    "/v1/approvals/{approval_id}/approve", response_model=Decided, **body_schema(needs("approval.decide"), VoteBody)
)
def approve(deps: Has, caller: Caller, approval_id: str, body: Body) -> Row:
    """Approve what was shown. The last approval that is needed grants it, and its step goes on."""
    parsed = ids.parse(approval_id, ids.APPROVAL)
    return _decided(parsed, deps.handlers.vote(caller, parsed, "approve", message(VoteBody, body)))


@router.post(
    "/v1/approvals/{approval_id}/reject", response_model=Decided, **body_schema(needs("approval.decide"), VoteBody)
)
def reject(deps: Has, caller: Caller, approval_id: str, body: Body) -> Row:
    """Reject it: one no is enough, and the step goes on with it."""
    parsed = ids.parse(approval_id, ids.APPROVAL)
    return _decided(parsed, deps.handlers.vote(caller, parsed, "reject", message(VoteBody, body)))


@router.post(
    "/v1/approvals/{approval_id}/ask-back", response_model=Decided, **body_schema(needs("approval.decide"), AskBackBody)
)
def ask_back(deps: Has, caller: Caller, approval_id: str, body: Body) -> Row:
    """Say what one wants to know first; it stands with the approval, and decides nothing."""
    parsed = ids.parse(approval_id, ids.APPROVAL)
    return _decided(parsed, deps.handlers.vote(caller, parsed, "ask_back", message(AskBackBody, body)))


@router.post(
    "/v1/approvals/{approval_id}/answer", response_model=Decided, **body_schema(needs("task.operate"), AskBackBody)
)
def answer(deps: Has, caller: Caller, approval_id: str, body: Body) -> Row:
    """Answer what somebody wants to know; it stands with the approval, and decides nothing."""
    parsed = ids.parse(approval_id, ids.APPROVAL)
    return _decided(parsed, deps.handlers.vote(caller, parsed, "answer", message(AskBackBody, body)))


@router.post(
    "/v1/approvals/{approval_id}/edit", response_model=Edited, **body_schema(needs("approval.decide"), EditBody)
)
def edit(deps: Has, caller: Caller, approval_id: str, body: Body) -> Row:
    """Ask about a changed payload instead: a new approval, which somebody else has to approve under four eyes."""
    parsed = ids.parse(approval_id, ids.APPROVAL)
    replaced_by = deps.handlers.edit_approval(caller, parsed, message(EditBody, body))
    return _decided(parsed, "replaced") | {"replaced_by": replaced_by}


@router.post(
    "/v1/approvals/{approval_id}/delegate",
    response_model=Decided,
    **body_schema(needs("approval.decide"), DelegateBody),
)
def delegate(deps: Has, caller: Caller, approval_id: str, body: Body) -> Row:
    """Pass one's vote on to another approver, and keep none."""
    parsed, told = ids.parse(approval_id, ids.APPROVAL), message(DelegateBody, body)
    return _decided(parsed, deps.handlers.vote(caller, parsed, "delegate", told, delegate_to=told.to))


@router.post(
    "/v1/approvals/{approval_id}/revoke", response_model=Decided, **body_schema(needs("approval.decide"), OpenBody)
)
def revoke(deps: Has, caller: Caller, approval_id: str, body: Body) -> Row:
    """Take it back, for a reason, as long as what it allows has not happened."""
    parsed = ids.parse(approval_id, ids.APPROVAL)
    return _decided(parsed, deps.handlers.revoke_approval(caller, parsed, message(OpenBody, body).reason))


def _decided(approval_id: object, state: str) -> Row:
    return {"approval_id": approval_id, "state": state}


def _paged(rows: list[Row], limit: int) -> Row:
    more = ids.public(ids.APPROVAL, rows[limit - 1]["approval_id"]) if len(rows) > limit else None
    return {"items": rows[:limit], "next": more}
