"""The operation: one effect outside, from the decision to send it to what is known of it."""

from __future__ import annotations

from enum import StrEnum

from .machine import Machine, Transition


class OperationState(StrEnum):
    """Where an operation is in its life."""

    PREPARED = "prepared"
    DISPATCHED = "dispatched"
    CONFIRMED = "confirmed"
    UNKNOWN = "unknown"
    NOT_DONE = "not_done"
    REFUSED = "refused"
    COMPENSATED = "compensated"


OP = OperationState

OPERATION = Machine(
    table="operation",
    states=OperationState,
    births=(OP.PREPARED,),
    transitions=(
        Transition(
            "dispatch",
            (OP.PREPARED,),
            OP.DISPATCHED,
            ("worker",),
            "committed before the request leaves",
            "OperationDispatched",
            fenced=True,
        ),
        Transition(
            "confirm",
            (OP.DISPATCHED, OP.UNKNOWN),
            OP.CONFIRMED,
            ("worker", "operator"),
            "a receipt, a probe that found it, or a person's word",
            "OperationConfirmed",
            fenced=True,
        ),
        Transition(
            "again",
            (OP.DISPATCHED, OP.UNKNOWN),
            OP.PREPARED,
            ("worker", "operator"),
            "it is certain that sending it once more does it at most once",
            "OperationPrepared",
            fenced=True,
        ),
        Transition(
            "refuse",
            (OP.PREPARED, OP.DISPATCHED),
            OP.REFUSED,
            ("worker",),
            "the other side refused it for good",
            "OperationRefused",
            fenced=True,
        ),
        Transition(
            "doubt",
            (OP.DISPATCHED, OP.PREPARED),
            OP.UNKNOWN,
            ("worker", "reaper", "canceller"),
            "nobody knows whether it was done; or it was sent before, and the key no longer holds a second one back",
            "OperationUnknown",
            fenced=True,
        ),
        Transition(
            "rule_out",
            (OP.UNKNOWN,),
            OP.NOT_DONE,
            ("worker", "operator"),
            "it is certain that it was not done, and it is not going to be sent again",
            "OperationNotDone",
            fenced=True,
        ),
        Transition(
            "take_up",
            (OP.NOT_DONE,),
            OP.PREPARED,
            ("worker",),
            "a new run of the task asks for it again",
            "OperationPrepared",
            fenced=True,
        ),
        Transition(
            "compensate",
            (OP.CONFIRMED,),
            OP.COMPENSATED,
            ("engine",),
            "the operation that undoes it is confirmed",
            "OperationCompensated",
        ),
    ),
    reopenable=(OP.NOT_DONE, OP.CONFIRMED),
    immutable=(
        "tenant_id",
        "operation_id",
        "task_id",
        "scope_id",
        "kind",
        "key",
        "payload_hash",
        "request_key",
        "reach",
        "undo_kind",
        "compensates",
        "needs_approval",
    ),
    shapes={
        "an_operation_was_sent_when_it_is_known_of": "state IN ('prepared', 'refused', 'not_done') OR sends > 0",
        "a_confirmed_operation_has_a_time": "(state IN ('confirmed', 'compensated')) = (confirmed_at IS NOT NULL)",
    },
)
