"""What goes out beside tasks and steps: reasons, what is deployed, what was parked, keys."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from .views import DeadLetterId, KeyId, TaskId, Value, View, WorkerId


class ReasonAction(View):
    """What people can do about a reason: an action with what is known already; `command` is the line that does it."""

    name: str
    title: str
    target: str
    given: dict[str, Any]
    command: str


class ReasonEvidence(View):
    """A row that a reason was read from, by its public id."""

    kind: str
    id: str


class ReasonView(View):
    """One reason why something does not move; `by_itself` says that it passes without anybody doing anything, and
    `next` what happens then, and when. `fix` has every way out as a command, `actions` those that the API can do."""

    code: str
    text: str
    meaning: str
    since: datetime | None
    until: datetime | None
    by_itself: bool
    next: str
    fix: list[str]
    actions: list[ReasonAction]
    evidence: list[ReasonEvidence]
    details: Value


class WhyView(View):
    """Why something does not move, or that it moves, or how it ended: at least one reason, and what could not be
    checked. `id` is that of what was asked about."""

    kind: str
    id: str
    task_id: TaskId
    state: str
    reasons: list[ReasonView]
    unchecked: list[str]


class WorkflowView(View):
    """One version of a workflow."""

    name: str
    version: int
    registered_at: datetime
    graph: dict[str, Any] | None = None


class WorkerView(View):
    """One worker; `running` counts the steps of this tenant that it holds, `host` and `pid` need worker.operate."""

    worker_id: WorkerId
    name: str
    host: str | None
    pid: int | None
    queues: list[str]
    workflows: list[str]
    slots: int
    running: int
    state: str
    drain_requested: bool
    clock_offset_ms: int
    started_at: datetime
    seen_at: datetime


class WorkerDraining(View):
    """A worker that was asked to drain."""

    worker_id: WorkerId
    drain_requested: bool


class DeadLetterSummary(View):
    """One message that could not be handled."""

    dead_letter_id: DeadLetterId
    topic: str
    partition: int
    offset: int
    bytes: int | None
    code: str
    reason: str
    at: datetime
    redriven_at: datetime | None


class DeadLetterView(DeadLetterSummary):
    """A parked message with what it held: key and value in base64, headers as name and text."""

    key: str | None
    value: str | None
    headers: list[list[str | None]]
    whole: bool


class Redriven(View):
    """A message that was sent to its topic again."""

    dead_letter_id: DeadLetterId
    topic: str


class RedriveJob(View):
    """A bulk redrive: how it stands, what was asked for, and what it has done."""

    key: str
    state: str
    request: Value
    result: Value
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class KeyView(View):
    """One key; its secret is shown once, when it is made."""

    key_id: KeyId
    name: str
    scopes: list[str]
    created_at: datetime | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None


class NewKey(KeyView):
    """A key that was just made."""

    secret: str


class KeyRevoked(View):
    """A key that opens nothing any more."""

    key_id: KeyId
    revoked: bool = True


class SigningKeyView(View):
    """A key by which Kafka commands are verified."""

    key_id: str
    public_key: str
    scopes: list[str]
    created_at: datetime | None = None
    revoked_at: datetime | None = None


class TenantCreated(View):
    """A tenant that was just made, and the first key of its admin."""

    tenant_id: UUID
    name: str
    key: NewKey
