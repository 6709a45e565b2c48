"""What a submission says, from Python arguments: the same for HTTP and Kafka."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from stanchion.contracts.amounts import amounts_of
from stanchion.errors import Unprocessable

if TYPE_CHECKING:
    from stanchion.workflow.definition import Workflow


def body_of(
    workflow: Workflow | str,
    given: Mapping[str, Any] | None,
    values: Mapping[str, Any],
    *,
    key: str | None,
    tags: Sequence[str],
    priority: int,
    deadline: datetime | None,
    version: int | None,
    goal: str | None,
    constraints: Any,
    budget: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """The body of a submission. Without a `key` it gets a random one, so that sending it again is the same task.

    With a `Workflow` the input is checked and encoded here, and its version asked for. Raises Unprocessable E-TASK-02
    for an input that does not fit.
    """
    if given is not None and values:
        raise Unprocessable(
            "E-TASK-02", "the input was given twice: as a mapping and by name", fix="use one of the two"
        )
    arguments = dict(given) if given is not None else dict(values)
    if isinstance(workflow, str):
        name = workflow
    else:
        name, version = workflow.name, version if version is not None else workflow.version
        arguments = workflow.encode_input(**arguments)
    if isinstance(tags, str):
        raise Unprocessable("E-DATA-15", f"tags={tags!a} is one text", fix=f"tags=[{tags!a}]")
    body: dict[str, Any] = {
        "workflow": name,
        "version": version,
        "input": arguments,
        "idempotency_key": key if key is not None else f"auto-{uuid.uuid4()}",
        "tags": list(tags),
        "priority": priority,
        "deadline": _moment(deadline),
        "goal": goal,
        "constraints": constraints,
        "budget": None if budget is None else amounts_of(budget, "budget"),
    }
    return {name: value for name, value in body.items() if value is not None}


def _moment(deadline: datetime | None) -> str | None:
    if deadline is None:
        return None
    if deadline.tzinfo is None:
        raise Unprocessable("E-DATA-13", "deadline= has no time zone", fix="datetime.now(UTC) + timedelta(hours=1)")
    return deadline.isoformat()
