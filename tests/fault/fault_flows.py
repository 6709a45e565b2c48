"""The workflows that faults are aimed at. Each has a result that is known beforehand, whatever happens on the way.

Every step notes its execution first, so that what user code saw can be compared with what the engine granted. Retries
are plenty: a fault costs attempts, and a test of faults must not end by the budget of attempts.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path

from fault_effects import asking, effects, silent, told
from fault_press import publications

from stanchion.sdk.context import Context as Ctx
from stanchion.testing.history import FOLDER_VARIABLE, note
from stanchion.workflow import Again, All, AtLeast, First, Go, Results, Spawn, Workflow

__all__ = [
    "asking",
    "effects",
    "publications",
    "silent",
    "told",
]  # and all that stand here: whoever loads this file serves them

RETRIES = 20
CHILDREN = 12
SLOW_SECONDS = 1.0  # longer than a heartbeat at a lease of 2 s


def first_time(ctx: Ctx) -> bool:
    """True once for each step, whatever became of that attempt: the mark outlives the process."""
    try:
        os.close(os.open(_mark(ctx, "once"), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _mark(ctx: Ctx, kind: str) -> Path:
    return Path(os.environ[FOLDER_VARIABLE]) / f"{ctx.step_id}.{kind}"


# -- everything that a worker can do --

busy = Workflow("fault_busy")


@busy.step(retries=RETRIES)
async def plan(ctx: Ctx, count: int = CHILDREN) -> list[int]:
    """As many numbers."""
    note(ctx)
    return list(range(count))


@busy.step(after=plan, each=True, retries=RETRIES, retry_delay="50ms", retry_cap="200ms")
async def child(ctx: Ctx, number: int) -> int:
    """Most are quick; some outlast a heartbeat, and one fails the first time."""
    note(ctx)
    if number % 6 == 0:
        await asyncio.sleep(SLOW_SECONDS)
    if number == 1 and first_time(ctx):
        raise OSError("the first time it fails")
    async with ctx.artifact(f"child/{number % 3}", media_type="text/plain") as out:
        await out.write(str(number % 2).encode())
    return number + 1


@busy.step(after=child, retries=RETRIES)
def polish(ctx: Ctx, number: int) -> int:
    """A second step of each branch, in a thread."""
    note(ctx)
    ctx.artifact("polished", b"the same of all").put()
    return number * 2


@busy.step(after=polish, join="all", retries=RETRIES)
async def total(ctx: Ctx, numbers: Results[int]) -> int:
    """The sum over all branches."""
    note(ctx)
    return sum(numbers)


@busy.step(after=total, next=("left", "right"), retries=RETRIES)
async def decide(ctx: Ctx, total: int) -> int | Go:
    """Chooses by the sum: an even one goes left."""
    note(ctx)
    return Go(left, number=total) if total % 2 == 0 else Go(right, number=total)


@busy.step(retries=RETRIES)
async def left(ctx: Ctx, number: int) -> int:
    """The chosen one."""
    note(ctx)
    return number + 1


@busy.step(retries=RETRIES)
async def right(ctx: Ctx, number: int) -> int:
    """Never chosen: the sum is even."""
    note(ctx)
    return -number


@busy.step(after=left, again="rounds", retries=RETRIES)
async def rounds(ctx: Ctx, number: int) -> int | Again:
    """Goes round twice."""
    note(ctx)
    return number if ctx.round >= 2 else Again(rounds, number=number + 1)


@busy.step(on_demand=True, retries=RETRIES)
async def part(ctx: Ctx, number: int) -> int:
    """A spawned child."""
    note(ctx)
    return number * number


@busy.step(after=part, join="all", on_demand=True, retries=RETRIES)
async def merge(ctx: Ctx, parts: Results[int]) -> int:
    """What the spawn comes to."""
    note(ctx)
    return sum(parts)


@busy.step(after=rounds, spawns=(part, merge), retries=RETRIES)
async def spread(ctx: Ctx, number: int) -> int | Spawn:
    """Replaces itself by a fan-out of three."""
    note(ctx)
    return Spawn(part, [number, 1, 2], then=merge)


@busy.step(after=spread, retries=RETRIES)
async def last(ctx: Ctx, number: int) -> int:
    """The result of the whole."""
    note(ctx)
    return number


def busy_result(count: int = CHILDREN) -> int:
    """What `fault_busy` comes to."""
    number = sum((n + 1) * 2 for n in range(count)) + 1 + 2
    return number * number + 1 + 4


# -- what an orchestrator must do --

upkeep = Workflow("fault_upkeep")


@upkeep.step(retries=RETRIES)
async def start(ctx: Ctx, crash: bool = False) -> list[int]:
    """Eight branches; the first of them may take its worker with it."""
    note(ctx)
    return [-1 if crash else 0, *range(1, 8)]


@upkeep.step(after=start, each=True, retries=RETRIES, retry_delay="50ms", retry_cap="200ms")
async def branch(ctx: Ctx, number: int) -> int:
    """One takes its worker with it, one fails the first time: a lease to reap, a retry to fire."""
    note(ctx)
    if number < 0 and first_time(ctx):
        os._exit(70)
    if number == 1 and first_time(ctx):
        raise OSError("the first time it fails")
    return max(number, 0)


@upkeep.step(after=branch, join=AtLeast(8), retries=RETRIES)
async def gather(ctx: Ctx, numbers: Results[int]) -> list[int]:
    """All of them: a join that counts sums, not slots; then a fan-out again."""
    note(ctx)
    return sorted(numbers) * 3


@upkeep.step(after=gather, each=True, retries=RETRIES)
async def racer(ctx: Ctx, number: int) -> int:
    """The first one wins; the others dawdle, and more of them than there are slots have not started by then."""
    note(ctx)
    if number != 0:
        await asyncio.sleep(0.3)
    return number


@upkeep.step(after=racer, join=First(), retries=RETRIES)
async def winner(ctx: Ctx, numbers: Results[int]) -> int:
    """Opens early, so that what is left must be swept."""
    note(ctx)
    return min(len(list(numbers)), 1)  # several may arrive in one transaction


# -- small ones --

simple = Workflow("fault_simple")


@simple.step(retries=RETRIES)
async def one(ctx: Ctx, number: int = 1) -> int:
    """One step."""
    note(ctx)
    return number + 1


slow = Workflow("fault_slow")


@slow.step(retries=RETRIES)
async def nap(ctx: Ctx, seconds: float) -> int:
    """Sleeps as long as it is told, or until somebody lets it go; notes when it is made to stop."""
    note(ctx)
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline and not _mark(ctx, "go").exists():
            await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        _mark(ctx, f"{ctx.fence}.stopped").write_text(f"{ctx.stopping} {time.time()}", encoding="utf-8")
        raise
    return ctx.fence


doomed = Workflow("fault_doomed")


@doomed.step(retries=RETRIES, no_retry=ValueError)
async def stumble(ctx: Ctx) -> int:
    """Fails for good."""
    note(ctx)
    raise ValueError("it fails every time")


@doomed.step(after=stumble)
async def never(ctx: Ctx, number: int) -> int:
    """Not reached."""
    note(ctx)
    return number


second = Workflow("fault_second")


@second.step(retries=RETRIES)
async def prepare(ctx: Ctx) -> int:
    """Succeeds, and is taken over by the second run."""
    note(ctx)
    return 1


@second.step(after=prepare, retries=RETRIES, no_retry=ValueError)
async def try_it(ctx: Ctx, number: int) -> int:
    """Fails for good until somebody lets its task go. (Not the first time: that attempt may die unrecorded.)"""
    note(ctx)
    if not (Path(os.environ[FOLDER_VARIABLE]) / f"{ctx.task_id}.go").exists():
        raise ValueError("the first run fails")
    return number + 1


held = Workflow("fault_held")


@held.step(retries=RETRIES)
async def offer(ctx: Ctx) -> list[int]:
    """Four branches."""
    note(ctx)
    return list(range(4))


@held.step(after=offer, each=True, retries=RETRIES, no_retry=ValueError)
async def grab(ctx: Ctx, number: int) -> int:
    """The second one fails for good until somebody lets it go and reopens it."""
    note(ctx)
    if number == 1 and not _mark(ctx, "go").exists():
        raise ValueError("it waits for a person")
    return number


@held.step(after=grab, join=All(on_failed="hold"), retries=RETRIES)
async def collect(ctx: Ctx, numbers: Results[int]) -> list[int]:
    """Held by the failed branch until it is reopened, or opened without it."""
    note(ctx)
    return sorted(numbers)


wide = Workflow("fault_wide")


@dataclass(frozen=True)
class Item:
    """What a child of `fault_wide` is told."""

    number: int
    pause_ms: int


@wide.step(retries=RETRIES)
async def spread_out(ctx: Ctx, count: int, pause_ms: int = 0) -> list[Item]:
    """As many numbers; each child takes so long."""
    note(ctx)
    return [Item(n, pause_ms) for n in range(count)]


@wide.step(after=spread_out, each=True, retries=RETRIES)
async def single(ctx: Ctx, item: Item) -> int:
    """A quick child."""
    note(ctx)
    await asyncio.sleep(item.pause_ms / 1000)
    return item.number


@wide.step(after=single, join="all", retries=RETRIES)
async def sum_up(ctx: Ctx, numbers: Results[int]) -> list[int]:
    """How many there were, and their sum."""
    note(ctx)
    values = list(numbers)
    return [len(values), sum(values)]


stubborn = Workflow("fault_stubborn")


@stubborn.step(retries=RETRIES)
def block(ctx: Ctx, seconds: float) -> int:
    """Blocks a thread, whatever it is told, until its time is over or somebody lets it go."""
    note(ctx)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not _mark(ctx, "go").exists():
        time.sleep(0.02)
    return ctx.fence
