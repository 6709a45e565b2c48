"""A command that comes again, as a broker or whoever kept a copy of it may send it, changes nothing and gets its answer."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from kit.engine import Engine

from stanchion import Ctx, Workflow
from stanchion.authority.intake import Asked, Intake
from stanchion.authority.queries import missing
from stanchion.authority.tasks import Tasks, too_late
from stanchion.authority.workflows import Workflows
from stanchion.contracts.commands import CancelTask
from stanchion.contracts.envelope import Envelope

one = Workflow("repeated_one")


@one.step(retries=0)
def only(ctx: Ctx, text: str) -> str:
    return text


class Canceller:
    """Somebody who cancels over Kafka, and whose messages come as often as the test says."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.intake = Intake(engine.service)

    def message(self) -> Asked:
        """A new message."""
        return Asked(Envelope.new("CancelTask", "test", "t"), self.engine.tenant)

    def deliver(self, asked: Asked, task_id: UUID) -> str:
        """The message reaches the intake; returns the state that it answers with."""
        late = too_late("completed")
        return self.intake.cancel(
            asked, CancelTask(task_id=task_id), actor="ann", missing=missing("task"), too_late=late
        )

    def answers(self, asked: Asked) -> list[tuple[str, Any]]:
        """Types and bodies of what the message was answered with."""
        rows = self.engine.all(
            "SELECT type, body FROM stanchion.outbox WHERE causation_id = %s ORDER BY id", str(asked.envelope.id)
        )
        return [(kind, json.loads(body)) for kind, body in rows]


class TestCancelAgain:
    def test_it_does_not_cancel_the_run_that_a_retry_made(self, engine: Engine) -> None:
        """The message was applied to the old run: delivered again, it does nothing and gets its first answer."""
        task = engine.submit(one, input={"text": "a"})
        canceller = Canceller(engine)
        asked = canceller.message()
        assert canceller.deliver(asked, task.task_id) == "cancelling"
        engine.sweep()
        Tasks(engine.service, Workflows(engine.service)).retry(engine.tenant, task.task_id, reason="", actor="ann")
        assert canceller.deliver(asked, task.task_id) == "cancelling"
        assert engine.task(task) == ("accepted", "created")
        first, again = canceller.answers(asked)
        assert first == again == ("TaskCancelling", {"task_id": str(task.task_id), "state": "cancelling"})
        assert canceller.deliver(canceller.message(), task.task_id) == "cancelling", "another message means the new run"

    def test_what_came_too_late_does_not_come_in_time_for_the_next_run(self, engine: Engine) -> None:
        """A cancel that was refused since the task had failed is not applied to its retried run either."""
        task = engine.submit(one, input={"text": "a"})
        worker = engine.worker()
        worker.fail(*worker.take())
        engine.sweep()
        canceller = Canceller(engine)
        asked = canceller.message()
        assert canceller.deliver(asked, task.task_id) == "failed"
        Tasks(engine.service, Workflows(engine.service)).retry(engine.tenant, task.task_id, reason="", actor="ann")
        assert canceller.deliver(asked, task.task_id) == "failed"
        assert engine.task(task) == ("accepted", "created")
        first, again = canceller.answers(asked)
        assert first == again
        assert first[1]["code"] == "E-TASK-05"

    def test_the_same_id_at_another_tenant_is_another_message(self, engine: Engine) -> None:
        """Ids are chosen by senders: one tenant's must not hide another's."""
        task = engine.submit(one, input={"text": "a"})
        canceller = Canceller(engine)
        asked = canceller.message()
        (other,) = engine.one(
            "INSERT INTO stanchion.tenant (tenant_id, name) VALUES (uuidv7(), 'else') RETURNING tenant_id"
        )
        assert canceller.deliver(Asked(asked.envelope, other), task.task_id) == "missing"
        assert canceller.deliver(asked, task.task_id) == "cancelling"
