"""The offer dispatcher: keeps each queue's window of offers full, and offers again what nobody took."""

from __future__ import annotations

from stanchion.authority.upkeep import Upkeep
from stanchion.runtime.hints import RELAY, Hints


class OfferDispatcher:
    """`run_once` tops up all queues once; True while something was offered."""

    def __init__(self, upkeep: Upkeep, hints: Hints) -> None:
        self.upkeep = upkeep
        self.hints = hints

    def run_once(self) -> bool:
        """Offer by priority, then age."""
        offered = self.upkeep.offer()
        if offered:
            self.hints.publish(RELAY)
        return offered > 0
