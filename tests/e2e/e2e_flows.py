"""The workflows that the end-to-end tests run: each shows one promise to its user."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from stanchion.sdk.context import Context as Ctx
from stanchion.testing.history import FOLDER_VARIABLE, note
from stanchion.workflow import Again, All, Go, Results, Spawn, Workflow


def opened(name: str) -> bool:
    """Whether the test has let this go on."""
    return (Path(os.environ[FOLDER_VARIABLE]) / f"{name}.go").exists()


def first_time(ctx: Ctx) -> bool:
    """True once for each step."""
    try:
        os.close(os.open(Path(os.environ[FOLDER_VARIABLE]) / f"{ctx.step_id}.once", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


# -- fan-outs --

many = Workflow("e2e_many")


@many.step()
async def count_up(ctx: Ctx, count: int, pause_ms: int = 0) -> list[list[int]]:
    """As many numbers, each with a pause."""
    note(ctx)
    return [[n, pause_ms] for n in range(count)]


@many.step(after=count_up, each=True)
async def visit(ctx: Ctx, item: list[int]) -> int:
    """One child."""
    note(ctx)
    await asyncio.sleep(item[1] / 1000)
    return item[0]


@many.step(after=visit, join="all")
async def add_up(ctx: Ctx, numbers: Results[int]) -> list[int]:
    """How many came, and their sum."""
    note(ctx)
    values = list(numbers)
    return [len(values), sum(values)]


nested = Workflow("e2e_nested")


@nested.step()
async def outer(ctx: Ctx, width: int) -> list[int]:
    """The first level."""
    note(ctx)
    return [width] * width


@nested.step(after=outer, each=True)
async def middle(ctx: Ctx, width: int) -> list[int]:
    """The second level."""
    note(ctx)
    return [width] * width


@nested.step(after=middle, each=True)
async def inner(ctx: Ctx, width: int) -> list[int]:
    """The third level."""
    note(ctx)
    return [1] * width


@nested.step(after=inner, each=True)
async def leaf(ctx: Ctx, one: int) -> int:
    """One of width³."""
    note(ctx)
    return one


@nested.step(after=leaf, join="all")
async def join_inner(ctx: Ctx, ones: Results[int]) -> int:
    """Closes the third level."""
    note(ctx)
    return sum(ones)


@nested.step(after=join_inner, join="all")
async def join_middle(ctx: Ctx, sums: Results[int]) -> int:
    """Closes the second."""
    note(ctx)
    return sum(sums)


@nested.step(after=join_middle, join="all")
async def join_outer(ctx: Ctx, sums: Results[int]) -> int:
    """Closes the first."""
    note(ctx)
    return sum(sums)


# -- failures --

partial = Workflow("e2e_partial")


@partial.step()
async def ten(ctx: Ctx) -> list[int]:
    """Ten numbers."""
    return list(range(10))


@partial.step(after=ten, each=True, retries=0)
async def maybe(ctx: Ctx, number: int) -> int:
    """The seventh fails for good."""
    if number == 7:
        raise ValueError("no sevens")
    return number


@partial.step(after=maybe, join=All(on_failed="collect"))
async def take_stock(ctx: Ctx, numbers: Results[int]) -> dict[str, list[int]]:
    """What came and what failed."""
    return {"ok": list(numbers), "failed": [f.idx for f in numbers.failed]}


strict = Workflow("e2e_strict")


@strict.step()
async def ten_again(ctx: Ctx) -> list[int]:
    """Ten numbers."""
    return list(range(10))


@strict.step(after=ten_again, each=True, retries=0)
async def maybe_not(ctx: Ctx, number: int) -> int:
    """The seventh fails for good."""
    if number == 7:
        raise ValueError("no sevens")
    return number


@strict.step(after=maybe_not, join="all")
async def all_or_nothing(ctx: Ctx, numbers: Results[int]) -> int:
    """Never runs."""
    return len(numbers)


holding = Workflow("e2e_holding")


@holding.step()
async def three(ctx: Ctx) -> list[int]:
    """Three numbers."""
    return [0, 1, 2]


@holding.step(after=three, each=True, retries=0)
async def once_bitten(ctx: Ctx, number: int) -> int:
    """The second one fails until it is reopened."""
    note(ctx)
    if number == 1 and first_time(ctx):
        raise ValueError("not yet")
    return number


@holding.step(after=once_bitten, join=All(on_failed="hold"))
async def patient(ctx: Ctx, numbers: Results[int]) -> list[int]:
    """Waits for a person."""
    return list(numbers)


flaky = Workflow("e2e_flaky")


@flaky.step(retries=2, retry_delay="50ms", retry_cap="100ms")
async def third_time(ctx: Ctx, succeed: bool) -> int:
    """Succeeds at the third attempt, or never."""
    note(ctx)
    if ctx.attempt < 3 or not succeed:
        raise OSError(f"attempt {ctx.attempt}")
    return ctx.attempt


later = Workflow("e2e_later")


@later.step(retries=20, retry_delay="1h", retry_cap="1h")
async def try_later(ctx: Ctx) -> int:
    """Fails, and would be tried again in an hour."""
    note(ctx)
    raise OSError("later")


poison = Workflow("e2e_poison")


@poison.step(retries=2)
async def swallow_poison(ctx: Ctx) -> int:
    """Takes its worker with it, every time."""
    note(ctx)
    os._exit(66)


# -- time --

isolated = Workflow("e2e_isolated")


@isolated.step(isolation="process", timeout="1s", retries=0)
def spin(ctx: Ctx) -> int:
    """Native code that hears nothing."""
    note(ctx)
    while True:
        pass


@isolated.step(after=spin)
async def unreachable(ctx: Ctx, number: int) -> int:
    """Never runs."""
    return number


blocking = Workflow("e2e_blocking")


@blocking.step(timeout="1s", retries=0)
def block(ctx: Ctx) -> int:
    """Blocks its thread until the test opens it."""
    note(ctx)
    while not opened("block"):
        time.sleep(0.02)
    return 1


stuck = Workflow("e2e_stuck")


@stuck.step(timeout="1s", retries=0)
async def hog(ctx: Ctx) -> int:
    """Blocks the event loop of its worker, which no timeout inside the worker can interrupt."""
    note(ctx)
    while not opened("stuck"):
        time.sleep(0.02)
    return 1


child_process = Workflow("e2e_process")


@child_process.step(isolation="process")
def elsewhere(ctx: Ctx, number: int) -> list[int]:
    """Runs in a process of its own."""
    note(ctx)
    return [os.getpid(), number * 2]


long = Workflow("e2e_long")


@long.step(retries=2, retry_delay="50ms")
async def doze(ctx: Ctx, name: str) -> int:
    """Goes on until the test opens it; notes that it was cancelled."""
    note(ctx)
    try:
        while not opened(name):
            await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        (Path(os.environ[FOLDER_VARIABLE]) / f"{name}.{ctx.stopping}").touch()
        raise
    return ctx.fence


@long.step(after=doze)
async def after_doze(ctx: Ctx, fence: int) -> int:
    """What comes behind."""
    note(ctx)
    return fence


# -- values --

large = Workflow("e2e_large")


@large.step()
async def sizes(ctx: Ctx, count: int, size: int) -> list[list[int]]:
    """How large each one is."""
    return [[n, size] for n in range(count)]


@large.step(after=sizes, each=True)
async def inflate(ctx: Ctx, item: list[int]) -> str:
    """A large text."""
    return f"{item[0]:04d}" + "ü" * item[1]


@large.step(after=inflate, join="all")
async def measure(ctx: Ctx, texts: Results[str]) -> list[int]:
    """Reads them all, one after the other."""
    found = [len(text) for text in texts]
    return [len(found), sum(found)]


odd = Workflow("e2e_odd")

ODD: dict[str, Any] = {
    "nul": "a\x00b",
    "surrogate": "\ud800",
    "nan": float("nan"),
    "infinity": float("inf"),
    "large integer": 2**60,
    "text": "emoji 👩‍👩‍👧‍👦, עברית, 𝒳",
}


@odd.step(retries=0)
async def give(ctx: Ctx, name: str) -> Any:
    """A value that can be stored or not."""
    return ODD[name]


# -- steering --

steering = Workflow("e2e_steering")


@steering.step(next=("long_way", "short_way"))
async def crossroads(ctx: Ctx, number: int) -> Go:
    """Small numbers take the long way."""
    note(ctx)
    return Go(long_way, number=number) if number < 10 else Go(short_way, number=number)


@steering.step(again="long_way")
async def long_way(ctx: Ctx, number: int) -> int | Again:
    """Round by round until it is large."""
    note(ctx)
    return number if number >= 10 else Again(long_way, number=number + 3)


@steering.step(on_demand=True)
async def piece(ctx: Ctx, number: int) -> int:
    """A spawned child."""
    note(ctx)
    return number + 1


@steering.step(after=piece, join="all", on_demand=True)
async def pieces(ctx: Ctx, numbers: Results[int]) -> list[int]:
    """What was spawned, together."""
    note(ctx)
    return sorted(numbers)


@steering.step(after=long_way, spawns=(piece, pieces))
async def divide(ctx: Ctx, number: int) -> list[int] | Spawn:
    """Becomes a fan-out."""
    note(ctx)
    return Spawn(piece, range(number), then=pieces)


@steering.step()
async def short_way(ctx: Ctx, number: int) -> int:
    """At once."""
    note(ctx)
    return number
