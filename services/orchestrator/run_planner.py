"""The run planner: expands fan-outs whose list is there, a chunk a transaction, so that the first children start early."""

from __future__ import annotations

from typing import Any, Final

from stanchion.authority.planning import Due, Planning
from stanchion.authority.upkeep import Upkeep
from stanchion.contracts.texts import clean
from stanchion.errors import SCHEMA_DIFFERS, Superseded, Unavailable
from stanchion.runtime.clock import monotonic
from stanchion.runtime.hints import RELAY, Hints
from stanchion.runtime.logging import get_logger

log = get_logger()

TURN_SECONDS: Final = 1.0
"""After so long it looks again at who is due: what came meanwhile waits for a turn, not for a whole round of chunks."""


class RunPlanner:
    """`run_once` inserts one chunk for each fan-out that waits, the runs by turns; True when it did anything."""

    def __init__(self, planning: Planning, upkeep: Upkeep, hints: Hints) -> None:
        self.planning = planning
        self.upkeep = upkeep
        self.hints = hints

    def run_once(self) -> bool:
        """Expand what is due. A list that can't be expanded ends its own run, not the planner."""
        due = self.planning.due(20)
        began = monotonic()
        for n, fan in enumerate(due):
            if n and monotonic() - began > TURN_SECONDS:
                break
            try:
                said = self.planning.expand(fan)
            except (Unavailable, Superseded):
                raise
            except Exception as error:
                if getattr(error, "code", None) == SCHEMA_DIFFERS:
                    raise  # no run is to blame
                self._give_up(fan, error)
                continue
            if said == "expanded":
                log.info("run.expanded", run_id=str(fan.run_id), node=fan.node, first=fan.next_index)
                self.hints.publish(RELAY)
        return bool(due)

    def _give_up(self, fan: Due, error: Exception) -> None:
        reason: dict[str, Any] = {
            "code": getattr(error, "code", "E-STEP-24"),
            "what": f"the fan-out before {fan.node} can't be expanded",
            "why": clean(str(getattr(error, "what", error)), 1_000),
        }
        log.error("run.expansion_failed", run_id=str(fan.run_id), node=fan.node, why=reason["why"], exc_info=error)
        # a run that can't even be ended is looked at again later
        self.upkeep.damage.alone("expansion", fan.fan_id, lambda: self.upkeep.end_early(fan.run_id, reason))
