"""The workloads: steps that do nothing, so that only the engine is measured."""

from stanchion import Ctx, Results, Workflow

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
    import asyncio

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
