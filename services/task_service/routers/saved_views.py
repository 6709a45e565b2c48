"""Saved views of the task list."""

from __future__ import annotations

from fastapi import APIRouter

from stanchion.authority.rows import Row
from stanchion.authority.saved_views import BUILT_IN
from stanchion.contracts import ids

from ..access import Caller, needs
from ..bodies import body_schema
from ..bodies_lists import SavedViewBody
from ..deps import Has
from ..params import Body, StrictRoute, message
from ..views import Paged
from ..views_lists import SavedViewState, SavedViewView

router = APIRouter(route_class=StrictRoute, tags=["views"])


@router.get("/v1/views", response_model=Paged[SavedViewView], **needs("task.read"))
def list_views(deps: Has, caller: Caller) -> Row:
    """The built-in views, one's own, and those that others share."""
    built_in = [{"name": one.name, "query": one.query, "order": one.order, "built_in": True} for one in BUILT_IN]
    return {"items": [*built_in, *deps.saved_views.all(caller.tenant_id, caller.subject)]}


@router.post("/v1/views", response_model=SavedViewState, **body_schema(needs("task.read"), SavedViewBody))
def save_view(deps: Has, caller: Caller, body: Body) -> Row:
    """Keep a filter and an order under a name; one's own view of this name is changed.

    To share it with the tenant needs the right task.operate.
    """
    given = message(SavedViewBody, body)
    if given.shared:
        caller.require("task.operate")
    view_id = deps.saved_views.save(
        caller.tenant_id, caller.subject, given.name, given.query, order=given.order, shared=given.shared
    )
    return {"view_id": view_id, "state": "saved"}


@router.delete("/v1/views/{view_id}", response_model=SavedViewState, **needs("task.read"))
def remove_view(deps: Has, caller: Caller, view_id: str) -> Row:
    """Remove one's own view, or with the right task.operate a shared one of somebody else."""
    parsed = ids.parse(view_id, ids.VIEW)
    deps.saved_views.remove(caller.tenant_id, parsed, actor=caller.subject, any_shared="task.operate" in caller.scopes)
    return {"view_id": parsed, "state": "removed"}
