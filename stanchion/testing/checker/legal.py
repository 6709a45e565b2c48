"""The checker's own copy of the rules: which event may follow which state, and what state it leads to.

It repeats by hand what the engine's state machines say. That is the point: a wrong arrow there must not pass here too.
"""

from __future__ import annotations

from typing import Final

TERMINAL_STEPS: Final = frozenset({"succeeded", "failed", "cancelled", "skipped"})
TERMINAL_RUNS: Final = frozenset({"succeeded", "failed", "cancelled"})
TERMINAL_TASKS: Final = frozenset({"completed", "failed", "cancelled", "rejected"})
HELD: Final = frozenset({"leased", "running", "reconciling"})

Moves = dict[str, tuple[frozenset[str], str]]


def _from(*sources: str) -> frozenset[str]:
    return frozenset(sources)


STEP_BIRTHS: Final = {"StepCreated": "pending", "StepReady": "ready", "StepAdopted": ""}
"""An adopted step is born in the state that its event names."""

STEP_MOVES: Final[Moves] = {
    "StepReady": (_from("pending", "retry_wait"), "ready"),
    "StepSkipped": (_from("pending"), "skipped"),
    "FanOpened": (_from("pending"), "waiting"),
    "FanClosed": (_from("waiting"), "succeeded"),
    "StepLeased": (_from("ready"), "leased"),
    "StepStarted": (_from("leased"), "running"),
    "StepSucceeded": (_from("running"), "succeeded"),
    "StepAsked": (_from("running"), "waiting"),
    "StepAnswered": (_from("waiting"), "succeeded"),
    "StepRetryScheduled": (_from("running"), "retry_wait"),
    "StepReleased": (HELD, "ready"),
    "StepLost": (HELD, "ready"),
    "StepFailed": (_from("running", "pending", "ready", "retry_wait", "waiting"), "failed"),
    "StepReopened": (_from("failed"), "ready"),
    "StepDoubted": (HELD | {"ready", "retry_wait"}, "unknown"),
    "StepProbed": (_from("unknown"), "reconciling"),
    "StepSettled": (_from("unknown", "reconciling"), "ready"),
    "StepCancelled": (_from("pending", "ready", "retry_wait", "waiting", "unknown") | HELD, "cancelled"),
}

STEP_REMARKS: Final = frozenset({"FanExpanding"})
"""Events that tell something without moving the step."""

STEP_TOGETHER: Final = frozenset(
    {
        ("StepStarted", "StepSucceeded"),
        ("StepStarted", "StepAsked"),
        ("StepStarted", "StepRetryScheduled"),
        ("StepStarted", "StepFailed"),
        ("StepLost", "StepFailed"),
    }
)
"""Two events of one version: a step that began and ended between two heartbeats, and a loss that was one too many."""

FENCED: Final = frozenset(
    {"StepStarted", "StepSucceeded", "StepAsked", "StepRetryScheduled", "StepReleased", "StepLost"}
)
"""Events that only the holder of the current fence (or, for a loss, whoever took it back) can cause."""

ATTEMPT_ENDS: Final = {
    "StepSucceeded": "succeeded",
    "StepAsked": "succeeded",
    "StepRetryScheduled": "failed",
    "StepFailed": "failed",
    "StepLost": "lost",
    "StepReleased": "released",
    "StepCancelled": "superseded",
    "StepDoubted": "failed",
    "StepSettled": "released",
}

GRANTS: Final = frozenset({"StepLeased", "StepProbed"})
"""Events that issue a fence."""

IN_DOUBT: Final = frozenset({"dispatched", "unknown"})
OPERATION_BIRTH: Final = "OperationPrepared"
OPERATION_MOVES: Final[Moves] = {
    "OperationPrepared": (_from("dispatched", "unknown", "not_done"), "prepared"),
    "OperationDispatched": (_from("prepared"), "dispatched"),
    "OperationConfirmed": (_from("dispatched", "unknown"), "confirmed"),
    "OperationUnknown": (_from("dispatched", "prepared"), "unknown"),
    "OperationNotDone": (_from("unknown"), "not_done"),
    "OperationRefused": (_from("prepared", "dispatched"), "refused"),
    "OperationCompensated": (_from("confirmed"), "compensated"),
}

APPROVAL_BIRTH: Final = "ApprovalRequested"
APPROVAL_MOVES: Final[Moves] = {
    "ApprovalGranted": (_from("requested"), "granted"),
    "ApprovalRejected": (_from("requested"), "rejected"),
    "ApprovalExpired": (_from("requested", "granted"), "expired"),
    "ApprovalRevoked": (_from("requested", "granted", "spent"), "revoked"),
    "ApprovalSpent": (_from("granted"), "spent"),
    "ApprovalReplaced": (_from("requested"), "replaced"),
}
APPROVAL_REMARKS: Final = frozenset({"ApprovalVoted", "ApprovalRefused"})

BUDGET_REMARKS: Final = frozenset({"BudgetSpent", "BudgetReturned", "BudgetRefused"})

RUN_MOVES: Final[Moves] = {
    "RunStarted": (_from("created"), "running"),
    "RunCancelling": (_from("created", "running"), "cancelling"),
    "RunSucceeded": (_from("created", "running"), "succeeded"),
    "RunFailed": (_from("cancelling"), "failed"),
    "RunCancelled": (_from("cancelling"), "cancelled"),
}

RUN_REMARKS: Final = frozenset({"RunPaused", "RunResumed"})

TASK_BIRTH: Final = "TaskAccepted"
TASK_MOVES: Final[Moves] = {
    "TaskStarted": (_from("accepted"), "running"),
    "TaskAwaitingApproval": (_from("running"), "awaiting_approval"),
    "TaskAnswered": (_from("awaiting_approval"), "running"),
    "TaskRejected": (_from("awaiting_approval"), "rejected"),
    "TaskCancelling": (_from("accepted", "running", "awaiting_approval"), "cancelling"),
    "TaskCompleted": (_from("accepted", "running"), "completed"),
    "TaskFailed": (_from("accepted", "running"), "failed"),
    "TaskCancelled": (_from("cancelling"), "cancelled"),
    "TaskRetried": (_from("failed", "cancelled", "rejected"), "accepted"),
}

BARRIER_BIRTH: Final = "BarrierCreated"
BARRIER_MOVES: Final[Moves] = {
    "BarrierReleased": (_from("waiting"), "released"),
    "BarrierFailed": (_from("waiting"), "failed"),
    "BarrierCancelled": (_from("waiting"), "cancelled"),
}

ARTIFACT_MOVES: Final[Moves] = {
    "ArtifactBegun": (_from("unborn"), "pending"),
    "ArtifactAvailable": (_from("pending"), "available"),
    "ArtifactAbandoned": (_from("pending"), "deleted"),
    "ArtifactDeleted": (_from("available"), "deleted"),
    "ArtifactPinned": (_from("available"), ""),
    "ArtifactUnpinned": (_from("available"), ""),
}
"""An empty target: it stays as it is."""
