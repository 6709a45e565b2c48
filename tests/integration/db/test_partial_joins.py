"""Joins whose sources did not all take part: branches that chose another way, sources that were skipped as a whole."""

from __future__ import annotations

from typing import Any

import pytest
from kit.engine import Engine
from kit.flows import fan, nested, result
from kit.racing import deadlocks, race

from services.orchestrator.run_planner import RunPlanner
from stanchion.authority.tasks import Tasks
from stanchion.authority.why import Asking
from stanchion.authority.why_codes import Reason
from stanchion.authority.workflows import Workflows
from stanchion.contracts import limits
from stanchion.errors import Unprocessable
from stanchion.workflow import All, AtLeast, Ctx, First, Go, Results, Workflow

pytestmark = pytest.mark.usefixtures("agrees")


def choosing(name: str, join: object, takes_part: int, bad: int = 0) -> Workflow:
    """plan -> look (each of ten), of which some choose keep; total joins keep. Of those that take part some fail."""
    wf = Workflow(name)

    @wf.step()
    def plan(ctx: Ctx) -> list[int]:
        return list(range(10))

    @wf.step(after=plan, each=True, next="keep", retries=0)
    def look(ctx: Ctx, n: int) -> Go | None:
        return Go(keep, n=n) if n < takes_part else None

    @wf.step(on_demand=True, retries=0)
    def keep(ctx: Ctx, n: int) -> int:
        if n < bad:
            raise ValueError(n)
        return n

    @wf.step(after=keep, join=join)
    def total(ctx: Ctx, ns: Results[int]) -> list[int]:
        return [len(ns), len(ns.failed), len(ns.missing), ns.total]

    return wf


@pytest.mark.parametrize(
    ("join", "takes_part", "bad", "found"),
    [
        (AtLeast(0.9), 5, 0, [5, 0, 5, 10]),
        (AtLeast(0.9, on_failed="collect"), 5, 1, [4, 1, 5, 10]),
        (AtLeast(0.5, rest="finish"), 4, 2, None),  # which two of four come first is open: it opens with two
        (AtLeast(0.9), 0, 0, [0, 0, 10, 10]),
        (AtLeast(0.9), 5, 1, "failed"),
        (AtLeast(6), 5, 0, "failed"),
        (AtLeast(5), 5, 0, [5, 0, 5, 10]),
        (First(), 0, 0, "failed"),
        ("all", 0, 0, [0, 0, 10, 10]),
    ],
    ids=str,
)
def test_a_share_is_one_of_the_branches_that_take_part(
    engine: Engine, join: object, takes_part: int, bad: int, found: Any
) -> None:
    """Branches that chose another way are missing, and count for nothing; a count stays a count."""
    task = engine.submit(choosing("share", join, takes_part, bad))
    engine.worker().work()
    if found == "failed":
        assert engine.task(task) == ("failed", "failed")
        assert engine.barrier("total")["state"] == "failed"
    else:
        assert engine.task(task) == ("completed", "succeeded")
        assert found is None or result(engine, "total") == found
    engine.check_counts()


def test_a_share_shrinks_with_each_branch_that_takes_no_part(engine: Engine) -> None:
    """The barrier's row says how many are needed now; a recount after a damage says the same."""
    engine.submit(choosing("shrinks", AtLeast(0.9), 5))
    worker = engine.worker()
    worker.finish(worker.take("plan")[0], list(range(10)))
    engine.expand()
    assert engine.barrier("total")["need"] == 9
    leases = worker.take("look")
    worker.settle([worker.run(x) for x in leases[8:]])
    assert (engine.barrier("total")["skipped"], engine.barrier("total")["need"]) == (2, 8)
    engine.admin.execute("UPDATE stanchion.barrier SET skipped = 1, need = 9 WHERE kind = 'gather'")
    engine.admin.execute("SELECT stanchion.recount_barrier(barrier_id) FROM stanchion.barrier WHERE kind = 'gather'")
    assert (engine.barrier("total")["skipped"], engine.barrier("total")["need"]) == (2, 8)
    worker.settle([worker.run(x) for x in leases[:8]])
    worker.work()
    assert result(engine, "total") == [5, 0, 5, 10]


def sources(name: str) -> Workflow:
    """choose may start a list that is fanned out, and a step beside it; total joins the one and takes the other."""
    wf = Workflow(name)

    @wf.step(next="long")
    def choose_long(ctx: Ctx, long_too: bool) -> Go | None:
        return Go(long) if long_too else None

    @wf.step(on_demand=True)
    def long(ctx: Ctx) -> list[int]:
        return [1, 2]

    @wf.step(after=long, each=True)
    def child(ctx: Ctx, n: int) -> int:
        return n

    @wf.step(next="beside")
    def choose_beside(ctx: Ctx, beside_too: bool) -> Go | None:
        return Go(beside) if beside_too else None

    @wf.step(on_demand=True)
    def beside(ctx: Ctx) -> int:
        return 7

    @wf.step(after=(child, beside), join="all")
    def total(ctx: Ctx, ns: Results[int], other: int | None) -> list[int | None]:
        return [len(ns), ns.total, other]

    @wf.step(after=total)
    def end(ctx: Ctx, found: list[int | None] | None) -> list[int | None] | None:
        return found

    return wf


@pytest.mark.parametrize("long_too", [False, True])
@pytest.mark.parametrize("beside_too", [False, True])
def test_a_join_opens_with_what_its_sources_bring(engine: Engine, long_too: bool, beside_too: bool) -> None:
    """A source that was skipped is empty or None for it; when all were, so is the join, and what comes after it."""
    task = engine.submit(sources("sources"), input={"long_too": long_too, "beside_too": beside_too})
    engine.worker().work()
    assert engine.task(task) == ("completed", "succeeded")
    if long_too or beside_too:
        size = 2 if long_too else 0
        assert result(engine, "total") == [size, size, 7 if beside_too else None]
    else:
        assert engine.states(task, "total") == engine.states(task, "end") == {"skipped": 1}
    engine.check_counts()


def test_two_sources_that_are_skipped_at_the_same_moment_skip_the_join_once(engine: Engine) -> None:
    """Two workers end the two choices together, 60 times: the join is skipped, or runs with the one that came."""
    wf = sources("at_once")
    tasks = [engine.submit(wf, input={"long_too": False, "beside_too": n % 2 == 0}) for n in range(60)]
    worker = engine.worker()
    by_run = {(x.run_id, x.node): x for x in worker.take("choose_long", "choose_beside")}
    runs = [engine.run_of(t) for t in tasks]
    race(
        60,
        lambda n: worker.settle([worker.run(by_run[runs[n], "choose_long"])]),
        lambda n: worker.settle([worker.run(by_run[runs[n], "choose_beside"])]),
    )
    worker.work()
    assert deadlocks(engine) == 0
    assert {engine.task(t) for t in tasks} == {("completed", "succeeded")}
    assert [engine.states(t, "total") for t in tasks] == [{"succeeded": 1}, {"skipped": 1}] * 30
    engine.check_counts()


# --- edited inputs ---


def parsing(seen: list[Any]) -> Workflow:
    """plan -> fetch (each) -> parse, which takes the text and the name of its source; total holds."""
    wf = Workflow("parsing")

    @wf.step()
    def plan(ctx: Ctx) -> list[str]:
        return ["a"]

    @wf.step(after=plan, each=True, retries=0)
    def fetch(ctx: Ctx, item: str) -> str:
        if item == "a":
            raise ValueError(item)
        return item

    @wf.step(after=(fetch, plan), retries=0)
    def parse(ctx: Ctx, text: str, names: list[str]) -> str:
        seen.append((text, names))
        if text != "good":
            raise ValueError(text)
        return text

    @wf.step(after=parse, join=All(on_failed="hold"))
    def total(ctx: Ctx, ts: Results[str]) -> list[str]:
        return list(ts)

    return wf


def test_an_edited_input_reaches_every_step_that_is_reopened(engine: Engine) -> None:
    """A child gets another item; a step behind it the arguments that the input names, the others as they were."""
    seen: list[Any] = []
    task = engine.submit(parsing(seen))
    worker = engine.worker()
    tasks = Tasks(engine.service, Workflows(engine.service))

    def reopen(value: Any) -> None:
        worker.work()
        (bad,) = engine.all("SELECT step_id FROM stanchion.step WHERE state = 'failed'")
        assert tasks.reopen(engine.tenant, [bad], step_input=value, reason="test", actor="ann") == [bad]

    reopen("b")
    reopen({"text": "c"})
    reopen({"names": ["n"]})
    reopen({"text": "good"})
    worker.work()
    assert seen == [("b", ["a"]), ("c", ["a"]), ("c", ["n"]), ("good", ["n"])]
    assert engine.task(task) == ("completed", "succeeded")
    engine.check_counts()


@pytest.mark.parametrize("value", ["text", ["text"], {"txt": "x"}, {"text": "x", "more": 1}])
def test_an_edited_input_that_names_no_argument_is_refused(engine: Engine, value: Any) -> None:
    """It would have been left out without a word."""
    task = engine.submit(parsing([]))
    worker = engine.worker()
    worker.work()
    (bad,) = engine.all("SELECT step_id FROM stanchion.step WHERE state = 'failed'")
    assert engine.reopen([bad], "b") == {bad}
    worker.work()
    (bad,) = engine.all("SELECT step_id FROM stanchion.step WHERE state = 'failed'")
    with pytest.raises(Unprocessable, match=r"parse takes no argument|names no arguments") as refused:
        Tasks(engine.service, Workflows(engine.service)).reopen(
            engine.tenant, [bad], step_input=value, reason="test", actor="ann"
        )
    assert refused.value.code == "E-STEP-34"
    assert "names, text" in (refused.value.fix or "")
    assert engine.states(task, "parse") == {"failed": 1}


# --- what holds ---


def held(engine: Engine, about: str) -> list[Reason]:
    """The reasons that need a person."""
    return [r for r in Asking(engine.service).about(engine.tenant, about).reasons if not r.by_itself]


def test_why_names_the_inner_join_that_holds_an_outer_one(engine: Engine) -> None:
    """The inner join is decided, so nothing can be reopened: the way out is to open the outer one."""
    task = engine.submit(nested("outer_holds", "all", All(on_failed="hold"), width=2))
    worker = engine.worker()
    worker.work(until=lambda: len(worker.ready("visit")) == 4)
    bad, *good = worker.take("visit")
    worker.fail(bad)
    worker.settle([worker.run(x) for x in good])
    worker.work()
    assert engine.task(task) == ("running", "running")
    assert engine.reopen([bad.step_id]) == set()
    (reason,) = held(engine, str(task.task_id))
    assert reason.code == "W-HELD"
    assert "1 branch failed at the join before sum_up for good" in reason.text
    assert [way.split()[2] for way in reason.fix] == ["open-barrier"]
    (of_step,) = held(engine, str(bad.step_id))
    assert [way.split()[2] for way in of_step.fix] == ["open-barrier"]
    assert engine.open(engine.barrier("total")["barrier_id"])
    worker.work()
    assert engine.task(task) == ("completed", "succeeded")
    assert result(engine, "total")[1:] == [1, 0]


# --- turns ---


class NoHints:
    def publish(self, *_: str) -> None: ...


def test_runs_that_expand_take_turns(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run with more inner fan-outs than a look takes in keeps a younger run waiting for one round, not for all."""
    engine.submit(nested("many", "all", "all", width=130))
    worker = engine.worker()
    worker.finish(worker.take("plan")[0], list(range(130)))
    engine.expand()
    worker.finish_all(worker.take("part"), [1])
    young = [engine.submit(fan(f"young{n}", "all", [])) for n in range(3)]
    worker = engine.worker()
    for lease in worker.take("plan"):
        worker.finish(lease, ["a", "b"])
    assert len(engine.all("SELECT 1 FROM stanchion.timer WHERE kind = 'expand'")) == 133
    assert [d.run_id for d in engine.planning.due(20)][1:4] == [engine.run_of(t) for t in young]
    RunPlanner(engine.planning, engine.upkeep, NoHints()).run_once()  # type: ignore[arg-type]  # it only publishes
    assert [engine.states(t, "visit") for t in young] == [{"ready": 2}] * 3


def test_a_chunk_has_so_many_steps_however_many_a_branch_has(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Branches of three rows, chunks of ten: three branches at a time; and one at a time when one is larger than that."""
    monkeypatch.setattr(limits, "FAN_OUT_CHUNK", 10)
    engine.submit(nested("chunked", "all", "all", width=7))
    worker = engine.worker()
    worker.finish(worker.take("plan")[0], list(range(7)))
    engine.planning.expand(engine.planning.due(1)[0])
    assert len(worker.ready("part")) == 3
    monkeypatch.setattr(limits, "FAN_OUT_CHUNK", 2)
    engine.planning.expand(engine.planning.due(1)[0])
    assert len(worker.ready("part")) == 4
