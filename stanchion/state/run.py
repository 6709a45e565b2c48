"""The run: one execution of a task."""

from __future__ import annotations

from enum import StrEnum

from .machine import Machine, Transition


class RunState(StrEnum):
    """Where a run is in its life. Pause is not a state: it is `paused_at`."""

    CREATED = "created"
    RUNNING = "running"
    CANCELLING = "cancelling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


R = RunState

RUN = Machine(
    table="run",
    states=RunState,
    births=(R.CREATED,),
    transitions=(
        Transition("start", (R.CREATED,), R.RUNNING, ("worker",), "its first step was leased", "RunStarted"),
        Transition(
            "wind_down",
            (R.CREATED, R.RUNNING),
            R.CANCELLING,
            ("operator", "engine", "timer"),
            "cancelled, rejected, failing or past its deadline: what has not started is cancelled",
            "RunCancelling",
        ),
        Transition(
            "succeed", (R.CREATED, R.RUNNING), R.SUCCEEDED, ("engine",), "every step has settled", "RunSucceeded"
        ),
        Transition(
            "fail",
            (R.CANCELLING,),
            R.FAILED,
            ("engine",),
            "nothing of it is open any more, after a failure",
            "RunFailed",
        ),
        Transition(
            "cancel",
            (R.CANCELLING,),
            R.CANCELLED,
            ("engine",),
            "nothing of it is open any more, after a cancel or somebody's no",
            "RunCancelled",
        ),
    ),
    immutable=("tenant_id", "run_id", "task_id", "number", "workflow", "workflow_version"),
    shapes={
        "a_run_has_an_end_only_when_it_ended": "(ended_at IS NOT NULL) = (state IN ('succeeded', 'failed', 'cancelled'))",
        "a_run_winds_down_to_an_outcome": "state <> 'cancelling' OR coalesce(outcome, '') IN ('failed', 'cancelled', 'rejected')",
        "a_succeeded_run_has_nothing_open": "state <> 'succeeded' OR open = 0",
    },
)
