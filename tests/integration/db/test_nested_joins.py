"""Fan-outs inside fan-outs, branches of several steps, choices and lists inside branches: nothing waits for ever."""

from __future__ import annotations

import pytest
from kit.engine import Engine
from kit.flows import nested, result

from stanchion.errors import Conflict
from stanchion.workflow import All, AtLeast, Ctx, First, Go, Results, Workflow


def test_three_levels_of_width_three_sum_up_as_on_paper(engine: Engine) -> None:
    """27 leaves numbered 0 to 26: nine joins of three, three joins of those, one join of all, and the sum is 351."""
    wf = Workflow("three_levels")

    @wf.step()
    def plan(ctx: Ctx) -> list[int]:
        return [0, 1, 2]

    @wf.step(after=plan, each=True)
    def region(ctx: Ctx, n: int) -> list[int]:
        return [3 * n + i for i in range(3)]

    @wf.step(after=region, each=True)
    def town(ctx: Ctx, n: int) -> list[int]:
        return [3 * n + i for i in range(3)]

    @wf.step(after=town, each=True)
    def street(ctx: Ctx, n: int) -> int:
        return n

    @wf.step(after=street, join="all")
    def of_town(ctx: Ctx, numbers: Results[int]) -> int:
        return sum(numbers)

    @wf.step(after=of_town, join="all")
    def of_region(ctx: Ctx, numbers: Results[int]) -> int:
        return sum(numbers)

    @wf.step(after=of_region, join="all")
    def of_all(ctx: Ctx, numbers: Results[int]) -> int:
        return sum(numbers)

    task = engine.submit(wf)
    engine.worker().work()
    assert result(engine, "of_all") == sum(range(27)) == 351
    assert engine.task(task) == ("completed", "succeeded")
    counts = dict(
        engine.all(
            "SELECT node, count(*) FROM stanchion.barrier WHERE state = 'released' AND kind = 'gather' GROUP BY node"
        )
    )
    assert counts == {"of_town": 9, "of_region": 3, "of_all": 1}
    assert engine.all("SELECT count(*) FROM stanchion.step WHERE kind = 'fan' AND state = 'succeeded'") == [1 + 3 + 9]
    engine.check_counts()


@pytest.mark.parametrize("inner", ["all", First(), AtLeast(2)])
def test_a_failed_inner_join_is_one_failed_branch_of_the_outer(engine: Engine, inner: object) -> None:
    """The children of one of three inner joins fail: the outer one collects two sums and one error."""
    task = engine.submit(nested("inner_fails", inner, All(on_failed="collect")))
    worker = engine.worker()
    worker.work(until=lambda: len(worker.ready("visit")) == 9)
    for lease in worker.take("visit"):
        if lease.input < 3:
            worker.fail(lease)
        else:
            worker.finish(lease, lease.input)
    worker.work()
    found = result(engine, "total")
    assert found[1:] == [1, 0], "one failed, none missing"
    assert engine.task(task) == ("completed", "succeeded")
    engine.check_counts()


def test_a_failed_list_fails_its_branch(engine: Engine) -> None:
    """The step that makes the inner list fails: the inner fan-out never opens, and the outer join learns of it."""
    task = engine.submit(nested("list_fails", "all", All(on_failed="collect")))
    worker = engine.worker()
    worker.work(until=lambda: bool(worker.ready("part")))
    one, two, three = worker.take("part")
    worker.fail(one)
    for lease in (two, three):
        worker.finish(lease, [1, 2, 3])
    worker.work()
    assert result(engine, "total") == [12, 1, 0]
    assert engine.task(task) == ("completed", "succeeded")
    engine.check_counts()


def test_an_early_release_outside_winds_down_the_branches_inside(engine: Engine) -> None:
    """The outer join takes the first sum: branches that have not started are cancelled at every level, and a child
    that still runs in one of them may fail without any effect on the run."""
    task = engine.submit(nested("outer_first", "all", First()))
    worker = engine.worker()
    worker.work(until=lambda: len(worker.ready("visit")) == 9)
    leases = worker.take("visit")
    mine = [x for x in leases if x.input < 3]
    running = next(x for x in leases if x.input >= 6)
    worker.finish_all(mine, 1)
    worker.leases.give_back([x for x in leases if x not in mine and x is not running], "test")
    worker.settle([worker.run(x) for x in worker.take("sum_up")])
    assert engine.all("SELECT state FROM stanchion.barrier WHERE node = 'total'") == ["released"]
    engine.sweep()
    assert engine.states(task, "visit") == {"succeeded": 3, "cancelled": 5, "leased": 1}
    worker.settle([worker.run(x) for x in worker.take("total")])
    assert engine.task(task)[1] == "running"
    worker.fail(running)
    worker.work()
    assert engine.task(task) == ("completed", "succeeded")
    engine.check_counts()


def test_a_late_list_of_a_branch_that_is_not_needed_is_not_expanded(engine: Engine) -> None:
    """The branch's list comes after the outer join was decided: its children end cancelled or are never made."""
    task = engine.submit(nested("late_list", "all", First()))
    worker = engine.worker()
    worker.work(until=lambda: bool(worker.ready("part")))
    one, two, three = worker.take("part")
    worker.finish(one, [5, 6])
    worker.work()
    worker.finish(two, [1, 2, 3])
    worker.finish(three, [1, 2, 3])
    worker.work()
    assert engine.task(task) == ("completed", "succeeded")
    assert engine.states(task, "visit").get("succeeded") == 2
    engine.check_counts()


def chain(name: str, join: object, width: int = 3) -> Workflow:
    """plan -> first (each) -> second -> third -> gather: branches of three steps."""
    wf = Workflow(name)

    @wf.step()
    def plan(ctx: Ctx) -> list[int]:
        return list(range(width))

    @wf.step(after=plan, each=True, retries=0)
    def first(ctx: Ctx, n: int) -> int:
        return n + 1

    @wf.step(after=first, retries=0)
    def second(ctx: Ctx, n: int) -> int:
        return n * 10

    @wf.step(after=(first, second), retries=0)
    def third(ctx: Ctx, n: int, m: int) -> int:
        return n + m

    @wf.step(after=third, join=join)
    def gather(ctx: Ctx, numbers: Results[int]) -> list[int]:
        return [sum(numbers), len(numbers.failed), len(numbers.missing), numbers.total]

    return wf


def test_branches_of_several_steps_run_through_before_they_arrive(engine: Engine) -> None:
    """1+10, 2+20, 3+30 make 66; the join opens when the last step of each branch is in."""
    task = engine.submit(chain("chain", "all"))
    engine.worker().work()
    assert result(engine, "gather") == [66, 0, 0, 3]
    assert engine.task(task)[0] == "completed"
    engine.check_counts()


def test_a_branch_whose_first_step_failed_counts_as_failed_with_its_error(engine: Engine) -> None:
    """Nothing after the failed step runs; the collecting join names the branch and shows the error of that step."""
    task = engine.submit(chain("chain_fails", All(on_failed="collect")))
    worker = engine.worker()
    worker.work(until=lambda: bool(worker.ready("first")))
    bad, *good = worker.take("first")
    worker.fail(bad)
    for lease in good:
        worker.settle([worker.run(lease)])
    worker.work(until=lambda: bool(worker.ready("gather")))
    (join,) = worker.take("gather")
    pages = worker.executor.arguments(worker.attempt(join))["numbers"]
    assert [(f.idx, f.error["what"]) for f in pages.failed] == [(0, "ValueError: test")]
    assert pages.missing == []
    worker.settle([worker.run(join)])
    assert engine.states(task, "third") == {"skipped": 1, "succeeded": 2}
    assert engine.task(task)[0] == "completed"
    engine.check_counts()


class TestHeldBranches:
    """With on_failed=hold the failed step itself can be reopened, wherever in its branch it stands."""

    def test_the_first_step_of_a_branch_is_reopened(self, engine: Engine) -> None:
        """Its branch goes on from there, and the join opens with all branches."""
        task = engine.submit(chain("held", All(on_failed="hold")))
        worker = engine.worker()
        worker.work(until=lambda: bool(worker.ready("first")))
        bad, *good = worker.take("first")
        worker.fail(bad)
        for lease in good:
            worker.settle([worker.run(lease)])
        worker.work()
        assert engine.barrier("gather")["state"] == "waiting"
        assert engine.states(task, "third") == {"pending": 1, "succeeded": 2}
        assert engine.reopen([bad.step_id], 6) == {bad.step_id}
        worker.work()
        assert result(engine, "gather") == [77 + 22 + 33, 0, 0, 3]
        assert engine.task(task)[0] == "completed"
        engine.check_counts()

    def test_the_join_is_opened_without_the_branch(self, engine: Engine) -> None:
        """What the branch still waited for is skipped; the results name it as failed."""
        task = engine.submit(chain("held_open", All(on_failed="hold")))
        worker = engine.worker()
        worker.work(until=lambda: bool(worker.ready("first")))
        bad, *good = worker.take("first")
        worker.fail(bad)
        with pytest.raises(Conflict, match="have not settled"):
            engine.open(engine.barrier("gather")["barrier_id"])
        for lease in good:
            worker.settle([worker.run(lease)])
        worker.work()
        assert engine.open(engine.barrier("gather")["barrier_id"])
        worker.work()
        assert result(engine, "gather") == [55, 1, 0, 3]
        assert engine.states(task, "third") == {"skipped": 1, "succeeded": 2}
        assert engine.task(task)[0] == "completed"
        assert engine.reopen([bad.step_id]) == set()
        engine.check_counts()

    def test_a_decided_join_lets_its_held_branches_go(self, engine: Engine) -> None:
        """At least two of three, held: when the two are there, the held branch is skipped and the run ends."""
        task = engine.submit(chain("held_enough", AtLeast(2, on_failed="hold")))
        worker = engine.worker()
        worker.work(until=lambda: bool(worker.ready("first")))
        bad, *good = worker.take("first")
        worker.fail(bad)
        for lease in good:
            worker.settle([worker.run(lease)])
        worker.work()
        assert result(engine, "gather") == [55, 0, 1, 3]
        assert engine.task(task)[0] == "completed"
        engine.check_counts()

    def test_so_does_one_that_lets_the_rest_finish(self, engine: Engine) -> None:
        """rest=finish cancels nothing, and still nobody can reopen a branch of a decided join."""
        task = engine.submit(chain("held_finish", First(on_failed="hold", rest="finish")))
        worker = engine.worker()
        worker.work(until=lambda: bool(worker.ready("first")))
        bad, *good = worker.take("first")
        worker.fail(bad)
        for lease in good:
            worker.settle([worker.run(lease)])
        worker.work()
        assert engine.states(task, "third") == {"skipped": 1, "succeeded": 2}
        assert engine.task(task)[0] == "completed"
        engine.check_counts()

    def test_an_inner_hold_does_not_keep_a_decided_outer_join(self, engine: Engine) -> None:
        """The outer join has its first sum; an inner join that waits for a person is let go."""
        task = engine.submit(nested("inner_hold", All(on_failed="hold"), First()))
        worker = engine.worker()
        worker.work(until=lambda: len(worker.ready("visit")) == 9)
        leases = worker.take("visit")
        worker.fail(next(x for x in leases if x.input == 8))
        for lease in leases:
            if lease.input != 8:
                worker.finish(lease, 1)
        worker.work()
        assert engine.task(task) == ("completed", "succeeded")
        engine.check_counts()


def test_a_choice_skips_the_list_that_was_not_chosen_and_its_join(engine: Engine) -> None:
    """The other target would have fanned out: fan-out, join and what comes after are skipped, the run ends."""
    wf = Workflow("choice")

    @wf.step(next=("short", "long"))
    def route(ctx: Ctx) -> Go:
        return Go(short)

    @wf.step(on_demand=True)
    def short(ctx: Ctx) -> str:
        return "short"

    @wf.step(on_demand=True)
    def long(ctx: Ctx) -> list[int]:
        return [1, 2]

    @wf.step(after=long, each=True)
    def visit(ctx: Ctx, n: int) -> int:
        return n

    @wf.step(after=visit, join="all")
    def gather(ctx: Ctx, numbers: Results[int]) -> str:
        return "long"

    @wf.step(after=(short, gather))
    def end(ctx: Ctx, a: str | None, b: str | None) -> str:
        return f"{a} {b}"

    task = engine.submit(wf)
    engine.worker().work()
    assert result(engine, "end") == "short None"
    assert engine.states(task, "gather") == {"skipped": 1}
    assert engine.task(task) == ("completed", "succeeded")
    engine.check_counts()


def router(name: str, join: object) -> Workflow:
    """plan -> look (each), which chooses visit or leave; visit is joined."""
    wf = Workflow(name)

    @wf.step()
    def plan(ctx: Ctx) -> list[int]:
        return [0, 1, 2]

    @wf.step(after=plan, each=True, next=("visit", "leave"), retries=0)
    def look(ctx: Ctx, n: int) -> int | Go:
        return Go(visit, n=n) if n else 7

    @wf.step(on_demand=True)
    def visit(ctx: Ctx, n: int) -> int:
        return n

    @wf.step(on_demand=True)
    def leave(ctx: Ctx, n: int) -> None:
        return None

    @wf.step(after=visit, join=join)
    def gather(ctx: Ctx, pages: Results[int]) -> list[int]:
        return [sum(pages), len(pages.failed), len(pages.missing), pages.total]

    return wf


def test_a_failed_router_fails_its_branch(engine: Engine) -> None:
    """Nobody can choose any more: its targets are skipped, and the join counts the branch as failed."""
    task = engine.submit(router("router_fails", All(on_failed="collect")))
    worker = engine.worker()
    worker.work(until=lambda: bool(worker.ready("look")))
    bad, *good = worker.take("look")
    worker.fail(bad)
    for lease in good:
        worker.settle([worker.run(lease)])
    worker.work()
    assert result(engine, "gather") == [3, 1, 0, 3]
    assert engine.task(task)[0] == "completed"
    engine.check_counts()


def test_a_router_that_returns_a_value_has_chosen_nothing(engine: Engine) -> None:
    """Item 0 makes look return 7 instead of Go: all its targets are skipped, its branch is missing."""
    task = engine.submit(router("router_declines", "all"))
    engine.worker().work()
    assert result(engine, "gather") == [3, 0, 1, 3]
    assert engine.states(task, "leave") == {"skipped": 3}
    assert engine.task(task)[0] == "completed"
    engine.check_counts()


def test_a_held_router_is_reopened_and_chooses_then(engine: Engine) -> None:
    """Its targets wait with it."""
    task = engine.submit(router("router_held", All(on_failed="hold")))
    worker = engine.worker()
    worker.work(until=lambda: bool(worker.ready("look")))
    leases = worker.take("look")
    bad = leases[2]
    worker.fail(bad)
    for lease in leases[:2]:
        worker.settle([worker.run(lease)])
    worker.work()
    assert engine.states(task, "visit") == {"pending": 1, "succeeded": 1, "skipped": 1}
    assert engine.reopen([bad.step_id]) == {bad.step_id}
    worker.work()
    assert result(engine, "gather") == [3, 0, 1, 3]
    assert engine.task(task)[0] == "completed"
    engine.check_counts()


def test_a_decided_join_lets_a_held_router_go(engine: Engine) -> None:
    """The targets of a failed router whose join is decided are skipped."""
    task = engine.submit(router("router_let_go", First(on_failed="hold", rest="finish")))
    worker = engine.worker()
    worker.work(until=lambda: bool(worker.ready("look")))
    leases = worker.take("look")
    worker.fail(leases[2])
    for lease in leases[:2]:
        worker.settle([worker.run(lease)])
    worker.work()
    assert engine.task(task)[0] == "completed"
    engine.check_counts()


def test_a_fan_out_without_a_join_is_waited_for(engine: Engine) -> None:
    """Nothing joins the children: the run still ends only after the last of them."""
    wf = Workflow("no_join")

    @wf.step()
    def plan(ctx: Ctx) -> list[int]:
        return [1, 2, 3]

    @wf.step(after=plan, each=True)
    def visit(ctx: Ctx, n: int) -> None:
        return None

    task = engine.submit(wf)
    worker = engine.worker()
    worker.finish(worker.take("plan")[0], [1, 2, 3])
    engine.expand()
    leases = worker.take("visit")
    worker.finish_all(leases[:2])
    assert engine.task(task)[1] == "running"
    worker.finish_all(leases[2:])
    assert engine.task(task) == ("completed", "succeeded")
    engine.check_counts()


def test_a_failure_that_nothing_collects_fails_the_run(engine: Engine) -> None:
    """A child that no join waits for fails: the run fails with its reason."""
    wf = Workflow("no_join_fails")

    @wf.step()
    def plan(ctx: Ctx) -> list[int]:
        return [1, 2]

    @wf.step(after=plan, each=True, retries=0)
    def visit(ctx: Ctx, n: int) -> None:
        raise ValueError(n)

    task = engine.submit(wf)
    engine.worker().work()
    assert engine.task(task) == ("failed", "failed")
    engine.check_counts()


def test_an_old_decided_join_is_not_swept_for_ever(engine: Engine) -> None:
    """The run of a failed join has ended: nothing is listed for the sweeper any more."""
    from kit.flows import fan

    for n in range(3):
        engine.submit(fan(f"ends_{n}", "all", ["bad", "b", "c"]))
    engine.worker().work()
    waiting = engine.upkeep.waiting()
    assert (waiting.runs, waiting.barriers) == ([], [])


def side(name: str, join: object) -> Workflow:
    """plan -> first (each) -> kept, which is joined; first -> noted, which nothing joins."""
    wf = Workflow(name)

    @wf.step()
    def plan(ctx: Ctx) -> list[int]:
        return [0, 1]

    @wf.step(after=plan, each=True, retries=0)
    def first(ctx: Ctx, n: int) -> int:
        return n

    @wf.step(after=first, retries=0)
    def kept(ctx: Ctx, n: int) -> int:
        return n

    @wf.step(after=first, retries=0)
    def noted(ctx: Ctx, n: int) -> None:
        return None

    @wf.step(after=kept, join=join)
    def gather(ctx: Ctx, pages: Results[int]) -> list[int]:
        return [len(pages), len(pages.failed)]

    return wf


def test_a_failure_that_a_join_collects_fails_nothing_else(engine: Engine) -> None:
    """first fails: kept counts as failed at its join, and noted, which nobody joins, is skipped without harm."""
    task = engine.submit(side("collected", All(on_failed="collect")))
    worker = engine.worker()
    worker.work(until=lambda: bool(worker.ready("first")))
    bad, good = worker.take("first")
    worker.fail(bad)
    worker.settle([worker.run(good)])
    worker.work()
    assert result(engine, "gather") == [1, 1]
    assert engine.task(task) == ("completed", "succeeded")
    engine.check_counts()


@pytest.mark.parametrize("early", [False, True])
def test_a_side_step_that_fails_ends_the_run(engine: Engine, early: bool) -> None:
    """noted fails and no join would ever learn of it: the run fails, before or after its branch was joined."""
    task = engine.submit(side("side_fails", All(on_failed="collect")))
    worker = engine.worker()
    worker.work(until=lambda: bool(worker.ready("first")))
    worker.settle([worker.run(x) for x in worker.take("first")])
    noted = worker.take("noted")
    if not early:
        worker.settle([worker.run(x) for x in worker.take("kept")])
    worker.fail(noted[0])
    worker.work()
    worker.finish(noted[1])
    engine.sweep()
    assert engine.task(task) == ("failed", "failed")
    engine.check_counts()


def test_a_side_step_of_a_branch_that_is_not_needed_may_fail(engine: Engine) -> None:
    """The first branch opened the join: a side step of the other one fails, late, and nobody minds."""
    task = engine.submit(side("side_late", First(rest="finish")))
    worker = engine.worker()
    worker.work(until=lambda: bool(worker.ready("first")))
    worker.settle([worker.run(x) for x in worker.take("first")])
    noted = worker.take("noted")
    kept = worker.take("kept")
    worker.settle([worker.run(kept[0])])
    worker.settle([worker.run(kept[1])])
    worker.finish(noted[0])
    worker.fail(noted[1])
    worker.work()
    assert result(engine, "gather") == [1, 0]
    assert engine.task(task) == ("completed", "succeeded")
    engine.check_counts()
