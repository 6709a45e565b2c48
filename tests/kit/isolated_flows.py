"""Steps in processes of their own, which import this module."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import subprocess
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from uuid import uuid4

from services.workers.child import Child
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


branching = Workflow("branching")


@branching.step(isolation="process", retries=0)
def branch(ctx: Ctx, what: str) -> str:
    """Has more than one process, in the ways in which that is done."""
    return have_more(what)


branching_async = Workflow("branching_async")


@branching_async.step(isolation="process", retries=0)
async def branch_async(ctx: Ctx, what: str) -> str:
    """The same from an event loop."""
    return have_more(what)


def have_more(what: str) -> str:
    """More processes than one."""
    match what:
        case "forks":  # and lets the copy come back as if it were the step
            os.fork()
        case "forks and raises":
            if os.fork() == 0:
                raise ValueError("in the copy")
        case "forks and dies":
            if os.fork() == 0:
                time.sleep(60)  # holds all that was open
                os._exit(0)
            os._exit(7)
        case "leaves one":
            subprocess.Popen(["sleep", "60"])
        case "has had one":
            subprocess.run(["true"], check=True)
        case "pools":
            with multiprocessing.Pool(2) as pool, ProcessPoolExecutor(2) as executor:
                return f"{sum(pool.map(abs, range(4)))} {sum(executor.map(abs, range(4)))}"
        case "answers for another":
            (child,) = (x for x in gc.get_objects() if isinstance(x, Child))
            child._send("returned", (uuid4(), 1), ("forged", True))
            time.sleep(60)
        case "speaks late":
            (child,) = (x for x in gc.get_objects() if isinstance(x, Child))
            threading.Timer(0.3, child._send, ("progress", (uuid4(), 1), {"note": "late"})).start()
    return f"{what} {os.getpid()}"


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


thrifty = Workflow("thrifty")


@thrifty.step(isolation="process", retries=0)
def isolated_spender(ctx: Ctx) -> float | None:
    """Reports from a process of its own."""
    return ctx.spend("tokens", 5).wait()


@thrifty.step(after=isolated_spender, retries=0)
def plain_spender(ctx: Ctx, left: float | None) -> float | None:
    """Reports from a thread."""
    return ctx.spend("tokens", 7).wait()
