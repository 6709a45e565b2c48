"""Client: the task service's API for Python programs. Opens nothing before the first call; any thread may use it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from stanchion.contracts.amounts import amounts_of
from stanchion.errors import StanchionError, Unavailable
from stanchion.runtime.clock import Deadline, monotonic, pause
from stanchion.sdk import faults
from stanchion.sdk.artifact_calls import ArtifactCalls
from stanchion.sdk.event_reader import read_events
from stanchion.sdk.models import Event, Page, Receipt, TaskInfo
from stanchion.sdk.submissions import body_of
from stanchion.sdk.transport import Transport

if TYPE_CHECKING:
    from stanchion.workflow.definition import Workflow

__all__ = ["Client", "Pace", "TaskHandle"]

URL_VARIABLE: Final = "STANCHION_API_URL"
KEY_VARIABLE: Final = "STANCHION_API_KEY"


class Client:
    """Talks to the task service at `url` (default: STANCHION_API_URL) with `key` (default: STANCHION_API_KEY).

    Every call raises the family of what went wrong: Rejected and its kinds for what the caller must change, Unavailable
    after `timeout` seconds of retries.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = 30.0,
        agent: str = "stanchion-sdk",
    ) -> None:
        self.transport = Transport(*address(url, key), timeout=timeout, agent=agent)
        self.artifacts = ArtifactCalls(self.transport)

    # -- tasks --

    def submit(
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
    ) -> TaskHandle:
        """Submit a task: the input as named arguments, or as one mapping (`values`) where names collide.

        The same `key` with the same payload is the same task (`handle.duplicate`); with another payload it raises
        Unprocessable E-IDEM-01. Without `key` a random one is made, so that a retry inside never makes two tasks.
        `budget` is what the task may spend, by unit: `{"usd": 5}`.
        """
        body = body_of(
            workflow,
            values,
            named,
            key=key,
            tags=tags,
            priority=priority,
            deadline=deadline,
            version=version,
            goal=goal,
            constraints=constraints,
            budget=budget,
        )
        return TaskHandle(self, Receipt.read(self.transport.call("POST", "/v1/tasks", body=body, repeatable=True)))

    def task(self, task_id: str) -> TaskHandle:
        """A handle on a task that exists; asks nothing yet."""
        return TaskHandle(self, Receipt(task_id, "", "", duplicate=False))

    def get(self, task_id: str) -> TaskInfo:
        """A task with its runs and nodes; raises NotFound E-FIND-01."""
        return TaskInfo.read(self.transport.call("GET", f"/v1/tasks/{task_id}"))

    def list(
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
        query = {"q": filter, "state": state, "workflow": workflow, "tag": tag, "limit": limit, "cursor": cursor}
        page = self.page("/v1/tasks", query)
        return Page(tuple(TaskInfo.read(item) for item in page.items), page.next)

    def steps(
        self,
        task_id: str,
        *,
        node: str | None = None,
        state: str | Sequence[str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[Mapping[str, Any]]:
        """One page of a task's steps."""
        query = {"node": node, "state": state, "limit": limit, "cursor": cursor}
        return self.page(f"/v1/tasks/{task_id}/steps", query)

    def step(self, step_id: str) -> Mapping[str, Any]:
        """A step with its attempts."""
        return self.read(f"/v1/steps/{step_id}")

    def result(self, task_id: str) -> Any:
        """The result of a task that has completed; raises Conflict E-TASK-07 while it runs, TaskFailed without one."""
        outcome = self.read(f"/v1/tasks/{task_id}/result")
        if outcome.get("state") != "completed":
            raise failure_of(TaskInfo.read(outcome))
        return outcome.get("result")

    def events(
        self, task_id: str, *, after: str | None = None, follow: bool = True, timeout: float | None = None
    ) -> Iterator[Event]:
        """What happened to a task, in order, from the event after `after` on; with `follow` until it has ended.

        A broken connection is opened again where it broke. Raises Unavailable when that fails for the client's timeout,
        and WaitTimeout E-WAIT-01 when the task has not ended after `timeout` seconds (None: never).
        """

        def ended() -> bool:
            return self.get(task_id).ended

        until = Deadline(math.inf if timeout is None else timeout)
        yield from read_events(
            self.transport, task_id, after=after, follow=follow, ended=ended, left=lambda: until.left
        )
        if follow and until.passed and not (info := self.get(task_id)).ended:
            raise waited_too_long(info, timeout)

    def wait(self, task_id: str, timeout: float | None = None) -> TaskInfo:
        """Wait until a task has ended; raises WaitTimeout E-WAIT-01 after `timeout` seconds (None: never)."""
        deadline = None if timeout is None else Deadline(timeout)
        pace = Pace()
        while True:
            info = self.get(task_id)
            if info.ended:
                return info
            if deadline is not None and deadline.passed:
                raise waited_too_long(info, timeout)
            wait = pace.next()
            pause(wait if deadline is None else min(wait, deadline.left))

    def cancel(self, task_id: str, *, reason: str = "") -> Mapping[str, Any]:
        """Ask for the end of a task; it ends when nothing of it runs any more."""
        return self.act(f"/v1/tasks/{task_id}/cancel", {"reason": reason}, repeatable=True)

    def pause(self, task_id: str, *, reason: str = "") -> Mapping[str, Any]:
        """Start nothing new of a task; what runs goes on."""
        return self.act(f"/v1/tasks/{task_id}/pause", {"reason": reason}, repeatable=True)

    def resume(self, task_id: str, *, reason: str = "") -> Mapping[str, Any]:
        """Go on with a paused task."""
        return self.act(f"/v1/tasks/{task_id}/resume", {"reason": reason}, repeatable=True)

    def retry(self, task_id: str, *, reason: str = "", budget: Mapping[str, float] | None = None) -> Mapping[str, Any]:
        """A new run of a task that has failed or was cancelled; results of its succeeded steps are taken over.

        `budget` is what the task may spend from now on by unit, what its earlier runs have spent included.
        """
        given = None if budget is None else amounts_of(budget, "budget")
        return self.act(f"/v1/tasks/{task_id}/retry", {"reason": reason, "budget": given})

    def reopen(self, step_ids: Sequence[str], *, reason: str, step_input: Any = None) -> Mapping[str, Any]:
        """Give failed steps of a live run another try, with `step_input` in place of their input if it is not None.

        The answer has `reopened` (ids) and `refused` (step_id, state, why).
        """
        return self.act("/v1/steps/reopen", {"steps": list(step_ids), "reason": reason, "input": step_input})

    def open_barrier(self, barrier_id: str, *, reason: str) -> Mapping[str, Any]:
        """Open a join without what it still waits for."""
        return self.act(f"/v1/barriers/{barrier_id}/open", {"reason": reason})

    def why(self, any_id: str) -> Mapping[str, Any]:
        """Why a task, a step or a barrier does not move, and what to do."""
        return self.read(f"/v1/why/{any_id}")

    # -- the rest --

    def workflows(self) -> Page[Mapping[str, Any]]:
        """The registered workflows."""
        return self.page("/v1/workflows", {})

    def workers(self, *, limit: int | None = None, cursor: str | None = None) -> Page[Mapping[str, Any]]:
        """The workers that were seen."""
        return self.page("/v1/workers", {"limit": limit, "cursor": cursor})

    def read(
        self, path: str, query: Mapping[str, Any] | None = None, *, timeout: float | None = None
    ) -> Mapping[str, Any]:
        """Any document of the API, within `timeout` seconds (None: the client's); raises StanchionError E-API-02 for what
        is no object."""
        most = self.transport.timeout
        return _object(
            self.transport.call("GET", path, query=query, timeout=most if timeout is None else min(timeout, most)), path
        )

    def act(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        query: Mapping[str, Any] | None = None,
        repeatable: bool = False,
    ) -> Mapping[str, Any]:
        """Any act of the API, with its answer (an empty one as an empty object)."""
        given = {name: value for name, value in body.items() if value is not None}
        answer = self.transport.call("POST", path, query=query, body=given, repeatable=repeatable)
        return _object(answer or {}, path)

    def page(self, path: str, query: Mapping[str, Any]) -> Page[Mapping[str, Any]]:
        """One page of any list of the API."""
        answer = self.read(path, query)
        return Page(tuple(answer.get("items", ())), answer.get("next"))

    def close(self) -> None:
        """Close kept connections; the client stays usable."""
        self.transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class TaskHandle:
    """One task: its id, and what can be done with it. `state` is that of the moment when it was submitted."""

    def __init__(self, client: Client, receipt: Receipt) -> None:
        self.client = client
        self.id = receipt.task_id
        self.run_id = receipt.run_id
        self.state = receipt.state
        self.duplicate = receipt.duplicate

    def info(self) -> TaskInfo:
        """The task as it stands now."""
        return self.client.get(self.id)

    def wait(self, timeout: float | None = None) -> TaskInfo:
        """Wait until it has ended; raises WaitTimeout after `timeout` seconds (None: never)."""
        return self.client.wait(self.id, timeout)

    def result(self, timeout: float | None = None) -> Any:
        """Wait, then return its result; raises TaskFailed, TaskCancelled or TaskRejected when there is none."""
        info = self.wait(timeout)
        if info.state != "completed":
            raise failure_of(info)
        return self.client.result(self.id)

    def cancel(self, *, reason: str = "") -> Mapping[str, Any]:
        """Ask for its end."""
        return self.client.cancel(self.id, reason=reason)

    def events(self, *, after: str | None = None, follow: bool = True) -> Iterator[Event]:
        """What happens to it."""
        return self.client.events(self.id, after=after, follow=follow)

    def __repr__(self) -> str:
        return f"<task {self.id}>"


def address(url: str | None, key: str | None) -> tuple[str, str | None]:
    """Where the API is, and the key for it; raises Unavailable E-API-01 when nothing says so.

    A key out of the environment goes with the address out of the environment, or with one that was given on purpose.
    """
    found = url or os.environ.get(URL_VARIABLE)
    if not found:
        raise Unavailable(
            faults.UNREACHABLE, "nothing says where the API is", fix=f"Client(url=...), or set {URL_VARIABLE}"
        )
    return found, key if key is not None else os.environ.get(KEY_VARIABLE)


class Pace:
    """How long to wait before the next look: a tenth of what was waited so far, from 20 ms to 1 s.

    A look at a task of 100,000 steps is work for the database: looking takes a tenth of the time at most.
    """

    def __init__(self) -> None:
        self._started = self._looked = monotonic()

    def next(self) -> float:
        """Seconds to wait now that a look has ended."""
        now = monotonic()
        wait = max(min(1.0, max(0.02, (now - self._started) / 10)), min(10.0, 10 * (now - self._looked)))
        self._looked = now + wait
        return wait


def waited_too_long(info: TaskInfo, timeout: float | None) -> faults.WaitTimeout:
    """The error for a task that did not end in time."""
    return faults.WaitTimeout(
        faults.WAITED, f"{info.id} is still {info.state} after {timeout or 0:g} s", fix=f"stanchion why {info.id}"
    )


def failure_of(info: TaskInfo) -> faults.TaskFailed:
    """The error for a task that has ended without a result."""
    if info.state == "cancelled":
        return faults.TaskCancelled(faults.TASK_CANCELLED, f"{info.id} was cancelled", task_id=info.id)
    reason = info.data.get("reason")
    found = reason if isinstance(reason, Mapping) else {}
    causes = [str(found[name]) for name in ("what", "why") if found.get(name)]
    family, what = (
        (faults.TaskRejected, "was rejected") if info.state == "rejected" else (faults.TaskFailed, "has failed")
    )
    return family(
        str(found.get("code") or faults.TASK_FAILED),
        f"{info.id} {what}",
        task_id=info.id,
        why="; ".join(causes) or None,
        fix=f"stanchion task show {info.id}",
    )


def _object(document: Any, path: str) -> Mapping[str, Any]:
    if isinstance(document, Mapping):
        return document
    raise StanchionError(faults.UNREADABLE, f"the answer to {path} is no object but {type(document).__name__}")
