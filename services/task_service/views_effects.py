"""What goes out about effects: operations of the ledger and their probes."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from .views import ApprovalId, OperationId, RunId, StepId, TaskId, Value, View


class OperationSummary(View):
    """One effect outside. `sends` counts requests, `probes` how often it was asked after."""

    operation_id: OperationId
    task_id: TaskId
    run_id: RunId
    step_id: StepId
    kind: str
    key: str
    state: str
    reach: str
    can_query: bool
    sends: int
    probes: int
    provider_id: str | None
    error: Value
    settled_by: str | None
    needs_approval: bool
    approval_id: ApprovalId | None
    cost: Value
    created_at: datetime
    updated_at: datetime
    dispatched_at: datetime | None
    unknown_since: datetime | None
    verified_at: datetime | None
    confirmed_at: datetime | None


class ProbeView(View):
    """What was learned about it at one time, and whether that settled it."""

    number: int
    by: str
    verdict: str
    conclusive: bool
    detail: Value
    at: datetime


class OperationView(OperationSummary):
    """One effect with all that is known of it.

    Without the right payload.read `withheld` names the fields that are not shown, and of errors and of what probes
    found the texts are missing.
    """

    request_key: str
    payload_hash: str
    compensates: OperationId | None
    key_until: datetime | None
    lands_until: datetime | None
    payload: Value = None
    receipt: Value = None
    withheld: list[str] = Field(default_factory=list)
    probed: list[ProbeView]


class OperationSettled(View):
    """What an operation is now."""

    operation_id: OperationId
    state: str


class Compensating(View):
    """An effect that is being undone, and the step that does it."""

    operation_id: OperationId
    step_id: StepId
