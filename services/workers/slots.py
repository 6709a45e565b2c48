"""The slots: an event loop in a thread of its own, and as many attempts at once as there are slots.

`async def` steps run on the loop, plain functions in threads, isolated ones in processes of their own. Each attempt is a
task of its own, and a slot is nothing but a number: no attempt can take one with it, nor leave anything on it. A step
that is told to stop and does not is left behind: its slot goes on, what it writes is refused.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from stanchion.authority.leases import Done, Failure
from stanchion.errors import InDoubt, LeaseLost
from stanchion.runtime import failpoints
from stanchion.runtime.clock import monotonic
from stanchion.runtime.logging import bind, get_logger

from .attempt import Attempt, Doubt, Outcome, Probed, Stopped
from .event_loop import EventLoop
from .executor import Executor
from .processes import ProcessPool
from .threads import Raised, Threads

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
        self._running: dict[asyncio.Task[None], Attempt] = {}  # one for each slot that is taken
        self._events = EventLoop("slots", self._answer, self._lost)
        self._threads = Threads(count)
        self._called_at: float | None = None  # since when the loop owes an answer

    # --- for the foreman ---

    def start(self) -> None:
        """Start the loop."""
        self._events.start()

    def stop(self, timeout: float = 5.0) -> bool:
        """End the loop; what still runs is left behind."""
        ended = self._events.stop(timeout)
        self._threads.stop()
        self.processes.stop()
        return ended

    def check(self) -> str | None:
        """A health check: None while there is a loop for attempts to run on."""
        return self._events.check()

    def submit(self, attempts: Iterable[Attempt]) -> None:
        """Queue attempts, in order."""
        self._queue.extend(attempts)
        if self._called_at is None:
            self._called_at = monotonic()
        self._events.call(self._answer)

    @property
    def held_up_seconds(self) -> float:
        """How long the loop has not answered: the code of an async step that blocks holds up all the others."""
        called_at = self._called_at
        return 0.0 if called_at is None else monotonic() - called_at

    @property
    def taken(self) -> int:
        """How many slots are taken."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """How many attempts wait for a slot."""
        return len(self._queue)

    @property
    def free(self) -> int:
        """How many attempts would begin at once."""
        return max(self.count - self.taken - self.waiting, 0)

    def at_hand(self) -> set[Attempt]:
        """Those that wait or run. A lease of any other that has not ended is not worth keeping: nobody works on it."""
        while True:
            try:
                return {*self._queue, *self._running.values()}  # in the order in which an attempt moves
            except RuntimeError:  # one moved meanwhile
                continue

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
        self._called_at = None
        self._fill()

    def _fill(self) -> None:
        """Begin what waits, as far as there are slots."""
        while len(self._running) < self.count and not self._events.ending:
            try:
                attempt = self._queue.popleft()
            except IndexError:
                return
            task = self._events.loop.create_task(self._attend(attempt))
            self._running[task] = attempt
            task.add_done_callback(self._ended)

    async def _attend(self, attempt: Attempt) -> None:
        me = asyncio.current_task()
        assert me is not None
        outcome = await self._outcome(attempt, me)
        self._finish(me, outcome)
        if isinstance(outcome, Failure):
            log.info(
                "step.finished",
                node=attempt.lease.node,
                step_id=str(attempt.lease.step_id),
                attempt=attempt.lease.number,
                failed=outcome.error.get("what"),
            )

    def _finish(self, task: asyncio.Task[None], outcome: Outcome) -> None:
        """Take down what an attempt came to, and give its slot to the next. One that was left behind has no say."""
        attempt = self._running.get(task)
        if attempt is None:
            return
        attempt.ran_seconds = attempt.seconds
        attempt.outcome = outcome  # before it is gone from here: its lease is kept all the way
        del self._running[task]
        task.remove_done_callback(self._ended)  # it has nothing left to see to
        self.finished.append(attempt)
        self._fill()
        self.on_finished()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """However a task ends, its attempt has an outcome and its slot is free: also when it was cancelled before it
        began, or when its code was closed under it."""
        error = None if task.cancelled() else task.exception()
        if self._events.ending or (attempt := self._running.get(task)) is None:
            return
        if attempt.begun_at is None:
            self._finish(task, Stopped(attempt.lease, attempt.stop_reason or "released"))
        else:
            self._finish(task, self._judged(attempt, error or asyncio.CancelledError(), task))

    def _lost(self) -> None:
        """The loop was given up. Whose code ran on it spends an attempt, for one of them may be what ended it; the others
        are given back."""
        for attempt in list(self._running.values()):
            counts = attempt.runs_on_the_loop and attempt.begun_at is not None and attempt.stop_reason is None
            attempt.ran_seconds, attempt.on_stop = attempt.seconds, None
            attempt.stop("released")  # code in a thread goes on: `ctx.stopping` tells it
            attempt.outcome = self.executor.lost_its_loop(attempt) if counts else self._interrupted(attempt)
            self.finished.append(attempt)
        self._running = {}
        self.processes.kill_running()
        self.on_finished()

    async def _outcome(self, attempt: Attempt, me: asyncio.Task[Any]) -> Outcome:
        if failpoints.armed(RUN):
            await self._pass(RUN, attempt)
        if not attempt.begin():
            return Stopped(attempt.lease, attempt.stop_reason or "released")
        limit = attempt.lease.timeout_ms  # of this attempt, or what is left of the step's total time
        timer = None if limit is None else self._events.loop.call_later(limit / 1000, attempt.stop, "timeout")
        try:
            outcome = await self._run(attempt, me)
        except BaseException as error:  # whatever user code raises is this attempt's outcome, not the worker's end
            if self._events.ending and attempt.stop_reason is None and isinstance(error, asyncio.CancelledError):
                raise  # the loop itself ends
            outcome = self._judged(attempt, error, me)
        finally:
            attempt.on_stop = None
            if timer is not None:
                timer.cancel()
        if failpoints.armed(RAN):
            await self._pass(RAN, attempt)
        return outcome

    def _judged(self, attempt: Attempt, error: BaseException, task: asyncio.Task[Any]) -> Outcome:
        """The outcome of an attempt that ended with an error, by whether it was told to stop."""
        raised = error.error if isinstance(error, Raised) else error
        kind = type(raised)
        cancelled = issubclass(kind, asyncio.CancelledError)
        if issubclass(kind, InDoubt) and isinstance(raised, InDoubt):
            return Doubt(attempt.lease, raised.error, raised.delay_ms)
        if attempt.stop_reason == "timeout" or issubclass(kind, LeaseLost) or (cancelled and attempt.stop_reason):
            return self._interrupted(attempt)
        failure = self.executor.raised(attempt, raised)
        # cancelled from outside by other code on the loop, or by itself: nobody can tell, so another attempt may help
        return replace(failure, final=False) if cancelled and task.cancelling() else failure

    def _interrupted(self, attempt: Attempt) -> Outcome:
        return (
            self.executor.timed_out(attempt)
            if attempt.stop_reason == "timeout"
            else Stopped(attempt.lease, attempt.stop_reason or "lost")
        )

    async def _run(self, attempt: Attempt, me: asyncio.Task[Any]) -> Outcome:
        lease = attempt.lease
        self._let_interrupt(attempt, me)
        if lease.outcome == "probe":
            await attempt.context.gateway.probe()
            return Probed(lease)
        if lease.outcome == "undo":
            return Done(lease, await attempt.context.gateway.undo())
        if attempt.node.isolation == "process":
            encoded = await self.processes.run(attempt)
            return await self._threads.pooled(lambda: self.executor.encoded(attempt, encoded))
        attempt.context.equip(self.executor.door(attempt))
        plain = self.executor.is_plain(lease)
        arguments = (
            self.executor.arguments(attempt)
            if plain
            else await self._threads.pooled(lambda: self.executor.arguments(attempt))
        )
        if attempt.runs_on_the_loop:
            value = await attempt.step.fn(attempt.context, **arguments)
        else:
            value = await self._threads.alone(lambda: self._call(attempt, arguments))
        # a small plain result is encoded at once; decisions and large results may go to the database
        return (
            self.executor.returned(attempt, value)
            if _is_small(value)
            else await self._threads.pooled(lambda: self.executor.returned(attempt, value))
        )

    def _let_interrupt(self, attempt: Attempt, me: asyncio.Task[Any]) -> None:
        """What `stop` does to the running code. Asked to end, a plain function gets the whole grace of a cancel, by
        `ctx.stopping`; when its lease is lost or its time is over it is left behind, or killed with its process."""

        def interrupt() -> None:
            if attempt.runs_on_the_loop or attempt.stop_reason != "cancelled":
                self._events.call(lambda: self._interrupt(attempt, me))
            elif attempt.node.isolation == "process":
                self._events.call(lambda: self.processes.ask_to_stop(attempt))

        attempt.on_stop = interrupt
        if attempt.stop_reason is not None:
            interrupt()

    def _interrupt(self, attempt: Attempt, me: asyncio.Task[Any]) -> None:
        if attempt.outcome is None and attempt.on_stop is not None:
            me.cancel()
            self._events.loop.call_later(GRACE_SECONDS, self._leave_behind, attempt, me)

    def _leave_behind(self, attempt: Attempt, me: asyncio.Task[Any]) -> None:
        """User code that swallows its cancellation keeps its task; another one takes over the slot."""
        if attempt.on_stop is None or me not in self._running:
            return
        self._finish(me, self._interrupted(attempt))
        log.warning(
            "step.left_behind", node=attempt.lease.node, step_id=str(attempt.lease.step_id), why=attempt.stop_reason
        )

    def _call(self, attempt: Attempt, arguments: dict[str, Any]) -> Any:
        with bind(step=attempt.lease.node, step_id=str(attempt.lease.step_id)):
            return attempt.step.fn(attempt.context, **arguments)

    async def _pass(self, failpoint: str, attempt: Attempt) -> None:
        lease = attempt.lease
        await self._threads.pooled(
            lambda: failpoints.hit(failpoint, node=lease.node, idx=lease.idx, attempt=lease.number)
        )


def _is_small(value: Any) -> bool:
    return value is None or isinstance(value, (int, float, bool)) or (isinstance(value, str) and len(value) < 10_000)
