"""Calls in threads of their own for those who wait on an event loop. What a call comes to crosses as a value.

A future refuses StopIteration and then never ends, and GeneratorExit closes the coroutine that waits for it: so neither
an error of user code nor that it is one is left to the future. It arrives inside of `Raised`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class Raised(Exception):  # noqa: N818 - it is no error of its own, but carries one
    """What a call raised, whatever it is."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(type(error))
        self.error = error


class Threads:
    """A pool for what ends by itself, and a thread for each call that may not."""

    def __init__(self, count: int) -> None:
        self._pool = ThreadPoolExecutor(max_workers=count, thread_name_prefix="values")

    async def pooled(self, call: Callable[[], T]) -> T:
        """What `call` returns; raises Raised."""
        return _opened(await asyncio.wrap_future(self._pool.submit(_closed, call)))

    async def alone(self, call: Callable[[], T]) -> T:
        """The same, in a new thread: user code that hangs keeps it for ever, so it must be neither one of a pool nor hold
        up the exit."""
        future: Future[tuple[T | None, BaseException | None]] = Future()

        def run() -> None:
            if future.set_running_or_notify_cancel():
                future.set_result(_closed(call))

        threading.Thread(target=run, name="step", daemon=True).start()
        return _opened(await asyncio.wrap_future(future))

    def stop(self) -> None:
        """Begin nothing any more; what runs is left behind."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _closed(call: Callable[[], T]) -> tuple[T | None, BaseException | None]:
    try:
        return call(), None
    except BaseException as error:  # noqa: BLE001 - whatever user code raises goes to the one who waits
        return None, error


def _opened(came: tuple[T | None, BaseException | None]) -> T:
    value, error = came
    if error is not None:
        raise Raised(error)
    return value  # type: ignore[return-value]  # there is a value where there is no error
