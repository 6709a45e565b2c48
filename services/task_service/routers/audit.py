"""What people and keys did, and whether the record of it is whole."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import APIRouter, Query

from stanchion.authority.audit import AuditFilter, heads_of, heads_text, kept_as, place_of, place_text
from stanchion.authority.rows import Row
from stanchion.contracts import limits
from stanchion.contracts.envelope import parse_time
from stanchion.errors import Unprocessable

from ..access import Caller, needs
from ..deps import Has
from ..params import Cursor, Limit, StrictRoute, plain
from ..views import Paged
from ..views_people import AuditEntry, AuditWalk

router = APIRouter(route_class=StrictRoute, tags=["audit"])

_ENTRY = re.compile(r"[0-9]{1,19}")
Heads = Annotated[str | None, Query(max_length=1_000, description="`heads` of an earlier walk: finds an end cut off")]


@router.get("/v1/audit", response_model=Paged[AuditEntry], **needs("audit.read"))
def list_audit(
    *,
    deps: Has,
    caller: Caller,
    actor: Annotated[str | None, Query(description="key:NAME, person:NAME, ...")] = None,
    action: Annotated[str | None, Query(description="task.submit, key.create, ...")] = None,
    target: Annotated[str | None, Query(description="an id as it is shown, or a name")] = None,
    after: Annotated[str | None, Query(max_length=64, description="RFC 3339")] = None,
    limit: Limit = limits.PAGE_ROWS,
    cursor: Cursor = None,
) -> Row:
    """The entries of the tenant's audit log, the newest first."""
    named = plain(target, "target")
    wanted = AuditFilter(
        actor=plain(actor, "actor"),
        action=plain(action, "action"),
        target=None if named is None else kept_as(named),
        after=None if after is None else parse_time(after, "query.after"),
    )
    if cursor is not None and not _ENTRY.fullmatch(cursor):
        raise Unprocessable("E-DATA-11", "this is no cursor", where="query.cursor", fix="send `next` as it came")
    page = deps.audit.page(caller.tenant_id, wanted, limit=limit, before=int(cursor) if cursor else None)
    items = [row | {"entry": row["audit_id"], "hash": bytes(row["hash"]).hex()} for row in page.items]
    return {"items": items, "next": str(page.next) if page.next is not None else None}


@router.get("/v1/audit/verify", response_model=AuditWalk, **needs("audit.read"))
def verify_audit(
    deps: Has,
    caller: Caller,
    anchor: Heads = None,
    cursor: Annotated[str | None, Query(max_length=1_000, description="`next` of the part before")] = None,
) -> Row:
    """Walk the chains of the tenant's audit log, a part at a time, and name the first entry that does not fit."""
    walk = deps.audit.go_on(caller.tenant_id, place_of(cursor, "query.cursor"), heads_of(anchor, "query.anchor"))
    fault = walk.fault
    return {
        "checked": walk.checked,
        "intact": fault is None,
        "fault": fault and {"entry": fault.entry, "why": fault.why},
        "heads": heads_text(walk.heads),
        "next": None if walk.done else place_text(walk),
    }
