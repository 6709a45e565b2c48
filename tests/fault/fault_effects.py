"""An outside system in one file, and workflows with effects in it. It outlives every process, and remembers by itself.

With keys it has each effect once; without them it has one for each request that comes before its deadline. So a request
that was sent once too often shows, whatever the ledger says.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from stanchion.runtime.clock import utc_now
from stanchion.sdk.context import Context as Ctx
from stanchion.testing.history import FOLDER_VARIABLE, note
from stanchion.workflow import Results, Workflow
from stanchion.workflow.approval import Ask, Decision
from stanchion.workflow.operation import Call, NotSent, Operation

RETRIES = 20
PAGES = 6


def book() -> Path:
    """Where the outside system keeps what it has done: a line of JSON each."""
    return Path(os.environ[FOLDER_VARIABLE]) / "outside.jsonl"


def done(folder: Path) -> list[dict[str, Any]]:
    """What it has done, in order."""
    path = folder / "outside.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def once(mark: str) -> bool:
    """True the first time, whichever process asks."""
    try:
        os.close(os.open(Path(os.environ[FOLDER_VARIABLE]) / mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _execute(call: Call, number: int, *, knows_keys: bool) -> None:
    with book().open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if knows_keys and any(json.loads(line)["key"] == call.key for line in file):
            return
        if call.deadline is not None and utc_now() > call.deadline:
            raise NotSent("it came after its deadline")
        file.write(json.dumps({"key": call.key, "number": number}) + "\n")


def _lose(call: Call, number: int) -> None:
    """The first answer of every third is lost."""
    if number % 3 == 1 and once(f"{call.key}.lost"):
        raise ConnectionResetError("the answer is lost")


def _found(call: Call) -> int | None:
    return next((line["number"] for line in done(book().parent) if line["key"] == call.key), None)


async def stamp(call: Call, number: int) -> int:
    """Done once a key."""
    _execute(call, number, knows_keys=True)
    _lose(call, number)
    return number


async def find_stamp(call: Call, number: int) -> int | None:
    """A look-up that is away the first time."""
    if number % 3 == 1 and once(f"{call.key}.blind"):
        raise ConnectionRefusedError("the look-up is away")
    return _found(call)


async def shout(call: Call, number: int) -> int:
    """Done as often as it comes in time."""
    _execute(call, number, knows_keys=False)
    _lose(call, number)
    return number


async def find_shout(call: Call, number: int) -> int | None:
    """What was shouted is known."""
    return _found(call)


async def whisper(call: Call, number: int) -> int:
    """Nobody can be asked; the first answer is lost."""
    _execute(call, number, knows_keys=True)
    if once(f"{call.key}.lost"):
        raise ConnectionResetError("the answer is lost")
    return number


STAMP = Operation("outside.stamp", do=stamp, check=find_stamp, keeps_key="1d", cost={"stamps": 1})
SHOUT = Operation("outside.shout", do=shout, check=find_shout, lands_within="500ms")
WHISPER = Operation("outside.whisper", do=whisper, unsafe_no_check="it is whispered", keeps_key="1d")
PRAISE = Operation("outside.praise", do=stamp, check=find_stamp, keeps_key="1d", needs_approval=True)

effects = Workflow("fault_effects", operations=[STAMP, SHOUT], budget={"stamps": PAGES})  # each is paid for once


@effects.step(retries=RETRIES)
async def list_pages(ctx: Ctx) -> list[int]:
    """As many pages."""
    note(ctx)
    return list(range(PAGES))


@effects.step(after=list_pages, each=True, retries=RETRIES, retry_delay="50ms", retry_cap="200ms")
async def page(ctx: Ctx, number: int) -> int:
    """Two effects."""
    note(ctx)
    await ctx.spend("pages", 1)
    first = await ctx.op(STAMP, number, key=f"stamp {number}")
    second = await ctx.op(SHOUT, number, key=f"shout {number}")
    return first + second


@effects.step(after=page, join="all", retries=RETRIES)
async def added(ctx: Ctx, pages: Results[int]) -> int:
    """The sum over all pages."""
    note(ctx)
    return sum(pages)


def effects_result() -> int:
    """What `fault_effects` comes to."""
    return sum(2 * number for number in range(PAGES))


asking = Workflow("fault_asking", operations=[PRAISE])


@asking.approval(within="1d", retries=RETRIES)
async def review(ctx: Ctx) -> Ask:
    """May one page be praised?"""
    note(ctx)
    return Ask("May it be praised?", 1, PRAISE, key="one")


@asking.step(after=review, retries=RETRIES)
async def praise(ctx: Ctx, decision: Decision) -> int:
    """An effect that somebody has to approve; without it the task has ended."""
    note(ctx)
    return await ctx.op(PRAISE, 1, key="one", approval=decision)


silent = Workflow("fault_silent")


@silent.approval(within="1s", rejected="continue", retries=RETRIES)
async def wonder(ctx: Ctx) -> Ask:
    """Nobody is there to answer."""
    note(ctx)
    return Ask("Is anybody there?")


@silent.step(after=wonder, retries=RETRIES)
async def go_on(ctx: Ctx, decision: Decision) -> str:
    """What silence means."""
    note(ctx)
    return decision.outcome


told = Workflow("fault_told", operations=[WHISPER])


@told.step(retries=RETRIES)
async def say(ctx: Ctx) -> int:
    """An effect that only a person can settle."""
    note(ctx)
    await ctx.op(WHISPER, 1, key="one")
    return 1
