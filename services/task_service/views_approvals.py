"""What goes out about approvals: what is asked, of whom, and what was said."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from .views import ApprovalId, OperationId, RunId, StepId, TaskId, Value, View
from .views_artifacts import ArtifactId, Hash


class ApprovalSummary(View):
    """One question to people. `needs` of `people` and `teams` (none named: of any approver) have to approve it."""

    approval_id: ApprovalId
    task_id: TaskId
    run_id: RunId
    step_id: StepId
    workflow: str
    node: str
    state: str
    operation_kind: str | None
    operation_key: str | None
    resource_id: ArtifactId | None
    people: list[str]
    teams: list[str]
    needs: int
    four_eyes: bool
    on_timeout: str
    on_rejected: str
    requested_by: str
    replaces: ApprovalId | None
    edited_by: str | None
    decided_by: str | None
    spent_by: OperationId | None
    created_at: datetime
    updated_at: datetime
    expires_at: datetime
    decided_at: datetime | None
    spent_at: datetime | None


class VoteView(View):
    """What one person said, and the hash of what they were shown."""

    number: int
    subject: str
    vote: str
    payload_hash: Hash
    comment: str | None
    delegate_to: str | None
    at: datetime


class ApprovalView(ApprovalSummary):
    """One approval with what is shown. `payload_hash` is what a vote has to name: it is bound to what was looked at.

    Without the right payload.read `withheld` names the fields that are not shown.
    """

    payload_hash: Hash
    resource_sha256: Hash | None
    question: str | None = None
    summary: str | None = None
    payload: Value = None
    reason: str | None = None
    withheld: list[str] = Field(default_factory=list)
    votes: list[VoteView]


class Decided(View):
    """How an approval stands after something was said about it."""

    approval_id: ApprovalId
    state: str


class Edited(Decided):
    """The approval that was asked, and the one that is asked instead."""

    replaced_by: ApprovalId
