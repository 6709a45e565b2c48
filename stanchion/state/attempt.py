"""The attempt: one lease of a step, with its own fence."""

from __future__ import annotations

from enum import StrEnum

from .machine import Machine, Transition


class AttemptState(StrEnum):
    """How one lease of a step went."""

    GRANTED = "granted"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"
    RELEASED = "released"
    SUPERSEDED = "superseded"


A = AttemptState
OPEN = (A.GRANTED, A.RUNNING)

ATTEMPT = Machine(
    table="attempt",
    states=AttemptState,
    births=(A.GRANTED,),
    transitions=(
        Transition(
            "start", (A.GRANTED,), A.RUNNING, ("worker",), "seen running at a heartbeat", "StepStarted", fenced=True
        ),
        Transition("succeed", OPEN, A.SUCCEEDED, ("worker",), "its result was accepted", "StepSucceeded", fenced=True),
        Transition("fail", OPEN, A.FAILED, ("worker",), "its code raised or timed out", "StepFailed", fenced=True),
        Transition("lose", OPEN, A.LOST, ("reaper",), "its lease expired", "StepLost", fenced=True),
        Transition("release", OPEN, A.RELEASED, ("worker",), "given back at shutdown", "StepReleased", fenced=True),
        Transition(
            "supersede",
            OPEN,
            A.SUPERSEDED,
            ("canceller", "worker"),
            "its step was cancelled",
            "StepCancelled",
            fenced=True,
        ),
    ),
    immutable=("tenant_id", "step_id", "fence", "worker_id"),
    shapes={"an_attempt_has_an_end_only_when_it_ended": "(ended_at IS NULL) = (state IN ('granted', 'running'))"},
)
