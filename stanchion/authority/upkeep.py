"""Upkeep: what the orchestrator's loops ask of the database. Each call is a set of compare-and-set transactions."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from psycopg.types.json import Jsonb

from stanchion.contracts import limits
from stanchion.db.engine import Database

from .damage import Damage


class Waiting(NamedTuple):
    """What there is to do right now."""

    expansions: bool
    timers: bool
    leases: bool
    offers: bool
    runs: list[UUID]
    barriers: list[UUID]
    deliveries: bool
    aside: int = 0


class Upkeep:
    """Under the orchestrator's login; any number of replicas may call at once."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.damage = Damage(database)

    def waiting(self) -> Waiting:
        """One cheap look for all loops."""
        return Waiting._make(self.database.read("SELECT * FROM stanchion.work_waiting()")[0])

    def fire_timers(self, limit: int = 500) -> tuple[int, bool]:
        """Do what is due; returns how many timers were looked at, and whether there may be more at once."""
        found = self.damage.batch(
            "timer",
            limit,
            lambda only: self.database.call("timers", "SELECT * FROM stanchion.fire_timers(%s, %s)", (limit, only))[0],
        )
        return sum(int(fired) for fired, _ in found), any(more for _, more in found) or len(found) == limit

    def reap(self, limit: int = 500) -> dict[UUID, str]:
        """Take back expired leases; returns the new state of each step."""
        found = self.damage.batch(
            "lease",
            limit,
            lambda only: self.database.call("reap", "SELECT * FROM stanchion.reap(%s, %s)", (limit, only)),
        )
        return {step_id: state for rows in found for step_id, state in rows}

    def offer(self, batch: int = 2_000) -> int:
        """Offer what waits behind a full window, and again what nobody leased."""
        return int(
            self.database.call(
                "offer", "SELECT stanchion.offer_ready(%s, %s)", (batch, int(limits.REOFFER_SECONDS * 1000))
            )[0][0]
        )

    def sweep_run(self, run_id: UUID, grace_ms: int, limit: int = 5_000) -> str:
        """One chunk of winding a run down: sweeping, waiting (for what runs), ended, taken (by another replica), or aside."""
        said = self.damage.alone(
            "run",
            run_id,
            lambda: self.database.call(
                "sweep_run", "SELECT stanchion.sweep_run(%s, %s, %s)", (run_id, limit, grace_ms)
            ),
        )
        return str(said[0][0]) if said else "aside"

    def sweep_barrier(self, barrier_id: UUID, limit: int = 5_000) -> int:
        """Cancel branches that a decided join left over; returns how many steps."""
        swept = self.damage.alone(
            "barrier",
            barrier_id,
            lambda: self.database.call("sweep_barrier", "SELECT stanchion.sweep_barrier(%s, %s)", (barrier_id, limit)),
        )
        return int(swept[0][0]) if swept else 0

    def end_early(self, run_id: UUID, reason: dict[str, object]) -> bool:
        """Begin the end of a run that can't go on; False when it had ended or was ending."""
        return bool(
            self.database.call("sweep_run", "SELECT stanchion.end_early(%s, %s)", (run_id, Jsonb(reason)))[0][0]
        )
