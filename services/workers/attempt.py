"""One attempt in this worker: a lease, the step it is for, and how it went."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from stanchion.authority.leases import Done, Failure, Lease, Question
from stanchion.authority.ledger import Ledger
from stanchion.runtime.clock import monotonic
from stanchion.sdk.context import Context
from stanchion.sdk.gateway import Gateway
from stanchion.workflow.graph import Node
from stanchion.workflow.step import AnyStep

from .patience import Patience

Stop = Literal["cancelled", "lost", "out_of_reach", "timeout", "released"]
"""`out_of_reach`: the database did not answer for so long that the lease can't be trusted; to user code it is lost."""


@dataclass(frozen=True, slots=True)
class Steer:
    """A result that steers the run, with the plan that says how."""

    done: Done
    plan: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """It asks people: the step waits for them, and leaves the worker."""

    lease: Lease
    question: Question


@dataclass(frozen=True, slots=True)
class Stopped:
    """It ended because it was told to: nothing of it is to be written."""

    lease: Lease
    why: Stop


@dataclass(frozen=True, slots=True)
class Doubt:
    """It ended since nobody knows what became of an operation; the next probe is due in `delay_ms`, None: a person tells."""

    lease: Lease
    error: dict[str, Any]
    delay_ms: int | None


@dataclass(frozen=True, slots=True)
class Probed:
    """A probe has settled everything that was in doubt."""

    lease: Lease


Outcome = Done | Steer | Asked | Failure | Stopped | Doubt | Probed


class Attempt:
    """A lease in this worker's hands. `stop` may be called from any thread; the first reason stays.

    `asked_at` is when the lease was asked for, and so before its time began to run; `leased_at` is when it came.
    """

    __slots__ = (
        "_lock",
        "asked_at",
        "begun_at",
        "context",
        "lease",
        "leased_at",
        "node",
        "on_stop",
        "outcome",
        "ran_seconds",
        "step",
        "stop_reason",
    )

    def __init__(self, lease: Lease, step: AnyStep, node: Node, asked_at: float, ledger: Ledger | None = None) -> None:
        self.lease = lease
        self.step = step
        self.node = node
        self.asked_at = asked_at
        self.leased_at = monotonic()
        self.begun_at: float | None = None
        self.ran_seconds = 0.0
        self.stop_reason: Stop | None = None
        self.outcome: Outcome | None = None
        self.on_stop: Callable[[], None] | None = None
        self._lock = threading.Lock()
        self.context = Context(lease, self.told, None if ledger is None else lambda: self._gateway(ledger))

    def _gateway(self, ledger: Ledger) -> Gateway:
        return Gateway(
            ledger, self.lease, self.step.workflow.operations, Patience(self), lambda: self.stop("cancelled")
        )

    @property
    def runs_on_the_loop(self) -> bool:
        """Whether its code runs on the event loop, between others, and not in a thread or process of its own."""
        return self.node.isolation == "async" and self.step.is_async

    def told(self) -> str | None:
        """Why it should stop, in the words of `ctx.stopping`."""
        return "lost" if self.stop_reason == "out_of_reach" else self.stop_reason

    @property
    def seconds(self) -> float:
        """How long user code has run."""
        return 0.0 if self.begun_at is None else monotonic() - self.begun_at

    def begin(self) -> bool:
        """Mark the start of user code; False when it was told to stop before."""
        with self._lock:
            if self.stop_reason is not None:
                return False
            self.begun_at = monotonic()
            return True

    def stop(self, why: Stop) -> None:
        """Tell it to stop; runs what the runner left in `on_stop` to interrupt it.

        The first reason stays, but an attempt that was asked to end (`cancelled`) may still be lost later.
        """
        gone = why in ("lost", "out_of_reach")
        with self._lock:
            if self.outcome is not None or (
                self.stop_reason is not None and not (self.stop_reason == "cancelled" and gone)
            ):
                return
            self.stop_reason = why
            interrupt = self.on_stop
        if interrupt is not None:
            interrupt()
