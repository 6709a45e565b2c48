"""Commands and the replies to them: imperative, each with one consumer.

What comes from outside (`SubmitTask`, `CancelTask`) refuses unknown fields, since a misspelt deadline must not pass as
no deadline. What our own services send each other ignores them, so that a new sender may talk to an old reader.
"""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, StringConstraints

from stanchion.contracts import ids, limits, payload
from stanchion.contracts.message import Amounts, Message, Moment, Name, Tag, Value, Version

Key = Annotated[str, AfterValidator(lambda text: payload.check_key(text, "$.idempotency_key"))]
TaskId = Annotated[UUID, BeforeValidator(lambda given: ids.parse(given, ids.TASK) if isinstance(given, str) else given)]
Reason = Annotated[str, StringConstraints(max_length=limits.REASON_CHARACTERS)]
Priority = Annotated[int, Field(strict=True, ge=limits.PRIORITY_MIN, le=limits.PRIORITY_MAX)]


class SubmitTask(Message):
    """Ask for a run of a workflow. `input` holds the arguments of its first steps; the body has passed `payload`."""

    model_config = ConfigDict(extra="forbid")

    workflow: Name
    version: Version | None = None  # None: the newest one
    input: Value = None
    idempotency_key: Key | None = None
    tags: Annotated[tuple[Tag, ...], Field(max_length=limits.TAGS)] = ()
    priority: Priority = limits.PRIORITY_DEFAULT
    deadline: Moment | None = None
    goal: Annotated[str, StringConstraints(max_length=limits.ERROR_CHARACTERS)] | None = None
    constraints: Value = None
    budget: Amounts | None = None  # what it may spend, by unit; the workflow's own holds for units that are not named


class CancelTask(Message):
    """Ask for the end of a task; what runs gets a grace, what was sent outside is accounted for."""

    model_config = ConfigDict(extra="forbid")

    task_id: TaskId  # as people see it (tsk_...) or as a bare UUID
    reason: Reason = ""


class ExecuteSteps(Message):
    """An offer: these steps are ready for a worker that registered this version. A hint, not a right."""

    workflow: str
    version: int
    node: str
    steps: Annotated[tuple[UUID, ...], Field(min_length=1, max_length=limits.STEPS_IN_OFFER)]


class PlanRun(Message):
    """Look at a run: something that its plan depends on has happened."""

    run_id: UUID


class TaskAccepted(Message):
    """Reply: the task exists. `duplicate` says that it did before, under the same key and with the same payload."""

    task_id: UUID
    run_id: UUID
    state: str
    duplicate: bool = False


class TaskRejected(Message):
    """Reply: nothing was done, and why."""

    code: str
    what: str
    where: str | None = None
    why: str | None = None
    fix: str | None = None


class TaskCancelling(Message):
    """Reply: the cancel is on record; the end follows as an event."""

    task_id: UUID
    state: str


COMMANDS: Final[dict[str, type[Message]]] = {
    model.__name__: model for model in (SubmitTask, CancelTask, ExecuteSteps, PlanRun)
}
REPLIES: Final[dict[str, type[Message]]] = {
    model.__name__: model for model in (TaskAccepted, TaskRejected, TaskCancelling)
}
