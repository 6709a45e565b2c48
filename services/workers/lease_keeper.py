"""The lease keeper: the heartbeat of all leases of this worker, in one call, from a thread that user code can't hold up.

The window in which a lease may be trusted is measured from when the renewal was *begun*. When the database does not
answer until that window is nearly over, the attempts are stopped here: another worker is about to be given them. That
look has a loop of its own, since a renewal may hang for as long as the network says nothing.
"""

from __future__ import annotations

from typing import Final

from stanchion.authority.leases import Leases
from stanchion.errors import Unavailable
from stanchion.runtime.clock import monotonic
from stanchion.runtime.logging import get_logger
from stanchion.telemetry import metrics

from .attempt import Attempt
from .foreman import Foreman

log = get_logger()

MARGIN: Final = 0.1
"""Of the lease: how long before its end an unrenewed attempt is stopped here."""


class LeaseKeeper:
    """`run_once` is one heartbeat."""

    def __init__(self, leases: Leases, foreman: Foreman) -> None:
        self.leases = leases
        self.foreman = foreman
        self._trusted_from: dict[tuple[object, int], float] = {}

    def run_once(self) -> None:
        """Renew all leases; stop attempts that are lost, cancelled, or that can't be trusted any longer."""
        held = list(self.foreman.held.values())
        if not held:
            self._trusted_from.clear()
            return
        begun = monotonic()
        try:
            verdicts = self.leases.renew(
                [a.lease for a in held],
                [a.begun_at is not None for a in held],
                [a.context.take_progress() for a in held],
            )
        except Unavailable:
            self.guard_once()
            raise
        metrics.heartbeat_seconds.observe(monotonic() - begun)
        self._trusted_from = {k: v for k, v in self._trusted_from.items() if k in {self._key(a) for a in held}}
        for attempt in held:
            match verdicts.get(attempt.lease.step_id, "lost"):
                case "ok":
                    self._trusted_from[self._key(attempt)] = begun
                case "cancel":
                    self._trusted_from[self._key(attempt)] = begun
                    attempt.stop("cancelled")
                case "lost":
                    self._lose(attempt, "another attempt has it, or it was taken back")
                case "busy":
                    pass  # its result is being written at this very moment

    def guard_once(self) -> None:
        """Stop attempts that can't be trusted any longer, whatever the heartbeat waits for."""
        self._stop_untrusted(list(self.foreman.held.values()))

    def _lose(self, attempt: Attempt, why: str) -> None:
        if attempt.stop_reason == "lost":
            return
        if attempt.outcome is None and attempt.lease.step_id in self.foreman.held:
            log.warning(
                "step.lease_lost",
                node=attempt.lease.node,
                step_id=str(attempt.lease.step_id),
                fence=attempt.lease.fence,
                why=why,
            )
            attempt.stop("lost")

    def _stop_untrusted(self, held: list[Attempt]) -> None:
        ttl = self.leases.ttl_ms / 1000
        for attempt in held:
            since = self._trusted_from.get(self._key(attempt), attempt.leased_at)
            if monotonic() - since > ttl * (1 - MARGIN):
                self._lose(attempt, "the database did not answer in time to renew it")

    @staticmethod
    def _key(attempt: Attempt) -> tuple[object, int]:
        return attempt.lease.step_id, attempt.lease.fence
