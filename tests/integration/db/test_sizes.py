"""What a step gives to another one with Go, Again or Spawn: in the row, by reference, or refused."""

from __future__ import annotations

import pytest
from kit.engine import Engine

from stanchion.authority.leases import Failure
from stanchion.contracts import limits
from stanchion.workflow import Again, Ctx, Go, Results, Spawn, Workflow

LARGE = limits.INLINE_BYTES + 1


def steering() -> Workflow:
    wf = Workflow("steering")

    @wf.step(retries=0, next="other", again="only", spawns=("part", "whole"))
    def only(ctx: Ctx, how: str, n: int, v: str = "") -> int | Go | Again | Spawn:
        if v:
            return len(v)
        match how:
            case "go":
                return Go(other, v="x" * n)
            case "again":
                return Again(only, how=how, n=n, v="x" * n)
        return Spawn(part, ["x" * n], then=whole)

    @wf.step(on_demand=True, retries=0)
    def other(ctx: Ctx, v: str) -> int:
        return len(v)

    @wf.step(on_demand=True)
    def part(ctx: Ctx, v: str) -> int:
        return len(v)

    @wf.step(after=part, join="all")
    def whole(ctx: Ctx, parts: Results[int]) -> int:
        return sum(parts)

    return wf


@pytest.mark.parametrize("how", ["go", "again"])
def test_a_large_one_goes_by_reference(engine: Engine, how: str) -> None:
    """The row names it, and the step reads it as any other input."""
    task = engine.submit(steering(), input={"how": how, "n": LARGE})
    engine.worker().work()
    assert engine.task(task) == ("completed", "succeeded")
    assert engine.one(
        "SELECT max(length(coalesce(input::text, ''))) < 1000, count(input_blob) FROM stanchion.step"
    ) == (True, 1)
    assert str(LARGE) in engine.all("SELECT body::text FROM stanchion.result")


@pytest.mark.parametrize("how", ["go", "again", "spawn"])
def test_one_that_is_too_large(engine: Engine, how: str) -> None:
    """It is refused with its size, for good; nothing of it is stored."""
    task = engine.submit(steering(), input={"how": how, "n": limits.BLOB_BYTES + 1})
    worker = engine.worker()
    (lease,) = worker.take()
    outcome = worker.run(lease)
    assert isinstance(outcome, Failure)
    assert (outcome.error["code"], outcome.final) == ("E-SIZE-01", True)
    worker.settle([outcome])
    assert engine.states(task).get("failed") == 1
    assert engine.one("SELECT count(*) FROM stanchion.blob") == (0,)


def test_a_round_keeps_a_large_input(engine: Engine) -> None:
    """Again to a step, and to one before it, starts from the input that was stored by reference."""
    wf = Workflow("rounds")

    @wf.step(again="first")
    def first(ctx: Ctx, text: str = "", extra: int = 0) -> int | Again:
        return Again(first, extra=1) if ctx.round == 0 else len(text) + extra

    @wf.step(after=first, again=("first",), max_rounds=3)
    def second(ctx: Ctx, size: int) -> int | Again:
        return Again(first, extra=2) if ctx.round < 2 else size

    task = engine.submit(wf, input={"text": "x" * LARGE})
    engine.worker().work()
    assert engine.task(task) == ("completed", "succeeded")
    assert sorted(set(engine.all("SELECT body FROM stanchion.result WHERE body IS NOT NULL"))) == [LARGE + 1, LARGE + 2]
