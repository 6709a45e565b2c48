"""The run sweeper: winds down runs that are cancelled, failing or past their deadline, and what a decided join leaves over."""

from __future__ import annotations

from stanchion.authority.upkeep import Upkeep
from stanchion.runtime.hints import RELAY, Hints
from stanchion.runtime.logging import get_logger

from .lookout import Lookout

log = get_logger()


class RunSweeper:
    """`run_once` does one chunk for each run and join that needs it."""

    def __init__(self, upkeep: Upkeep, lookout: Lookout, hints: Hints, grace_ms: int) -> None:
        self.upkeep = upkeep
        self.lookout = lookout
        self.hints = hints
        self.grace_ms = grace_ms

    def run_once(self) -> bool:
        """Sweep; True when there is more to do at once."""
        more = False
        waiting = self.lookout.latest
        for run_id in waiting.runs:
            said = self.upkeep.sweep_run(run_id, self.grace_ms)
            more = more or said == "sweeping"
            if said == "ended":  # by this call: of a run that had ended before it is told that it is gone
                log.info("run.finished", run_id=str(run_id))
                self.hints.publish(RELAY)
        for barrier_id in waiting.barriers:
            if self.upkeep.sweep_barrier(barrier_id):
                more = True
                self.hints.publish(RELAY)
        return more
