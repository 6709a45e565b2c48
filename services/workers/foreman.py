"""The foreman: one thread that leases what there is room for and hands in what is finished, in batches.

While it waits for the database, more results pile up and more offers come: under load the batches grow by themselves,
and an idle worker answers at once. It alone writes under leases, so that two writes never cross.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from stanchion.authority.leases import Done, Failure, Lease, Leases
from stanchion.runtime.clock import monotonic, pause
from stanchion.runtime.hints import Hints
from stanchion.runtime.logging import get_logger
from stanchion.telemetry import metrics

from .attempt import Attempt, Steer, Stopped
from .catalogue import Catalogue
from .durations import Durations
from .offers import Offers
from .slots import Slots

log = get_logger()

STUCK_SECONDS: Final = 0.25
"""What was leased ahead and has waited so long behind something longer is given back."""
HELD_UP_SECONDS: Final = 1.0
"""An event loop that has not answered for so long gets nothing more, and loses what has not begun: others have room."""
BATCH: Final = 500
GATHER: Final = 64
GATHERINGS: Final = 3
GATHER_SECONDS: Final = 0.001


class Foreman:
    """`run_once` settles what ended, then leases for the room there is."""

    def __init__(
        self,
        leases: Leases,
        catalogue: Catalogue,
        slots: Slots,
        offers: Offers,
        durations: Durations,
        hints: Hints,
        find_seconds: float,
    ) -> None:
        self.leases = leases
        self.catalogue = catalogue
        self.slots = slots
        self.offers = offers
        self.durations = durations
        self.hints = hints
        self.find_seconds = find_seconds
        self.held: dict[UUID, Attempt] = {}
        self.draining = False
        self._unsettled: list[Attempt] = []  # ended, but the database was away
        self._look_at = monotonic() + find_seconds
        self._look_wait = find_seconds
        self._held_up = False

    def run_once(self) -> bool | float:
        """One round. True when there may be more to do at once, else the seconds until the next look."""
        self._gather()
        settled = self._settle()
        if self.draining:
            return settled
        if self._is_held_up():
            self._give_back(self.slots.take_waiting(), "what runs holds up the event loop")
            return STUCK_SECONDS
        leased = self._lease()
        self._give_back_stuck()
        if settled or leased:
            self._look_at, self._look_wait = monotonic() + self.find_seconds, self.find_seconds
            return True
        wait = self._look() if monotonic() >= self._look_at else max(0.001, self._look_at - monotonic())
        return min(wait, STUCK_SECONDS) if self.slots.waiting and wait is not True else wait

    def held_up(self) -> str | None:
        """A health check: which steps keep the event loop from serving any others, None while it serves."""
        seconds = self.slots.held_up_seconds
        if seconds <= HELD_UP_SECONDS:
            return None
        begun = {a.lease.node for a in list(self.held.values()) if a.begun_at is not None and a.runs_on_the_loop}
        return f"the event loop has not answered for {seconds:.0f} s; on it are: {', '.join(sorted(begun)) or 'nothing known'}"

    def _is_held_up(self) -> bool:
        before, self._held_up = self._held_up, self.slots.held_up_seconds > HELD_UP_SECONDS
        if self._held_up and not before:
            log.warning(
                "worker.held_up",
                why=self.held_up(),
                fix="await what blocks, or declare the step with def or isolation='process'",
            )
        elif before and not self._held_up:
            log.info("worker.serves_again")
        return self._held_up

    def _gather(self) -> None:
        """While short steps still wait for a slot, more results are a moment away: one transaction for all of them."""
        for _ in range(GATHERINGS):
            if not 0 < len(self.slots.finished) < GATHER or not self.slots.waiting:
                return
            pause(GATHER_SECONDS)

    def _settle(self) -> bool:
        ended = self._unsettled
        while self.slots.finished and len(ended) < BATCH:
            ended.append(self.slots.finished.popleft())
        if not ended:
            return False
        self._unsettled = ended
        outcomes = [a.outcome for a in ended if a.outcome is not None and self._holds(a.lease)]
        self._complete([o for o in outcomes if isinstance(o, Done)])
        for steer in (o for o in outcomes if isinstance(o, Steer)):
            self._steer(steer)
        self._fail([o for o in outcomes if isinstance(o, Failure)])
        self._stopped([o for o in outcomes if isinstance(o, Stopped)])
        for attempt in ended:
            self._measure(attempt)
        self._unsettled = []
        return True

    def _holds(self, lease: Lease) -> bool:
        """Whether it is this very lease that is held: the step may have come back with a higher fence meanwhile."""
        held = self.held.get(lease.step_id)
        return held is not None and held.lease.fence == lease.fence

    def _drop(self, lease: Lease) -> None:
        if self._holds(lease):
            del self.held[lease.step_id]

    def _measure(self, attempt: Attempt) -> None:
        lease = attempt.lease
        if attempt.begun_at is not None and isinstance(attempt.outcome, Done | Steer):
            self.durations.add((lease.workflow, lease.workflow_version, lease.node), attempt.ran_seconds)
            metrics.step_seconds.labels(attempt.node.queue).observe(attempt.ran_seconds)

    def _complete(self, done: Sequence[Done]) -> None:
        if not done:
            return
        room = 0 if self.draining else max(self.slots.count - self.slots.taken - self.slots.waiting, 0)
        accepted, granted = self.leases.complete(done, room)
        self._let_go(done, accepted, "complete")
        metrics.steps_succeeded.labels("").inc(len(accepted))
        self.hints.publish("relay")
        if any(self._opens_fan(d.lease) for d in done):
            self.hints.publish("orchestrator")
        self._take_on(granted)

    def _steer(self, steer: Steer) -> None:
        accepted = self.leases.steer(steer.done, steer.plan)
        self._let_go([steer.done], {steer.done.lease.step_id} if accepted else set(), "complete")
        self.hints.publish("relay")
        if "expand" in steer.plan:
            self.hints.publish("orchestrator")

    def _fail(self, failures: Sequence[Failure]) -> None:
        if not failures:
            return
        states = self.leases.fail(failures)
        self._let_go(failures, states.keys(), "fail")
        metrics.steps_failed.labels("").inc(len(states))
        self.hints.publish("orchestrator")

    def _stopped(self, stopped: Sequence[Stopped]) -> None:
        """A cancelled attempt is reported as such at once; a lost one has nothing to say."""
        cancelled = [s for s in stopped if s.why == "cancelled"]
        released = [s for s in stopped if s.why == "released"]
        if cancelled:
            self.leases.end_cancelled([s.lease for s in cancelled])
            self.hints.publish("orchestrator")
        if released:
            self.leases.give_back([s.lease for s in released], "the worker shuts down")
            self.hints.publish("relay")
        for each in stopped:
            self._drop(each.lease)

    def _let_go(self, handed_in: Sequence[Done | Failure], accepted: Iterable[UUID], what: str) -> None:
        accepted = set(accepted)
        for each in handed_in:
            self._drop(each.lease)
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

    # --- leasing ---

    def _room(self) -> int:
        key = self.offers.next_key()
        ahead = self.durations.ahead(key) if key is not None else 0
        return self.slots.count + ahead - len(self.held)

    def _lease(self) -> bool:
        if not len(self.offers) and self._room() > 0:
            self.offers.take_in(max(self.slots.count - len(self.held), 1))
        room = self._room()
        # half of what is held ahead is gone before more is leased: few large leases instead of many small ones
        if (
            room <= 0
            or not len(self.offers)
            or (self.slots.waiting and self.slots.waiting > (room + self.slots.waiting) // 2)
        ):
            return False
        self.offers.take_in(room)
        picked = self.offers.pick(min(room, BATCH))
        starting = max(self.slots.count - self.slots.taken - self.slots.waiting, 0)
        try:
            granted = self.leases.lease([o.step_id for o in picked], starting)
        except BaseException:
            self.offers.put_back(picked)
            raise
        self.offers.decided(picked)
        self._take_on(granted)
        return True

    def _look(self) -> bool | float:
        """Look at the ready table itself: an offer may be lost, late, or with a worker that is busy."""
        room = self.slots.count - len(self.held)
        found = self.leases.find_ready(round(self.find_seconds * 1000), room) if room > 0 else []
        granted = self.leases.lease(found, room) if found else []
        if granted:
            self._take_on(granted)
            self._look_wait = self.find_seconds
        else:
            self._look_wait = min(self._look_wait * 1.5, self.find_seconds * 4)
        self._look_at = monotonic() + (0 if granted else self._look_wait)
        return True if granted else self._look_wait

    def _take_on(self, granted: Sequence[Lease]) -> None:
        if not granted:
            return
        attempts = []
        for lease in granted:
            step, node = self.catalogue.find(lease.workflow, lease.workflow_version, lease.node)
            attempt = Attempt(lease, step, node)
            self.held[lease.step_id] = attempt
            attempts.append(attempt)
            if lease.fence > 1:
                metrics.take_overs.inc()
                log.info(
                    "step.leased", node=lease.node, step_id=str(lease.step_id), fence=lease.fence, attempt=lease.number
                )
        metrics.steps_leased.labels("").inc(len(granted))
        self.slots.submit(attempts)

    def _give_back_stuck(self) -> None:
        if not self.slots.waiting or self.slots.taken < self.slots.count:
            return
        oldest = self.slots.oldest_waiting()
        if oldest is None or monotonic() - oldest.leased_at < STUCK_SECONDS:
            return
        taken = self.slots.take_waiting()
        for attempt in taken:
            self.durations.add(
                (attempt.lease.workflow, attempt.lease.workflow_version, attempt.lease.node), STUCK_SECONDS
            )
        self._give_back(taken, "leased ahead, and what runs takes longer than expected")

    def _give_back(self, taken: Sequence[Attempt], why: str) -> None:
        for attempt in taken:
            self._drop(attempt.lease)
        if taken:
            self.leases.give_back([a.lease for a in taken], why)
            self.hints.publish("relay")

    # --- the end ---

    def drain(self) -> None:
        """Lease nothing any more; give back what has not begun."""
        self.draining = True
        self.offers.drop_all()
        for attempt in self.slots.take_waiting():
            attempt.stop("released")
            attempt.outcome = Stopped(attempt.lease, "released")
            self.slots.finished.append(attempt)
        self.slots.on_finished()

    def release_all(self) -> None:
        """Give back every lease that is left: no loss is counted."""
        left = [a.lease for a in self.held.values()]
        for attempt in list(self.held.values()):
            attempt.stop("released")
        if left:
            self.leases.give_back(left, "the worker shuts down")
            self.held.clear()
            self.hints.publish("relay")
