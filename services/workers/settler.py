"""The settler: hands in what attempts came to, in batches, and keeps one bad outcome from spoiling the others.

When the database refuses a batch, its members are handed in one after the other. Those to blame fail with an attempt
that counts, for good where another attempt could bring nothing else: nothing that user code returns or raises may end
a process that serves everybody, again and again after each restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

from stanchion.authority.leases import Done, Failure, Lease, Leases
from stanchion.authority.ledger import Ledger
from stanchion.contracts.texts import clean
from stanchion.errors import (
    SCHEMA_DIFFERS,
    InvariantViolated,
    Rejected,
    StanchionError,
    Superseded,
    Unavailable,
    Unstorable,
)
from stanchion.runtime.clock import monotonic
from stanchion.runtime.hints import ORCHESTRATOR, RELAY, Hints
from stanchion.runtime.logging import get_logger
from stanchion.telemetry import metrics

from .attempt import Asked, Attempt, Doubt, Outcome, Probed, Steer, Stopped
from .catalogue import Catalogue
from .executor import delay_ms

T = TypeVar("T", Done, Steer, Asked, Failure)

log = get_logger()

PASSING: Final = (Unavailable, Superseded)
"""What no outcome is to blame for: the loop waits, and all of them are handed in again."""


class Settler:
    """`hand_in` is one round; what is handed in leaves `held`, and `take_on` gets what was leased in return, and
    when it was asked for."""

    def __init__(
        self,
        leases: Leases,
        ledger: Ledger,
        catalogue: Catalogue,
        hints: Hints,
        held: dict[UUID, Attempt],
        take_on: Callable[[Sequence[Lease], float], None],
    ) -> None:
        self.leases = leases
        self.ledger = ledger
        self.catalogue = catalogue
        self.hints = hints
        self.held = held
        self.take_on = take_on

    def hand_in(self, outcomes: Sequence[Outcome], room: int) -> None:
        """Hand in those that are still held; raises Unavailable, and is to be called again with the same, while it can't."""
        live = [o for o in outcomes if self.holds(lease_of(o))]
        done = [o for o in live if isinstance(o, Done)]
        # alone, a result leases nothing in return: it must not be blamed for a step that only comes behind it
        self._each(done, lambda some: self._complete(some, room if some is done else 0))
        for steer in (o for o in live if isinstance(o, Steer)):
            self._each([steer], self._steer)
        for asked in (o for o in live if isinstance(o, Asked)):
            self._each([asked], self._ask)
        self._each([o for o in live if isinstance(o, Failure)], self._fail)
        self._stopped([o for o in live if isinstance(o, Stopped)])
        for each in live:
            if isinstance(each, Doubt | Probed):
                self._doubt(each)

    def holds(self, lease: Lease) -> bool:
        """Whether it is this very lease that is held: the step may have come back with a higher fence meanwhile."""
        held = self.held.get(lease.step_id)
        return held is not None and held.lease.fence == lease.fence

    def drop(self, lease: Lease) -> None:
        """Hold it no longer."""
        if self.holds(lease):
            del self.held[lease.step_id]

    # --- a batch, or one by one ---

    def _each(self, items: Sequence[T], hand_in: Callable[[Sequence[T]], None]) -> None:
        if not items:
            return
        try:
            hand_in(items)
        except PASSING:
            raise
        except Exception as error:  # noqa: BLE001 - whatever one of them causes must not hold up the others
            refused = [(items[0], error)] if len(items) == 1 else self._one_by_one(items, hand_in, error)
            self._blame(refused)

    def _one_by_one(
        self, items: Sequence[T], hand_in: Callable[[Sequence[T]], None], error: Exception
    ) -> list[tuple[T, Exception]]:
        log.error("step.batch_refused", count=len(items), what=str(error), exc_info=error)
        refused: list[tuple[T, Exception]] = []
        for item in items:
            try:
                hand_in([item])
            except PASSING:
                raise
            except Exception as fault:  # noqa: BLE001 - as above
                refused.append((item, fault))
        return refused

    def _blame(self, refused: Sequence[tuple[T, Exception]]) -> None:
        """Let each fail, with an attempt that counts; then end the process, when it is no matter of values but a bug."""
        bugs = []
        for item, error in refused:
            if getattr(error, "code", None) == SCHEMA_DIFFERS:
                raise error  # nobody's fault: the process ends, and its leases are given back
            lease = lease_of(item)
            log.error("step.outcome_refused", node=lease.node, step_id=str(lease.step_id), exc_info=error)
            try:
                self._fail([self._blamed(item, error)])
            except PASSING:
                raise
            except Exception:  # noqa: BLE001 - not even that is taken: see below
                # Held no longer, so neither renewed nor given back: its lease runs out, and the reaper counts the loss.
                self.drop(lease)
                bugs.append(error)
            else:
                bugs += [] if isinstance(error, Unstorable | Rejected) else [error]
        if bugs:
            raise bugs[0]

    def _blamed(self, item: T, error: Exception) -> Failure:
        lease = lease_of(item)
        shown: dict[str, Any] = {
            "code": "E-STEP-29",
            "what": f"the database refuses what {lease.node} handed in",
            "why": clean(f"{error.code} {error.what}" if isinstance(error, StanchionError) else repr(error)),
            "fix": "look for a value that is no plain JSON, or far too large",
        }
        if isinstance(item, Failure):
            return Failure(lease, shown, item.final, item.delay_ms)
        node = self.held[lease.step_id].node
        return Failure(lease, shown, isinstance(error, Unstorable | Rejected), delay_ms(node, lease.number))

    # --- one transaction each ---

    def _complete(self, done: Sequence[Done], room: int) -> None:
        asked_at = monotonic()
        completed = self.leases.complete(done, room)
        self._let_go(done, completed.accepted, "complete")
        metrics.steps_succeeded.labels("").inc(len(completed.accepted))
        self.take_on(completed.granted, asked_at)
        if completed.posted:
            self.hints.publish(RELAY)
        if any(self._opens_fan(d.lease) for d in done):
            self.hints.publish(ORCHESTRATOR)

    def _steer(self, steers: Sequence[Steer]) -> None:
        for steer in steers:
            accepted = self.leases.steer(steer.done, steer.plan)
            self._let_go([steer.done], {steer.done.lease.step_id} if accepted else set(), "complete")
            self.hints.publish(RELAY)
            if "expand" in steer.plan:
                self.hints.publish(ORCHESTRATOR)

    def _ask(self, asking: Sequence[Asked]) -> None:
        for asked in asking:
            accepted = self.leases.ask(asked.lease, asked.question)
            self._let_go([asked], {asked.lease.step_id} if accepted else set(), "ask")

    def _fail(self, failures: Sequence[Failure]) -> None:
        states = self.leases.fail(failures)
        self._let_go(failures, states.keys(), "fail")
        metrics.steps_failed.labels("").inc(len(states))
        self.hints.publish(ORCHESTRATOR)

    def _stopped(self, stopped: Sequence[Stopped]) -> None:
        """A cancelled attempt is reported as such at once; a lost one has nothing to say."""
        cancelled = [s.lease for s in stopped if s.why == "cancelled"]
        if cancelled:
            self.leases.end_cancelled(cancelled)
            self.hints.publish(ORCHESTRATOR)
        for kind, why in (("released", "the worker shuts down"), ("out_of_reach", "the database was out of reach")):
            if leases := [s.lease for s in stopped if s.why == kind]:
                self.leases.give_back(leases, why)
                self.hints.publish(RELAY)
        for each in stopped:
            self.drop(each.lease)

    def _doubt(self, each: Doubt | Probed) -> None:
        if isinstance(each, Doubt):
            self.ledger.end_in_doubt(each.lease, each.error, each.delay_ms)
        elif not self.ledger.end_probe(each.lease):
            log.warning("step.refused", node=each.lease.node, step_id=str(each.lease.step_id), attempted="end_probe")
        self.drop(each.lease)
        self.hints.publish(RELAY)
        self.hints.publish(ORCHESTRATOR)

    def _let_go(self, handed_in: Sequence[Done | Asked | Failure], accepted: Iterable[UUID], what: str) -> None:
        accepted = set(accepted)
        for each in handed_in:
            self.drop(each.lease)
            if each.lease.step_id not in accepted:
                metrics.steps_refused.inc()
                log.warning(
                    "step.refused",
                    node=each.lease.node,
                    step_id=str(each.lease.step_id),
                    fence=each.lease.fence,
                    attempted=what,
                )

    def _opens_fan(self, lease: Lease) -> bool:
        graph = self.catalogue.graph(lease.workflow, lease.workflow_version)
        return any(n.each for n in graph.successors(lease.node))


def lease_of(outcome: Outcome) -> Lease:
    """The lease that an outcome was made under."""
    return outcome.done.lease if isinstance(outcome, Steer) else outcome.lease


def is_bug(error: Exception) -> bool:
    """An invariant that one step may have violated: to be looked for among the members of a batch."""
    return isinstance(error, InvariantViolated) and error.code != SCHEMA_DIFFERS
