"""What a step gets as its first argument: who it is, how to report, and whether it should stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar
from uuid import UUID

from stanchion.authority.leases import Lease
from stanchion.contracts import ids
from stanchion.contracts.amounts import Number
from stanchion.contracts.artifacts import DEFAULT_MEDIA_TYPE
from stanchion.contracts.limits import NOTE_CHARACTERS
from stanchion.contracts.texts import clean, number
from stanchion.errors import LeaseLost, Unavailable
from stanchion.runtime.logging import get_logger
from stanchion.sdk.artifact_streams import ArtifactDownload, ArtifactUpload
from stanchion.sdk.artifacts import ArtifactDoor, Content, MadeFrom
from stanchion.workflow.approval import Decision
from stanchion.workflow.artifact import Artifact
from stanchion.workflow.operation import Operation

from .gateway import Gateway, Pending

P = TypeVar("P")
R = TypeVar("R")


class Context:
    """The context of one attempt. Reading it costs nothing; `progress` is sent with the next heartbeat.

    Annotate the first parameter of a step with `Ctx`, which is this class.
    """

    def __init__(
        self, lease: Lease, stopped: Callable[[], str | None], gateway: Callable[[], Gateway] | None = None
    ) -> None:
        self._lease = lease
        self._stopped = stopped
        self._make_gateway = gateway
        self._gateway: Gateway | None = None
        self._progress: dict[str, Any] | None = None
        self._door: ArtifactDoor | None = None

    @property
    def log(self) -> Any:
        """A logger with the step's name, id and attempt bound to it."""
        return get_logger().bind(step=self._lease.node, step_id=str(self._lease.step_id), attempt=self._lease.number)

    @property
    def __stanchion_context__(self) -> Literal[True]:
        """The mark by which a step's first parameter is known as its context."""
        return True

    @property
    def task_id(self) -> str:
        """The task, as `tsk_…`."""
        return ids.public(ids.TASK, self._lease.task_id)

    @property
    def run_id(self) -> str:
        """The run, as `run_…`."""
        return ids.public(ids.RUN, self._lease.run_id)

    @property
    def step_id(self) -> str:
        """The step, as `stp_…`."""
        return ids.public(ids.STEP, self._lease.step_id)

    @property
    def tenant_id(self) -> UUID:
        """The tenant."""
        return self._lease.tenant_id

    @property
    def step(self) -> str:
        """The step's name."""
        return self._lease.node

    @property
    def index(self) -> int:
        """The number of the branch (from 0) inside a fan-out; 0 outside of one."""
        return self._lease.idx

    @property
    def round(self) -> int:
        """How often Again has come round here; 0 the first time."""
        return self._lease.round

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self._lease.number

    @property
    def last_attempt(self) -> bool:
        """True when no further attempt follows a failure of this one."""
        return self._lease.number >= self._lease.max_attempts

    @property
    def fence(self) -> int:
        """The fencing token of this attempt; hand it to systems that can check it."""
        return self._lease.fence

    @property
    def stopping(self) -> str | None:
        """Why this attempt should stop (`cancelled`, `lost`, `timeout`), None while it should go on."""
        return self._stopped()

    def check(self) -> None:
        """Raise LeaseLost when this attempt should stop; for long synchronous code between two pieces of work."""
        if (why := self._stopped()) is not None:
            raise LeaseLost(self.step, fence=self.fence, why=why)

    def op(
        self,
        operation: Operation[P, R] | str,
        payload: P,
        *,
        key: str,
        approval: Decision | None = None,
        cost: Mapping[str, float] | None = None,
    ) -> Pending[R]:
        """Have an effect outside, once for each key, whatever dies: `await` it, or call `wait()` in plain functions.

        Gives the receipt, also when an earlier attempt or run had the effect. The key says what is meant, never which
        attempt it is: the same key with another payload is refused (Conflict E-OP-05). Raises NotFound E-OP-01 for an
        operation that the workflow does not declare, Refused when the other side decided against it, Unavailable
        E-OP-09 when it was not done for now (the step's retries do it later), E-OP-06 when another step is at it. When
        nobody knows whether it was done the step leaves the worker, and comes back once it is known.

        With `approval`, the result of an approval step, it leaves only while that covers it: the database compares kind,
        key, payload, version and time each time before it is sent. Raises Rejected E-APR-08.

        `cost` (else that of the operation's declaration) is taken of the task's budget before it is sent, once however
        often it is. What is left does not cover it: Rejected E-BUD-01, nothing was sent. Unprocessable E-BUD-03 for what
        is no cost.
        """
        return Pending(lambda: self.gateway.perform(operation, payload, key, approval, cost), "op")

    def spend(self, unit: str, amount: float) -> Pending[Number | None]:
        """Report what this attempt has used, in a unit of the task's budget: `await` it, or call `wait()`.

        Gives what is left of it, None where nothing limits it; an amount of 0 only asks. What was reported stays spent,
        also when the attempt fails or is lost afterwards. Once a task has spent more than it may it ends, as at its
        deadline, and this raises Rejected E-BUD-02. Unprocessable E-BUD-03 for what is no unit or no amount.
        """
        return Pending(lambda: self.gateway.spend(unit, amount), "spend")

    @property
    def gateway(self) -> Gateway:
        """The way to the ledger; made when it is first needed. Raises Unavailable E-OP-01 where there is none."""
        if self._gateway is None:
            if self._make_gateway is None:
                raise Unavailable("E-OP-01", "there is no ledger here", fix="run the step on a worker")
            self._gateway = self._make_gateway()
        return self._gateway

    def progress(self, done: float, of: float | None = None, note: str = "") -> None:
        """Report how far this attempt is; people see it within a heartbeat.

        It never fails: what is no finite number is shown as unknown, and a note is cut and cleaned to what can be kept.
        """
        self._progress = {"done": number(done), "of": number(of), "note": clean(str(note), NOTE_CHARACTERS)}

    def artifact(
        self,
        name: str,
        content: Content | None = None,
        *,
        media_type: str = DEFAULT_MEDIA_TYPE,
        made_from: MadeFrom = (),
    ) -> ArtifactUpload:
        """A new version of the task's artifact `name`, promoted only while this attempt holds its step.

        With content (bytes, a text, a path or chunks): `await` it in an `async` step, or call `put()` in a plain one;
        either gives its `Artifact`. Without: `async with` or `with` gives a writer, whose `artifact` it is afterwards.
        `made_from` names the versions that it is made from. Raises Unprocessable E-ART-01 or E-ART-02.
        """
        return ArtifactUpload(self._artifacts(), name, content, media_type, made_from)

    def open(self, artifact: Artifact | str, *, start: int = 0, end: int | None = None) -> ArtifactDownload:
        """The content of a version (bytes [start, end) of it): chunks in `async with` or `with`, all of it by `await`
        or `read()`. What is read to its end is verified."""
        return ArtifactDownload(self._artifacts(), artifact, start, end)

    def equip(self, door: ArtifactDoor) -> None:
        """Open the way to artifacts; the worker does this before the step begins."""
        self._door = door

    def _artifacts(self) -> ArtifactDoor:
        if self._door is None:
            raise RuntimeError("this context is not a worker's: there is no way to artifacts")
        return self._door

    def pass_on_progress(self, progress: dict[str, Any]) -> None:
        """Take over what this attempt reported in a process of its own."""
        self._progress = progress

    def take_progress(self) -> dict[str, Any] | None:
        """What `progress` reported last."""
        return self._progress


Ctx = Context
"""The short name by which a step's first parameter is annotated."""
