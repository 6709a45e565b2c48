"""The slots: an event loop in a thread of its own, and as many attempts at once as there are slots.

`async def` steps run on the loop, plain functions in threads, isolated ones in processes of their own. A step that is
told to stop and does not is left behind: its slot goes on, what it writes is refused.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from stanchion.authority.leases import Done, Failure
from stanchion.errors import InDoubt, LeaseLost
from stanchion.runtime import failpoints
from stanchion.runtime.clock import monotonic
from stanchion.runtime.logging import bind, get_logger

from .attempt import Attempt, Doubt, Outcome, Probed, Stopped
from .executor import Executor
from .processes import ProcessPool

T = TypeVar("T")

log = get_logger()

GRACE_SECONDS = 2.0
"""What user code gets between being told to stop and being left behind."""

RUN = failpoints.declare("step.run", "a step was leased, its code has not begun")
RAN = failpoints.declare("step.ran", "a step's code has ended, its result is not handed in")


class Slots:
    """Runs attempts; `finished` collects those that ended, `on_finished` is called after each."""

    def __init__(self, count: int, executor: Executor, processes: ProcessPool, on_finished: Callable[[], None]) -> None:
        self.count = count
        self.executor = executor
        self.processes = processes
        self.on_finished = on_finished
        self.finished: deque[Attempt] = deque()
        self.name = "slots"
        self._queue: deque[Attempt] = deque()
        self._arrived: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._threads = ThreadPoolExecutor(max_workers=count, thread_name_prefix="values")
        self._busy = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._left_behind: set[asyncio.Task[Any]] = set()
        self._ending: asyncio.Event | None = None
        self._began = threading.Event()
        self._called_at: float | None = None  # since when the loop owes an answer

    # --- for the foreman ---

    def start(self) -> None:
        """Start the loop."""
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name="slots", daemon=True)
        self._thread.start()
        self._began.wait(10)

    def stop(self, timeout: float = 5.0) -> bool:
        """End the loop; what still runs is left behind."""
        if self._loop is not None and self._thread is not None and self._ending is not None:
            self._loop.call_soon_threadsafe(self._ending.set)
            self._thread.join(timeout)
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.processes.stop()
        return self._thread is None or not self._thread.is_alive()

    def submit(self, attempts: Iterable[Attempt]) -> None:
        """Queue attempts, in order."""
        assert self._loop is not None
        self._queue.extend(attempts)
        if self._called_at is None:
            self._called_at = monotonic()
        self._loop.call_soon_threadsafe(self._answer)

    @property
    def held_up_seconds(self) -> float:
        """How long the loop has not answered: the code of an async step that blocks holds up all the others."""
        called_at = self._called_at
        return 0.0 if called_at is None else monotonic() - called_at

    @property
    def taken(self) -> int:
        """How many slots are taken."""
        return self._busy

    @property
    def waiting(self) -> int:
        """How many attempts wait for a slot."""
        return len(self._queue)

    @property
    def free(self) -> int:
        """How many attempts would begin at once."""
        return max(self.count - self.taken - self.waiting, 0)

    def oldest_waiting(self) -> Attempt | None:
        """The attempt that has waited longest for a slot."""
        try:
            return self._queue[0]
        except IndexError:
            return None

    def take_waiting(self) -> list[Attempt]:
        """Take back what has not begun."""
        taken = []
        while True:
            try:
                taken.append(self._queue.pop())
            except IndexError:
                return taken

    # --- on the loop ---

    def _answer(self) -> None:
        assert self._arrived is not None
        self._called_at = None
        self._arrived.set()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._arrived = asyncio.Event()
        self._ending = asyncio.Event()
        self._tasks |= {self._loop.create_task(self._slot()) for _ in range(self.count)}
        self._began.set()
        await self._ending.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks, timeout=1.0)

    async def _slot(self) -> None:
        assert self._arrived is not None
        me = asyncio.current_task()
        assert me is not None
        while True:
            try:
                attempt = self._queue.popleft()
            except IndexError:
                self._arrived.clear()
                if not self._queue:
                    await self._arrived.wait()
                continue
            self._busy += 1
            attempt.outcome = await self._outcome(attempt, me)
            attempt.ran_seconds = attempt.seconds
            self.finished.append(attempt)
            if me in self._left_behind:
                self._left_behind.discard(me)
                return  # another task took this slot over
            self._busy -= 1
            self.on_finished()

    async def _outcome(self, attempt: Attempt, me: asyncio.Task[Any]) -> Outcome:
        if failpoints.armed(RUN):
            await self._in_thread(
                lambda: failpoints.hit(
                    RUN, node=attempt.lease.node, idx=attempt.lease.idx, attempt=attempt.lease.number
                )
            )
        if not attempt.begin():
            return Stopped(attempt.lease, attempt.stop_reason or "released")
        limit = attempt.lease.timeout_ms  # of this attempt, or what is left of the step's total time
        timer = None if limit is None else asyncio.get_running_loop().call_later(limit / 1000, attempt.stop, "timeout")
        try:
            outcome = await self._run(attempt, me)
        except asyncio.CancelledError as error:
            if attempt.stop_reason is None and me.cancelling():
                raise  # the loop itself ends
            me.uncancel()
            outcome = (
                self._interrupted(attempt) if attempt.stop_reason is not None else self.executor.raised(attempt, error)
            )
        except LeaseLost:
            outcome = self._interrupted(attempt)
        except InDoubt as error:
            outcome = Doubt(attempt.lease, error.error, error.delay_ms)
        except BaseException as error:  # noqa: BLE001 - whatever user code raises is this attempt's outcome, not the worker's end
            outcome = (
                self._interrupted(attempt) if attempt.stop_reason == "timeout" else self.executor.raised(attempt, error)
            )
        finally:
            attempt.on_stop = None
            if timer is not None:
                timer.cancel()
        if failpoints.armed(RAN):
            await self._in_thread(
                lambda: failpoints.hit(
                    RAN, node=attempt.lease.node, idx=attempt.lease.idx, attempt=attempt.lease.number
                )
            )
        if isinstance(outcome, Failure):
            log.info(
                "step.finished",
                node=attempt.lease.node,
                step_id=str(attempt.lease.step_id),
                attempt=attempt.lease.number,
                failed=outcome.error.get("what"),
            )
        return outcome

    def _interrupted(self, attempt: Attempt) -> Outcome:
        return (
            self.executor.timed_out(attempt)
            if attempt.stop_reason == "timeout"
            else Stopped(attempt.lease, attempt.stop_reason or "lost")
        )

    async def _run(self, attempt: Attempt, me: asyncio.Task[Any]) -> Outcome:
        lease = attempt.lease
        in_place = attempt.runs_on_the_loop
        self._let_interrupt(attempt, me)
        if lease.outcome == "probe":
            await attempt.context.gateway.probe()
            return Probed(lease)
        if lease.outcome == "undo":
            return Done(lease, await attempt.context.gateway.undo())
        if attempt.node.isolation == "process":
            encoded = await self.processes.run(attempt)
            return await self._in_thread(lambda: self.executor.encoded(attempt, encoded))
        attempt.context.equip(self.executor.door(attempt))
        plain = self.executor.is_plain(lease)
        arguments = (
            self.executor.arguments(attempt)
            if plain
            else await self._in_thread(lambda: self.executor.arguments(attempt))
        )
        if in_place:
            value = await attempt.step.fn(attempt.context, **arguments)
        else:
            value = await self._in_own_thread(lambda: self._call(attempt, arguments))
        # a small plain result is encoded at once; decisions and large results may go to the database
        return (
            self.executor.returned(attempt, value)
            if _is_small(value)
            else await self._in_thread(lambda: self.executor.returned(attempt, value))
        )

    def _let_interrupt(self, attempt: Attempt, me: asyncio.Task[Any]) -> None:
        """What `stop` does to the running code. Asked to end, a plain function gets the whole grace of a cancel, by
        `ctx.stopping`; when its lease is lost or its time is over it is left behind, or killed with its process."""
        assert self._loop is not None
        loop = self._loop

        def interrupt() -> None:
            if attempt.runs_on_the_loop or attempt.stop_reason != "cancelled":
                loop.call_soon_threadsafe(self._interrupt, attempt, me)
            elif attempt.node.isolation == "process":
                loop.call_soon_threadsafe(self.processes.ask_to_stop, attempt)

        attempt.on_stop = interrupt
        if attempt.stop_reason is not None:
            interrupt()

    def _interrupt(self, attempt: Attempt, me: asyncio.Task[Any]) -> None:
        if attempt.outcome is None and attempt.on_stop is not None:
            me.cancel()
            asyncio.get_running_loop().call_later(GRACE_SECONDS, self._leave_behind, attempt, me)

    def _leave_behind(self, attempt: Attempt, me: asyncio.Task[Any]) -> None:
        """User code that swallows its cancellation keeps its task; another one takes over the slot."""
        if attempt.outcome is not None or attempt.on_stop is None or me in self._left_behind:
            return
        log.warning(
            "step.left_behind", node=attempt.lease.node, step_id=str(attempt.lease.step_id), why=attempt.stop_reason
        )
        self._left_behind.add(me)
        self._busy -= 1
        left = Attempt(attempt.lease, attempt.step, attempt.node)
        left.outcome = self._interrupted(attempt)
        left.begun_at = attempt.begun_at
        self.finished.append(left)
        self.on_finished()
        self._tasks.add(asyncio.get_running_loop().create_task(self._slot()))

    def _call(self, attempt: Attempt, arguments: dict[str, Any]) -> Any:
        with bind(step=attempt.lease.node, step_id=str(attempt.lease.step_id)):
            return attempt.step.fn(attempt.context, **arguments)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        assert self._loop is not None
        future: Future[T] = self._threads.submit(call)
        return await asyncio.wrap_future(future, loop=self._loop)

    async def _in_own_thread(self, call: Callable[[], T]) -> T:
        """User code that hangs keeps its thread for ever: it must be neither one of a pool nor hold up the exit."""
        assert self._loop is not None
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001 - whatever user code raises goes to the one who waits
                future.set_exception(error)

        threading.Thread(target=run, name="step", daemon=True).start()
        return await asyncio.wrap_future(future, loop=self._loop)


def _is_small(value: Any) -> bool:
    return value is None or isinstance(value, (int, float, bool)) or (isinstance(value, str) and len(value) < 10_000)
