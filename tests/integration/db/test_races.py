"""Two things at the same moment, on connections of their own: one wins, nothing is lost, nobody deadlocks."""

from __future__ import annotations

from collections import Counter
from threading import Thread
from uuid import UUID

import psycopg
import pytest
from kit.engine import Engine
from kit.flows import fan, single
from kit.racing import deadlocks, race

from stanchion.authority.leases import Done, Failure, Lease
from stanchion.workflow import All, Ctx, First, Results, Workflow

ERROR = {"code": "E-STEP-27", "what": "test"}


def batches(items: list[Lease], size: int = 200) -> list[list[Lease]]:
    return [items[i : i + size] for i in range(0, len(items), size)]


def leased(engine: Engine, wf: Workflow, tasks: int, ttl_ms: int = 30_000) -> tuple[list[UUID], list[Lease]]:
    """So many tasks of a workflow whose first step is leased, in order of the tasks."""
    answers = []
    for start in range(0, tasks, 200):
        answers += engine.submit_all(wf, [({}, None)] * min(200, tasks - start))
    worker = engine.worker(ttl_ms)
    by_run = {x.run_id: x for x in worker.take()}
    return [a.task_id for a in answers], [by_run[a.run_id] for a in answers]


def test_the_last_two_children_complete_at_the_same_moment(engine: Engine) -> None:
    """1,000 joins of two children each: every one is released exactly once, none never, and every run ends."""
    wf = fan("pairs", "all", [])
    _, plans = leased(engine, wf, 1_000)
    worker = engine.worker()
    for batch in batches(plans):
        worker.finish_all(batch, ["a", "b"])
    race(1, lambda _: engine.expand(), lambda _: engine.expand())
    children: dict[UUID, list[Lease]] = {}
    for batch in iter(lambda: worker.take("visit", limit=500), []):
        for lease in batch:
            children.setdefault(lease.run_id, []).append(lease)
    pairs = list(children.values())
    assert len(pairs) == 1_000
    assert {len(p) for p in pairs} == {2}
    one, two = race(
        1_000,
        lambda n: worker.leases.complete([Done(pairs[n][0], "A")], 0)[0],
        lambda n: worker.leases.complete([Done(pairs[n][1], "B")], 0)[0],
    )
    assert all(len(x) == 1 for x in one + two)
    found = engine.one(
        "SELECT count(*), count(DISTINCT r.barrier_id), min(r.included), max(r.included) FROM stanchion.barrier b"
        " LEFT JOIN stanchion.barrier_release r ON r.barrier_id = b.barrier_id WHERE b.node = 'gather' AND b.kind = 'gather'"
    )
    assert found == (1_000, 1_000, 2, 2)
    assert len(worker.ready("gather")) == 1_000
    for batch in iter(lambda: worker.take("gather", limit=500), []):
        worker.finish_all(batch, {})
    assert engine.all("SELECT DISTINCT state FROM stanchion.task") == ["completed"]
    assert deadlocks(engine) == 0
    engine.check_counts()


def test_two_ways_into_a_step_end_at_the_same_moment(engine: Engine) -> None:
    """A step after two others becomes ready exactly once."""
    wf = Workflow("diamond")

    @wf.step()
    def left(ctx: Ctx) -> int:
        return 1

    @wf.step()
    def right(ctx: Ctx) -> int:
        return 2

    @wf.step(after=(left, right))
    def both(ctx: Ctx, a: int, b: int) -> int:
        return a + b

    engine.submit_all(wf, [({}, None)] * 200)
    worker = engine.worker()
    lefts = {x.run_id: x for x in worker.take("left")}
    rights = {x.run_id: x for x in worker.take("right")}
    runs = list(lefts)
    race(
        200,
        lambda n: worker.leases.complete([Done(lefts[runs[n]], 1)], 0),
        lambda n: worker.leases.complete([Done(rights[runs[n]], 2)], 0),
    )
    assert len(worker.ready("both")) == 200
    assert engine.all("SELECT DISTINCT waits FROM stanchion.step WHERE node = 'both'") == [0]
    assert deadlocks(engine) == 0


def test_many_lease_the_same_steps(engine: Engine) -> None:
    """Eight workers ask for the same 300 steps: each is granted once, with fence 1 and one attempt."""
    engine.submit_all(single("wanted"), [({}, None)] * 300)
    workers = [engine.worker() for _ in range(8)]
    steps = workers[0].ready()
    answers = race(1, *[lambda _, w=w: w.leases.lease(steps, 300) for w in workers])
    granted = [lease for answer in answers for lease in answer[0]]
    assert len(granted) == len({x.step_id for x in granted}) == 300
    assert {x.fence for x in granted} == {1}
    assert engine.all("SELECT count(*) FROM stanchion.attempt") == [300]
    assert deadlocks(engine) == 0


def test_a_heartbeat_and_the_reaper_meet(engine: Engine) -> None:
    """The lease has run out: either the heartbeat saves it or the reaper takes it, never both."""
    _, leases = leased(engine, single("beats"), 300)
    worker = engine.worker()
    engine.forward(31)
    verdicts, reaped = race(
        300,
        lambda n: worker.leases.renew([leases[n]], [True], [None])[leases[n].step_id],
        lambda _: engine.upkeep.reap(3),
    )
    taken = {step for answer in reaped for step in answer}
    for lease, verdict in zip(leases, verdicts, strict=True):
        state, until = engine.one(
            "SELECT s.state, a.lease_until > stanchion.clock() FROM stanchion.step s"
            " JOIN stanchion.attempt a ON a.step_id = s.step_id AND a.fence = s.fence WHERE s.step_id = %s",
            lease.step_id,
        )
        assert (state == "ready") == (lease.step_id in taken)
        if verdict == "ok":
            assert (state, until) == ("running", True)
        elif verdict == "lost":
            assert state == "ready"
        else:
            assert verdict == "busy"
    counted = Counter(verdicts)
    assert counted["ok"] + counted["lost"] + counted["busy"] == 300
    assert deadlocks(engine) == 0


def test_a_retry_and_the_reaper_meet(engine: Engine) -> None:
    """Both want a new attempt of the same step: it is charged once, and there is one new attempt."""
    _, leases = leased(engine, single("both_want", retries=3), 300)
    worker = engine.worker()
    engine.forward(31)
    race(
        300,
        lambda n: worker.leases.fail([Failure(leases[n], ERROR, False, 0)]),
        lambda _: engine.upkeep.reap(3),
    )
    engine.upkeep.reap(500)
    engine.fire()
    assert engine.all("SELECT DISTINCT attempts, state FROM stanchion.step") == [(1, "ready")]
    assert engine.all("SELECT DISTINCT counted FROM stanchion.attempt") == [True]
    assert engine.all("SELECT count(*) FROM stanchion.ready") == [300]
    again = worker.take()
    assert {(x.number, x.fence) for x in again} == {(2, 2)}
    lost = engine.one("SELECT count(*) FROM stanchion.attempt WHERE state = 'lost'")[0]
    assert engine.one("SELECT count(*) FROM stanchion.refused_write WHERE attempted = 'fail'")[0] == lost
    assert deadlocks(engine) == 0


def test_a_cancel_and_a_completion_meet(engine: Engine) -> None:
    """Each task is either complete or cancelled, with its run; the result is kept in both cases."""
    tasks, leases = leased(engine, single("cancelled_or_done"), 300)
    worker = engine.worker()
    cancel = "SELECT stanchion.cancel_task(%s, %s, 'x', 'ann')"
    accepted, _ = race(
        300,
        lambda n: worker.leases.complete([Done(leases[n], 1)], 0)[0],
        lambda n: engine.service.call("cancel", cancel, (engine.tenant, tasks[n])),
    )
    assert all(len(a) == 1 for a in accepted)
    engine.sweep()
    ends = Counter(
        engine.all("SELECT t.state || ' ' || r.state FROM stanchion.task t JOIN stanchion.run r ON r.run_id = t.run_id")
    )
    assert set(ends) <= {"completed succeeded", "cancelled cancelled"}
    assert sum(ends.values()) == 300
    assert engine.all("SELECT count(*) FROM stanchion.result") == [300]
    assert deadlocks(engine) == 0
    engine.check_counts()


def test_a_cancel_and_a_lease_meet(engine: Engine) -> None:
    """A step that was leased at the moment of the cancel learns it at its first heartbeat; the run ends."""
    answers = engine.submit_all(single("cancelled_or_leased"), [({}, None)] * 200)
    worker = engine.worker()
    steps = dict(engine.all("SELECT run_id, step_id FROM stanchion.step"))
    cancel = "SELECT stanchion.cancel_task(%s, %s, 'x', 'ann')"
    granted, _ = race(
        200,
        lambda n: worker.leases.lease([steps[answers[n].run_id]], 1),
        lambda n: engine.service.call("cancel", cancel, (engine.tenant, answers[n].task_id)),
    )
    engine.sweep()
    for lease in (x for answer in granted for x in answer):
        assert worker.leases.renew([lease], [True], [None]) == {lease.step_id: "cancel"}
        assert worker.leases.end_cancelled([lease]) == {lease.step_id}
    engine.sweep()
    assert engine.all("SELECT DISTINCT state FROM stanchion.task") == ["cancelled"]
    assert deadlocks(engine) == 0
    engine.check_counts()


def test_a_pause_and_a_lease_meet(engine: Engine) -> None:
    """Whatever comes first: a paused and resumed run goes on to its end."""
    answers = engine.submit_all(single("paused_or_leased"), [({}, None)] * 200)
    worker = engine.worker()
    steps = dict(engine.all("SELECT run_id, step_id FROM stanchion.step"))

    def pause(n: int) -> None:
        engine.pause(answers[n])
        engine.pause(answers[n], False)

    granted, _ = race(200, lambda n: worker.leases.lease([steps[answers[n].run_id]], 1), pause)
    worker.finish_all([x for answer in granted for x in answer], 1)
    worker.work()
    assert engine.all("SELECT DISTINCT state FROM stanchion.task") == ["completed"]
    assert deadlocks(engine) == 0


def test_two_planners_expand_the_same_fan_out(engine: Engine) -> None:
    """Each branch is inserted once: one planner is told that another one was faster."""
    wf = fan("planners", "all", [])
    _, plans = leased(engine, wf, 50)
    engine.worker().finish_all(plans, ["a", "b", "c"])
    due = engine.planning.due(100)
    assert len(due) == 50
    one, two = race(50, lambda n: engine.planning.expand(due[n]), lambda n: engine.planning.expand(due[n]))
    for first, second in zip(one, two, strict=True):
        # who comes after the end of the expansion finds no timer any more
        assert sorted([first, second]) == ["expanded", "taken"]
    found = engine.all("SELECT count(*) FROM stanchion.step WHERE node = 'visit' AND kind = 'step' GROUP BY run_id")
    assert found == [3] * 50
    assert deadlocks(engine) == 0


def test_two_planners_expand_two_fan_outs_of_one_run(engine: Engine) -> None:
    """Nested fan-outs raise what the run counts as open, at the same moment: nobody waits for the other for ever."""
    wf = Workflow("two_fans")

    @wf.step()
    def one(ctx: Ctx) -> list[int]:
        return [1, 2]

    @wf.step()
    def two(ctx: Ctx) -> list[int]:
        return []

    @wf.step(after=one, each=True)
    def deep(ctx: Ctx, n: int) -> list[int]:
        return [n]

    @wf.step(after=deep, each=True)
    def deeper(ctx: Ctx, n: int) -> int:
        return n

    @wf.step(after=deeper, join="all")
    def inner(ctx: Ctx, numbers: Results[int]) -> int:
        return len(numbers)

    @wf.step(after=inner, join="all")
    def outer(ctx: Ctx, numbers: Results[int]) -> int:
        return len(numbers)

    @wf.step(after=two, each=True)
    def flat(ctx: Ctx, n: int) -> int:
        return n

    @wf.step(after=flat, join="all")
    def flat_join(ctx: Ctx, numbers: Results[int]) -> int:
        return len(numbers)

    engine.submit_all(wf, [({}, None)] * 40)
    worker = engine.worker()
    worker.finish_all(worker.take("one"), [1, 2])
    worker.finish_all(worker.take("two"), [])
    due = {(d.run_id, d.node): d for d in engine.planning.due(100)}
    runs = list({run for run, _ in due})
    race(
        40,
        lambda n: engine.planning.expand(due[runs[n], "deep"]),
        lambda n: engine.planning.expand(due[runs[n], "flat"]),
    )
    worker.work()
    assert engine.all("SELECT DISTINCT state FROM stanchion.task") == ["completed"]
    assert deadlocks(engine) == 0
    engine.check_counts()


def test_a_reopening_and_an_opening_meet(engine: Engine) -> None:
    """A person reopens the failed child, another one opens the join without it: counts and states agree either way."""
    wf = fan("reopened_or_opened", All(on_failed="hold"), [])
    _, plans = leased(engine, wf, 100)
    worker = engine.worker()
    worker.finish_all(plans, ["a"])
    engine.expand()
    children = worker.take("visit")
    worker.fail(*children)
    joins = dict(
        engine.all("SELECT run_id, barrier_id FROM stanchion.barrier WHERE node = 'gather' AND kind = 'gather'")
    )

    def open_it(n: int) -> bool:
        from stanchion.errors import Conflict

        try:
            return engine.open(joins[children[n].run_id])
        except Conflict:
            return False

    reopened, opened = race(100, lambda n: engine.reopen([children[n].step_id]), open_it)
    for was_reopened, was_opened in zip(reopened, opened, strict=True):
        assert bool(was_reopened) != was_opened
    worker.work()
    assert engine.all("SELECT DISTINCT state FROM stanchion.task") == ["completed"]
    assert deadlocks(engine) == 0
    engine.check_counts()


def test_a_sweep_and_late_children_meet(engine: Engine) -> None:
    """After an early release the sweep cancels while children of several steps go on: the run ends, nobody deadlocks."""
    wf = Workflow("swept")

    @wf.step()
    def plan(ctx: Ctx) -> list[int]:
        return list(range(120))

    @wf.step(after=plan, each=True)
    def left(ctx: Ctx, n: int) -> int:
        return n

    @wf.step(after=left)
    def middle(ctx: Ctx, n: int) -> int:
        return n

    @wf.step(after=left)
    def side(ctx: Ctx, n: int) -> int:
        return n

    @wf.step(after=(middle, side))
    def end(ctx: Ctx, n: int, m: int) -> int:
        return n

    @wf.step(after=end, join=First())
    def gather(ctx: Ctx, numbers: Results[int]) -> int:
        return len(numbers)

    task = engine.submit(wf)
    worker = engine.worker()
    worker.work(until=lambda: len(worker.ready("left")) == 120)
    worker.finish_all(worker.take("left"), 1)
    middles = worker.take("middle")
    worker.finish(worker.take("side", limit=1)[0], 1)
    first = engine.one("SELECT idx FROM stanchion.step WHERE node = 'side' AND state = 'succeeded'")[0]
    worker.finish(next(x for x in middles if x.idx == first), 1)
    worker.finish(worker.take("end")[0], 1)
    rest = [x for x in middles if x.idx != first]
    (join,) = engine.upkeep.waiting().barriers
    race(
        len(rest),
        lambda n: worker.leases.complete([Done(rest[n], 1)], 0),
        lambda _: engine.upkeep.sweep_barrier(join, 2),
    )
    worker.work()
    assert engine.task(task) == ("completed", "succeeded")
    assert deadlocks(engine) == 0
    engine.check_counts()


@pytest.mark.parametrize("grace_ms", [0, 60_000])
def test_two_sweepers_and_a_worker_meet(engine: Engine, grace_ms: int) -> None:
    """Two replicas wind the same runs down while their steps are handed in: each run ends once."""
    wf = fan("two_sweepers", "all", [])
    tasks, plans = leased(engine, wf, 40)
    worker = engine.worker()
    worker.finish_all(plans, list("abcd"))
    engine.expand()
    children: dict[UUID, list[Lease]] = {}
    for lease in worker.take("visit"):
        children.setdefault(lease.run_id, []).append(lease)
    runs = [p.run_id for p in plans]
    for task in tasks:
        engine.service.call("cancel", "SELECT stanchion.cancel_task(%s, %s, 'x', 'ann')", (engine.tenant, task))
    race(
        40,
        lambda n: engine.upkeep.sweep_run(runs[n], grace_ms - 1),
        lambda n: engine.upkeep.sweep_run(runs[n], grace_ms - 1),
        lambda n: worker.leases.complete([Done(x, "x") for x in children[runs[n]]], 0),
    )
    engine.sweep(grace_ms - 1)
    assert engine.all("SELECT DISTINCT state FROM stanchion.task") == ["cancelled"]
    assert engine.all("SELECT count(*) FROM stanchion.event WHERE kind = 'RunCancelled'") == [40]
    assert deadlocks(engine) == 0
    engine.check_counts()


@pytest.mark.parametrize("why", ["resume", "worker"])
def test_what_is_put_aside_at_the_moment_it_can_be_leased_again_is_offered(
    engine: Engine, database_url: str, why: str
) -> None:
    """Offers decide from what they saw: a resume, or the first worker of a version, that they did not see waits for them
    and brings back what they put aside, instead of leaving it unseen for minutes."""
    task = engine.submit(single("aside"))
    worker = engine.worker()
    if why == "resume":
        worker.seen()
        engine.pause(task)
    engine.forward(7)
    with psycopg.connect(database_url.replace("+psycopg", "")) as offers:
        assert offers.execute("SELECT stanchion.offer_ready(1000, 5000)").fetchone() == (0,)
        comes = Thread(target=worker.seen if why == "worker" else lambda: engine.pause(task, paused=False))
        comes.start()
        comes.join(0.5)
        offers.commit()
        comes.join(10)
    assert engine.all("SELECT offered_at FROM stanchion.ready") == [None]


def test_resumes_new_workers_and_offers_at_the_same_moment(engine: Engine) -> None:
    """None waits for another in a circle, and in the end all that is ready is offered or waits to be."""
    flow = single("asides")
    tasks = [engine.submit(flow) for _ in range(40)]
    workers = [engine.worker() for _ in tasks]
    before = deadlocks(engine)

    def turn(n: int) -> None:
        engine.pause(tasks[n])
        engine.pause(tasks[n], paused=False)

    offer = engine.upkeep.offer
    race(
        40, turn, lambda n: workers[n].seen(), lambda _: offer(), lambda _: offer(), lambda _: workers[0].take(limit=3)
    )
    assert deadlocks(engine) == before
    assert engine.all("SELECT step_id FROM stanchion.ready WHERE offered_at > stanchion.clock()") == []


@pytest.mark.parametrize("act", ["open", "recount"])
def test_the_audit_chain_is_locked_last(engine: Engine, database_url: str, act: str) -> None:
    """Whoever pauses or cancels holds the run and then writes to the tenant's chain: a join that is opened or recounted
    at that moment waits for the run without holding the chain, instead of ending one of the two as a deadlock."""
    task = engine.submit(fan("audited", All(on_failed="hold"), []))
    worker = engine.worker()
    worker.finish(worker.take("plan")[0], ["a", "bad"])
    engine.expand()
    fine, bad = worker.take("visit")
    worker.finish(fine, "A")
    worker.fail(bad)
    barrier = engine.barrier("gather")["barrier_id"]
    call = f"SELECT stanchion.open_barrier('{engine.tenant}', '{barrier}', 'r', 'ann')"
    if act == "recount":
        engine.admin.execute(
            "UPDATE stanchion.barrier SET failed = 0, on_failed = 'collect' WHERE barrier_id = %s", (barrier,)
        )
        call = f"SELECT stanchion.recount_barrier('{barrier}')"
    errors: list[Exception] = []

    def decide() -> None:
        try:
            with psycopg.connect(database_url.replace("+psycopg", ""), autocommit=True) as other:
                other.execute(call)
        except psycopg.Error as error:
            errors.append(error)

    with psycopg.connect(database_url.replace("+psycopg", "")) as pauses:
        pauses.execute("UPDATE stanchion.run SET updated_at = updated_at WHERE run_id = %s", (engine.run_of(task),))
        decides = Thread(target=decide)
        decides.start()
        decides.join(0.5)
        assert decides.is_alive(), "it waits for the run"
        pauses.execute(
            "INSERT INTO stanchion.audit (tenant_id, actor, action, target, detail) VALUES (%s, 'ann', 'task.pause', 'x', '{}')",
            (engine.tenant,),
        )
        pauses.commit()
        decides.join(10)
    assert errors == []
    assert engine.barrier("gather")["state"] == "released"
