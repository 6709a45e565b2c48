"""Golden messages: headers and value of every type, as they go over the wire and as the documentation shows them.

A message that is written differently, or an old one that can't be read any more, is a break: it takes a new topic
version, not a new golden file. `UPDATE_GOLDEN=1` writes the files of types that have none.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from stanchion.contracts import commands, events
from stanchion.contracts.envelope import Envelope
from stanchion.contracts.message import Message

FOLDER = Path(__file__).parent / "golden"


def uid(last: int) -> UUID:
    return UUID(f"018f0000-0000-7000-8000-{last:012d}")


TASK = {"task_id": uid(1), "run_id": uid(2)}
STEP = {**TASK, "step_id": uid(3), "node": "read", "index": 7, "attempt_id": uid(4), "fence": 42}
BARRIER = {**TASK, "step_id": uid(5), "node": "draft", "rule": "all", "expected": 150, "succeeded": 148, "failed": 2}
APPROVAL = {**TASK, "approval_id": uid(7), "step_id": uid(3), "node": "review", "operation": "press.publish"}

MESSAGES: dict[str, Message] = {
    "command.SubmitTask": commands.SubmitTask(
        workflow="report",
        version=3,
        input={"topic": "cats", "sources": ["a.md", "b.md"], "weight": 0.5},
        idempotency_key="order-42",
        tags=("nightly", "demo"),
        priority=10,
        deadline=datetime(2030, 1, 31, 12, tzinfo=UTC),
        goal="a cited report",
        constraints={"max_documents": 100},
    ),
    "command.CancelTask": commands.CancelTask(task_id=uid(1), reason="no longer needed"),
    "command.ExecuteSteps": commands.ExecuteSteps(workflow="report", version=3, node="read", steps=(uid(3), uid(6))),
    "command.PlanRun": commands.PlanRun(run_id=uid(2)),
    "reply.TaskAccepted": commands.TaskAccepted(task_id=uid(1), run_id=uid(2), state="created", duplicate=True),
    "reply.TaskRejected": commands.TaskRejected(
        code="E-IDEM-01",
        what="the key order-42 belongs to a task with another payload",
        where="$.idempotency_key",
        why="the payloads differ",
        fix="use a new key",
    ),
    "reply.TaskCancelling": commands.TaskCancelling(task_id=uid(1), state="cancelling"),
    "event.TaskAccepted": events.TaskAccepted(**TASK, workflow="report", version=3),
    "event.RunStarted": events.RunStarted(**TASK),
    "event.StepSucceeded": events.StepSucceeded(**STEP, late=True),
    "event.StepFailed": events.StepFailed(**STEP, code="E-STEP-02", final=True),
    "event.BarrierReleased": events.BarrierReleased(**BARRIER),
    "event.BarrierFailed": events.BarrierFailed(**BARRIER, code="E-STEP-01"),
    "event.RunSucceeded": events.RunSucceeded(**TASK),
    "event.RunFailed": events.RunFailed(**TASK, code="E-STEP-01"),
    "event.RunCancelled": events.RunCancelled(**TASK),
    "event.TaskCompleted": events.TaskCompleted(**TASK),
    "event.TaskFailed": events.TaskFailed(**TASK, code="E-STEP-01"),
    "event.TaskCancelled": events.TaskCancelled(**TASK),
    "event.TaskRejected": events.TaskRejected(**TASK, code="E-APR-09"),
    "event.ApprovalRequested": events.ApprovalRequested(**APPROVAL, state="requested"),
    "event.ApprovalDecided": events.ApprovalDecided(**APPROVAL, state="granted"),
}


def envelope(name: str, message: Message) -> Envelope:
    kind, _, _ = name.partition(".")
    return Envelope(
        id=uid(100),
        type=message.TYPE,
        source={"command": "/client", "reply": "/task-service", "event": "/orchestrator"}[kind],
        time=datetime(2030, 1, 1, 0, 0, 0, 250_000, UTC),
        tenant="acme",
        correlation_id=None if kind == "command" else uid(101),
        causation_id=None if kind == "command" else uid(102),
        sequence=17 if kind == "event" else None,
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        schema_version=message.SCHEMA_VERSION,
    )


def written(name: str, message: Message) -> dict[str, Any]:
    headers = {key: content.decode() for key, content in envelope(name, message).to_headers()}
    return {"headers": headers, "value": json.loads(message.to_value())}


@pytest.mark.parametrize("name", MESSAGES)
def test_is_written_as_the_golden_file_says(name: str) -> None:
    """Byte for byte in meaning: the same headers and the same JSON."""
    path = FOLDER / f"{name}.json"
    now = written(name, MESSAGES[name])
    if not path.exists() and os.environ.get("UPDATE_GOLDEN"):
        path.write_text(json.dumps(now, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    assert now == json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", MESSAGES)
def test_a_golden_file_reads_back(name: str) -> None:
    """What was once written can be read, also with fields and headers that came later."""
    golden = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    message = MESSAGES[name]
    headers = [(key, text.encode()) for key, text in golden["headers"].items()]
    assert Envelope.from_headers([*headers, ("x-new", b"1")]) == envelope(name, message)
    value = golden["value"]
    if type(message) not in (commands.SubmitTask, commands.CancelTask):  # these two refuse what they don't know
        value = {**value, "added_later": {"a": [1]}}
    assert type(message).from_value(json.dumps(value).encode()) == message


def test_every_type_has_a_golden_file_and_no_file_is_left_over() -> None:
    """A new type comes with its golden message."""
    kinds = {"command": commands.COMMANDS, "reply": commands.REPLIES, "event": events.EVENTS}
    wanted = {f"{kind}.{name}" for kind, registry in kinds.items() for name in registry}
    assert set(MESSAGES) == wanted
    assert {path.stem for path in FOLDER.glob("*.json")} == wanted
