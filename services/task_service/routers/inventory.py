"""What is deployed, and what was parked: workflows, workers, dead letters."""

from __future__ import annotations

import base64
import re
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from stanchion.authority.keys import Principal
from stanchion.authority.maintenance import NOBODY, Redrive, Report
from stanchion.authority.rows import Row
from stanchion.contracts import ids, limits, payload
from stanchion.contracts.ids import new_id
from stanchion.errors import Unprocessable

from ..access import Caller, needs
from ..bodies import BulkRedriveBody, RedriveBody, body_schema
from ..deps import Has
from ..params import Body, Cursor, Limit, StrictRoute, cursor_of, message, one_of, plain
from ..views import Paged
from ..views_inventory import (
    DeadLetterSummary,
    DeadLetterView,
    RedriveJob,
    Redriven,
    WorkerDraining,
    WorkerView,
    WorkflowView,
)

router = APIRouter(route_class=StrictRoute, tags=["inventory"])

WORKER_STATES = ("active", "draining", "silent", "gone")
_PLACE = re.compile(r"([a-z][a-z0-9_]{0,63})@([0-9]{1,10})")

Unowned = Annotated[bool, Query(description="those of no tenant instead of one's own; needs the right tenant.manage")]


@router.get("/v1/workflows", response_model=Paged[WorkflowView], **needs("task.read"))
def list_workflows(deps: Has, caller: Caller, limit: Limit = limits.PAGE_ROWS, cursor: Cursor = None) -> Row:
    """Registered versions of workflows, by name, the newest version of each first."""
    after = None
    if cursor is not None:
        if not (place := _PLACE.fullmatch(cursor)):
            raise Unprocessable("E-DATA-11", "this is no cursor", where="query.cursor", fix="send `next` as it came")
        after = (place[1], int(place[2]))
    rows = deps.inventory.workflows(caller.tenant_id, limit=limit + 1, after=after)
    last = rows[limit - 1] if len(rows) > limit else None
    return {"items": rows[:limit], "next": last and f"{last['name']}@{last['version']}"}


@router.get("/v1/workflows/{name}", response_model=WorkflowView, **needs("task.read"))
def get_workflow(
    deps: Has, caller: Caller, name: str, version: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None
) -> Row:
    """A version of a workflow (the newest one) with its graph."""
    return deps.inventory.workflow(caller.tenant_id, plain(name, "name") or "", version)


@router.get("/v1/workers", response_model=Paged[WorkerView], **needs("worker.read"))
def list_workers(
    *,
    deps: Has,
    caller: Caller,
    state: Annotated[str | None, Query()] = None,
    limit: Limit = limits.PAGE_ROWS,
    cursor: Cursor = None,
) -> Row:
    """The workers that were seen and serve the tenant, the newest first.

    All of them, with host and pid, for a key that has the right worker.operate.
    """
    rows = deps.inventory.workers(
        caller.tenant_id,
        of_all="worker.operate" in caller.scopes,
        limit=limit + 1,
        before=cursor_of(cursor, ids.WORKER),
        state=one_of(state, "state", WORKER_STATES),
    )
    more = ids.public(ids.WORKER, rows[limit - 1]["worker_id"]) if len(rows) > limit else None
    return {"items": rows[:limit], "next": more}


@router.post(
    "/v1/workers/{worker_id}/drain",
    status_code=202,
    response_model=WorkerDraining,
    **needs("worker.operate", or_own="task.operate"),
)
def drain_worker(deps: Has, caller: Caller, worker_id: str) -> Row:
    """Ask a worker to take no new work, and to end after what it runs.

    For a worker that serves the tenant of the key and nobody else, the right task.operate is enough.
    """
    parsed = ids.parse(worker_id, ids.WORKER)
    deps.handlers.drain(caller, parsed)
    return {"worker_id": parsed, "drain_requested": True}


@router.get("/v1/dead-letters", response_model=Paged[DeadLetterSummary], **needs("task.read"))
def list_dead_letters(
    deps: Has, caller: Caller, unowned: Unowned = False, limit: Limit = limits.PAGE_ROWS, cursor: Cursor = None
) -> Row:
    """Messages that could not be handled, the newest first."""
    tenant_id = _owner(caller, unowned)
    before = cursor_of(cursor, ids.DEAD_LETTER)
    rows = deps.dead_letters.page(tenant_id, limit=limit + 1, before=before)
    more = ids.public(ids.DEAD_LETTER, rows[limit - 1]["dead_letter_id"]) if len(rows) > limit else None
    return {"items": rows[:limit], "next": more}


@router.get("/v1/dead-letters/{dead_letter_id}", response_model=DeadLetterView, **needs("payload.read"))
def get_dead_letter(deps: Has, caller: Caller, dead_letter_id: str, unowned: Unowned = False) -> Row:
    """One message that could not be handled, with its bytes."""
    letter = deps.dead_letters.get(_owner(caller, unowned), ids.parse(dead_letter_id, ids.DEAD_LETTER))
    names = (
        "dead_letter_id",
        "topic",
        "partition",
        "offset",
        "headers",
        "code",
        "reason",
        "at",
        "redriven_at",
        "whole",
    )
    return {name: getattr(letter, name) for name in names} | {
        "bytes": None if letter.value is None else len(letter.value),
        "key": None if letter.key is None else base64.b64encode(letter.key).decode(),
        "value": None if letter.value is None else base64.b64encode(letter.value).decode(),
    }


@router.post(
    "/v1/dead-letters/{dead_letter_id}/redrive",
    status_code=202,
    response_model=Redriven,
    **body_schema(needs("task.operate"), RedriveBody, required=False),
)
def redrive(deps: Has, caller: Caller, dead_letter_id: str, body: Body, unowned: Unowned = False) -> Row:
    """Send a message to its topic again as it came, once."""
    parsed = ids.parse(dead_letter_id, ids.DEAD_LETTER)
    again = message(RedriveBody, body).again
    return {
        "dead_letter_id": parsed,
        "topic": deps.redriver.redrive(_owner(caller, unowned), parsed, again=again, caller=caller),
    }


@router.post(
    "/v1/dead-letters/redrive",
    status_code=202,
    response_model=RedriveJob,
    **body_schema(needs("task.operate"), BulkRedriveBody, required=False),
)
def redrive_many(deps: Has, caller: Caller, body: Body, unowned: Unowned = False) -> Report:
    """Ask for many parked messages to be sent again, at a rate; the maintenance worker does it."""
    wanted = message(BulkRedriveBody, body)
    owner, key = _owner(caller, unowned) or NOBODY, wanted.key or f"redrive-{new_id()}"
    what = Redrive(wanted.topic, wanted.code, wanted.before, wanted.rate)
    deps.maintenance.request_redrive(owner, key, what, actor=caller.actor)
    return deps.maintenance.redrive(owner, key)


@router.get("/v1/dead-letters/redrives/{key}", response_model=RedriveJob, **needs("task.read"))
def get_redrive(deps: Has, caller: Caller, key: str, unowned: Unowned = False) -> Report:
    """How a bulk redrive stands."""
    return deps.maintenance.redrive(_owner(caller, unowned) or NOBODY, payload.check_key(key, "path"))


def _owner(caller: Principal, unowned: bool) -> UUID | None:
    if not unowned:
        return caller.tenant_id
    caller.require("tenant.manage")
    return None
