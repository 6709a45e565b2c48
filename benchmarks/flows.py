"""The workloads: steps that do nothing, so that only the engine is measured."""

import asyncio

from stanchion import Ctx, Operation, Results, Workflow
from stanchion.workflow.approval import Ask, Decision
from stanchion.workflow.operation import Call

fan = Workflow("bench_fan", version=1)


@fan.step()
async def make(ctx: Ctx, n: int) -> list[int]:
    """A list of n numbers."""
    return list(range(n))


@fan.step(after=make, each=True)
async def child(ctx: Ctx, x: int) -> int:
    """One child."""
    return x


@fan.step(after=child, join="all")
async def joined(ctx: Ctx, xs: Results[int]) -> int:
    """The join."""
    return len(xs)


one = Workflow("bench_one", version=1)


@one.step()
async def only(ctx: Ctx, n: int) -> int:
    """A task of one step."""
    return n


slow = Workflow("bench_slow", version=1)


@slow.step()
async def long_step(ctx: Ctx, seconds: float) -> float:
    """A step that takes its time."""
    await asyncio.sleep(seconds)
    return seconds


chain = Workflow("bench_chain", version=1)


@chain.step()
async def link_0(ctx: Ctx, n: int) -> int:
    """The first link."""
    return n


def _link(number: int) -> None:
    async def link(ctx: Ctx, n: int) -> int:
        return n + 1

    link.__name__ = f"link_{number}"
    chain.step(after=chain.steps[f"link_{number - 1}"])(link)


for _number in range(1, 50):
    _link(_number)


async def note(call: Call, seconds: float) -> float:
    """An outside system that only takes its time."""
    await asyncio.sleep(seconds)
    return seconds


NOTE = Operation("bench.note", do=note, unsafe_no_check="it is measured, and never lost", keeps_key="1d")


def _effects(how: str) -> Workflow:
    """A fan-out of effects, through the ledger or called directly."""
    wf = Workflow(f"bench_{how}", version=1, operations=[NOTE])

    @wf.step()
    async def make(ctx: Ctx, n: int, seconds: float) -> list[float]:
        return [seconds] * n

    @wf.step(after=make, each=True)
    async def child(ctx: Ctx, seconds: float) -> float:
        if how == "ledger":
            return await ctx.op(NOTE, seconds, key=ctx.step_id)
        return await note(Call("key", "op", "tenant", 30.0), seconds)

    @wf.step(after=child, join="all")
    async def joined(ctx: Ctx, all_of: Results[float]) -> int:
        return len(all_of)

    return wf


direct, ledger = _effects("direct"), _effects("ledger")

asking = Workflow("bench_asking", version=1)


@asking.approval(within="1h")
async def review(ctx: Ctx) -> Ask:
    """A question."""
    return Ask("Shall it go on?")


@asking.step(after=review)
async def go_on(ctx: Ctx, decision: Decision) -> str:
    """What waits for the answer."""
    return decision.outcome
