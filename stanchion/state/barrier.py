"""The barrier: what holds a step until enough of what it waits for has arrived."""

from __future__ import annotations

from enum import StrEnum

from .machine import Machine, Transition


class BarrierState(StrEnum):
    """Whether the barrier has opened."""

    WAITING = "waiting"
    RELEASED = "released"
    FAILED = "failed"
    CANCELLED = "cancelled"


B = BarrierState

BARRIER = Machine(
    table="barrier",
    states=BarrierState,
    births=(B.WAITING,),
    transitions=(
        Transition("release", (B.WAITING,), B.RELEASED, ("barrier", "operator"), "its rule holds", "BarrierReleased"),
        Transition(
            "fail",
            (B.WAITING,),
            B.FAILED,
            ("barrier", "timer"),
            "its rule can't hold any more, or its deadline passed",
            "BarrierFailed",
        ),
        Transition(
            "cancel", (B.WAITING,), B.CANCELLED, ("canceller",), "the step it holds was cancelled", "BarrierCancelled"
        ),
    ),
    immutable=("tenant_id", "barrier_id", "run_id", "step_id", "fan_id", "kind", "rule", "expected"),
    shapes={
        "counts_never_pass_expected": "succeeded + failed + skipped <= expected",
        "a_release_has_its_time": "(released_at IS NOT NULL) = (state = 'released')",
    },
)
