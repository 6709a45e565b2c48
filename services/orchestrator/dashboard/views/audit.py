"""The audit log: what people and keys did, the newest first; and whether its chains are whole."""

from __future__ import annotations

import hashlib
import hmac
import shlex
from collections.abc import Mapping
from typing import Any, Final

from stanchion.authority.audit import PAGE, AuditFilter, heads_of, heads_text, kept_as, place_of, place_text
from stanchion.authority.rows import Row
from stanchion.contracts import ids, limits
from stanchion.contracts.envelope import parse_time
from stanchion.errors import StanchionError, Unprocessable

from ..door import Visitor
from ..targets import PLACES
from ..view import Asked, Page, Shown, Twin, query_text

SHOWN: Final = 50
EXPORTED: Final = 10_000
WALKED: Final = 20 * PAGE
FILTERS: Final = ("actor", "action", "target", "after")
PREFIXES: Final = {
    "task": ids.TASK,
    "operation": ids.OPERATION,
    "approval": ids.APPROVAL,
    "artifact": ids.ARTIFACT,
    "worker": ids.WORKER,
    "webhook": ids.WEBHOOK,
    "job": ids.JOB,
    "error": ids.ERROR,
}
"""What the target of an act is the id of, by the first word of the act."""


def show(asked: Asked) -> Shown:
    """Entries that fit."""
    given = {name: value for name, value in asked.query.items() if name in FILTERS and value}
    fault: StanchionError | None = None
    context: dict[str, Any] = {"rows": [], "more": None}
    try:
        context = _page(asked, filter_of(given), given)
    except Unprocessable as error:
        fault = error
    options = "".join(f" --{name} {shlex.quote(value)}" for name, value in given.items() if name != "after")
    return Shown(
        "audit",
        "Audit",
        ("list",),
        context
        | {"given": given, "fault": fault, "listed": "/audit", "place": "audit", "moved": "before" in asked.query},
        Twin(f"stanchion audit list{options}", f"GET /v1/audit?{query_text(**given)}"),
        "records",
        every=5.0,
    )


def part(asked: Asked, task: Row) -> dict[str, Any]:
    """What people and keys did to a task, as a part of its page."""
    base = f"/tasks/{ids.public(ids.TASK, task['task_id'])}/audit"
    if not asked.visitor.may("audit.read"):
        return {"rows": None, "more": None, "listed": base, "given": {}, "fault": None, "moved": False}
    found = _page(asked, AuditFilter(target=str(task["task_id"])), {})
    return found | {"listed": base, "given": {}, "fault": None, "moved": "before" in asked.query}


def filter_of(given: Mapping[str, str]) -> AuditFilter:
    """The entries that parameters ask for; a target may be any public id. Raises Unprocessable E-DATA-15."""
    for name, value in given.items():
        if name not in FILTERS:
            raise Unprocessable("E-DATA-15", f"there is no query parameter {name[:40]!a} here", where="query")
        if len(value) > limits.KEY_CHARACTERS or not value.isprintable():
            raise Unprocessable("E-DATA-15", f"this is no {name}", where=f"query.{name}")
    after = parse_time(given["after"], "query.after") if given.get("after") else None
    target = given.get("target") or None
    return AuditFilter(given.get("actor") or None, given.get("action") or None, target and kept_as(target), after)


def shown_as(row: Row) -> tuple[str, str]:
    """A target as people read it, and where its page is (empty: nowhere)."""
    prefix = PREFIXES.get(row["action"].partition(".")[0])
    if prefix is None:
        return row["target"], ""
    try:
        public = ids.public(prefix, ids.parse(row["target"], prefix))
    except Unprocessable:
        return row["target"], ""
    return public, PLACES[prefix] + public if prefix in PLACES else ""


def _page(asked: Asked, wanted: AuditFilter, given: Mapping[str, str]) -> dict[str, Any]:
    before = asked.number("before", 1, 2**63 - 1)
    page = asked.reads.audit.page(asked.visitor.tenant_id, wanted, limit=SHOWN, before=before)
    more = dict(given) | {"before": str(page.next)} if page.next else None
    return {"rows": page.items, "more": more, "shown_as": shown_as}


def verify(asked: Asked) -> Shown:
    """A part of the walk along the chains; the page goes on by itself until all of it was looked at."""
    anchor = asked.query.get("anchor") or ""
    walk = place_of(_opened(asked, anchor), "query.at")
    before = walk.checked
    asked.reads.audit.go_on(asked.visitor.tenant_id, walk, heads_of(anchor, "query.anchor"), most=WALKED)
    place = None if walk.done else place_text(walk)
    onward = place and query_text(at=place, seal=_seal(asked.visitor, anchor, place), anchor=anchor)
    return Shown(
        "verify",
        "Audit",
        ("walk",),
        {
            "walk": walk,
            "before": before,
            "onward": f"/audit/verify?{onward}" if onward else None,
            "heads": heads_text(walk.heads),
            "last": max((entry for entry, _ in walk.heads.values()), default=None),
            "anchor": anchor,
            "place": "audit",
        },
        Twin("stanchion audit verify" + (f" --anchor {shlex.quote(anchor)}" if anchor else ""), "GET /v1/audit/verify"),
        "records",
        (("Audit", "/audit"),),
        ended=True,
        still=True,
    )


def _opened(asked: Asked, anchor: str) -> str | None:
    """Where the walk goes on; a link that somebody else made begins nowhere, or it could skip what was changed."""
    place, seal = asked.query.get("at"), asked.query.get("seal", "")
    if place is None or not hmac.compare_digest(seal.encode(), _seal(asked.visitor, anchor, place).encode()):
        return None
    return place


def _seal(visitor: Visitor, anchor: str, place: str) -> str:
    secret = visitor.csrf_token or "".join(visitor.forwarded.values())
    return hmac.new(secret.encode(), f"audit walk {anchor} {place}".encode(), hashlib.sha256).hexdigest()[:32]


PAGES: Final = (
    Page("/audit", show, right="audit.read", query=(*FILTERS, "before")),
    Page("/audit/verify", verify, right="audit.read", query=("at", "seal", "anchor"), personal=True),
)
