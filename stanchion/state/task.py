"""The task: what somebody asked for."""

from __future__ import annotations

from enum import StrEnum

from .machine import Machine, Transition


class TaskState(StrEnum):
    """Where a task is in its life."""

    ACCEPTED = "accepted"
    RUNNING = "running"
    AWAITING_APPROVAL = "awaiting_approval"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REJECTED = "rejected"


T = TaskState

TASK = Machine(
    table="task",
    states=TaskState,
    births=(T.ACCEPTED,),
    transitions=(
        Transition("start", (T.ACCEPTED,), T.RUNNING, ("worker",), "its run started", "TaskStarted"),
        Transition("complete", (T.ACCEPTED, T.RUNNING), T.COMPLETED, ("engine",), "its run succeeded", "TaskCompleted"),
        Transition("fail", (T.ACCEPTED, T.RUNNING), T.FAILED, ("engine",), "its run failed", "TaskFailed"),
        Transition(
            "await_approval",
            (T.RUNNING,),
            T.AWAITING_APPROVAL,
            ("worker",),
            "people are asked about it",
            "TaskAwaitingApproval",
        ),
        Transition(
            "answer",
            (T.AWAITING_APPROVAL,),
            T.RUNNING,
            ("approver", "timer", "engine"),
            "nothing is asked any more: a valid decision was made, or nobody waits for one",
            "TaskAnswered",
        ),
        Transition(
            "reject",
            (T.AWAITING_APPROVAL,),
            T.REJECTED,
            ("engine",),
            "somebody said no, or nobody answered in time, and it ends with that",
            "TaskRejected",
        ),
        Transition(
            "request_cancel",
            (T.ACCEPTED, T.RUNNING, T.AWAITING_APPROVAL),
            T.CANCELLING,
            ("operator",),
            "someone cancelled it",
            "TaskCancelling",
        ),
        Transition("cancel", (T.CANCELLING,), T.CANCELLED, ("engine",), "its run is cancelled", "TaskCancelled"),
        Transition(
            "retry",
            (T.FAILED, T.CANCELLED, T.REJECTED),
            T.ACCEPTED,
            ("operator",),
            "a new run was asked for",
            "TaskRetried",
        ),
    ),
    reopenable=(T.FAILED, T.CANCELLED, T.REJECTED),
    immutable=("tenant_id", "task_id", "workflow", "idempotency_key", "payload_digest"),
    shapes={
        "a_task_has_an_end_only_when_it_ended": "(ended_at IS NOT NULL) = (state IN ('completed', 'failed', 'cancelled', 'rejected'))"
    },
)
