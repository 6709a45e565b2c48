"""The approval: one question to people, what exactly it covers, and the one effect that it allows."""

from __future__ import annotations

from enum import StrEnum

from .machine import Machine, Transition


class ApprovalState(StrEnum):
    """Where an approval is in its life."""

    REQUESTED = "requested"
    GRANTED = "granted"
    SPENT = "spent"
    REJECTED = "rejected"
    EXPIRED = "expired"
    REVOKED = "revoked"
    REPLACED = "replaced"


A = ApprovalState

APPROVAL = Machine(
    table="approval",
    states=ApprovalState,
    births=(A.REQUESTED,),
    transitions=(
        Transition(
            "grant", (A.REQUESTED,), A.GRANTED, ("approver",), "enough of those asked approved it", "ApprovalGranted"
        ),
        Transition(
            "reject", (A.REQUESTED,), A.REJECTED, ("approver",), "one of those asked said no", "ApprovalRejected"
        ),
        Transition(
            "replace",
            (A.REQUESTED,),
            A.REPLACED,
            ("approver",),
            "one of those asked changed what is asked about: that needs an approval of its own",
            "ApprovalReplaced",
        ),
        Transition(
            "spend",
            (A.GRANTED,),
            A.SPENT,
            ("worker",),
            "the operation that it covers is dispatched, in the same transaction",
            "ApprovalSpent",
        ),
        Transition(
            "expire",
            (A.REQUESTED, A.GRANTED),
            A.EXPIRED,
            ("timer", "worker"),
            "its time passed before it was decided, or before it was used",
            "ApprovalExpired",
        ),
        Transition(
            "revoke",
            (A.REQUESTED, A.GRANTED, A.SPENT),
            A.REVOKED,
            ("operator", "canceller"),
            "somebody took it back, or nobody waits for it any more; a spent one allows no further send",
            "ApprovalRevoked",
        ),
    ),
    reopenable=(A.SPENT,),
    immutable=(
        "tenant_id",
        "approval_id",
        "task_id",
        "run_id",
        "step_id",
        "fence",
        "operation_kind",
        "operation_key",
        "payload_hash",
        "resource_id",
        "resource_sha256",
        "people",
        "teams",
        "needs",
        "four_eyes",
        "replaces",
        "edited_by",
        "requested_by",
        "expires_at",
    ),
    shapes={
        "an_approval_has_a_time_once_it_is_decided": "(state = 'requested') = (decided_at IS NULL)",
        "a_spent_approval_names_its_operation": "state <> 'spent' OR spent_by IS NOT NULL",
        "only_what_was_spent_names_an_operation": "spent_by IS NULL OR state IN ('spent', 'revoked')",
    },
)
