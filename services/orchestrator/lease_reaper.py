"""The lease reaper: takes back expired leases, by the database's clock alone.

It holds no lock between passes and no state at all: when it is killed or frozen in the middle, another replica reaps at
its next look.
"""

from __future__ import annotations

from stanchion.authority.upkeep import Upkeep
from stanchion.runtime.hints import RELAY, WORKERS, Hints
from stanchion.runtime.logging import get_logger
from stanchion.telemetry import metrics

log = get_logger()


class LeaseReaper:
    """`run_once` reaps a batch; True when there may be more."""

    def __init__(self, upkeep: Upkeep, hints: Hints, batch: int = 500) -> None:
        self.upkeep = upkeep
        self.hints = hints
        self.batch = batch

    def run_once(self) -> bool:
        """Take back what expired."""
        reaped = self.upkeep.reap(self.batch)
        if reaped:
            metrics.leases_reaped.inc(len(reaped))
            log.warning("lease.reaped", steps=len(reaped), failed=sum(1 for s in reaped.values() if s == "failed"))
            self.hints.publish(RELAY)
            self.hints.publish(WORKERS)  # the offers go to the partitions that the lost worker may still hold
        return len(reaped) == self.batch
