"""The lease keeper: the heartbeat of all leases of this worker, in one call, from a thread that user code can't hold up.

The window in which a lease may be trusted is measured from when it was asked for, then from when its last renewal was
*begun*: an answer may come as late as a slow commit or network makes it. When the database does not
answer until that window is nearly over, the attempts are stopped here: another worker is about to be given them. That
look has a loop of its own, since a renewal may hang for as long as the network says nothing.
"""

from __future__ import annotations

from typing import Final, Literal
from uuid import UUID

from stanchion.authority.leases import Leases, Verdict
from stanchion.errors import Unavailable, Unstorable
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
        self._said = False

    def run_once(self) -> None:
        """Renew all leases; stop attempts that are lost, cancelled, or that can't be trusted any longer."""
        held = self._worth_keeping()
        if not held:
            self._trusted_from.clear()
            return
        begun = monotonic()
        try:
            verdicts = self._renew(held)
        except Unavailable:
            self.guard_once()
            raise
        metrics.heartbeat_seconds.observe(monotonic() - begun)
        keys = {self._key(a) for a in list(self.foreman.held.values())}
        self._trusted_from = {k: v for k, v in self._trusted_from.items() if k in keys}
        for attempt in held:
            match verdicts.get(attempt.lease.step_id, "lost"):
                case "ok":
                    self._trusted_from[self._key(attempt)] = begun
                case "cancel":
                    self._trusted_from[self._key(attempt)] = begun
                    attempt.stop("cancelled")
                case "lost":
                    self._lose(attempt, "lost", "another attempt has it, or it was taken back")
                case "busy":
                    pass  # its result is being written at this very moment

    def _worth_keeping(self) -> list[Attempt]:
        """What waits, runs, or has ended and is about to be handed in. Should an attempt ever be lost between these, its
        lease must run out, so that others get the step and the loss counts."""
        held = list(self.foreman.held.values())  # first: what is taken on meanwhile comes with the next heartbeat
        at_hand = self.foreman.slots.at_hand()
        return [a for a in held if a in at_hand or a.outcome is not None]

    def _renew(self, held: list[Attempt]) -> dict[UUID, Verdict]:
        """What one attempt reports of its progress is never worth the leases of all the others."""
        leases, begun = [a.lease for a in held], [a.begun_at is not None for a in held]
        progress = [a.context.take_progress() for a in held]
        try:
            return self.leases.renew(leases, begun, progress)
        except Unstorable as error:
            if not self._said:
                log.warning("lease.progress_refused", code=error.code, what=error.what)
            self._said = True
            return self.leases.renew(leases, begun, [None] * len(held))

    def guard_once(self) -> None:
        """Stop attempts that can't be trusted any longer, whatever the heartbeat waits for."""
        self._stop_untrusted(list(self.foreman.held.values()))

    def _lose(self, attempt: Attempt, reason: Literal["lost", "out_of_reach"], why: str) -> None:
        if attempt.stop_reason in ("lost", "out_of_reach"):
            return
        if attempt.outcome is None and attempt.lease.step_id in self.foreman.held:
            log.warning(
                "step.lease_lost",
                node=attempt.lease.node,
                step_id=str(attempt.lease.step_id),
                fence=attempt.lease.fence,
                why=why,
            )
            attempt.stop(reason)

    def _stop_untrusted(self, held: list[Attempt]) -> None:
        for attempt in held:
            since = self._trusted_from.get(self._key(attempt), attempt.asked_at)
            # of this very lease: a step may have asked for a longer one than the worker's others
            if monotonic() - since > attempt.lease.lease_ms / 1000 * (1 - MARGIN):
                self._lose(attempt, "out_of_reach", "the database did not answer in time to renew it")

    @staticmethod
    def _key(attempt: Attempt) -> tuple[object, int]:
        return attempt.lease.step_id, attempt.lease.fence
