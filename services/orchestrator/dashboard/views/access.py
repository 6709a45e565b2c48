"""Who gets in, and who is called: keys, people with their teams, sessions, webhooks, and what the tenant has."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from stanchion.authority.keys import ROLES, SCOPES
from stanchion.authority.rows import Row
from stanchion.contracts import ids, limits

from ..view import Asked, Page, Shown, Twin

SHOWN: Final = 50
TEAMS_SHOWN: Final = 50
DELIVERY_STATES: Final = ("due", "sent", "failed")
TENANT_LIMITS: Final = (
    ("children of a fan-out", "FAN_OUT_CHILDREN", ""),
    ("steps of a workflow", "GRAPH_STEPS", ""),
    ("a payload in its row", "INLINE_BYTES", "bytes"),
    ("a value by reference", "VALUE_BYTES", "bytes"),
    ("an artifact", "ARTIFACT_BYTES", "bytes"),
    ("tags of a task", "TAGS", ""),
    ("retries of a step", "RETRIES_MAX", ""),
    ("webhooks", "WEBHOOKS", ""),
    ("parked messages", "DEAD_LETTER_ROWS", ""),
    ("offers of a queue at once", "OFFER_WINDOW", ""),
)
"""What a tenant can run into, in words: its name in `contracts/limits.py`, and its unit."""


def keys(asked: Asked) -> Shown:
    """The keys of the tenant, also those that are over; no secret is kept anywhere."""
    before, tenant_id = asked.chosen_id("before", ids.KEY), asked.visitor.tenant_id
    rows = asked.reads.keys.page(tenant_id, limit=SHOWN + 1, before=before)
    now = asked.reads.search.now(tenant_id)
    context = _list(rows, "key_id", ids.KEY) | {"meanings": SCOPES, "role_of": role_of, "now": now}
    return _shown(asked, "keys", "Keys", ("list",), context, Twin("stanchion key list", "GET /v1/keys"))


def people(asked: Asked) -> Shown:
    """The people of the tenant by name, and its teams."""
    after, tenant_id = asked.text("after"), asked.visitor.tenant_id
    rows = asked.reads.people.page(tenant_id, limit=SHOWN + 1, after=after)
    teams = asked.reads.people.teams(tenant_id, limit=TEAMS_SHOWN + 1) if after is None else []
    more = rows[SHOWN - 1]["name"] if len(rows) > SHOWN else None
    context = {"rows": rows[:SHOWN], "more": more, "teams": teams[:TEAMS_SHOWN], "more_teams": len(teams) > TEAMS_SHOWN}
    regions = ("list", "teams") if after is None else ("list",)
    return _shown(asked, "people", "People", regions, context, Twin("stanchion person list", "GET /v1/people"))


def sessions(asked: Asked) -> Shown:
    """One's own sessions; with `of=all` those of everybody, for whoever looks after people."""
    everybody = asked.one_of("of", ("me", "all")) == "all"
    if everybody:
        asked.visitor.require("people.manage")
    mine, before = asked.visitor.person_id, asked.chosen_id("before", ids.SESSION)
    rows: list[Row] = []
    if everybody or mine is not None:
        rows = asked.reads.people.sessions(
            asked.visitor.tenant_id, of=None if everybody else mine, limit=SHOWN + 1, before=before
        )
    now = asked.reads.search.now(asked.visitor.tenant_id)
    context = _list(rows, "session_id", ids.SESSION) | {"everybody": everybody, "mine": mine, "now": now}
    return _shown(
        asked,
        "sessions",
        "Sessions",
        ("list",),
        context,
        Twin("stanchion session list" + (" --everybody" if everybody else ""), "GET /v1/sessions"),
    )


def webhooks(asked: Asked) -> Shown:
    """Whom we call, and the calls: those that failed, unless others are asked for."""
    tenant_id, hooks = asked.visitor.tenant_id, asked.reads.webhooks
    state, hook = asked.one_of("state", DELIVERY_STATES), asked.chosen_id("webhook", ids.WEBHOOK)
    before = asked.chosen_id("before", ids.DELIVERY)
    rows = hooks.deliveries(tenant_id, webhook_id=hook, state=state, limit=SHOWN + 1, before=before)
    context = _list(rows, "delivery_id", ids.DELIVERY) | {
        "webhooks": hooks.page(tenant_id, limit=limits.WEBHOOKS),
        "state": state,
        "states": DELIVERY_STATES,
        "hook": hook,
    }
    return _shown(
        asked,
        "webhooks",
        "Webhooks",
        ("list", "deliveries"),
        context,
        Twin("stanchion webhook list", "GET /v1/webhooks"),
    )


def tenant(asked: Asked) -> Shown:
    """What the tenant has and may have: what runs and waits, who is in it, and the limits that it can run into."""
    tenant_id, visitor = asked.visitor.tenant_id, asked.visitor
    queues = asked.reads.queues.of(tenant_id)
    oldest = max(queues, key=lambda queue: queue["ready_age_seconds"] or 0, default=None)
    context = {
        "running": sum(queue["running"] for queue in queues),
        "ready": sum(queue["ready"] for queue in queues),
        "oldest": oldest if oldest and oldest["ready_age_seconds"] else None,
        "keys": _active_keys(asked) if visitor.may("keys.manage") else None,
        "people": _count(asked.reads.people.page(tenant_id, limit=limits.PAGE_ROWS_MAX + 1))
        if visitor.may("people.manage")
        else None,
        "webhooks": len(asked.reads.webhooks.page(tenant_id, limit=limits.WEBHOOKS))
        if visitor.may("webhook.manage")
        else None,
        "limits": [(words, _amount(getattr(limits, name), unit)) for words, name, unit in TENANT_LIMITS],
    }
    twin = Twin("stanchion queue list", "GET /v1/queues")
    return _shown(asked, "tenant", f"Tenant {visitor.tenant}", ("now", "limits"), context, twin)


def _amount(most: int, unit: str) -> str:
    for size, name in ((1024 * limits.MIB, "GiB"), (limits.MIB, "MiB"), (limits.KIB, "KiB")):
        if unit == "bytes" and most >= size:
            return f"{most // size:,} {name}"
    return f"{most:,} {unit}".rstrip()


def _active_keys(asked: Asked) -> str:
    rows = asked.reads.keys.page(asked.visitor.tenant_id, limit=limits.PAGE_ROWS_MAX + 1)
    return _count([row for row in rows if row["revoked_at"] is None])


def _count(rows: list[Row]) -> str:
    return f"{limits.PAGE_ROWS_MAX:,}+" if len(rows) > limits.PAGE_ROWS_MAX else f"{len(rows):,}"


def _list(rows: list[Row], name: str, prefix: str) -> dict[str, Any]:
    last: UUID | None = rows[SHOWN - 1][name] if len(rows) > SHOWN else None
    return {"rows": rows[:SHOWN], "more": ids.public(prefix, last) if last else None}


def _shown(
    asked: Asked, folder: str, title: str, regions: tuple[str, ...], context: dict[str, Any], twin: Twin
) -> Shown:
    more = context | {"place": folder, "moved": "before" in asked.query or "after" in asked.query}
    return Shown(folder, title, regions, more, twin, "records", every=5.0)


def role_of(scopes: list[str]) -> str:
    """The role whose rights these are, if they are those of one."""
    return next((role for role, held in ROLES.items() if set(held) == set(scopes)), "")


PAGES: Final = (
    Page("/keys", keys, right="keys.manage", query=("before",)),
    Page("/people", people, right="people.manage", query=("after",)),
    Page("/sessions", sessions, query=("of", "before"), personal=True),
    Page("/webhooks", webhooks, right="webhook.manage", query=("webhook", "state", "before")),
    Page("/tenant", tenant),
)
