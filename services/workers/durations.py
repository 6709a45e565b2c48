"""How long steps take, measured: the ground for leasing ahead.

Short steps want some forty in hand, or the worker waits for the database between them; a long step must never wait
behind another in one worker while others idle. So what is held ahead is an amount of time, not of steps.
"""

from __future__ import annotations

import threading

Key = tuple[str, int, str]

WEIGHT = 0.2
"""Of the newest batch in the mean; a change of pace is known after a few batches."""


class Durations:
    """Smoothed means by (workflow, version, node), in milliseconds."""

    def __init__(self, ahead_ms: float, ahead_most: int, slots: int) -> None:
        self.ahead_ms = ahead_ms
        self.ahead_most = ahead_most
        self.slots = slots
        self._means: dict[Key, float] = {}
        self._fresh: dict[Key, tuple[float, int]] = {}
        self._lock = threading.Lock()

    def add(self, key: Key, seconds: float) -> None:
        """One more measurement."""
        ms = seconds * 1000
        with self._lock:
            mean = self._means.get(key)
            # a step that suddenly takes long must be believed at once: others would wait behind it
            self._means[key] = (
                ms if mean is None else max(mean + WEIGHT * (ms - mean), ms if ms > 4 * self.ahead_ms else 0.0)
            )
            total, count = self._fresh.get(key, (0.0, 0))
            self._fresh[key] = (total + ms, count + 1)

    def ahead(self, key: Key) -> int:
        """How many steps of this kind to hold beyond the slots: none while the duration is unknown or long."""
        mean = self._means.get(key)
        if mean is None or mean > self.ahead_ms / 2:
            return 0
        return min(self.ahead_most, int(self.ahead_ms * self.slots / max(mean, 0.1)))

    def take_fresh(self) -> dict[Key, tuple[int, int]]:
        """(mean milliseconds, samples) since the last call, to be reported."""
        with self._lock:
            fresh, self._fresh = self._fresh, {}
        return {key: (round(total / count), count) for key, (total, count) in fresh.items()}
