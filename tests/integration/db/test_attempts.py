"""One budget of attempts: errors, timeouts and losses spend it, what never began does not."""

from __future__ import annotations

from uuid import uuid4

import pytest
from kit.engine import Engine, Worker
from kit.flows import single

from stanchion.authority.leases import Done, Lease
from stanchion.workflow import Ctx, Workflow


def lose(engine: Engine, worker: Worker) -> Lease:
    """Lease the step and let the lease run out."""
    (lease,) = worker.take()
    engine.forward(31)
    engine.upkeep.reap()
    return lease


def test_errors_spend_retries_plus_one(engine: Engine) -> None:
    """Three retries: four attempts, and the reason says that it failed four times."""
    task = engine.submit(single("errors", retries=3))
    worker = engine.worker()
    states = []
    for _ in range(4):
        (lease,) = worker.take()
        states += worker.fail(lease, final=False).values()
        engine.fire()
    assert states == ["retry_wait"] * 3 + ["failed"]
    assert worker.take() == []
    engine.sweep()
    assert engine.task(task) == ("failed", "failed")
    assert engine.one("SELECT reason->>'why' FROM stanchion.task") == ("it failed 4 times",)


def test_losses_spend_the_same_budget(engine: Engine) -> None:
    """Four workers are lost: the step has failed, and the reason says so."""
    task = engine.submit(single("losses", retries=3))
    worker = engine.worker()
    for _ in range(4):
        lose(engine, worker)
    engine.sweep()
    assert engine.task(task) == ("failed", "failed")
    assert engine.one("SELECT reason->>'why' FROM stanchion.task") == ("its worker was lost 4 times",)


@pytest.mark.parametrize("mix", ["elel", "leel", "eell", "llee", "tlet"])
def test_any_mix_is_four_attempts(engine: Engine, mix: str) -> None:
    """Errors, losses and timeouts in any order: never more than retries + 1 counted attempts, each counted once."""
    task = engine.submit(single(f"mix_{mix}", retries=3, timeout="5s"))
    worker = engine.worker()
    for kind in mix:
        (lease,) = worker.take()
        if kind == "e":
            worker.fail(lease, final=False)
            engine.fire()
        else:
            engine.forward(31 if kind == "l" else 40)
            engine.upkeep.reap()
    assert worker.take() == []
    engine.sweep()
    assert engine.task(task) == ("failed", "failed")
    assert engine.one("SELECT attempts, max_attempts FROM stanchion.step") == (4, 4)
    assert engine.all("SELECT count(*) FROM stanchion.attempt WHERE counted") == [4]


def test_a_lease_that_was_only_handed_out_costs_nothing_when_lost(engine: Engine) -> None:
    """Leased ahead and never begun: the loss is on record and not counted. From then on each lease counts."""
    engine.submit(single("ahead", retries=0))
    worker = engine.worker()
    (lease,) = worker.leases.lease(worker.ready(), 0)
    assert not lease.started
    engine.forward(31)
    assert list(engine.upkeep.reap().values()) == ["ready"]
    assert engine.one("SELECT attempts, losses FROM stanchion.step") == (0, 1)
    (again,) = worker.leases.lease(worker.ready(), 0)
    assert again.started, "a step whose lease was lost before may be what kills its workers"
    engine.forward(31)
    assert list(engine.upkeep.reap().values()) == ["failed"]


def test_a_heartbeat_makes_a_lease_count(engine: Engine) -> None:
    """What was seen running was begun."""
    engine.submit(single("seen", retries=0))
    worker = engine.worker()
    (lease,) = worker.leases.lease(worker.ready(), 0)
    worker.leases.renew([lease], [True], [None])
    engine.forward(31)
    assert list(engine.upkeep.reap().values()) == ["failed"]


def test_giving_back_costs_nothing(engine: Engine) -> None:
    """A shutdown hands the lease back ten times, and the step still has all its attempts."""
    engine.submit(single("given", retries=0))
    worker = engine.worker()
    for _ in range(10):
        worker.leases.give_back(worker.take(), "shutdown")
    (lease,) = worker.take()
    assert (lease.number, lease.fence) == (1, 11)
    assert worker.finish(lease, 1)


def test_a_retry_and_the_reaper_want_one_new_attempt(engine: Engine) -> None:
    """The worker froze after its error: its lease is reaped, then it wakes and reports the failure. One attempt is
    charged, one new attempt is made, and the late report is refused and on record."""
    engine.submit(single("frozen", retries=3))
    worker = engine.worker()
    (lease,) = worker.take()
    engine.forward(31)
    assert list(engine.upkeep.reap().values()) == ["ready"]
    assert worker.fail(lease, final=False) == {}
    engine.fire()
    assert engine.upkeep.reap() == {}
    assert engine.one("SELECT attempts, state FROM stanchion.step") == (1, "ready")
    (again,) = worker.take()
    assert (again.number, again.fence) == (2, 2)
    assert engine.all("SELECT attempted FROM stanchion.refused_write") == ["fail"]


def test_the_reaper_finds_nothing_after_the_retry(engine: Engine) -> None:
    """The other order: the failure came first, though the lease had run out. It is accepted, once."""
    engine.submit(single("late_failure", retries=3))
    worker = engine.worker()
    (lease,) = worker.take()
    engine.forward(31)
    assert list(worker.fail(lease, final=False).values()) == ["retry_wait"]
    assert engine.upkeep.reap() == {}
    engine.fire()
    assert engine.one("SELECT attempts, state FROM stanchion.step") == (1, "ready")


def test_a_late_result_whose_fence_is_current_is_accepted(engine: Engine) -> None:
    """Nobody took the step meanwhile: the current fence is the law, and the event says late."""
    task = engine.submit(single("late"))
    worker = engine.worker()
    (lease,) = worker.take()
    engine.forward(60)
    assert worker.finish(lease, 1)
    assert engine.task(task) == ("completed", "succeeded")
    assert engine.all("SELECT body FROM stanchion.event WHERE kind = 'StepSucceeded'") == [{"late": True}]


def test_a_late_result_after_a_take_over_changes_nothing(engine: Engine) -> None:
    """The second worker's result stands; the first one's is refused, and named with both fences."""
    engine.submit(single("zombie"))
    first, second = engine.worker(), engine.worker()
    (old,) = first.take()
    engine.forward(31)
    engine.upkeep.reap()
    (new,) = second.take()
    assert not first.finish(old, 1)
    assert second.finish(new, 2)
    assert engine.all("SELECT body FROM stanchion.result") == [2]
    refused = engine.one("SELECT fence, current_fence, attempted, why, worker_id FROM stanchion.refused_write")
    assert refused == (1, 2, "complete", "superseded: fence 1, current 2", first.leases.worker_id)


def test_a_stale_heartbeat_is_told_and_recorded(engine: Engine) -> None:
    """The worker that lost its lease learns it; a heartbeat that crosses with the attempt's own end is no stale write."""
    engine.submit(single("stale_beat"))
    worker = engine.worker()
    old = lose(engine, worker)
    assert worker.leases.renew([old], [True], [None]) == {old.step_id: "lost"}
    (new,) = worker.take()
    assert worker.leases.renew([old, new], [True, True], [None, None])[new.step_id] in ("ok", "lost")
    assert engine.all("SELECT DISTINCT attempted FROM stanchion.refused_write") == ["renew"]
    worker.finish(new, 1)
    before = engine.all("SELECT count(*) FROM stanchion.refused_write")
    assert worker.leases.renew([new], [True], [None]) == {new.step_id: "lost"}
    assert engine.all("SELECT count(*) FROM stanchion.refused_write") == before


class TestLostAnswers:
    """The commit was applied, its answer was lost, and the worker asks again: it is told what is true."""

    def test_of_a_completion(self, engine: Engine) -> None:
        """Accepted the first time, accepted again, applied once; nobody is called stale."""
        task = engine.submit(single("again"))
        worker = engine.worker()
        (lease,) = worker.take()
        for _ in range(3):
            assert worker.leases.complete([Done(lease, 1)], 0)[0] == {lease.step_id}
        assert engine.all("SELECT count(*) FROM stanchion.refused_write") == [0]
        assert engine.all("SELECT count(*) FROM stanchion.event WHERE kind = 'StepSucceeded'") == [1]
        assert engine.task(task)[0] == "completed"

    def test_of_a_failure(self, engine: Engine) -> None:
        """It is told the state that its failure led to."""
        engine.submit(single("again_failed"))
        worker = engine.worker()
        (lease,) = worker.take()
        assert worker.fail(lease, final=False) == worker.fail(lease, final=False) == {lease.step_id: "retry_wait"}
        assert engine.one("SELECT attempts FROM stanchion.step") == (1,)
        assert engine.all("SELECT count(*) FROM stanchion.refused_write") == [0]

    def test_of_a_give_back(self, engine: Engine) -> None:
        """Given back once."""
        engine.submit(single("again_given"))
        worker = engine.worker()
        leases = worker.take()
        assert worker.leases.give_back(leases, "x") == worker.leases.give_back(leases, "x") == {leases[0].step_id}
        assert engine.all("SELECT count(*) FROM stanchion.ready") == [1]
        assert engine.all("SELECT count(*) FROM stanchion.refused_write") == [0]

    def test_by_another_worker_is_a_stale_write(self, engine: Engine) -> None:
        """The same fence in other hands proves nothing."""
        engine.submit(single("other_hands"))
        worker, thief = engine.worker(), engine.worker()
        (lease,) = worker.take()
        worker.finish(lease, 1)
        assert thief.leases.complete([Done(lease, 2)], 0)[0] == set()
        assert engine.all("SELECT worker_id FROM stanchion.refused_write") == [thief.leases.worker_id]


def test_a_stale_member_of_a_batch_harms_only_itself(engine: Engine) -> None:
    """Three of four results are accepted, the fourth, an unknown step and a wrong fence are not."""
    for n in range(4):
        engine.submit(single(f"batch_{n}"))
    worker = engine.worker()
    leases = worker.take()
    stale = leases[1]._replace(fence=7)
    unknown = leases[0]._replace(step_id=uuid4())
    accepted = worker.finish_all([leases[0], stale, unknown, leases[2], leases[3]], 1)
    assert accepted == {leases[0].step_id, leases[2].step_id, leases[3].step_id}
    assert engine.all("SELECT fence, current_fence FROM stanchion.refused_write") == [(7, 1)]
    assert worker.finish(leases[1], 1)


def test_what_became_ready_goes_to_the_worker_that_is_there(engine: Engine) -> None:
    """complete() grants the next step at once, at most as many as there is room for, and only what the worker serves."""
    from stanchion.workflow import Workflow

    wf = Workflow("next")

    @wf.step()
    def one(ctx: Ctx) -> int:
        return 1

    @wf.step(after=one)
    def two(ctx: Ctx, n: int) -> int:
        return n

    @wf.step(after=one)
    def three(ctx: Ctx, n: int) -> int:
        return n

    @wf.step(after=one, queue="elsewhere")
    def four(ctx: Ctx, n: int) -> int:
        return n

    engine.submit(wf)
    worker = engine.worker()
    (lease,) = worker.take()
    _, granted, _ = worker.leases.complete([Done(lease, 5)], 1)
    assert [(g.node in ("two", "three"), g.inputs, g.started) for g in granted] == [(True, [{"b": 5, "h": None}], True)]
    assert len(worker.ready("two", "three")) == 1
    assert len(worker.ready("four")) == 1


def test_the_relay_is_called_when_there_is_something_for_it(engine: Engine) -> None:
    """`posted` says whether a completion put anything into the outbox: what goes straight to the same worker does not."""
    wf = Workflow("posting")

    @wf.step()
    def one(ctx: Ctx) -> int:
        return 1

    @wf.step(after=one)
    def two(ctx: Ctx, n: int) -> int:
        return n

    @wf.step(after=two)
    def three(ctx: Ctx, n: int) -> int:
        return n

    engine.submit(wf)
    worker = engine.worker()
    leases = worker.take()
    told = []
    for room in (1, 0, 1):  # to this worker, for anybody, the end of the run
        before = engine.one("SELECT count(*) FROM stanchion.outbox")[0]
        completed = worker.leases.complete([Done(lease, 1) for lease in leases], room)
        told.append((completed.posted, engine.one("SELECT count(*) FROM stanchion.outbox")[0] > before))
        leases = completed.granted or worker.take()
    assert told == [(False, False), (True, True), (True, True)]


def test_a_step_with_a_longer_lease_keeps_it_longer(engine: Engine) -> None:
    """lease= lengthens the lease of that step, at the grant and at each heartbeat; a shorter one than the worker's changes nothing."""
    engine.submit(single("patient", lease="3m"))
    engine.submit(single("hasty", lease="5s"))
    worker = engine.worker()
    patient, hasty = sorted(worker.take(), key=lambda lease: lease.workflow == "hasty")
    engine.forward(31)
    assert set(engine.upkeep.reap()) == {hasty.step_id}
    worker.leases.renew([patient], [True], [None])
    engine.forward(170)
    assert engine.upkeep.reap() == {}
    engine.forward(11)
    assert set(engine.upkeep.reap()) == {patient.step_id}
