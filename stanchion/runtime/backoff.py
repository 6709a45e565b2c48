"""Waits that grow: exponential with full jitter, so that a crowd that failed together does not come back together.

The formula is AWS's "full jitter": a uniform draw between 0 and min(most, first * factor ** n).
"""

from __future__ import annotations

import random


class Backoff:
    """Waits for one caller, in seconds; `reset` after the first success."""

    def __init__(self, first: float = 0.1, most: float = 10.0, *, factor: float = 2.0) -> None:
        assert 0 < first <= most, "a backoff starts above zero and below its cap"
        assert factor > 1, "a backoff grows"
        self.first, self.most, self.factor = first, most, factor
        self.failures = 0

    @property
    def ceiling(self) -> float:
        """The longest that the next wait can be."""
        # 2 ** 64 would overflow a float only far beyond any cap; the bound keeps the power small.
        return min(self.most, self.first * self.factor ** min(self.failures, 64))

    def next(self) -> float:
        """The next wait; at least a tenth of its ceiling, since a draw of nearly 0 is a busy loop."""
        ceiling = self.ceiling
        self.failures += 1
        return random.uniform(ceiling / 10, ceiling)  # noqa: S311 - spreads load, guards nothing

    def reset(self) -> None:
        """Start again from `first`."""
        self.failures = 0
