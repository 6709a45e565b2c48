"""Retried tasks: what succeeded is taken over, branch by branch and at any depth; only the rest runs again."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from kit.engine import Engine
from kit.flows import result
from kit.racing import deadlocks, race

from stanchion.authority.submission import Answer
from stanchion.authority.tasks import Tasks
from stanchion.authority.workflows import Workflows
from stanchion.contracts import limits
from stanchion.workflow import Again, All, AtLeast, Ctx, Go, Results, Spawn, Workflow

pytestmark = pytest.mark.usefixtures("agrees")


class Runs:
    """What ran, and what fails for now."""

    def __init__(self, *bad: Any) -> None:
        self.bad = set(bad)
        self.ran: Counter[Any] = Counter()

    def __call__(self, name: str, item: Any = None) -> None:
        """Note that it runs; fail if it is to."""
        self.ran[name] += 1
        if (name, item) in self.bad:
            raise ValueError(f"{name} {item}")

    def mended(self) -> Counter[Any]:
        """Nothing fails from here on; what ran so far."""
        self.bad.clear()
        before, self.ran = self.ran, Counter()
        return before


def retry(engine: Engine, task: Answer) -> list[str]:
    """Retry the task; returns the nodes of the run itself whose results are taken over."""
    return Tasks(engine.service, Workflows(engine.service)).retry(
        engine.tenant, task.task_id, reason="test", actor="ann"
    )[1]


def chained(name: str, runs: Runs, join: object = "all", width: int = 6) -> Workflow:
    """plan -> visit (each) -> twice -> total, which joins twice."""
    wf = Workflow(name)

    @wf.step()
    def plan(ctx: Ctx) -> list[int]:
        runs("plan")
        return list(range(width))

    @wf.step(after=plan, each=True, retries=0)
    def visit(ctx: Ctx, n: int) -> int:
        runs("visit", n)
        return n

    @wf.step(after=visit, retries=0)
    def twice(ctx: Ctx, n: int) -> int:
        runs("twice", n)
        return n * 2

    @wf.step(after=twice, join=join, retries=0)
    def total(ctx: Ctx, ns: Results[int]) -> list[int]:
        runs("total")
        return [sum(ns), len(ns.failed), len(ns.missing)]

    return wf


def fanned(name: str, runs: Runs) -> Workflow:
    """plan -> visit (each) -> total: one step a branch."""
    wf = Workflow(name)

    @wf.step()
    def plan(ctx: Ctx) -> list[int]:
        runs("plan")
        return [1, 2, 3]

    @wf.step(after=plan, each=True)
    def visit(ctx: Ctx, n: int) -> int:
        runs("visit", n)
        return n

    @wf.step(after=visit, join="all", retries=0)
    def total(ctx: Ctx, ns: Results[int]) -> int:
        runs("total")
        return sum(ns)

    return wf


def test_a_branch_keeps_the_steps_that_succeeded(engine: Engine) -> None:
    """One of six branches fails in its second step: that step and the join are all that runs again."""
    runs = Runs(("twice", 3))
    task = engine.submit(chained("keeps", runs))
    worker = engine.worker()
    worker.work()
    assert engine.task(task) == ("failed", "failed")
    done = runs.mended()
    assert retry(engine, task) == ["plan"]
    worker.work()
    assert engine.task(task) == ("completed", "succeeded")
    assert result(engine, "total") == [30, 0, 0]
    assert done["visit"] == 6
    assert runs.ran == {"twice": 6 - done["twice"] + 1, "total": 1}
    engine.check_counts()


def test_chunks_of_several_steps_are_taken_over_too(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """With chunks of two branches each, taken over as the only ones of them, the run neither ends early nor waits."""
    monkeypatch.setattr(limits, "FAN_OUT_CHUNK", 4)
    runs = Runs(("visit", 5))
    task = engine.submit(chained("chunks", runs, width=40))
    worker = engine.worker()
    worker.work()
    done = runs.mended()
    retry(engine, task)
    worker.work()
    assert engine.task(task) == ("completed", "succeeded")
    assert sum(done.values()) + sum(runs.ran.values()) == 1 + 40 + 1 + 40 + 1
    engine.check_counts()


def test_all_branches_are_taken_over_when_only_the_join_failed(engine: Engine) -> None:
    """Children of a join that failed itself: the fan-out is made again, settled from birth, and the join runs."""
    runs = Runs(("total", None))
    task = engine.submit(chained("join_failed", runs))
    worker = engine.worker()
    worker.work()
    runs.mended()
    retry(engine, task)
    worker.work()
    assert runs.ran == {"total": 1}
    assert result(engine, "total") == [30, 0, 0]
    assert engine.task(task) == ("completed", "succeeded")
    engine.check_counts()


@pytest.mark.parametrize("late", [False, True])
def test_nested_fan_outs_are_taken_over_at_each_depth(engine: Engine, late: bool) -> None:
    """Of three branches with three leaves each one leaf fails, or one inner join: only that, and what it led to, runs."""
    runs = Runs(("sum_up", 12)) if late else Runs(("leaf", 4))
    wf = Workflow("deep")

    @wf.step()
    def plan(ctx: Ctx) -> list[int]:
        return [0, 1, 2]

    @wf.step(after=plan, each=True, retries=0)
    def part(ctx: Ctx, n: int) -> list[int]:
        runs("part", n)
        return [3 * n + i for i in range(3)]

    @wf.step(after=part, each=True, retries=0)
    def leaf(ctx: Ctx, n: int) -> int:
        runs("leaf", n)
        return n

    @wf.step(after=leaf, join="all", retries=0)
    def sum_up(ctx: Ctx, ns: Results[int]) -> int:
        runs("sum_up", sum(ns))
        return sum(ns)

    @wf.step(after=sum_up, join=AtLeast(3, rest="finish"))
    def total(ctx: Ctx, sums: Results[int]) -> int:
        runs("total")
        return sum(sums)

    task = engine.submit(wf)
    worker = engine.worker()
    worker.work()
    assert engine.task(task) == ("failed", "failed")
    done = runs.mended()
    retry(engine, task)
    worker.work()
    assert engine.task(task) == ("completed", "succeeded")
    assert result(engine, "total") == 36
    assert "part" not in runs.ran
    assert done["leaf"] + runs.ran["leaf"] == 9 + (0 if late else 1)
    assert done["sum_up"] + runs.ran["sum_up"] == 3 + (1 if late else 0)
    engine.check_counts()


@pytest.mark.parametrize("together", [False, True])
def test_a_retry_that_was_cancelled_at_once_loses_nothing(engine: Engine, together: bool) -> None:
    """The run between had no branches yet: what is taken over is that of the run before it."""
    runs = Runs(("total", None))
    task = engine.submit(fanned("between", runs) if together else chained("between", runs))
    worker = engine.worker()
    worker.work()
    assert engine.task(task) == ("failed", "failed")
    retry(engine, task)
    engine.cancel(task)
    worker.work()
    assert engine.task(task) == ("cancelled", "cancelled")
    runs.mended()
    assert retry(engine, task) == ["plan"]
    worker.work()
    assert engine.task(task) == ("completed", "succeeded")
    assert runs.ran == {"total": 1}
    engine.check_counts()


def test_children_that_went_round_or_spawned_are_taken_over(engine: Engine) -> None:
    """A child's result is that of its last round, or of the join of what it spawned."""
    runs = Runs(("total", None))
    wf = Workflow("rounds")

    @wf.step()
    def plan(ctx: Ctx) -> list[int]:
        return [1, 2, 3]

    @wf.step(after=plan, each=True, again="visit", spawns=("count", "add"))
    def visit(ctx: Ctx, n: int, more: int = 0) -> int | Again | Spawn:
        runs("visit", n)
        if n == 1 and not more:
            return Again(visit, n=n, more=10)
        return Spawn(count, [n, n], then=add) if n == 2 else n + more

    @wf.step(on_demand=True)
    def count(ctx: Ctx, n: int) -> int:
        runs("count", n)
        return n

    @wf.step(after=count, join="all", on_demand=True)
    def add(ctx: Ctx, ns: Results[int]) -> int:
        return sum(ns)

    @wf.step(after=visit, join="all", retries=0)
    def total(ctx: Ctx, ns: Results[int]) -> list[int]:
        runs("total")
        return list(ns)

    task = engine.submit(wf)
    worker = engine.worker()
    worker.work()
    assert engine.task(task) == ("failed", "failed")
    runs.mended()
    retry(engine, task)
    worker.work()
    assert result(engine, "total") == [11, 4, 3]
    assert runs.ran == {"total": 1}
    engine.check_counts()


def test_a_choice_in_a_branch_stays_made(engine: Engine) -> None:
    """The chosen step of a branch failed after it had gone round: it goes on with what it was given for that round."""
    runs = Runs(("polish", "aa"))
    wf = Workflow("chosen_round")

    @wf.step()
    def plan(ctx: Ctx) -> list[str]:
        return ["a", "b"]

    @wf.step(after=plan, each=True, next=("polish", "drop"))
    def look(ctx: Ctx, text: str) -> Go:
        runs("look", text)
        return Go(polish, text=text, tone="calm") if text == "a" else Go(drop)

    @wf.step(on_demand=True, again="polish", retries=0)
    def polish(ctx: Ctx, text: str, tone: str) -> str | Again:
        runs("polish", text)
        return Again(polish, text=text * 2, tone=tone) if ctx.round == 0 else f"{text} {tone}"

    @wf.step(on_demand=True)
    def drop(ctx: Ctx) -> None:
        runs("drop")

    @wf.step(after=polish, join="all")
    def total(ctx: Ctx, texts: Results[str]) -> list[str]:
        return list(texts)

    task = engine.submit(wf)
    worker = engine.worker()
    worker.work()
    assert engine.task(task) == ("failed", "failed")
    done = runs.mended()
    retry(engine, task)
    worker.work()
    assert engine.task(task) == ("completed", "succeeded")
    assert result(engine, "total") == ["aa calm"]
    assert runs.ran == {"polish": 1} | ({} if done["drop"] else {"drop": 1})
    engine.check_counts()


def test_a_chosen_step_that_went_round_is_retried(engine: Engine) -> None:
    """Outside of any fan-out too."""
    runs = Runs(("polish", "aa"))
    wf = Workflow("chosen_outside")

    @wf.step(next="polish")
    def draft(ctx: Ctx) -> str | Go:
        return Go(polish, text="a")

    @wf.step(retries=0, again="polish", on_demand=True)
    def polish(ctx: Ctx, text: str) -> str | Again:
        runs("polish", text)
        return Again(polish, text="aa") if ctx.round == 0 else text

    task = engine.submit(wf)
    worker = engine.worker()
    worker.work()
    assert engine.task(task) == ("failed", "failed")
    runs.mended()
    assert retry(engine, task) == ["draft"]
    worker.work()
    assert engine.task(task) == ("completed", "succeeded")
    assert engine.all(
        "SELECT body FROM stanchion.result r JOIN stanchion.step s USING (step_id) WHERE s.node = 'polish' AND r.body = '\"aa\"'"
    ) == ["aa"]
    assert runs.ran == {"polish": 1}
    engine.check_counts()


def test_results_that_are_taken_over_arrive_while_others_do(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of what is kept are inserted while children that run again complete: no deadlock, each join once."""
    monkeypatch.setattr(limits, "FAN_OUT_CHUNK", 8)
    runs = Runs(*(("visit", n) for n in range(0, 120, 3)))
    task = engine.submit(chained("meeting", runs, All(on_failed="collect"), width=120))
    worker = engine.worker()
    worker.work(until=lambda: bool(worker.ready("total")))
    engine.cancel(task)
    worker.work()
    assert engine.task(task)[0] == "cancelled"
    runs.mended()
    retry(engine, task)
    worker.work(until=lambda: len(engine.planning.due(1)) == 1)

    def complete(_: int) -> None:
        other = engine.worker()
        other.settle([other.run(x) for x in other.take("visit", limit=2)])
        other.settle([other.run(x) for x in other.take("twice", limit=2)])

    def expand(_: int) -> None:
        for due in engine.planning.due(1):
            engine.planning.expand(due)

    race(40, expand, complete)
    worker.work()
    assert deadlocks(engine) == 0
    assert engine.task(task) == ("completed", "succeeded")
    assert result(engine, "total") == [sum(range(120)) * 2, 0, 0]
    engine.check_counts()
