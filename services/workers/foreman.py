"""The foreman: one thread that leases what there is room for and hands in what is finished, in batches.

While it waits for the database, more results pile up and more offers come: under load the batches grow by themselves,
and an idle worker answers at once. It alone writes under leases, so that two writes never cross.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event
from typing import Final
from uuid import UUID

from stanchion.authority.leases import Done, Failure, Lease, Leases
from stanchion.authority.ledger import Ledger
from stanchion.db.pool import STATEMENT_TIMEOUT_MS
from stanchion.errors import InvariantViolated, Unavailable
from stanchion.runtime.clock import monotonic, pause
from stanchion.runtime.hints import ORCHESTRATOR, RELAY, WORKERS, Hints
from stanchion.runtime.logging import get_logger
from stanchion.telemetry import metrics

from .attempt import Asked, Attempt, Steer, Stopped
from .catalogue import Catalogue
from .durations import Durations
from .offers import Offers
from .settler import Settler, is_bug
from .slots import Slots

log = get_logger()

STUCK_SECONDS: Final = 0.25
"""What was leased ahead and has waited so long behind something longer is given back."""
HELD_UP_SECONDS: Final = 1.0
"""An event loop that has not answered for so long gets nothing more, and loses what has not begun: others have room."""
SHUN_SECONDS: Final = 60.0
"""A step that can't be leased is not tried again for so long, so that it neither ends this process nor keeps it busy."""
UNKNOWN_DELAY_MS: Final = 60_000
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
        called: Event,
    ) -> None:
        self.leases = leases
        self.ledger = Ledger(leases.database, leases.worker_id)
        self.catalogue = catalogue
        self.slots = slots
        self.offers = offers
        self.durations = durations
        self.hints = hints
        self.find_seconds = find_seconds
        self.called = called  # set when steps came back that no offer may bring here
        self.held: dict[UUID, Attempt] = {}
        self.settler = Settler(leases, self.ledger, catalogue, hints, self.held, self._take_on)
        self.draining = False
        self._unsettled: list[Attempt] = []  # ended, but the database was away
        self._look_at = monotonic() + find_seconds
        self._look_wait = find_seconds
        self._held_up = False
        self._doubted_until: float | None = None  # a call that leases was not answered: it may have, or still may
        self._doubt_at = 0.0  # the next look at what came of it
        self._shunned: dict[UUID, float] = {}  # steps that could not be leased, and until when they are left alone

    def run_once(self) -> bool | float:
        """One round. True when there may be more to do at once, else the seconds until the next look."""
        self._gather()
        self._give_back_unheld()
        settled = self._settle()
        if (fault := self.slots.check()) is not None:
            raise InvariantViolated("E-STEP-30", fault, fix="start the worker again, and look at what it logged before")
        if self.draining:
            return settled
        if self._is_held_up():
            self._give_back(self.slots.take_waiting(), "what runs holds up the event loop")
            return STUCK_SECONDS
        if self.called.is_set():
            self.called.clear()
            return self._look(0)
        leased = self._lease()
        self._give_back_stuck()
        if settled or leased:
            self._look_at, self._look_wait = monotonic() + self.find_seconds, self.find_seconds
            return True
        wait = (
            self._look(self.find_seconds) if monotonic() >= self._look_at else max(0.001, self._look_at - monotonic())
        )
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
        room = 0 if self.draining else self.slots.free
        try:
            self.settler.hand_in([a.outcome for a in ended if a.outcome is not None], room)
        except Unavailable:
            self._doubt()
            raise
        for attempt in ended:
            self._measure(attempt)
        self._unsettled = []
        return True

    def _measure(self, attempt: Attempt) -> None:
        lease = attempt.lease
        if attempt.begun_at is not None and isinstance(attempt.outcome, Done | Steer | Asked):
            self.durations.add((lease.workflow, lease.workflow_version, lease.node), attempt.ran_seconds)
            metrics.step_seconds.labels(attempt.node.queue).observe(attempt.ran_seconds)

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
        asked_at = monotonic()
        try:
            granted = self._grant([o.step_id for o in picked], self.slots.free)
        except BaseException:
            self.offers.put_back(picked)
            raise
        self.offers.decided(picked)
        self._take_on(granted, asked_at)
        return True

    def _look(self, older_seconds: float) -> bool | float:
        """Look at the ready table itself: an offer that was made so long ago may be lost, late, or with a worker that is
        busy, or gone."""
        room = self.slots.count - len(self.held)
        found = self.leases.find_ready(round(older_seconds * 1000), room) if room > 0 else []
        asked_at = monotonic()
        granted = self._grant(found, room)
        if granted:
            self._take_on(granted, asked_at)
            self._look_wait = self.find_seconds
        else:
            self._look_wait = min(self._look_wait * 1.5, self.find_seconds * 4)
        self._look_at = monotonic() + (0 if granted else self._look_wait)
        return True if granted else self._look_wait

    def _grant(self, steps: Sequence[UUID], starting: int) -> list[Lease]:
        """Lease them. One that makes the database refuse is left alone for a while, and the others are leased without it."""
        now = monotonic()
        self._shunned = {step: until for step, until in self._shunned.items() if until > now}
        steps = [step for step in steps if step not in self._shunned]
        if not steps:
            return []
        try:
            return self.leases.lease(steps, starting)
        except Unavailable:
            self._doubt()
            raise
        except InvariantViolated as error:
            if not is_bug(error):
                raise
            return self._grant_one_by_one(steps, starting, error)

    def _grant_one_by_one(self, steps: Sequence[UUID], starting: int, error: InvariantViolated) -> list[Lease]:
        granted: list[Lease] = []
        refused: list[UUID] = []
        for step in steps:
            try:
                granted += self.leases.lease([step], max(starting - len(granted), 0))
            except InvariantViolated:
                refused.append(step)
            except Unavailable:
                self._doubt()
                break  # what was granted so far must not get lost; the rest is offered again
        if len(refused) == len(steps) > 1:
            raise error  # no single step is to blame
        for step in refused:
            log.error("step.lease_refused", step_id=str(step), code=error.code, what=error.what, exc_info=error)
            self._shunned[step] = monotonic() + SHUN_SECONDS
        return granted

    def _take_on(self, granted: Sequence[Lease], asked_at: float) -> None:
        attempts = []
        strays: list[Lease] = []
        for lease in granted:
            try:
                step, node = self.catalogue.find(lease.workflow, lease.workflow_version, lease.node)
            except LookupError:
                strays.append(lease)
                continue
            attempt = Attempt(lease, step, node, asked_at, self.ledger)
            self.held[lease.step_id] = attempt
            attempts.append(attempt)
            if lease.fence > 1:
                metrics.take_overs.inc()
                log.info(
                    "step.leased", node=lease.node, step_id=str(lease.step_id), fence=lease.fence, attempt=lease.number
                )
        if attempts:
            metrics.steps_leased.labels("").inc(len(attempts))
            self.slots.submit(attempts)
        self._turn_away(strays)

    def _turn_away(self, strays: Sequence[Lease]) -> None:
        """What this worker can't run: of a version that it does not serve it goes back, for others; a step that its own
        version does not have would come back for ever, so it spends an attempt."""
        for lease in strays:
            log.error("step.unknown", workflow=lease.workflow, version=lease.workflow_version, node=lease.node)
        served = {id(x): self.catalogue.serves(x.workflow, x.workflow_version) for x in strays}
        others = [x for x in strays if not served[id(x)]]
        if others:
            for lease in others:
                self._shunned[lease.step_id] = monotonic() + SHUN_SECONDS
            self.leases.give_back(others, "this worker does not serve its workflow")
            self.hints.publish(RELAY)
        if missing := [unknown_step(x) for x in strays if served[id(x)]]:
            self.leases.fail(missing)
            self.hints.publish(ORCHESTRATOR)

    def _doubt(self) -> None:
        self._doubt_at = monotonic()
        self._doubted_until = self._doubt_at + STATEMENT_TIMEOUT_MS / 1000

    def _give_back_unheld(self) -> None:
        """Of a lease whose answer was lost nothing runs here: it goes back instead of running out, and costs no attempt.

        Only the foreman leases, so nothing is on its way here now. It looks as soon as the database answers, and once
        more when no call can still be at work there that this end has given up.
        """
        if self._doubted_until is None or monotonic() < self._doubt_at:
            return
        last = monotonic() >= self._doubted_until
        if steps := self.leases.give_back_unheld([a.lease for a in self.held.values()]):
            log.warning("lease.answer_lost", count=len(steps), step_ids=sorted(map(str, steps))[:10])
            self.hints.publish(RELAY)
        self._doubt_at = self._doubted_until
        if last:
            self._doubted_until = None

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
            self.settler.drop(attempt.lease)
        if taken:
            self.leases.give_back([a.lease for a in taken], why)
            self.hints.publish(RELAY)

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
        if self._doubted_until is not None:
            self.leases.give_back_unheld(left)
        if left:
            self.leases.give_back(left, "the worker shuts down")
            self.held.clear()
            self.hints.publish(RELAY)
            self.hints.publish(WORKERS)


def unknown_step(lease: Lease) -> Failure:
    """The outcome of a step that the code of its own version does not have."""
    error = {
        "code": "E-STEP-35",
        "what": f"{lease.workflow} version {lease.workflow_version} has no step {lease.node} here",
        "fix": "start workers with the code that this version was registered with",
    }
    return Failure(lease, error, False, UNKNOWN_DELAY_MS)
