"""What goes out: one model an answer. Ids leave in their public form, times in UTC, numbers as everybody reads them."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Generic, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, PlainSerializer, WithJsonSchema

from stanchion.authority.queries import BARRIER
from stanchion.contracts import ids, limits
from stanchion.contracts.amounts import plain

T = TypeVar("T")


def shown(prefix: str) -> PlainSerializer:
    """An id in its public form."""

    def public(value: UUID) -> str:
        return ids.public(prefix, value)

    return PlainSerializer(public, return_type=str)


def form(prefix: str) -> WithJsonSchema:
    """What an id looks like, for the document."""
    return WithJsonSchema({"type": "string", "pattern": f"^{prefix}_[0-9A-HJKMNP-TV-Z]{{26}}$"}, mode="serialization")


TaskId = Annotated[UUID, shown(ids.TASK), form(ids.TASK)]
RunId = Annotated[UUID, shown(ids.RUN), form(ids.RUN)]
StepId = Annotated[UUID, shown(ids.STEP), form(ids.STEP)]
BarrierId = Annotated[UUID, shown(BARRIER), form(BARRIER)]
WorkerId = Annotated[UUID, shown(ids.WORKER), form(ids.WORKER)]
KeyId = Annotated[UUID, shown(ids.KEY), form(ids.KEY)]
OperationId = Annotated[UUID, shown(ids.OPERATION), form(ids.OPERATION)]
ApprovalId = Annotated[UUID, shown(ids.APPROVAL), form(ids.APPROVAL)]
DeadLetterId = Annotated[UUID, shown(ids.DEAD_LETTER), form(ids.DEAD_LETTER)]


def as_doubles(value: Any) -> Any:
    """A stored value as I-JSON: the database keeps 1e300 as an integer of 301 digits, which many readers refuse."""
    if isinstance(value, dict):
        return {key: as_doubles(child) for key, child in value.items()}
    if isinstance(value, list):
        return [as_doubles(child) for child in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > limits.INTEGER_MAX:
        return float(value)
    return value


def _with_public_step(reason: Any) -> Any:
    """A stored reason names the step that it comes from by the id of its row."""
    if isinstance(reason, dict) and isinstance(reason.get("step"), str):
        reason = reason | {"step": ids.public(ids.STEP, UUID(reason["step"]))}
    return as_doubles(reason)


Value = Annotated[Any, PlainSerializer(as_doubles), WithJsonSchema({})]
StoredReason = Annotated[Any, PlainSerializer(_with_public_step), WithJsonSchema({})]

Amount = Annotated[Decimal, PlainSerializer(plain, return_type=float), WithJsonSchema({"type": "number"})]


class View(BaseModel):
    """Base of all answers; built from rows, which may hold more than is shown."""

    model_config = ConfigDict(extra="ignore", frozen=True, from_attributes=True)


class Paged(View, Generic[T]):
    """One page; `next` is the cursor of the page after it, null at the end. A page may be short and not the last."""

    items: list[T]
    next: str | None = None


class Submitted(View):
    """A task that exists now; `duplicate` says that it did before."""

    task_id: TaskId
    run_id: RunId
    state: str
    duplicate: bool


class BulkItem(View):
    """What became of one item of a bulk: `status` as it would have had alone, and its task or its problem."""

    status: int
    task_id: TaskId | None = None
    run_id: RunId | None = None
    state: str | None = None
    duplicate: bool | None = None
    problem: dict[str, Any] | None = None


class BulkAnswer(View):
    """The items in the order in which they were sent."""

    items: list[BulkItem]


class TaskState(View):
    """A task after something was asked of it."""

    task_id: TaskId
    state: str
    run_id: RunId | None = None
    paused: bool | None = None


class TaskSummary(View):
    """One task in a list."""

    task_id: TaskId
    run_id: RunId
    workflow: str
    version: int
    state: str
    priority: int
    tags: list[str]
    goal: str | None
    idempotency_key: str | None
    deadline_at: datetime | None
    submitted_via: str
    submitted_by: str
    reason: StoredReason
    paused_at: datetime | None
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    payload_removed_at: datetime | None


class RunView(View):
    """One run of a task."""

    run_id: RunId
    number: int
    state: str
    outcome: str | None
    reason: StoredReason
    retry_of: RunId | None
    paused_at: datetime | None
    created_at: datetime
    ended_at: datetime | None


class BarrierView(View):
    """What holds a node: one barrier, or the sums over `count` of them (one a branch of the fan-out around)."""

    barrier_id: BarrierId | None
    kind: str
    rule: str
    on_failed: str
    rest: str
    state: str | None
    count: int
    states: dict[str, int]
    need: int
    expected: int
    arrived: int
    failed: int
    skipped: int
    included: int | None
    released_at: datetime | None
    deadline_at: datetime | None


class NodeView(View):
    """One node of the graph in the current run; `counts` are its steps by state, `fans` its fan-outs by state."""

    name: str
    kind: str
    after: list[str]
    scope: list[str]
    on_demand: bool
    next: list[str]
    queue: str
    join: dict[str, Any] | None
    total: int
    counts: dict[str, int]
    fans: dict[str, int]
    rounds: int
    attempts: int
    take_overs: int
    refused_writes: int
    first_at: datetime | None
    last_at: datetime | None
    barrier: BarrierView | None


class BudgetView(View):
    """One unit of what a task may spend and has spent, in all of its runs; without `allowed` nothing limits it."""

    unit: str
    allowed: Amount | None
    spent: Amount


class TaskView(TaskSummary):
    """A task with its runs and the graph of the current one.

    Without the right payload.read `withheld` names the fields that are not shown, and texts of errors are missing.
    """

    runs: list[RunView]
    nodes: list[NodeView]
    budget: list[BudgetView] = []
    input: Value = None
    constraints: Value = None
    withheld: list[str] = []
    input_is_large: bool = False


class Outcome(View):
    """What became of a task that has ended."""

    task_id: TaskId
    run_id: RunId
    state: str
    result: Value
    reason: StoredReason
    ended_at: datetime


class InputView(View):
    """What a task was submitted with."""

    task_id: TaskId
    input: Value


class StepSummary(View):
    """One step in a list; a child has its fan-out's step and its index in it."""

    step_id: StepId
    run_id: RunId
    fan_id: StepId | None
    node: str
    kind: str
    index: int
    round: int
    state: str
    queue: str
    priority: int
    fence: int
    attempts: int
    losses: int
    max_attempts: int
    replaced_by: StepId | None
    created_at: datetime
    updated_at: datetime


class AttemptView(View):
    """One lease of a step."""

    fence: int
    number: int
    state: str
    worker_id: WorkerId
    worker: str | None
    granted_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    lease_until: datetime
    deadline_at: datetime | None
    counted: bool
    error: Value
    progress: Value
    withheld: list[str] = []


class RefusedWrite(View):
    """What a stale worker tried; it changed nothing."""

    worker_id: WorkerId | None
    fence: int
    current_fence: int | None
    attempted: str
    why: str
    at: datetime


class HoldingBarrier(View):
    """A barrier that a step waits, or waited, for."""

    barrier_id: BarrierId
    kind: str
    rule: str
    state: str


class StepView(StepSummary):
    """A step with its attempts, the newest first; `withheld` names what is not shown without payload.read."""

    task_id: TaskId
    attempt_list: list[AttemptView]
    refused_writes: list[RefusedWrite]
    waits_for: list[HoldingBarrier]
    late: bool | None
    input: Value = None
    result: Value = None
    withheld: list[str] = []
    input_is_large: bool = False
    result_is_large: bool = False


class NotReopened(View):
    """A step that was not reopened, and why."""

    step_id: StepId
    state: str
    why: str


class Reopened(View):
    """What became of the steps that were to be reopened; `more` says that the limit left some out."""

    reopened: list[StepId]
    refused: list[NotReopened]
    more: bool = False


class BarrierOpened(View):
    """A barrier that was opened by hand."""

    barrier_id: BarrierId
    state: str


class Retried(View):
    """A new run; `kept` names the nodes whose results it takes over."""

    task_id: TaskId
    run_id: RunId
    state: str
    kept: list[str]
