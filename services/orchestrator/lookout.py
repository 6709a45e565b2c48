"""The lookout: one cheap look at what there is to do, on behalf of all loops, which it wakes.

An idle orchestrator so costs two short reads a second instead of one for each loop. Whoever is woken for nothing (another
replica was faster) finds nothing and sleeps again.
"""

from __future__ import annotations

from threading import Event

from stanchion.authority.upkeep import Upkeep, Waiting
from stanchion.telemetry import metrics

WHILE_IT_GOES_ON_SECONDS = 0.1
"""Between looks while offers, sweeps and joins make their way."""


class Lookout:
    """Wakes loops by what waits for them; `latest` is what it saw last."""

    def __init__(self, upkeep: Upkeep) -> None:
        self.upkeep = upkeep
        self.latest = Waiting(False, False, False, False, [], [], False)
        self._sleepers: list[tuple[str, Event]] = []

    def wakes(self, field: str, event: Event) -> Event:
        """Set `event` whenever `field` of what waits is true."""
        assert field in Waiting._fields
        self._sleepers.append((field, event))
        return event

    def run_once(self) -> bool | float:
        """Look once. True while something is due, so that the next look comes soon; a while when work only goes on."""
        self.latest = self.upkeep.waiting()
        metrics.aside.set(self.latest.aside)
        for field, event in self._sleepers:
            if getattr(self.latest, field):
                event.set()
        now = self.latest
        return (
            now.expansions
            or now.timers
            or now.leases
            or (WHILE_IT_GOES_ON_SECONDS if now.offers or now.runs or now.barriers or now.deliveries else False)
        )
