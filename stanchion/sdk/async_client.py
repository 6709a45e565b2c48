"""AsyncClient: the same API for asyncio. Requests run in a few threads of its own; waiting costs none of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Self, TypeVar

from stanchion.runtime.clock import Deadline
from stanchion.sdk.client import Client, Pace, failure_of, waited_too_long
from stanchion.sdk.event_reader import IDLE_SECONDS, read_events
from stanchion.sdk.models import Event, Page, Receipt, TaskInfo

if TYPE_CHECKING:
    from stanchion.workflow.definition import Workflow

__all__ = ["AsyncClient", "AsyncTaskHandle"]

P = ParamSpec("P")
R = TypeVar("R")

_THREADS: Final = 16
_END: Final = object()


class AsyncClient:
    """See `Client`: the same calls and errors, awaited. Cancelling a call leaves what was sent on its way."""

    def __init__(self, url: str | None = None, key: str | None = None, *, timeout: float = 30.0) -> None:
        self.sync = Client(url, key, timeout=timeout)
        # Not the loop's own threads: there are few of them, and user code needs them too.
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="stanchion-client")

    async def submit(
        self,
        workflow: Workflow | str,
        values: Mapping[str, Any] | None = None,
        /,
        *,
        key: str | None = None,
        tags: Sequence[str] = (),
        priority: int = 0,
        deadline: datetime | None = None,
        version: int | None = None,
        goal: str | None = None,
        constraints: Any = None,
        budget: Mapping[str, float] | None = None,
        **named: Any,
    ) -> AsyncTaskHandle:
        """Submit a task; see `Client.submit`."""
        handle = await self._run(
            partial(
                self.sync.submit,
                workflow,
                values,
                key=key,
                tags=tags,
                priority=priority,
                deadline=deadline,
                version=version,
                goal=goal,
                constraints=constraints,
                budget=budget,
                **named,
            )
        )
        return AsyncTaskHandle(self, Receipt(handle.id, handle.run_id, handle.state, handle.duplicate))

    def task(self, task_id: str) -> AsyncTaskHandle:
        """A handle on a task that exists; asks nothing yet."""
        return AsyncTaskHandle(self, Receipt(task_id, "", "", duplicate=False))

    async def get(self, task_id: str) -> TaskInfo:
        """A task with its runs and nodes."""
        return await self._run(self.sync.get, task_id)

    async def list(
        self,
        *,
        state: str | Sequence[str] | None = None,
        workflow: str | None = None,
        tag: str | Sequence[str] | None = None,
        filter: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[TaskInfo]:
        """One page of tasks, newest first; `filter` is a text such as `"is:open created:>2h"`."""
        call = partial(
            self.sync.list, state=state, workflow=workflow, tag=tag, filter=filter, limit=limit, cursor=cursor
        )
        return await self._run(call)

    async def steps(
        self,
        task_id: str,
        *,
        node: str | None = None,
        state: str | Sequence[str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[Mapping[str, Any]]:
        """One page of a task's steps."""
        return await self._run(partial(self.sync.steps, task_id, node=node, state=state, limit=limit, cursor=cursor))

    async def step(self, step_id: str) -> Mapping[str, Any]:
        """A step with its attempts."""
        return await self._run(self.sync.step, step_id)

    async def result(self, task_id: str) -> Any:
        """The result of a task that has completed."""
        return await self._run(self.sync.result, task_id)

    async def wait(self, task_id: str, timeout: float | None = None) -> TaskInfo:
        """Wait until a task has ended; raises WaitTimeout E-WAIT-01 after `timeout` seconds (None: never)."""
        deadline = None if timeout is None else Deadline(timeout)
        pace = Pace()
        while True:
            info = await self.get(task_id)
            if info.ended:
                return info
            if deadline is not None and deadline.passed:
                raise waited_too_long(info, timeout)
            wait = pace.next()
            await asyncio.sleep(wait if deadline is None else min(wait, deadline.left))

    async def events(self, task_id: str, *, after: str | None = None, follow: bool = True) -> AsyncIterator[Event]:
        """What happens to a task, in order; see `Client.events`. Holds one thread until it is closed or has ended."""
        wanted = True
        stream = read_events(
            self.sync.transport,
            task_id,
            after=after,
            follow=follow,
            ended=lambda: self.sync.get(task_id).ended,
            left=lambda: IDLE_SECONDS if wanted else 0.0,
        )
        try:
            while (event := await self._run(_next, stream)) is not _END:
                yield event
        finally:
            wanted = False
            with suppress(ValueError):  # a thread is still inside: it ends with the next line that the server sends
                stream.close()  # type: ignore[attr-defined]  # it is a generator

    async def cancel(self, task_id: str, *, reason: str = "") -> Mapping[str, Any]:
        """Ask for the end of a task."""
        return await self._run(partial(self.sync.cancel, task_id, reason=reason))

    async def pause(self, task_id: str, *, reason: str = "") -> Mapping[str, Any]:
        """Start nothing new of a task."""
        return await self._run(partial(self.sync.pause, task_id, reason=reason))

    async def resume(self, task_id: str, *, reason: str = "") -> Mapping[str, Any]:
        """Go on with a paused task."""
        return await self._run(partial(self.sync.resume, task_id, reason=reason))

    async def retry(
        self, task_id: str, *, reason: str = "", budget: Mapping[str, float] | None = None
    ) -> Mapping[str, Any]:
        """A new run of a task that has failed or was cancelled; see `Client.retry`."""
        return await self._run(partial(self.sync.retry, task_id, reason=reason, budget=budget))

    async def why(self, any_id: str) -> Mapping[str, Any]:
        """Why something does not move."""
        return await self._run(self.sync.why, any_id)

    async def close(self) -> None:
        """Close kept connections and end the threads."""
        self.sync.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(call, *args, **kwargs))


class AsyncTaskHandle:
    """One task; see `TaskHandle`."""

    def __init__(self, client: AsyncClient, receipt: Receipt) -> None:
        self.client = client
        self.id = receipt.task_id
        self.run_id = receipt.run_id
        self.state = receipt.state
        self.duplicate = receipt.duplicate

    async def info(self) -> TaskInfo:
        """The task as it stands now."""
        return await self.client.get(self.id)

    async def wait(self, timeout: float | None = None) -> TaskInfo:
        """Wait until it has ended; raises WaitTimeout after `timeout` seconds (None: never)."""
        return await self.client.wait(self.id, timeout)

    async def result(self, timeout: float | None = None) -> Any:
        """Wait, then return its result; raises TaskFailed, TaskCancelled or TaskRejected when there is none."""
        info = await self.wait(timeout)
        if info.state != "completed":
            raise failure_of(info)
        return await self.client.result(self.id)

    async def cancel(self, *, reason: str = "") -> Mapping[str, Any]:
        """Ask for its end."""
        return await self.client.cancel(self.id, reason=reason)

    def events(self, *, after: str | None = None, follow: bool = True) -> AsyncIterator[Event]:
        """What happens to it."""
        return self.client.events(self.id, after=after, follow=follow)

    def __repr__(self) -> str:
        return f"<task {self.id}>"


def _next(stream: Iterator[Event]) -> Any:
    return next(stream, _END)
