"""What the events of a run say, told again from the first to the last: nothing but recorded facts.

No rule of the state machines is used here, so that a wrong rule can't hide what it did.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, NamedTuple
from uuid import UUID


class Event(NamedTuple):
    """One event as it stands."""

    kind: str
    step_id: UUID | None
    fence: int | None
    version: int | None
    actor: str | None
    body: dict[str, Any]


TASK: Final = {
    "TaskAccepted": "accepted",
    "TaskRetried": "accepted",
    "TaskStarted": "running",
    "TaskAwaitingApproval": "awaiting_approval",
    "TaskAnswered": "running",
    "TaskRejected": "rejected",
    "TaskCancelling": "cancelling",
    "TaskCompleted": "completed",
    "TaskFailed": "failed",
    "TaskCancelled": "cancelled",
}
RUN: Final = {
    "RunStarted": "running",
    "RunCancelling": "cancelling",
    "RunSucceeded": "succeeded",
    "RunFailed": "failed",
    "RunCancelled": "cancelled",
}
BARRIER: Final = {"BarrierReleased": "released", "BarrierFailed": "failed", "BarrierCancelled": "cancelled"}
STEP: Final = {
    "StepCreated": "pending",
    "StepReady": "ready",
    "FanOpened": "waiting",
    "FanClosed": "succeeded",
    "StepSkipped": "skipped",
    "StepLeased": "leased",
    "StepStarted": "running",
    "StepSucceeded": "succeeded",
    "StepRetryScheduled": "retry_wait",
    "StepFailed": "failed",
    "StepReleased": "ready",
    "StepLost": "ready",
    "StepReopened": "ready",
    "StepCancelled": "cancelled",
    "StepDoubted": "unknown",
    "StepProbed": "reconciling",
    "StepSettled": "ready",
    "StepAsked": "waiting",
    "StepAnswered": "succeeded",
}
ATTEMPT: Final = {
    "StepStarted": "running",
    "StepSucceeded": "succeeded",
    "StepRetryScheduled": "failed",
    "StepFailed": "failed",
    "StepLost": "lost",
    "StepReleased": "released",
    "StepCancelled": "superseded",
    "StepDoubted": "failed",
    "StepSettled": "released",
    "StepAsked": "succeeded",
}
OPERATION: Final = {
    "OperationPrepared": "prepared",
    "OperationDispatched": "dispatched",
    "OperationConfirmed": "confirmed",
    "OperationUnknown": "unknown",
    "OperationNotDone": "not_done",
    "OperationRefused": "refused",
    "OperationCompensated": "compensated",
}
APPROVAL: Final = {
    "ApprovalRequested": "requested",
    "ApprovalGranted": "granted",
    "ApprovalRejected": "rejected",
    "ApprovalExpired": "expired",
    "ApprovalRevoked": "revoked",
    "ApprovalSpent": "spent",
    "ApprovalReplaced": "replaced",
}
SAID: Final = ("ApprovalVoted", "ApprovalRefused")
"""What happens to an approval and leaves its state."""
BOOKED: Final = {"BudgetSpent": 1, "BudgetReturned": -1, "BudgetRefused": 0}
"""What happens to a budget, and whether it adds to what is spent."""
UNSETTLED: Final = ("dispatched", "unknown")
ARTIFACT: Final = {
    "ArtifactBegun": "pending",
    "ArtifactAvailable": "available",
    "ArtifactAbandoned": "deleted",
    "ArtifactDeleted": "deleted",
}
PINS: Final = {"ArtifactPinned": True, "ArtifactUnpinned": False}
DECIDED_WITHOUT: Final = "E-JOIN-23"
"""The reason of a branch that was cancelled since its join was decided: it counts there as skipped."""


@dataclass(slots=True)
class Attempt:
    """One lease, by its step and fence."""

    state: str
    worker_id: str | None
    counted: bool = False


@dataclass(slots=True)
class Step:
    """One step."""

    kind: str
    fan_id: UUID | None
    idx: int
    feeds: list[UUID]
    counts: bool
    state: str = "pending"
    version: int = 0
    fence: int = 0
    attempts: int = 0
    spoiled: bool = False
    left_over: bool = False
    stand_in: bool = False
    with_result: bool = False


@dataclass(slots=True)
class Operation:
    """One effect outside, as this run left it."""

    step_id: UUID
    state: str
    version: int


@dataclass(slots=True)
class Approval:
    """One question to people, by what was said and decided."""

    state: str = "requested"
    version: int = 0
    votes: int = 0


@dataclass(slots=True)
class Barrier:
    """One barrier."""

    kind: str
    fan_id: UUID | None
    expected: int
    slots: int
    deadline: bool
    state: str = "waiting"
    version: int = 0
    releases: int = 0
    included: int | None = None


@dataclass(slots=True)
class Artifact:
    """One version of an artifact."""

    step_id: UUID | None
    fence: int | None
    state: str = "pending"
    version: int = 0
    number: int | None = None
    sha256: str | None = None
    size: int | None = None
    pinned: bool = False


@dataclass(slots=True)
class Story:
    """A run, and the task as this run left it. `faults` are breaks in the telling itself: (step or barrier, what)."""

    begun: bool = False
    task_state: str | None = None
    task_version: int | None = None
    state: str = "created"
    version: int = 0
    paused: bool = False
    payload_removed: bool = False
    steps: dict[UUID, Step] = field(default_factory=dict)
    attempts: dict[tuple[UUID, int], Attempt] = field(default_factory=dict)
    barriers: dict[UUID, Barrier] = field(default_factory=dict)
    operations: dict[UUID, Operation] = field(default_factory=dict)
    approvals: dict[UUID, Approval] = field(default_factory=dict)
    artifacts: dict[UUID, Artifact] = field(default_factory=dict)
    allowed: dict[str, float] = field(default_factory=dict)
    spent: dict[str, Decimal] = field(default_factory=dict)
    faults: list[tuple[str, UUID | None, str]] = field(default_factory=list)
    _templates: dict[UUID, list[UUID]] = field(default_factory=dict)

    @property
    def open(self) -> int:
        """What the run should count as open."""
        return sum(1 for s in self.steps.values() if s.counts and s.state not in ("succeeded", "skipped", "cancelled"))

    def doubts(self, step_id: UUID) -> int:
        """How many operations of a step are of unknown fate, that it waits for: one that has ended waits for none."""
        if self.steps[step_id].state in ("succeeded", "failed", "cancelled", "skipped"):
            return 0
        return sum(1 for o in self.operations.values() if o.step_id == step_id and o.state in UNSETTLED)

    def tell(self, events: Iterable[Event]) -> Story:
        """Go on with these events."""
        for event in events:
            self._tell(event)
        return self

    def _tell(self, event: Event) -> None:
        kind = event.kind
        if kind in OPERATION and event.step_id is not None:
            self._tell_operation(event, event.step_id)
        elif kind in APPROVAL or kind in SAID:
            self._tell_approval(event)
        elif kind in ARTIFACT or kind in PINS:
            self._tell_artifact(event)
        elif kind in BOOKED:
            unit, amount = event.body["unit"], Decimal(str(event.body.get("amount", 0)))
            self.spent[unit] = self.spent.get(unit, Decimal(0)) + BOOKED[kind] * amount
        elif event.step_id is not None:
            self._tell_step(event, event.step_id)
        elif kind in TASK:
            self.begun = self.begun or kind in ("TaskAccepted", "TaskRetried")
            self.allowed |= event.body.get("budget", {})
            self._expect("task", None, event, self.task_version)
            self.task_state, self.task_version = TASK[kind], event.version
        elif kind in RUN:
            self._expect("run", None, event, self.version)
            self.state, self.version = RUN[kind], event.version or 0
        elif kind in ("RunPaused", "RunResumed"):
            self.paused = kind == "RunPaused"
        elif kind == "PayloadRemoved":
            self.payload_removed = True
        elif kind == "BarrierCreated":
            self._create_barrier(event)
        elif kind in BARRIER:
            self._tell_barrier(event)
        else:
            self.faults.append(("event", None, f"an event of a kind that is not known: {kind}"))

    def _expect(self, what: str, which: UUID | None, event: Event, before: int | None) -> None:
        """Versions count without a gap; two events of one transition share theirs."""
        if before is not None and event.version not in (before, before + 1):
            self.faults.append((what, which, f"{event.kind} has version {event.version} after {before}"))

    def _create_barrier(self, event: Event) -> None:
        body = event.body
        self.barriers[UUID(body["barrier"])] = Barrier(
            kind=body["kind"],
            fan_id=UUID(body["fan"]) if body.get("fan") else None,
            expected=body["expected"],
            slots=body.get("slots", 0),
            deadline=body.get("deadline_at") is not None,
        )

    def _tell_barrier(self, event: Event) -> None:
        barrier_id = UUID(event.body["barrier"])
        barrier = self.barriers.get(barrier_id)
        if barrier is None:
            self.faults.append(("barrier", barrier_id, f"{event.kind} of a barrier that no event created"))
            return
        self._expect("barrier", barrier_id, event, barrier.version)
        barrier.state, barrier.version = BARRIER[event.kind], event.version or 0
        if event.kind == "BarrierReleased":
            barrier.releases += 1
            barrier.included = event.body["succeeded"]

    def _tell_operation(self, event: Event, step_id: UUID) -> None:
        operation_id = UUID(event.body["operation"])
        before = self.operations.get(operation_id)
        if before is not None:
            self._expect("operation", operation_id, event, before.version)
        elif event.kind != "OperationPrepared":
            self.faults.append(("operation", operation_id, f"{event.kind} of an operation that no event prepared"))
        self.operations[operation_id] = Operation(step_id, OPERATION[event.kind], event.version or 0)

    def _tell_approval(self, event: Event) -> None:
        approval_id = UUID(event.body["approval"])
        if event.kind == "ApprovalRequested":
            self.approvals[approval_id] = Approval()
            return
        approval = self.approvals.get(approval_id)
        if approval is None:
            self.faults.append(("approval", approval_id, f"{event.kind} of an approval that no event requested"))
            return
        self._expect("approval", approval_id, event, approval.version)
        approval.version = event.version or 0
        approval.state = APPROVAL.get(event.kind, approval.state)
        approval.votes += event.kind == "ApprovalVoted"

    def _tell_artifact(self, event: Event) -> None:
        version_id = UUID(event.body["artifact"])
        if event.kind == "ArtifactBegun":
            self.artifacts[version_id] = Artifact(event.step_id, event.fence)
            return
        artifact = self.artifacts.get(version_id)
        if artifact is None:
            self.faults.append(("artifact", version_id, f"{event.kind} of a version that no event began"))
            return
        self._expect("artifact", version_id, event, artifact.version)
        artifact.version = event.version or 0
        artifact.state = ARTIFACT.get(event.kind, artifact.state)
        artifact.pinned = PINS.get(event.kind, artifact.pinned)
        if event.kind == "ArtifactAvailable":
            artifact.number, artifact.size = event.body["number"], event.body["size"]
            artifact.sha256 = event.body["sha256"]

    def _tell_step(self, event: Event, step_id: UUID) -> None:
        if event.kind == "FanExpanding":
            template = event.body.get("template") or {}
            self._templates[step_id] = [UUID(f) for f in template.get("feeds", [])]
            return
        step = self.steps.get(step_id)
        if step is None:
            step = self._create_step(event, step_id)
        else:
            self._expect("step", step_id, event, step.version)
        self._tell_attempt(event, step_id, step)
        step.version = event.version or 0
        step.state = event.body["state"] if event.kind == "StepAdopted" else STEP[event.kind]
        match event.kind:
            case "StepAdopted":
                # a fan-out whose join was taken over has none: its children had them
                step.with_result = step.state == "succeeded" and event.body.get("kind") != "fan"
            case "StepSucceeded":
                step.attempts += 1
                step.stand_in = event.body.get("stand_in") is not None
                step.with_result = not step.stand_in
            case "StepAsked":
                step.attempts += 1
            case "StepAnswered":
                step.with_result = True
            case "StepRetryScheduled" | "StepFailed" | "StepLost":
                step.attempts = event.body["attempts"]
            case "StepSkipped":
                step.spoiled = event.body.get("spoiled", False)
            case "StepCancelled":
                step.left_over = event.body.get("code") == DECIDED_WITHOUT

    def _create_step(self, event: Event, step_id: UUID) -> Step:
        body = event.body
        if event.version != 0 or event.kind not in ("StepCreated", "StepReady", "StepAdopted"):
            self.faults.append(("step", step_id, f"{event.kind} of a step that no event created"))
        fan = UUID(body["fan"]) if body.get("fan") else None
        told = body.get("feeds")
        feeds = [UUID(f) for f in told] if told is not None else self._templates.get(fan, []) if fan else []
        step = Step(body.get("kind", "step"), fan, body.get("idx", 0), feeds, body.get("counts", False))
        self.steps[step_id] = step
        return step

    def _tell_attempt(self, event: Event, step_id: UUID, step: Step) -> None:
        if event.fence is None:
            return
        if event.kind in ("StepLeased", "StepProbed"):
            if event.fence != step.fence + 1:
                self.faults.append(("step", step_id, f"fence {event.fence} was issued after {step.fence}"))
            step.fence = event.fence
            self.attempts[step_id, event.fence] = Attempt("granted", event.actor)
            return
        attempt = self.attempts.get((step_id, event.fence))
        if attempt is None:
            self.faults.append(("attempt", step_id, f"{event.kind} names fence {event.fence}, which was never issued"))
        elif attempt.state in ("granted", "running"):
            # an event after its end is of the step alone: it failed at its deadline, or with its last loss
            attempt.state = _doubted(event, step) if event.kind == "StepDoubted" else ATTEMPT[event.kind]
            attempt.counted = event.kind != "StepDoubted" and (
                attempt.state in ("succeeded", "failed") or event.body.get("counted", False)
            )


def _doubted(event: Event, step: Step) -> str:
    """How an attempt ends that leaves something in doubt: by who ended it, and whether it was a probe."""
    ended_by = {"reaper": "lost", "canceller": "superseded"}
    return ended_by.get(event.actor or "", "released" if step.state == "reconciling" else "failed")
