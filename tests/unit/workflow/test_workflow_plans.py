"""Plans of branches: worked out once a graph, filled in for each branch."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from stanchion.workflow import Again, Ctx, Results, Workflow, planner
from stanchion.workflow.anatomy import between
from stanchion.workflow.planner import FanOut, Place, Plan


def chain(length: int) -> Workflow:
    """plan -> s0 (each) -> s1 -> ... -> total, which joins the last one."""
    wf = Workflow("chain")

    @wf.step()
    def plan(ctx: Ctx) -> list[str]: ...

    @wf.step(after=plan, each=True)
    def s0(ctx: Ctx, item: str) -> str: ...

    last: Any = s0
    for n in range(1, length):

        def follow(ctx: Ctx, item: str) -> str: ...

        follow.__name__ = f"s{n}"
        last = wf.step(after=last)(follow)

    @wf.step(after=last, join="all")
    def total(ctx: Ctx, items: Results[str]) -> int: ...

    return wf


def fan_of(wf: Workflow) -> FanOut:
    """The fan-out of a chain."""
    return FanOut(uuid4(), Place(uuid4(), uuid4()), wf.graph().node("s0"), 5_000, {"total": uuid4()})


def nameless(plan: Plan) -> list[dict[str, Any]]:
    """The rows of a plan with its own ids numbered, so that two plans can be compared."""
    numbers: dict[str, str] = {}

    def shown(key: str, value: Any) -> Any:
        if isinstance(value, list):
            return [shown(key, one) for one in value]
        if key in ("step_id", "barrier_id", "feeds", "sources", "chooses") and value is not None:
            return numbers.setdefault(value, f"#{len(numbers)}")
        return value

    rows = [*plan.steps, *plan.barriers]
    return [{key: shown(key, value) for key, value in row.items() if key not in ("idx", "input")} for row in rows]


@pytest.mark.parametrize("length", [2, 40])
def test_a_second_branch_is_not_worked_out_again(length: int) -> None:
    """It has the same rows as the first one, under ids of its own, and the graph was not looked at for it."""
    wf = chain(length)
    graph, fan = wf.graph(), fan_of(wf)
    gathers = {("total", f"s{length - 1}"): uuid4()}
    one = planner.plan_branch(graph, fan, 0, "a", gathers, {})
    known = dict(graph.memo)
    two = planner.plan_branch(graph, fan, 1, "b", gathers, {})
    assert graph.memo == known
    assert nameless(one) == nameless(two)
    assert [row["idx"] for row in two.steps] == [1] * length
    assert two.steps[0]["input"] == "b"
    assert not {row["step_id"] for row in one.steps} & {row["step_id"] for row in two.steps}


def test_what_was_worked_out_is_no_part_of_the_graph() -> None:
    """Two graphs are equal, and have one digest, whether or not something was planned from them."""
    wf = chain(3)
    graph, other = wf.graph(), type(wf.graph()).from_json(wf.graph().to_json())
    planner.plan_branch(graph, fan_of(wf), 0, "a", {}, {})
    assert graph.memo
    assert not other.memo
    assert graph == other
    assert graph.digest() == other.digest()
    assert "memo" not in graph.to_json()


def test_a_branch_is_as_wide_as_it_has_rows() -> None:
    """Its plain steps, and each inner fan-out as one: what a chunk is measured in."""
    wf = chain(7)
    assert planner.branch_steps(wf.graph(), wf.graph().node("s0")) == 7


def test_a_step_whose_source_is_not_there_is_not_planned() -> None:
    """A branch that reads a step around it is refused without that one's id, and names it with it."""
    wf = Workflow("reads")

    @wf.step()
    def first(ctx: Ctx) -> str: ...

    @wf.step(after=first)
    def plan(ctx: Ctx, text: str) -> list[str]: ...

    @wf.step(after=plan, each=True)
    def s0(ctx: Ctx, item: str) -> str: ...

    @wf.step(after=(s0, first))
    def both(ctx: Ctx, item: str, text: str) -> str: ...

    @wf.step(after=both, join="all")
    def total(ctx: Ctx, items: Results[str]) -> int: ...

    graph, fan = wf.graph(), fan_of(wf)
    with pytest.raises(LookupError, match="both needs first"):
        planner.plan_branch(graph, fan, 0, "a", {}, {})
    around = UUID(int=7)
    plan_ = planner.plan_branch(graph, fan, 0, "a", {}, {"first": around})
    assert plan_.steps[1]["sources"] == [str(plan_.ids["s0"]), str(around)]


def test_a_round_over_a_chain_as_long_as_is_allowed() -> None:
    """Longer than Python's stack: the steps of a further round are all between its two ends, and no others."""
    wf = Workflow("rounds")

    @wf.step()
    def aside(ctx: Ctx) -> int: ...

    @wf.step()
    def begin(ctx: Ctx, count: int) -> int: ...

    last: Any = begin
    for n in range(1_500):

        def follow(ctx: Ctx, count: int) -> int: ...

        follow.__name__ = f"s{n}"
        last = wf.step(after=last)(follow)

    @wf.step(after=(last, aside), again=begin)
    def judge(ctx: Ctx, count: int, side: int) -> int | Again: ...

    assert between(wf.graph(), "begin", "judge") == ("begin", *(f"s{n}" for n in range(1_500)), "judge")
    assert between(wf.graph(), "s1499", "judge") == ("s1499", "judge")
