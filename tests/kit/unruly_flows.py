"""Steps that end as no step should. Those in processes of their own import this module."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Final

from stanchion.workflow import Ctx, Workflow


class MuteError(Exception):
    """Has no text, and ends whoever asks for it."""

    def __str__(self) -> str:
        raise SystemExit("mute")


class ShyError(Exception):
    """Can't be shown."""

    def __repr__(self) -> str:
        raise KeyboardInterrupt("shy")


KINDS: Final[dict[str, Callable[[], BaseException]]] = {
    "ValueError": lambda: ValueError("bad"),
    "StopIteration": lambda: StopIteration("bad"),
    "StopAsyncIteration": lambda: StopAsyncIteration("bad"),
    "GeneratorExit": lambda: GeneratorExit("bad"),
    "KeyboardInterrupt": lambda: KeyboardInterrupt("bad"),
    "SystemExit": lambda: SystemExit("bad"),
    "CancelledError": lambda: asyncio.CancelledError("bad"),
    "BaseExceptionGroup": lambda: BaseExceptionGroup("bad", [SystemExit("bad"), GeneratorExit("bad")]),
    "MuteError": MuteError,
    "ShyError": ShyError,
}
"""By the name that the error of the attempt must have."""

plain = Workflow("unruly_plain")
on_loop = Workflow("unruly_on_loop")
apart = Workflow("unruly_apart")
apart_async = Workflow("unruly_apart_async")


def act(kind: str) -> str:
    """Raise it, or return its name when it is none."""
    if kind in KINDS:
        raise KINDS[kind]()
    return kind


@plain.step(retries=0)
def only(ctx: Ctx, kind: str) -> str:
    """In a thread."""
    return act(kind)


async def unruly(kind: str) -> str:
    """What only an async step can do."""
    me, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert me is not None
    match kind:
        case "cancels itself":
            me.cancel()
            await asyncio.sleep(0)
        case "swallows its cancel":
            me.cancel()
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                return kind
        case "is told to close":
            waiting: asyncio.Future[Any] = loop.create_future()
            waiting.set_exception(GeneratorExit("bad"))
            await waiting
        case "stops the loop":
            loop.stop()
            await asyncio.sleep(0.01)
        case "leaves a SystemExit":
            task = loop.create_task(act_later("SystemExit"))
            await asyncio.sleep(0.05)
            assert task.done()
        case "leaves a KeyboardInterrupt":
            task = loop.create_task(act_later("KeyboardInterrupt"))
            await asyncio.sleep(0.05)
            assert task.done()
        case "calls exit soon":
            loop.call_soon(act, "SystemExit")
            await asyncio.sleep(0.05)
        case "cancels everybody":
            for other in asyncio.all_tasks():
                other.cancel()
            await asyncio.sleep(0)
        case "fells the loop":
            loop.call_soon(fell, loop)
            await asyncio.sleep(60)
    return act(kind)


async def act_later(kind: str) -> str:
    """In a task that nobody waits for."""
    return act(kind)


def fell(loop: asyncio.AbstractEventLoop) -> None:
    """End the loop each time that it runs."""
    loop.call_soon(fell, loop)
    raise SystemExit("bad")


@on_loop.step(retries=0)
async def only_on_loop(ctx: Ctx, kind: str) -> str:
    """On the worker's event loop."""
    return await unruly(kind)


@apart.step(retries=0, isolation="process")
def only_apart(ctx: Ctx, kind: str) -> str:
    """In a process of its own."""
    return act(kind)


@apart_async.step(retries=0, isolation="process")
async def only_apart_async(ctx: Ctx, kind: str) -> str:
    """In a process of its own, on an event loop of its own."""
    return await unruly(kind)


together = Workflow("together")
four: Final = threading.Barrier(4)


@together.step(retries=0)
def meet(ctx: Ctx) -> str:
    """Ends only when four of them run at once."""
    four.wait(30)
    return "met"


poison = Workflow("unruly_poison")


@poison.step(retries=1, retry_delay="0s")
async def fells(ctx: Ctx) -> str:
    """Fells the loop in each of its attempts."""
    return await unruly("fells the loop")


beside = Workflow("unruly_beside")
go: Final = threading.Event()


@beside.step(retries=0)
def waits(ctx: Ctx) -> str:
    """Is in a thread meanwhile."""
    go.wait(30)
    return "unharmed"
