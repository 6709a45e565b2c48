"""Events: past tense, for any number of readers. Ids and small facts only; payloads are read where they are kept.

Every event of a run has its `sequence` in the envelope; readers drop what is lower than they have seen, and read a gap
from the event table. Fields may be added; a reader ignores what it does not know.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from stanchion.contracts.message import Count, Message


class TaskEvent(Message):
    """What all events of a task say."""

    task_id: UUID
    run_id: UUID


class StepEvent(TaskEvent):
    """What all events of a step say; `index` is the child's place in its fan-out."""

    step_id: UUID
    node: str
    index: Count | None = None
    attempt_id: UUID | None = None
    fence: Count | None = None


class BarrierEvent(TaskEvent):
    """What both ends of a barrier say; `step_id` is the joining step."""

    step_id: UUID
    node: str
    rule: str = "all"
    expected: Count = 0
    succeeded: Count = 0
    failed: Count = 0


class TaskAccepted(TaskEvent):
    """A task was accepted and its first run created."""

    workflow: str
    version: int


class RunStarted(TaskEvent):
    """The first step of a run was leased."""


class StepSucceeded(StepEvent):
    """A step's result was accepted; `late` after its lease had run out."""

    late: bool = False


class StepFailed(StepEvent):
    """An attempt ended without a result; `final` when no other follows."""

    code: str | None = None
    final: bool = False
    late: bool = False


class BarrierReleased(BarrierEvent):
    """A barrier opened, once."""


class BarrierFailed(BarrierEvent):
    """A barrier can no longer open."""

    code: str | None = None


class RunSucceeded(TaskEvent):
    """A run ended with its result."""


class RunFailed(TaskEvent):
    """A run ended without its result."""

    code: str | None = None


class RunCancelled(TaskEvent):
    """A run ended because somebody asked for it."""


class TaskCompleted(TaskEvent):
    """A task has its result."""


class TaskFailed(TaskEvent):
    """A task ended without a result."""

    code: str | None = None


class TaskCancelled(TaskEvent):
    """A task ended because somebody asked for it."""


class TaskRejected(TaskEvent):
    """A task ended with somebody's no."""

    code: str | None = None


class ApprovalEvent(TaskEvent):
    """What both events of an approval say; what is asked is read where it is kept."""

    approval_id: UUID
    step_id: UUID
    node: str
    state: str
    operation: str | None = None


class ApprovalRequested(ApprovalEvent):
    """People are asked."""


class ApprovalDecided(ApprovalEvent):
    """A question has ended; `state` says how: granted, rejected, expired, revoked, or replaced by an edit."""


EVENTS: Final[dict[str, type[Message]]] = {
    model.__name__: model
    for model in (
        TaskAccepted,
        RunStarted,
        StepSucceeded,
        StepFailed,
        BarrierReleased,
        BarrierFailed,
        RunSucceeded,
        RunFailed,
        RunCancelled,
        TaskCompleted,
        TaskFailed,
        TaskCancelled,
        TaskRejected,
        ApprovalRequested,
        ApprovalDecided,
    )
}
