"""Patience: what an attempt itself asks of the database waits while the database is away. No outage spends an attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from stanchion.errors import LeaseLost, Unavailable
from stanchion.runtime.backoff import Backoff
from stanchion.runtime.clock import monotonic, pause
from stanchion.runtime.logging import get_logger

if TYPE_CHECKING:
    from .attempt import Attempt

T = TypeVar("T")

log = get_logger()

ON_THE_LOOP_SECONDS: Final = 1.0
"""On the event loop nobody else runs meanwhile: longer than this the attempt is not worth the others."""

TOO_SLOW: Final = "E-DB-05"
TRIES_OF_WHAT_IS_SLOW: Final = 3


class Patience:
    """Calls for one attempt: tried again until they succeed or the attempt is told to stop, then LeaseLost.

    How long a lease can be trusted is the guard's to say. An attempt that gives up by itself is told to stop as out of
    reach, which gives its lease back as soon as the database is there.
    """

    def __init__(self, attempt: Attempt, *, on_the_loop_seconds: float = ON_THE_LOOP_SECONDS) -> None:
        self.attempt = attempt
        self.on_the_loop_seconds = on_the_loop_seconds

    def __call__(self, call: Callable[[], T]) -> T:
        """What `call` returns; raises what it raises, except for an Unavailable that passes."""
        backoff, began = Backoff(0.05, 2.0), monotonic()
        while True:
            try:
                return call()
            except Unavailable as error:
                if error.code == TOO_SLOW and backoff.failures >= TRIES_OF_WHAT_IS_SLOW:
                    raise  # the database is there: what is slow time and again would hold its slot for ever
                lease = self.attempt.lease
                if not backoff.failures:
                    log.warning("step.waits", node=lease.node, step_id=str(lease.step_id), code=error.code)
                if on_a_loop() and monotonic() - began >= self.on_the_loop_seconds:
                    self.attempt.stop("out_of_reach")
                if self.attempt.stop_reason is not None:
                    raise LeaseLost(lease.node, fence=lease.fence, why="the database is out of reach") from error
                pause(backoff.next())


def on_a_loop() -> bool:
    """Whether this thread runs an event loop at this moment."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
