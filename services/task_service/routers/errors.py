"""Errors in groups: of the tenant, and of a task's current run."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from stanchion.authority.error_groups import Mark
from stanchion.authority.keys import Principal
from stanchion.authority.rows import Row
from stanchion.contracts import ids, limits
from stanchion.errors import Unprocessable

from ..access import Caller, needs
from ..bodies import body_schema
from ..bodies_lists import MarkErrorBody
from ..deps import Has
from ..params import Body, Cursor, Limit, StrictRoute, cursor_of, message, plain
from ..views import Paged
from ..views_lists import ErrorDetail, ErrorView, RunErrors

router = APIRouter(route_class=StrictRoute, tags=["errors"])

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLACE = re.compile(r"([0-9]{1,17})\.(.{1,40})")


@router.get("/v1/errors", response_model=Paged[ErrorView], **needs("task.read"))
def list_errors(
    *,
    deps: Has,
    caller: Caller,
    workflow: Annotated[str | None, Query()] = None,
    known: Annotated[bool | None, Query(description="only those that are marked as known, or only the others")] = None,
    limit: Limit = limits.PAGE_ROWS,
    cursor: Cursor = None,
) -> Row:
    """Groups of failures that are the same, the last seen first; a failure is in its group within a minute."""
    rows = deps.errors.page(
        caller.tenant_id,
        limit=limit + 1,
        before=_place(cursor),
        workflow=plain(workflow, "workflow"),
        known=known,
    )
    items = [_shown(caller, row) for row in rows[:limit]]
    return {"items": items, "next": _cursor(rows[limit - 1]) if len(rows) > limit else None}


@router.get("/v1/errors/{error_id}", response_model=ErrorDetail, **needs("task.read"))
def get_error(deps: Has, caller: Caller, error_id: str, limit: Limit = limits.PAGE_ROWS, cursor: Cursor = None) -> Row:
    """One group, with a page of the steps whose last failure is in it."""
    parsed = ids.parse(error_id, ids.ERROR)
    group = deps.errors.group(caller.tenant_id, parsed)
    page = deps.errors.members(caller.tenant_id, parsed, limit=limit, before=cursor_of(cursor, ids.STEP))
    return _shown(caller, group) | {"members": page.items, "next": page.next and ids.public(ids.STEP, page.next)}


@router.post(
    "/v1/errors/{error_id}/mark", response_model=ErrorView, **body_schema(needs("task.operate"), MarkErrorBody)
)
def mark_error(deps: Has, caller: Caller, error_id: str, body: Body) -> Row:
    """Say what is known of a group: that it is known, a note, the link of an issue, who looks after it."""
    given = message(MarkErrorBody, body)
    mark = Mark(given.known, given.note, given.link, given.assigned_to)
    return _shown(caller, deps.errors.mark(caller.tenant_id, ids.parse(error_id, ids.ERROR), mark, actor=caller.actor))


@router.get("/v1/tasks/{task_id}/errors", response_model=RunErrors, **needs("task.read"))
def get_task_errors(
    deps: Has,
    caller: Caller,
    task_id: str,
    fan: Annotated[str | None, Query(max_length=64, description="only of this fan-out, by the id of its step")] = None,
) -> Row:
    """The failed steps of a task's current run in groups, the largest first; always up to date."""
    run_id = deps.queries.task_summary(caller.tenant_id, ids.parse(task_id, ids.TASK))["run_id"]
    fan_id = None if fan is None else ids.parse(fan, ids.STEP)
    groups = deps.errors.of_run(caller.tenant_id, run_id, fan_id)
    return {"items": [_shown(caller, row) for row in groups]}


def _shown(caller: Principal, row: Row) -> Row:
    return row if caller.sees_payloads else row | {"message": None, "example": None}


def _cursor(row: Row) -> str:
    micros = (row["last_at"] - _EPOCH) // timedelta(microseconds=1)
    return f"{micros}.{ids.public(ids.ERROR, row['group_id'])}"


def _place(cursor: str | None) -> tuple[datetime, UUID] | None:
    if cursor is None:
        return None
    if not (found := _PLACE.fullmatch(cursor)):
        raise Unprocessable("E-DATA-11", "this is no cursor", where="query.cursor", fix="send `next` as it came")
    try:
        moment = _EPOCH + timedelta(microseconds=int(found[1]))
    except OverflowError:
        raise Unprocessable(
            "E-DATA-11", "this is no cursor", where="query.cursor", fix="send `next` as it came"
        ) from None
    return moment, ids.parse(found[2], ids.ERROR)
