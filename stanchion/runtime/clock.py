"""Time inside one process. It measures waits and stamps messages; it decides nothing that another process sees.

Leases, deadlines and due times are judged by the database's clock alone.
"""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime

monotonic = time.monotonic
"""Seconds that never go back; comparable within this process only."""


def utc_now() -> datetime:
    """The wall clock in UTC, for stamps and logs."""
    return datetime.now(UTC)


def pause(seconds: float) -> None:
    """Let this thread wait. For retries only: what waits for an event waits on the event."""
    threading.Event().wait(seconds)


class Deadline:
    """A point some seconds from now: how much of it is left for the next call."""

    __slots__ = ("_end",)

    def __init__(self, seconds: float) -> None:
        self._end = monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds that are left, 0 once it has passed."""
        return max(0.0, self._end - monotonic())

    @property
    def left_ms(self) -> int:
        """Milliseconds that are left, at least 1: many libraries read 0 as "no limit"."""
        return max(1, int(self.left * 1000))

    @property
    def passed(self) -> bool:
        """Whether nothing is left."""
        return monotonic() >= self._end
