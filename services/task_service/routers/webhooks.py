"""Webhooks: whom we call when something happens, and what became of the calls."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from stanchion.authority.rows import Row
from stanchion.contracts import ids, limits
from stanchion.runtime.outside import check_url

from ..access import Caller, needs
from ..bodies import body_schema
from ..bodies_people import WebhookBody
from ..deps import Has
from ..params import Body, Cursor, Limit, StrictRoute, cursor_of, message, one_of
from ..views import Paged
from ..views_people import DeliveryState, DeliveryView, NewWebhook, WebhookState, WebhookView

router = APIRouter(route_class=StrictRoute, tags=["webhooks"])

STATES = ("due", "sent", "failed")


@router.post(
    "/v1/webhooks", status_code=201, response_model=NewWebhook, **body_schema(needs("webhook.manage"), WebhookBody)
)
def create_webhook(deps: Has, caller: Caller, body: Body) -> Row:
    """Call an endpoint when something happens. The secret that signs the calls stands in this answer alone."""
    wanted = message(WebhookBody, body)
    check_url(wanted.url, deps.webhook_rules)
    webhook_id, secret = deps.webhooks.create(caller.tenant_id, wanted.url, wanted.events, actor=caller.actor)
    return {"webhook_id": webhook_id, "url": wanted.url, "events": sorted(set(wanted.events)), "secret": secret}


@router.get("/v1/webhooks", response_model=Paged[WebhookView], **needs("webhook.manage"))
def list_webhooks(deps: Has, caller: Caller, limit: Limit = limits.PAGE_ROWS, cursor: Cursor = None) -> Row:
    """The webhooks of the tenant, without secrets, the newest first."""
    rows = deps.webhooks.page(caller.tenant_id, limit=limit + 1, before=cursor_of(cursor, ids.WEBHOOK))
    more = ids.public(ids.WEBHOOK, rows[limit - 1]["webhook_id"]) if len(rows) > limit else None
    return {"items": rows[:limit], "next": more}


@router.post("/v1/webhooks/{webhook_id}/pause", response_model=WebhookState, **needs("webhook.manage"))
def pause_webhook(deps: Has, caller: Caller, webhook_id: str) -> Row:
    """Hold the calls of a webhook; what is held for three days is given up."""
    return _paused(deps, caller, webhook_id, paused=True)


@router.post("/v1/webhooks/{webhook_id}/resume", response_model=WebhookState, **needs("webhook.manage"))
def resume_webhook(deps: Has, caller: Caller, webhook_id: str) -> Row:
    """Let the calls of a webhook go again that was paused or has failed."""
    return _paused(deps, caller, webhook_id, paused=False)


@router.post("/v1/webhooks/{webhook_id}/remove", response_model=WebhookState, **needs("webhook.manage"))
def remove_webhook(deps: Has, caller: Caller, webhook_id: str) -> Row:
    """Remove a webhook with the calls that wait for it."""
    parsed = ids.parse(webhook_id, ids.WEBHOOK)
    deps.webhooks.remove(caller.tenant_id, parsed, actor=caller.actor)
    return {"webhook_id": parsed, "state": "removed"}


@router.get("/v1/webhook-deliveries", response_model=Paged[DeliveryView], **needs("webhook.manage"))
def list_deliveries(
    *,
    deps: Has,
    caller: Caller,
    webhook: Annotated[str | None, Query(max_length=64, description="of one webhook")] = None,
    state: Annotated[str | None, Query(description="due, sent or failed")] = None,
    limit: Limit = limits.PAGE_ROWS,
    cursor: Cursor = None,
) -> Row:
    """The calls that are due, were made, or were given up, the newest first."""
    rows = deps.webhooks.deliveries(
        caller.tenant_id,
        webhook_id=cursor_of(webhook, ids.WEBHOOK),
        state=one_of(state, "state", STATES),
        limit=limit + 1,
        before=cursor_of(cursor, ids.DELIVERY),
    )
    more = ids.public(ids.DELIVERY, rows[limit - 1]["delivery_id"]) if len(rows) > limit else None
    return {"items": rows[:limit], "next": more}


@router.post(
    "/v1/webhook-deliveries/{delivery_id}/resend",
    status_code=202,
    response_model=DeliveryState,
    **needs("webhook.manage"),
)
def resend_delivery(deps: Has, caller: Caller, delivery_id: str) -> Row:
    """Make a call again, whatever became of it; its event keeps its id."""
    parsed = ids.parse(delivery_id, ids.DELIVERY)
    deps.webhooks.resend(caller.tenant_id, parsed, actor=caller.actor)
    return {"delivery_id": parsed}


def _paused(deps: Has, caller: Caller, webhook_id: str, *, paused: bool) -> Row:
    parsed = ids.parse(webhook_id, ids.WEBHOOK)
    deps.webhooks.pause(caller.tenant_id, parsed, paused=paused, actor=caller.actor)
    return {"webhook_id": parsed, "state": "paused" if paused else "active"}
