"""The task: what somebody asked for."""

from __future__ import annotations

from enum import StrEnum

from .machine import Machine, Transition


class TaskState(StrEnum):
    """Where a task is in its life."""

    ACCEPTED = "accepted"
    RUNNING = "running"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


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
            "request_cancel",
            (T.ACCEPTED, T.RUNNING),
            T.CANCELLING,
            ("operator",),
            "someone cancelled it",
            "TaskCancelling",
        ),
        Transition("cancel", (T.CANCELLING,), T.CANCELLED, ("engine",), "its run is cancelled", "TaskCancelled"),
        Transition(
            "retry", (T.FAILED, T.CANCELLED), T.ACCEPTED, ("operator",), "a new run was asked for", "TaskRetried"
        ),
    ),
    reopenable=(T.FAILED, T.CANCELLED),
    immutable=("tenant_id", "task_id", "workflow", "idempotency_key", "payload_digest"),
    shapes={
        "a_task_has_an_end_only_when_it_ended": "(ended_at IS NOT NULL) = (state IN ('completed', 'failed', 'cancelled'))"
    },
)
