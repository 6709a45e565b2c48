"""Submission: a task with its first plan, in one transaction; many of them in one transaction when they come together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

import orjson

from stanchion.contracts import payload
from stanchion.contracts.amounts import amounts_of
from stanchion.contracts.commands import SubmitTask
from stanchion.contracts.ids import new_id
from stanchion.db.engine import Database
from stanchion.errors import Unprocessable
from stanchion.workflow import planner
from stanchion.workflow.graph import Node
from stanchion.workflow.schema_check import misfit

from . import blobs
from .workflows import Workflows

Via = Literal["http", "kafka"]


@dataclass(frozen=True, slots=True)
class Request:
    """One submission and where it comes from. `message_id` makes a repeated message the same task."""

    tenant_id: UUID
    command: SubmitTask
    via: Via
    by: str
    message_id: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a request: `created`, `duplicate` (the same task as before) or `conflict` (same key, another payload)."""

    outcome: Literal["created", "duplicate", "conflict"]
    task_id: UUID
    run_id: UUID
    state: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request worked out as rows; what can be refused has been refused."""

    task: dict[str, Any]
    plan: planner.Plan
    blob: tuple[UUID, bytes, int, bytes] | None


def prepare(workflows: Workflows, request: Request) -> Prepared:
    """Plan a request; raises Rejected for an unknown workflow, or an input that its first steps don't take."""
    command = request.command
    graph = workflows.get(command.workflow, command.version)
    task_input: Any = {} if command.input is None else command.input
    _check_input(graph_name=graph.name, roots=graph.roots(), task_input=task_input)
    task_id, run_id = new_id(), new_id()
    inline, sha256, packed, size = blobs.pack(task_input, "$.input")
    place = planner.Place(request.tenant_id, run_id, priority=command.priority)
    plan = planner.first_plan(graph, place, inline)
    if sha256 is not None:
        for step in plan.steps:
            if "input" in step:
                step["input_blob"] = sha256.hex()
    for row in (*plan.steps, *plan.barriers):
        row["task_id"] = str(task_id)
    task = {
        "tenant_id": str(request.tenant_id),
        "task_id": str(task_id),
        "run_id": str(run_id),
        "workflow": graph.name,
        "workflow_version": graph.version,
        "idempotency_key": command.idempotency_key,
        "payload_digest": _digest(command).hex(),
        "input": inline,
        "input_blob": sha256.hex() if sha256 else None,
        "priority": command.priority,
        "tags": list(command.tags),
        "goal": command.goal,
        "constraints": command.constraints,
        "deadline_at": command.deadline.isoformat() if command.deadline else None,
        "submitted_via": request.via,
        "submitted_by": request.by,
        "open": plan.open,
        "message_id": request.message_id,
    }
    if allowed := graph.budget | (command.budget or {}):
        task["budget"] = amounts_of(allowed, "$.budget")
    return Prepared(task, plan, (request.tenant_id, sha256, size, packed) if sha256 and packed else None)


def _digest(command: SubmitTask) -> bytes:
    """Of what must be equal for a key to mean the same task. A version that was not asked for is not part of it."""
    body = command.model_dump(mode="json", exclude={"idempotency_key"})
    # What is left out says the same as null, and no input the same as an empty one; without nulls hashing is fast.
    given = {name: value for name, value in body.items() if value is not None}
    return payload.digest({"input": {}} | given)


def _check_input(*, graph_name: str, roots: Sequence[Node], task_input: Any) -> None:
    wanted = {p.name: p.required for n in roots for p in n.params if p.source == "input"}
    if not isinstance(task_input, dict):
        raise Unprocessable(
            "E-TASK-02",
            f"the input of {graph_name} is an object of its first steps' arguments",
            where="$.input",
            fix=f"send {{{', '.join(sorted(wanted))}}}",
        )
    missing = sorted(name for name, required in wanted.items() if required and name not in task_input)
    unknown = sorted(set(task_input) - set(wanted))
    if missing or unknown:
        raise Unprocessable(
            "E-TASK-02",
            f"the input of {graph_name} "
            + " and ".join(
                [f"lacks {', '.join(missing)}"] * bool(missing)
                + [f"has {_listed(unknown)}, which no first step takes"] * bool(unknown)
            ),
            where="$.input",
            fix=f"send exactly: {', '.join(sorted(wanted)) or 'nothing'}",
        )
    for node in roots:
        _check_types(graph_name, node, task_input)


def _check_types(graph_name: str, node: Node, task_input: dict[str, Any]) -> None:
    """Raise Unprocessable E-TASK-02 for an argument that surely is of another type: its step would fail every time."""
    fields, definitions = node.input_schema.get("properties") or {}, node.input_schema.get("$defs") or {}
    for param in node.params:
        if param.source != "input" or param.name not in task_input:
            continue
        found = misfit(task_input[param.name], fields.get(param.name), f"$.input.{param.name}", definitions)
        if found is not None:
            path, what = found
            raise Unprocessable(
                "E-TASK-02",
                f"the input of {graph_name} does not fit: {path.removeprefix('$.input.')}: {what}",
                where=path,
                fix=f"stanchion workflow show {graph_name}",
            )


def _listed(names: Sequence[str]) -> str:
    """A few foreign names, cut: they may be many, and as long as a payload."""
    shown = [ascii(name if len(name) <= 40 else name[:37] + "...") for name in names[:5]]
    return ", ".join(shown) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")


def rows_of(prepared: Sequence[Prepared]) -> tuple[str, str, str | None]:
    """Tasks, steps and barriers of a batch as the JSON texts that the database takes."""
    tasks = [p.task | {"ord": n} for n, p in enumerate(prepared)]
    steps = [s for p in prepared for s in p.plan.steps]
    barriers = [b for p in prepared for b in p.plan.barriers]
    return (
        orjson.dumps(tasks).decode(),
        orjson.dumps(steps).decode(),
        orjson.dumps(barriers).decode() if barriers else None,
    )


class Submission:
    """Accepts tasks, singly or in batches."""

    def __init__(self, database: Database, workflows: Workflows) -> None:
        self.database = database
        self.workflows = workflows

    def find(self, requests: Sequence[Request]) -> list[Answer | None]:
        """What became of each when it was made before, by its key or message id alone; None for one that is new.

        For requests that would be refused as things stand now: what was accepted once stays so, whatever workflow is
        the newest by now and whatever deadline has passed. The others needn't ask: `submit` recognises them.
        """
        found: list[Answer | None] = [None] * len(requests)
        named = [(n, r) for n, r in enumerate(requests) if r.command.idempotency_key or r.message_id]
        if not named:
            return found
        rows = self.database.read(
            "SELECT ord, outcome, task_id, run_id, state FROM stanchion.find_submitted(%s, %s, %s, %s)",
            (
                [r.tenant_id for _, r in named],
                [r.command.idempotency_key for _, r in named],
                [r.message_id for _, r in named],
                [_digest(r.command) for _, r in named],
            ),
        )
        for row in rows:
            found[named[row[0]][0]] = Answer(*row[1:])
        return found

    def submit(self, prepared: Sequence[Prepared]) -> list[Answer]:
        """Accept a batch in one transaction; an answer for each, in order."""
        if not prepared:
            return []
        blobs.put(self.database, [p.blob for p in prepared if p.blob])
        rows = self.database.call(
            "submit",
            "SELECT ord, outcome, task_id, run_id, state FROM stanchion.submit(%s::text::jsonb, %s::text::jsonb, %s::text::jsonb)",
            rows_of(prepared),
        )
        return [Answer(*r[1:]) for r in rows]
