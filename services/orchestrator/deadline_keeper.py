"""The deadline keeper: does what is due, which stands in the database and so survives any restart."""

from __future__ import annotations

from stanchion.authority.upkeep import Upkeep
from stanchion.runtime.hints import RELAY, Hints
from stanchion.runtime.logging import get_logger

log = get_logger()


class DeadlineKeeper:
    """`run_once` handles a batch of due rows: retries, deadlines of joins, steps and tasks."""

    def __init__(self, upkeep: Upkeep, hints: Hints, batch: int = 500) -> None:
        self.upkeep = upkeep
        self.hints = hints
        self.batch = batch

    def run_once(self) -> bool:
        """Fire what is due; True when there may be more."""
        fired, more = self.upkeep.fire_timers(self.batch)
        if fired:
            log.info("timer.fired", count=fired)
            self.hints.publish(RELAY)
        return more
