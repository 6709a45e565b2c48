"""Joins: which rule opens when, what failed and skipped children do, what becomes of the rest."""

from __future__ import annotations

import pytest
from kit.engine import Engine
from kit.flows import fan, nested, result

from stanchion.errors import Conflict
from stanchion.workflow import All, AtLeast, Ctx, First, Go, Results, Workflow


def test_all_hands_every_result_to_the_join(engine: Engine) -> None:
    """Five children, one join, the results in the order of the items; then the task is complete."""
    task = engine.submit(fan("all_of_five", "all", list("abcde")))
    engine.worker().work()
    assert result(engine, "gather") == {"ok": list("ABCDE"), "failed": 0, "missing": 0, "total": 5}
    assert engine.task(task) == ("completed", "succeeded")
    engine.check_counts()


def test_a_join_over_nothing_opens_at_once(engine: Engine) -> None:
    """No items: the join runs with empty results, whatever its rule."""
    for n, join in enumerate(("all", First(), AtLeast(3), AtLeast(0.5), All(on_failed="hold"))):
        task = engine.submit(fan(f"empty_{n}", join, []))
        engine.worker().work()
        assert engine.task(task) == ("completed", "succeeded")
    assert set(
        map(
            str,
            engine.all(
                "SELECT body->>'total' FROM stanchion.result r JOIN stanchion.step s ON s.step_id = r.step_id WHERE s.node = 'gather'"
            ),
        )
    ) == {"0"}
    engine.check_counts()


def test_one_failed_child_fails_a_join_of_all(engine: Engine) -> None:
    """With on_failed=fail the barrier fails at once, the run winds down and the task has failed, with the reason."""
    task = engine.submit(fan("one_bad", "all", ["a", "bad", "b"]))
    engine.worker().work()
    assert engine.task(task) == ("failed", "failed")
    assert engine.barrier("gather")["state"] == "failed"
    assert engine.states(task, "gather") == {"skipped": 1}
    reason = engine.one("SELECT reason FROM stanchion.task WHERE task_id = %s", task.task_id)[0]
    assert reason["code"] == "E-JOIN-20"
    assert "1 of 3 children failed" in reason["what"]
    engine.check_counts()


def test_the_mix_of_succeeded_failed_and_skipped_children_reaches_the_join_once(engine: Engine) -> None:
    """94 succeed, 10 fail, 8 chose another step than the joined one: the join runs once, with 94 results and 10 errors."""
    wf = Workflow("skips")

    @wf.step()
    def plan(ctx: Ctx) -> list[int]:
        return list(range(112))

    @wf.step(after=plan, each=True, next=("visit", "leave"))
    def look(ctx: Ctx, n: int) -> Go:
        return Go(leave, n=n) if n >= 104 else Go(visit, n=n)

    @wf.step(on_demand=True)
    def leave(ctx: Ctx, n: int) -> None:
        return None

    @wf.step(on_demand=True, retries=0)
    def visit(ctx: Ctx, n: int) -> int:
        if n >= 94:
            raise ValueError("bad")
        return n

    @wf.step(after=visit, join=All(on_failed="collect"))
    def gather(ctx: Ctx, pages: Results[int]) -> list[int]:
        return [len(pages), len(pages.failed), len(pages.missing), pages.total]

    task = engine.submit(wf)
    engine.worker().work()
    assert engine.task(task)[0] == "completed"
    assert result(engine, "gather") == [94, 10, 8, 112]
    engine.check_counts()


def test_first_opens_with_the_first_success_and_cancels_the_rest(engine: Engine) -> None:
    """The join has one result; children that had not started are cancelled, and the run ends."""
    task = engine.submit(fan("first", First(), ["bad", "b", "c", "d"]))
    worker = engine.worker()
    worker.finish(worker.take("plan")[0], ["bad", "b", "c", "d"])
    engine.expand()
    bad, b, c = worker.take("visit", limit=3)
    worker.fail(bad)
    assert engine.barrier("gather")["state"] == "waiting"
    assert worker.finish(b, "B")
    assert engine.barrier("gather")["state"] == "released"
    engine.sweep()
    assert engine.states(task, "visit") == {"failed": 1, "succeeded": 1, "leased": 1, "cancelled": 1}
    worker.settle([worker.run(worker.take("gather")[0])])
    assert engine.task(task)[1] == "running", "a child still runs"
    assert worker.finish(c, "C"), "those that run may finish"
    assert engine.task(task) == ("completed", "succeeded")
    engine.check_counts()


def test_what_comes_after_an_early_release_is_kept_as_late_and_not_in_the_results(engine: Engine) -> None:
    """A result and a failure that arrive after the release change neither the counts nor the pages of the join."""
    engine.submit(fan("late", AtLeast(2, rest="finish"), list("abcd")))
    worker = engine.worker()
    worker.finish(worker.take("plan")[0], list("abcd"))
    engine.expand()
    a, b, c, d = worker.take("visit")
    worker.finish_all([a, b], "x")
    (join,) = worker.take("gather")
    before = worker.run(join).body
    worker.finish(c, "late")
    worker.fail(d)
    assert worker.run(join).body == before == {"ok": ["x", "x"], "failed": 0, "missing": 2, "total": 4}
    assert engine.all(
        "SELECT late FROM stanchion.result r JOIN stanchion.step s ON s.step_id = r.step_id WHERE s.idx = 2"
    ) == [True]
    worker.finish(join, before)
    engine.check_counts()


def test_late_is_late_for_one_join_and_not_for_another(engine: Engine) -> None:
    """Two joins over the same children: what came too late for the quick one is in the results of the patient one."""
    wf = Workflow("two_joins")

    @wf.step()
    def plan(ctx: Ctx) -> list[str]:
        return ["a", "b"]

    @wf.step(after=plan, each=True)
    def visit(ctx: Ctx, item: str) -> str:
        return item.upper()

    @wf.step(after=visit, join=First(rest="finish"))
    def quick(ctx: Ctx, pages: Results[str]) -> list[str]:
        return list(pages)

    @wf.step(after=visit, join="all")
    def patient(ctx: Ctx, pages: Results[str]) -> list[str]:
        return list(pages)

    task = engine.submit(wf)
    worker = engine.worker()
    worker.finish(worker.take("plan")[0], ["a", "b"])
    engine.expand()
    a, b = worker.take("visit")
    worker.finish(a, "A")
    worker.finish(b, "B")
    worker.work()
    assert result(engine, "quick") == ["A"]
    assert result(engine, "patient") == ["A", "B"]
    assert engine.task(task)[0] == "completed"
    engine.check_counts()


def test_a_rule_that_can_never_hold_fails_at_once(engine: Engine) -> None:
    """At least five of three children: nobody waits for the children to find out."""
    task = engine.submit(fan("never", AtLeast(5), list("abc")))
    worker = engine.worker()
    worker.finish(worker.take("plan")[0], list("abc"))
    engine.expand()
    assert engine.barrier("gather")["state"] == "failed"
    worker.work()
    assert engine.task(task)[0] == "failed"
    engine.check_counts()


def test_at_least_fails_as_soon_as_too_many_have_failed(engine: Engine) -> None:
    """Three of four are needed: with the second failure the barrier fails, the others are cancelled."""
    task = engine.submit(fan("too_many", AtLeast(3), ["bad", "bad", "c", "d"]))
    worker = engine.worker()
    worker.finish(worker.take("plan")[0], ["bad", "bad", "c", "d"])
    engine.expand()
    one, two = worker.take("visit", limit=2)
    worker.fail(one)
    assert engine.barrier("gather")["state"] == "waiting"
    worker.fail(two)
    assert engine.barrier("gather")["state"] == "failed"
    engine.sweep()
    assert engine.task(task) == ("failed", "failed")
    assert engine.states(task, "visit") == {"failed": 2, "cancelled": 2}
    engine.check_counts()


def test_a_share_is_rounded_up(engine: Engine) -> None:
    """0.5 of five children are three."""
    engine.submit(fan("share", AtLeast(0.5), list("abcde")))
    worker = engine.worker()
    worker.finish(worker.take("plan")[0], list("abcde"))
    engine.expand()
    assert engine.barrier("gather")["need"] == 3
    leases = worker.take("visit")
    worker.finish_all(leases[:2], "x")
    assert engine.barrier("gather")["state"] == "waiting"
    worker.finish_all(leases[2:3], "x")
    assert engine.barrier("gather")["state"] == "released"


def test_collect_counts_failed_children_as_arrived(engine: Engine) -> None:
    """At least two of three, one failed and one succeeded: the join opens with one result and one error."""
    engine.submit(fan("collects", AtLeast(2, on_failed="collect"), ["bad", "b", "c"]))
    worker = engine.worker()
    worker.finish(worker.take("plan")[0], ["bad", "b", "c"])
    engine.expand()
    bad, b, _c = worker.take("visit")
    worker.fail(bad)
    worker.finish(b, "B")
    (join,) = worker.take("gather")
    assert worker.run(join).body == {"ok": ["B"], "failed": 1, "missing": 1, "total": 3}


class TestHold:
    """on_failed=hold: failed children are waited for until somebody decides."""

    def started(self, engine: Engine, join: object, name: str, items: list[str]) -> tuple[object, object, list[object]]:
        task = engine.submit(fan(name, join, items))
        worker = engine.worker()
        worker.finish(worker.take("plan")[0], items)
        engine.expand()
        return task, worker, worker.take("visit")

    def test_it_waits_and_goes_on_with_a_reopened_child(self, engine: Engine) -> None:
        """One of 40 fails: the run stays live; reopened, it gets one more attempt, and the join opens with all 40."""
        task, worker, leases = self.started(engine, All(on_failed="hold"), "holds", ["x"] * 40)
        worker.finish_all(leases[1:], "X")
        worker.fail(leases[0])
        assert engine.barrier("gather")["state"] == "waiting"
        assert engine.task(task)[1] == "running"
        assert engine.reopen([leases[0].step_id]) == {leases[0].step_id}
        (again,) = worker.take("visit")
        assert again.number == 2
        worker.finish(again, "X")
        assert engine.barrier("gather")["state"] == "released"
        worker.work()
        assert engine.task(task)[0] == "completed"
        engine.check_counts()

    def test_it_is_opened_without_the_failed_ones(self, engine: Engine) -> None:
        """A person opens the join: 39 results, one error; terminal stays terminal for the one that was left out."""
        task, worker, leases = self.started(engine, All(on_failed="hold"), "opened", ["x"] * 40)
        worker.finish_all(leases[1:], "X")
        worker.fail(leases[0])
        assert engine.open(engine.barrier("gather")["barrier_id"])
        assert engine.reopen([leases[0].step_id]) == set()
        worker.work()
        assert result(engine, "gather")["failed"] == 1
        assert len(result(engine, "gather")["ok"]) == 39
        assert engine.task(task)[0] == "completed"
        engine.check_counts()

    def test_it_is_not_opened_while_children_run(self, engine: Engine) -> None:
        """Only failed children can be left out."""
        _task, worker, leases = self.started(engine, All(on_failed="hold"), "too_early", ["x"] * 3)
        worker.fail(leases[0])
        with pytest.raises(Conflict, match="2 of 3 children have not settled"):
            engine.open(engine.barrier("gather")["barrier_id"])

    def test_an_early_release_lets_go_of_the_failed_ones(self, engine: Engine) -> None:
        """First with hold: a failed child holds nothing once another one has opened the join; the run ends."""
        task, worker, leases = self.started(engine, First(on_failed="hold"), "first_holds", ["bad", "b"])
        worker.fail(leases[0])
        worker.finish(leases[1], "B")
        worker.work()
        assert engine.task(task) == ("completed", "succeeded")
        engine.check_counts()

    def test_its_deadline_ends_the_wait(self, engine: Engine) -> None:
        """Nobody decides: when the join's time is over it fails, with it the run."""
        task, worker, leases = self.started(engine, All(on_failed="hold", within="1h"), "hold_deadline", ["bad", "b"])
        worker.fail(leases[0])
        worker.finish(leases[1], "B")
        assert engine.fire() == 0
        engine.forward(3601)
        assert engine.fire() == 1
        engine.sweep()
        assert engine.task(task) == ("failed", "failed")
        engine.check_counts()


def test_the_deadline_of_a_join_fails_it_and_its_run(engine: Engine) -> None:
    """Two of three are there when the time is over: the join of all fails, what has not started is cancelled."""
    task = engine.submit(fan("deadline", All(within="10m"), list("abc")))
    worker = engine.worker()
    worker.finish(worker.take("plan")[0], list("abc"))
    engine.expand()
    worker.finish_all(worker.take("visit", limit=2), "x")
    engine.forward(599)
    assert engine.fire() == 0
    engine.forward(2)
    assert engine.fire() == 1
    assert engine.barrier("gather")["state"] == "failed"
    engine.sweep()
    assert engine.task(task) == ("failed", "failed")
    engine.check_counts()


def test_a_deadline_that_comes_after_the_release_changes_nothing(engine: Engine) -> None:
    """The timer of a join that opened in time is gone."""
    engine.submit(fan("in_time", AtLeast(2, within="10m"), list("abc")))
    worker = engine.worker()
    worker.finish(worker.take("plan")[0], list("abc"))
    engine.expand()
    worker.finish_all(worker.take("visit", limit=2), "x")
    assert engine.all("SELECT kind FROM stanchion.timer WHERE kind = 'barrier_deadline'") == []


def test_the_deadline_lets_a_join_with_slots_close_later(engine: Engine) -> None:
    """Inside a branch a failed slotted join closes when its children have settled, so that the outer run can end."""
    wf = nested("slots_deadline", inner=All(within="10m"), outer=All(on_failed="collect"), width=20)
    task = engine.submit(wf)
    worker = engine.worker()
    worker.finish(worker.take("plan")[0], [0])
    engine.expand()
    worker.finish(worker.take("part")[0], list(range(20)))
    engine.expand()
    leases = worker.take("visit")
    worker.finish_all(leases[:5], 1)
    engine.forward(601)
    engine.fire()
    worker.finish_all(leases[5:], 1)
    worker.work()
    assert engine.task(task) == ("completed", "succeeded")
    assert result(engine, "total") == [0, 1, 0]
    engine.check_counts()
