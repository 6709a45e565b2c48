"""Several joins over one fan-out: what one has decided stays, and what another one waits for goes on."""

from __future__ import annotations

from typing import Any

import pytest
from kit.engine import Engine
from kit.flows import result
from kit.racing import deadlocks, race

from stanchion.errors import Conflict
from stanchion.workflow import All, AtLeast, Ctx, First, Go, Results, Workflow
from stanchion.workflow.joins import Join

pytestmark = pytest.mark.usefixtures("agrees")

BAD: set[int] = set()
"""Items whose step fails."""


@pytest.fixture(autouse=True)
def _good() -> None:
    BAD.clear()


def seen(got: Results[int]) -> list[Any]:
    """What a join was given: values, numbers of failed and of missing ones, and their total."""
    return [list(got), [child.idx for child in got.failed], got.missing, got.total]


def pair(name: str, one_join: Join, two_join: Join, *, width: int = 3, deep: bool = False) -> Workflow:
    """find -> read (each) [-> polish], joined by one and by two."""
    wf = Workflow(name)

    @wf.step()
    def find(ctx: Ctx) -> list[int]:
        return list(range(width))

    @wf.step(after=find, each=True, retries=0)
    def read(ctx: Ctx, n: int) -> int:
        if n in BAD:
            raise ValueError(n)
        return n

    last = read
    if deep:

        @wf.step(after=read)
        def polish(ctx: Ctx, n: int) -> int:
            return n

        last = polish

    @wf.step(after=last, join=one_join)
    def one(ctx: Ctx, got: Results[int]) -> list[Any]:
        return seen(got)

    @wf.step(after=last, join=two_join)
    def two(ctx: Ctx, got: Results[int]) -> list[Any]:
        return seen(got)

    return wf


def failed(engine: Engine) -> list[Any]:
    return engine.all("SELECT step_id FROM stanchion.step WHERE state = 'failed' ORDER BY step_id")


HOLD = All(on_failed="hold")


@pytest.mark.parametrize(
    "join", [First(on_failed="hold", rest="finish"), AtLeast(2, on_failed="hold", rest="finish")], ids=["first", "two"]
)
def test_a_reopened_child_settles_again_at_a_join_that_has_opened(engine: Engine, join: Join) -> None:
    """It is counted there once, as what it became in the end; what the join was given stays."""
    BAD.add(1)
    task = engine.submit(pair("opened", join, HOLD))
    worker = engine.worker()
    worker.work()
    before = result(engine, "one")
    BAD.clear()
    assert engine.reopen(failed(engine)) != set()
    assert engine.barrier("one")["failed"] == 0
    worker.work()
    assert engine.task(task) == ("completed", "succeeded")
    assert before == result(engine, "one")
    assert result(engine, "two") == [[0, 1, 2], [], [], 3]
    assert (engine.barrier("one")["succeeded"], engine.barrier("one")["failed"]) == (3, 0)


@pytest.mark.parametrize("end", ["complete", "fail", "reap"])
def test_a_reopened_child_may_end_in_any_way(engine: Engine, end: str) -> None:
    """A second result, a second failure and a second lost worker are accepted as the first ones were."""
    BAD.add(1)
    task = engine.submit(pair("ends", HOLD, HOLD))
    worker = engine.worker()
    worker.work()
    engine.open(engine.barrier("one")["barrier_id"])
    BAD.clear()
    engine.reopen(failed(engine))
    (lease,) = worker.take("read")
    if end == "complete":
        worker.settle([worker.run(lease)])
    elif end == "fail":
        assert set(worker.fail(lease).values()) == {"failed"}
    else:
        engine.admin.execute("UPDATE stanchion.attempt SET started_at = granted_at WHERE ended_at IS NULL")
        engine.forward(31)
        assert set(engine.upkeep.reap().values()) == {"failed"}
    if end != "complete":
        assert engine.barrier("one")["failed"] == 1
        engine.reopen(failed(engine))
    worker.work()
    assert engine.task(task) == ("completed", "succeeded")
    assert (result(engine, "one"), result(engine, "two")) == ([[0, 2], [1], [], 3], [[0, 1, 2], [], [], 3])


@pytest.mark.parametrize("deep", [False, True], ids=["joined", "before_the_joined"])
def test_results_stay_when_a_child_is_reopened_after_the_join_was_opened_without_it(engine: Engine, deep: bool) -> None:
    """The join that somebody opened reads the child as failed, with its first error, before and after."""
    BAD.add(1)
    task = engine.submit(pair("kept", HOLD, HOLD, deep=deep))
    worker = engine.worker()
    worker.work()
    engine.open(engine.barrier("one")["barrier_id"])
    engine.sweep()
    (lease,) = worker.take("one")
    read = worker.run(lease).body
    assert read == [[0, 2], [1], [], 3]
    errors = engine.worker_database.read(
        "SELECT idx, error FROM stanchion.results_page(%s, %s, %s, %s, -1, 10) WHERE state = 'failed'",
        (lease.step_id, lease.fence, lease.sources[0], "polish" if deep else "read"),
    )
    BAD.clear()
    assert len(engine.reopen(failed(engine))) == 1
    worker.settle([worker.run(x) for x in worker.take("read")])
    worker.settle([worker.run(x) for x in worker.take("polish")])
    assert worker.run(lease).body == read
    assert errors == engine.worker_database.read(
        "SELECT idx, error FROM stanchion.results_page(%s, %s, %s, %s, -1, 10) WHERE state = 'failed'",
        (lease.step_id, lease.fence, lease.sources[0], "polish" if deep else "read"),
    )
    assert errors[0][1] is not None
    worker.settle([worker.run(lease)])
    worker.work()
    assert engine.task(task) == ("completed", "succeeded")
    assert result(engine, "two") == [[0, 1, 2], [], [], 3]


def test_both_joins_may_be_opened_without_the_same_branch(engine: Engine) -> None:
    """What stood behind the failed step is let go once nobody waits for it, and the run ends."""
    BAD.add(1)
    task = engine.submit(pair("twice", HOLD, HOLD, deep=True))
    worker = engine.worker()
    worker.work()
    for node in ("one", "two"):
        engine.open(engine.barrier(node)["barrier_id"])
    worker.work()
    assert engine.task(task) == ("completed", "succeeded")
    assert result(engine, "one") == result(engine, "two") == [[0, 2], [1], [], 3]
    assert engine.reopen(failed(engine)) == set()


def test_a_join_is_not_opened_without_a_branch_that_still_runs(engine: Engine) -> None:
    """Another step of the branch failed; the one that it waits for may still succeed."""
    wf = Workflow("moving")

    @wf.step()
    def find(ctx: Ctx) -> list[int]:
        return [0]

    @wf.step(after=find, each=True)
    def read(ctx: Ctx, n: int) -> int:
        return n

    @wf.step(after=read, retries=0)
    def left(ctx: Ctx, n: int) -> int:
        raise ValueError(n)

    @wf.step(after=read)
    def right(ctx: Ctx, n: int) -> int:
        return n

    @wf.step(after=left, join=HOLD)
    def lefts(ctx: Ctx, got: Results[int]) -> list[Any]:
        return seen(got)

    @wf.step(after=right, join=HOLD)
    def rights(ctx: Ctx, got: Results[int]) -> list[Any]:
        return seen(got)

    task = engine.submit(wf)
    worker = engine.worker()
    worker.settle([worker.run(x) for x in worker.take("find")])
    engine.expand()
    worker.settle([worker.run(x) for x in worker.take("read")])
    worker.settle([worker.run(x) for x in worker.take("left")])
    with pytest.raises(Conflict, match="1 of 1 children have not settled"):
        engine.open(engine.barrier("rights")["barrier_id"])
    engine.open(engine.barrier("lefts")["barrier_id"])
    worker.work()
    assert engine.task(task) == ("completed", "succeeded")


# --- what is left over ---


def test_a_decided_join_leaves_alone_what_another_one_waits_for(engine: Engine) -> None:
    """Only when both are decided the rest is cancelled."""
    task = engine.submit(pair("waits", First(), AtLeast(3), width=5))
    worker = engine.worker()
    worker.settle([worker.run(x) for x in worker.take("find")])
    engine.expand()
    worker.settle([worker.run(x) for x in worker.take("read", limit=1)])
    engine.sweep()
    assert engine.states(task, "read") == {"succeeded": 1, "ready": 4}
    worker.settle([worker.run(x) for x in worker.take("read", limit=2)])
    engine.sweep()
    assert engine.states(task, "read") == {"succeeded": 3, "cancelled": 2}
    worker.work()
    assert engine.task(task) == ("completed", "succeeded")
    assert (len(result(engine, "one")[0]), len(result(engine, "two")[0])) == (1, 3)


def test_one_join_that_lets_the_rest_finish_is_enough(engine: Engine) -> None:
    """With rest=finish in one of them, all branches run."""
    task = engine.submit(pair("finishes", First(rest="finish"), AtLeast(2), width=5))
    worker = engine.worker()
    worker.work()
    assert engine.task(task) == ("completed", "succeeded")
    assert engine.states(task, "read") == {"succeeded": 5}


def test_a_join_of_one_way_leaves_the_other_way_alone(engine: Engine) -> None:
    """One join for each way that a branch may choose: the first is decided early, the second still waits."""
    wf = Workflow("ways")

    @wf.step()
    def find(ctx: Ctx) -> list[int]:
        return list(range(4))

    @wf.step(after=find, each=True, next=("odd", "even"))
    def look(ctx: Ctx, n: int) -> Go:
        return Go(odd if n % 2 else even, n=n)

    @wf.step()
    def odd(ctx: Ctx, n: int) -> int:
        return n

    @wf.step()
    def even(ctx: Ctx, n: int) -> int:
        return n

    @wf.step(after=odd, join=First())
    def odds(ctx: Ctx, got: Results[int]) -> int:
        return len(got)

    @wf.step(after=even, join="all")
    def evens(ctx: Ctx, got: Results[int]) -> int:
        return len(got)

    task = engine.submit(wf)
    worker = engine.worker()
    worker.settle([worker.run(x) for x in worker.take("find")])
    engine.expand()
    worker.settle([worker.run(x) for x in worker.take("look")])
    worker.settle([worker.run(x) for x in worker.take("odd", limit=1)])
    engine.sweep()
    assert engine.states(task, "even") == {"ready": 2, "skipped": 2}
    worker.work()
    assert engine.task(task) == ("completed", "succeeded")
    assert (result(engine, "odds"), result(engine, "evens")) == (1, 2)


def test_a_hold_inside_a_branch_waits_as_long_as_any_join_around_it(engine: Engine) -> None:
    """The outer join that is decided lets nothing go that the patient one waits for."""
    wf = Workflow("inside")

    @wf.step()
    def find(ctx: Ctx) -> list[list[int]]:
        return [[0], [1], [2]]

    @wf.step(after=find, each=True)
    def group(ctx: Ctx, g: list[int]) -> list[int]:
        return g

    @wf.step(after=group, each=True, retries=0)
    def read(ctx: Ctx, n: int) -> int:
        if n in BAD:
            raise ValueError(n)
        return n

    @wf.step(after=read, join=HOLD)
    def inner(ctx: Ctx, got: Results[int]) -> int:
        return sum(got)

    @wf.step(after=inner, join=AtLeast(2, on_failed="hold"))
    def outer(ctx: Ctx, got: Results[int]) -> list[Any]:
        return seen(got)

    @wf.step(after=inner, join=HOLD)
    def patient(ctx: Ctx, got: Results[int]) -> list[Any]:
        return seen(got)

    BAD.add(1)
    task = engine.submit(wf)
    worker = engine.worker()
    worker.work()
    assert engine.task(task) == ("running", "running")
    BAD.clear()
    assert len(engine.reopen(failed(engine))) == 1
    worker.work()
    assert engine.task(task) == ("completed", "succeeded")
    assert (result(engine, "outer"), result(engine, "patient")) == ([[0, 2], [], [1], 3], [[0, 1, 2], [], [], 3])


# --- a join that holds beside one that does not ---


@pytest.mark.parametrize("deep", [False, True], ids=["joined", "before_the_joined"])
@pytest.mark.parametrize("width", [3, 40])
@pytest.mark.parametrize(
    ("beside", "opened"),
    [(First(rest="finish"), True), (All(on_failed="collect"), None), (AtLeast(1.0, on_failed="collect"), None)],
    ids=["first", "all", "share"],
)
def test_children_are_reopened_while_any_join_over_them_holds(
    engine: Engine, beside: Join, opened: bool | None, width: int, deep: bool
) -> None:
    """The join beside it keeps what it has decided, and counts the child anew where it has not."""
    BAD.add(1)
    task = engine.submit(pair("mixed", beside, HOLD, width=width, deep=deep))
    worker = engine.worker()
    worker.work()
    # a failed step before the joined one is held for all of them; the joined one itself arrives where that is allowed
    assert engine.barrier("one")["state"] == ("released" if opened or not deep else "waiting")
    before = engine.all(
        "SELECT r.body FROM stanchion.step s JOIN stanchion.result r USING (step_id) WHERE s.node = 'one'"
    )
    BAD.clear()
    assert len(engine.reopen(failed(engine))) == 1
    worker.work()
    assert engine.task(task) == ("completed", "succeeded")
    assert result(engine, "two") == [list(range(width)), [], [], width]
    if before:
        assert result(engine, "one") == before[0]
    else:
        assert result(engine, "one") == [list(range(width)), [], [], width]


def test_a_failure_is_given_back_at_a_join_that_still_waits(engine: Engine) -> None:
    """AtLeast(3) of three counts the failed child out, and in again once it is reopened."""
    BAD.add(1)
    task = engine.submit(pair("back", AtLeast(3, on_failed="collect"), HOLD, width=4))
    worker = engine.worker()
    worker.settle([worker.run(x) for x in worker.take("find")])
    engine.expand()
    worker.settle([worker.run(x) for x in worker.take("read", limit=2)])
    assert engine.barrier("one")["failed"] == 1
    BAD.clear()
    engine.reopen(failed(engine))
    assert engine.barrier("one")["failed"] == 0
    worker.work()
    assert engine.task(task) == ("completed", "succeeded")
    assert result(engine, "two") == [[0, 1, 2, 3], [], [], 4]


@pytest.mark.parametrize("how", ["opened", "first"])
def test_what_a_closed_join_held_fails_for_the_others(engine: Engine, how: str) -> None:
    """The join that held is decided and all its branches have settled; the other one, further in, learns of the failure."""
    wf = Workflow("further_in")

    @wf.step()
    def find(ctx: Ctx) -> list[int]:
        return [0, 1, 2]

    @wf.step(after=find, each=True, retries=0)
    def read(ctx: Ctx, n: int) -> int:
        if n in BAD:
            raise ValueError(n)
        return n

    @wf.step(after=read, retries=0)
    def polish(ctx: Ctx, n: int) -> int:
        return n

    @wf.step(after=read)
    def side(ctx: Ctx, n: int) -> int:
        return n

    @wf.step(after=read, join=HOLD if how == "opened" else First(on_failed="hold", rest="finish"))
    def holding(ctx: Ctx, got: Results[int]) -> list[Any]:
        return seen(got)

    @wf.step(after=polish, join=All(on_failed="collect"))
    def collecting(ctx: Ctx, got: Results[int]) -> list[Any]:
        return seen(got)

    BAD.add(1)
    task = engine.submit(wf)
    worker = engine.worker()
    worker.work()
    if how == "opened":
        assert engine.task(task) == ("running", "running")
        engine.open(engine.barrier("holding")["barrier_id"])
        worker.work()
    assert engine.task(task) == ("completed", "succeeded")
    assert result(engine, "collecting") == [[0, 2], [1], [], 3]
    assert (
        engine.all("SELECT 1 FROM stanchion.barrier WHERE kind = 'gather' AND (NOT closed OR sweep_at IS NOT NULL)")
        == []
    )


@pytest.mark.parametrize("deep", [False, True], ids=["joined", "before_the_joined"])
def test_a_child_is_reopened_while_others_settle_and_a_join_is_opened(engine: Engine, deep: bool) -> None:
    """At the same moment, again and again: nobody waits for the other in a circle, and each run ends."""
    times = 50
    BAD.add(0)
    tasks = [engine.submit(pair("raced", HOLD, All(on_failed="collect"), width=4, deep=deep)) for _ in range(times)]
    worker = engine.worker()
    worker.settle([worker.run(x) for x in worker.take("find")])
    engine.expand()
    runs = [engine.run_of(task) for task in tasks]
    held: dict[Any, list[Any]] = {run: [] for run in runs}
    for lease in worker.take("read"):
        held[lease.run_id].append(lease)
    for run in runs:
        worker.settle([worker.run(x) for x in held[run][:3]])
    joins = [engine.all("SELECT barrier_id FROM stanchion.barrier WHERE run_id = %s AND node = 'one'", r) for r in runs]
    bad = [engine.all("SELECT step_id FROM stanchion.step WHERE run_id = %s AND state = 'failed'", r) for r in runs]
    BAD.clear()

    def opened(n: int) -> None:
        try:
            engine.open(joins[n][0])
        except Conflict:
            return  # a child still runs

    def swept(n: int) -> None:
        for (barrier_id,) in engine.admin.execute(
            "SELECT barrier_id FROM stanchion.barrier WHERE run_id = %s", (runs[n],)
        ).fetchall():
            engine.upkeep.sweep_barrier(barrier_id)

    race(
        times,
        lambda n: engine.reopen(bad[n]),
        lambda n: worker.settle([worker.run(x) for x in held[runs[n]][3:]]),
        opened,
        swept,
    )
    worker.work()
    assert deadlocks(engine) == 0
    engine.reopen(failed(engine))  # where the join was opened before, or still waits
    worker.work()
    assert {engine.task(task) for task in tasks} == {("completed", "succeeded")}
