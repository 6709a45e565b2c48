"""The step: a node of a run's graph, one child of a fan-out, or the fan-out itself."""

from __future__ import annotations

from enum import StrEnum

from .machine import Machine, Transition


class StepState(StrEnum):
    """Where a step is in its life."""

    PENDING = "pending"
    READY = "ready"
    LEASED = "leased"
    RUNNING = "running"
    WAITING = "waiting"
    RETRY_WAIT = "retry_wait"
    UNKNOWN = "unknown"
    RECONCILING = "reconciling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


S = StepState
HELD = (S.LEASED, S.RUNNING)
PROBED = (S.RECONCILING,)

STEP = Machine(
    table="step",
    states=StepState,
    births=(S.PENDING, S.READY, S.SUCCEEDED, S.SKIPPED),  # settled from birth: adopted from the run that is retried
    transitions=(
        Transition("release", (S.PENDING,), S.READY, ("barrier", "worker"), "what it waited for is there", "StepReady"),
        Transition("open", (S.PENDING,), S.WAITING, ("barrier",), "a fan-out waits for its branches", "FanOpened"),
        Transition(
            "ask",
            HELD,
            S.WAITING,
            ("worker",),
            "people are asked; no lease and no slot waits",
            "StepAsked",
            fenced=True,
        ),
        Transition("answer", (S.WAITING,), S.SUCCEEDED, ("approver", "timer"), "it was decided", "StepAnswered"),
        Transition("unanswered", (S.WAITING,), S.FAILED, ("timer",), "nobody decided in time", "StepFailed"),
        Transition("close", (S.WAITING,), S.SUCCEEDED, ("barrier",), "all branches have settled", "FanClosed"),
        Transition(
            "skip", (S.PENDING,), S.SKIPPED, ("barrier", "worker"), "not chosen, or never possible", "StepSkipped"
        ),
        Transition("lease", (S.READY,), S.LEASED, ("worker",), "a worker took it; the fence rises", "StepLeased"),
        Transition(
            "start", (S.LEASED,), S.RUNNING, ("worker",), "seen running at a heartbeat", "StepStarted", fenced=True
        ),
        Transition("succeed", HELD, S.SUCCEEDED, ("worker",), "the result is stored", "StepSucceeded", fenced=True),
        Transition(
            "retry", HELD, S.RETRY_WAIT, ("worker",), "an error, attempts are left", "StepRetryScheduled", fenced=True
        ),
        Transition(
            "fail",
            HELD,
            S.FAILED,
            ("worker", "reaper"),
            "no attempts are left, or never to be retried",
            "StepFailed",
            fenced=True,
        ),
        Transition("give_back", HELD, S.READY, ("worker",), "shut down before it ended", "StepReleased", fenced=True),
        Transition("reap", HELD, S.READY, ("reaper",), "its lease expired", "StepLost", fenced=True),
        Transition(
            "doubt",
            (*HELD, *PROBED),
            S.UNKNOWN,
            ("worker", "reaper", "canceller"),
            "an operation of it was sent, and nobody knows whether it was done",
            "StepDoubted",
            fenced=True,
        ),
        Transition(
            "doubt_again",
            (S.READY, S.RETRY_WAIT),
            S.UNKNOWN,
            ("canceller",),
            "its run is cancelled, and what was to be sent again may land from the first time",
            "StepDoubted",
        ),
        Transition(
            "probe",
            (S.UNKNOWN,),
            S.RECONCILING,
            ("worker",),
            "a worker took it to ask the outside system; the fence rises",
            "StepProbed",
        ),
        Transition(
            "settle",
            PROBED,
            S.READY,
            ("worker", "reaper"),
            "it is known what became of all its operations",
            "StepSettled",
            fenced=True,
        ),
        Transition(
            "tell", (S.UNKNOWN,), S.READY, ("operator",), "a person said what became of its operations", "StepSettled"
        ),
        Transition("due", (S.RETRY_WAIT,), S.READY, ("timer",), "the delay is over", "StepReady"),
        Transition(
            "expire",
            (S.READY, S.PENDING, S.RETRY_WAIT),
            S.FAILED,
            ("timer",),
            "its deadline passed before it ran",
            "StepFailed",
        ),
        Transition(
            "reopen", (S.FAILED,), S.READY, ("operator",), "someone reopened it while its run is live", "StepReopened"
        ),
        Transition(
            "cancel",
            (S.PENDING, S.READY, S.RETRY_WAIT, S.WAITING, S.UNKNOWN),
            S.CANCELLED,
            ("canceller",),
            "its run ends, or it is not needed",
            "StepCancelled",
        ),
        Transition(
            "take",
            (*HELD, *PROBED),
            S.CANCELLED,
            ("canceller", "worker"),
            "cancelled while it ran",
            "StepCancelled",
            fenced=True,
        ),
    ),
    reopenable=(S.FAILED,),
    immutable=("tenant_id", "step_id", "run_id", "node", "fan_id", "idx", "kind"),
    shapes={
        "a_fan_out_is_never_leased": "kind <> 'fan' OR state NOT IN ('ready', 'leased', 'running', 'retry_wait')",
        "what_is_in_doubt_is_never_settled": "doubts = 0 OR state IN ('leased', 'running', 'reconciling', 'unknown')",
        "only_doubts_make_a_step_unknown": "state <> 'unknown' OR doubts > 0",
    },
)
