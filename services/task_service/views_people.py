"""What goes out about people, what they did, and whom we call."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from stanchion.contracts import ids

from .views import Value, View, form, shown

PersonId = Annotated[UUID, shown(ids.PERSON), form(ids.PERSON)]
SessionId = Annotated[UUID, shown(ids.SESSION), form(ids.SESSION)]
WebhookId = Annotated[UUID, shown(ids.WEBHOOK), form(ids.WEBHOOK)]
DeliveryId = Annotated[UUID, shown(ids.DELIVERY), form(ids.DELIVERY)]
EventId = Annotated[UUID, shown(ids.EVENT), form(ids.EVENT)]


class WhoView(View):
    """Who is asking: a key, or a person with their session; `csrf_token` for a browser's."""

    subject: str
    tenant: str
    tenant_id: UUID
    name: str
    kind: str
    role: str | None = None
    teams: list[str]
    rights: list[str]
    session_id: SessionId | None = None
    person_id: PersonId | None = None
    expires_at: datetime | None = None
    csrf_token: str | None = None


class SignedInView(View):
    """A session that was just opened: `token` for the command line; a browser has a cookie instead."""

    session_id: SessionId
    person_id: PersonId
    name: str
    role: str
    tenant: str
    token: str | None = None
    csrf_token: str | None = None


class SignInWays(View):
    """How people get in here."""

    dev: bool
    oidc: bool


class SessionView(View):
    """One session, without what opens it."""

    session_id: SessionId
    name: str
    kind: str
    created_at: datetime
    used_at: datetime
    expires_at: datetime
    revoked_at: datetime | None


class SessionEnded(View):
    """A session that opens nothing any more."""

    session_id: SessionId
    revoked: bool = True


class PersonView(View):
    """One person; `rights` are those beside the role."""

    person_id: PersonId
    name: str
    display_name: str
    email: str | None
    issuer: str | None
    role: str
    rights: list[str]
    teams: list[str]
    created_at: datetime
    disabled_at: datetime | None


class PersonChanged(View):
    """What was asked for of a person, and holds now."""

    name: str
    role: str | None = None
    rights: list[str] | None = None
    disabled: bool | None = None


class TeamView(View):
    """One team."""

    team: str
    members: list[str]


class TeamChanged(View):
    """Whether a person is in a team now."""

    team: str
    name: str
    member: bool


class AuditEntry(View):
    """One act; `hash` covers it and the entry before it in its lane."""

    entry: int
    lane: int
    at: datetime
    actor: str
    action: str
    target: str
    detail: Value
    hash: str


class AuditFault(View):
    """The first entry that does not fit."""

    entry: int
    why: str


class AuditWalk(View):
    """How far a verification came: `next` goes on from there; at the end `heads` is the anchor for the next time."""

    checked: int
    intact: bool
    fault: AuditFault | None
    heads: str
    next: str | None


class WebhookView(View):
    """One webhook; `waiting` and `failed` count its deliveries."""

    webhook_id: WebhookId
    url: str
    events: list[str]
    state: str
    created_by: str
    created_at: datetime
    changed_at: datetime
    waiting: int
    failed: int


class NewWebhook(View):
    """A webhook that was just made, with the secret that signs its calls, which is shown only now."""

    webhook_id: WebhookId
    url: str
    events: list[str]
    secret: str


class WebhookState(View):
    """A webhook after something was asked of it."""

    webhook_id: WebhookId
    state: str


class DeliveryView(View):
    """One call: `status` is that of the last answer, `error` a code of ours."""

    delivery_id: DeliveryId
    webhook_id: WebhookId
    event_id: EventId
    type: str
    subject: str
    state: str
    tries: int
    status: int | None
    error: str | None
    created_at: datetime
    due_at: datetime | None
    ended_at: datetime | None


class DeliveryState(View):
    """A delivery that is sent again."""

    delivery_id: DeliveryId
    state: str = "due"
