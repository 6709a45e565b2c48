"""Steps in processes of their own, which import this module."""

from __future__ import annotations

import asyncio
import os
import time

from stanchion.workflow import Again, Ctx, Go, Results, Retry, Workflow

isolated = Workflow("isolated")


@isolated.step(isolation="process", next=("other",), again=("only",), retries=1)
def only(ctx: Ctx, what: str, round: int = 0) -> str | Retry | Go | Again:
    """Does what it is told."""
    match what:
        case "retry":
            return Retry(after="1h", reason="later")
        case "go":
            return Go(other, text="chosen")
        case "again" if round < 1:
            return Again(only, what="again", round=1)
        case "odd":
            raise OddError("one", "two")
        case "exit":
            os._exit(3)
        case "large":
            return "x" * 9_000_000
    return f"{what} {round} {os.getpid()}"


@isolated.step(on_demand=True)
def other(ctx: Ctx, text: str) -> str:
    """Where Go goes."""
    return text


class OddError(Exception):
    """Can be pickled, and not be made anew."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} and {two}")


patient = Workflow("patient")


@patient.step(isolation="process")
def polite(ctx: Ctx) -> str:
    """Reports, and goes on until it is told to stop."""
    ctx.progress(1, of=2, note="half")
    while ctx.stopping is None:
        time.sleep(0.01)  # there is nothing to wait for but the word of the worker
    ctx.check()
    return "never"


patient_async = Workflow("patient_async")


@patient_async.step(isolation="process")
async def polite_async(ctx: Ctx) -> str:
    """Goes on until it is cancelled."""
    ctx.progress(1, of=2, note="half")
    try:
        await asyncio.sleep(60)
    finally:
        assert ctx.stopping == "cancelled"
    return "never"


joined = Workflow("joined")


@joined.step()
def plan(ctx: Ctx) -> list[str]:
    """What to visit."""
    return ["a", "b"]


@joined.step(after=plan, each=True)
def visit(ctx: Ctx, item: str) -> str:
    """One of them."""
    return item.upper()


@joined.step(after=visit, join="all", isolation="process")
def gather(ctx: Ctx, pages: Results[str]) -> list[str]:
    """Reads pages from the database by itself."""
    return list(pages)
