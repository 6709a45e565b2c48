"""The result of a task whose last step stands inside a fan-out: one value a branch, in their order, of the newest round."""

from __future__ import annotations

from typing import Any

from kit.engine import Engine

from stanchion.authority.objects import Objects
from stanchion.authority.outcomes import Outcomes
from stanchion.authority.submission import Answer
from stanchion.authority.workflows import Workflows
from stanchion.workflow import Again, Ctx, Results, Workflow


def result_of(engine: Engine, task: Answer) -> Any:
    assert engine.task(task) == ("completed", "succeeded")
    outcomes = Outcomes(engine.service, Workflows(engine.service), Objects(None))
    return outcomes.result_of(engine.tenant, task.task_id)["result"]


def test_a_further_round_of_one_branch_stays_in_its_place(engine: Engine) -> None:
    """Again in the first branch: its last result stands first."""
    wf = Workflow("round_inside")

    @wf.step()
    def find(ctx: Ctx) -> list[int]:
        return [0, 1, 2, 3]

    @wf.step(after=find, each=True, again="read", max_rounds=3)
    def read(ctx: Ctx, n: int) -> str | Again:
        if n == 0 and ctx.round == 0:
            return Again(read, n=0)
        return f"r{n}"

    task = engine.submit(wf)
    engine.worker().work()
    assert result_of(engine, task) == ["r0", "r1", "r2", "r3"]


def test_a_further_round_over_a_fan_out_replaces_what_was_there(engine: Engine) -> None:
    """Again from behind the fan-out to before it: the results of the first round are none of the task's."""
    wf = Workflow("round_around")

    @wf.step()
    def find(ctx: Ctx, n: int) -> list[int]:
        return [10 * n, 10 * n + 1]

    @wf.step(after=find, each=True)
    def read(ctx: Ctx, x: int) -> int:
        return x

    @wf.step(after=read, join="all", again="find", max_rounds=3)
    def total(ctx: Ctx, got: Results[int]) -> int | Again:
        return Again(find, n=2) if ctx.round == 0 else sum(got)

    @wf.step(after=read)
    def side(ctx: Ctx, x: int) -> int:
        return -x

    task = engine.submit(wf, input={"n": 1})
    engine.worker().work()
    assert result_of(engine, task) == {"total": 41, "side": [-20, -21]}


def test_nested_branches_come_in_the_order_of_their_paths(engine: Engine) -> None:
    """Whichever inner fan-out opened first."""
    wf = Workflow("paths")

    @wf.step()
    def find(ctx: Ctx) -> list[list[int]]:
        return [[1, 2], [3, 4], [5]]

    @wf.step(after=find, each=True)
    def group(ctx: Ctx, g: list[int]) -> list[int]:
        return g

    @wf.step(after=group, each=True)
    def leaf(ctx: Ctx, x: int) -> int:
        return x

    task = engine.submit(wf)
    worker = engine.worker()
    worker.settle([worker.run(x) for x in worker.take("find")])
    engine.expand()
    for lease in reversed(worker.take("group")):
        worker.settle([worker.run(lease)])
        engine.expand()
    worker.work()
    assert result_of(engine, task) == [1, 2, 3, 4, 5]


def test_a_plain_last_step_answers_with_its_newest_round(engine: Engine) -> None:
    """Outside of any fan-out: one value."""
    wf = Workflow("plain_rounds")

    @wf.step(again="only", max_rounds=4)
    def only(ctx: Ctx, n: int) -> int | Again:
        return n if n == 3 else Again(only, n=n + 1)

    task = engine.submit(wf, input={"n": 1})
    engine.worker().work()
    assert result_of(engine, task) == 3
