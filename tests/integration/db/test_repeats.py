"""A command that comes again, as a broker or whoever kept a copy of it may send it, changes nothing and gets its answer."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from kit.engine import Engine

from services.task_service.handlers import Handlers
from stanchion import Ctx, Workflow
from stanchion.authority.approvals import Approvals
from stanchion.authority.intake import Asked, Intake, Repetition
from stanchion.authority.keys import Principal
from stanchion.authority.operations import Operations
from stanchion.authority.queries import Queries
from stanchion.authority.rows import missing
from stanchion.authority.submission import Answer, Request, Submission
from stanchion.authority.tasks import Tasks, too_late
from stanchion.authority.workflows import Workflows
from stanchion.contracts.commands import CancelTask, SubmitTask
from stanchion.contracts.envelope import Envelope
from stanchion.errors import Unprocessable
from stanchion.runtime.hints import Hints

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


def moved(version: int, name: str) -> Workflow:
    """A version of one workflow whose input has another name in each."""
    flow = Workflow("repeated_moved", version=version)
    if name == "old":

        @flow.step()
        def begin(ctx: Ctx, old: int) -> int:
            return old
    else:

        @flow.step()
        def begin_again(ctx: Ctx, new: int) -> int:
            return new

    return flow


class TestSubmitAgain:
    """What was accepted once is recognised before anything of it is judged anew."""

    @pytest.fixture
    def handlers(self, engine: Engine) -> Handlers:
        known = Workflows(engine.service)
        return Handlers(
            known,
            Submission(engine.service, known),
            Tasks(engine.service, known),
            Queries(engine.service),
            Operations(engine.service),
            Approvals(engine.service),
            Hints(None),
        )

    @pytest.fixture
    def caller(self, engine: Engine) -> Principal:
        return Principal(engine.tenant, "t", "key", frozenset())

    def test_a_newer_version_with_another_input_changes_nothing(
        self, engine: Engine, handlers: Handlers, caller: Principal
    ) -> None:
        """The same key and payload give the same task, also when the newest version would refuse the payload."""
        registry = Workflows(engine.service)
        registry.register(moved(1, "old").graph())
        command = SubmitTask(workflow="repeated_moved", input={"old": 1}, idempotency_key="k1")
        made = handlers.submit(caller, command)
        registry.register(moved(2, "new").graph())
        handlers.workflows._newest.clear()
        assert handlers.submit(caller, command) == Answer("duplicate", made.task_id, made.run_id, "accepted")
        other = SubmitTask(workflow="repeated_moved", input={"old": 2}, idempotency_key="k1")
        new = SubmitTask(workflow="repeated_moved", input={"old": 1}, idempotency_key="k2")
        outcomes = handlers.submit_bulk(caller, [new, command, other, Unprocessable("E-DATA-15", "no")])
        codes = [getattr(x, "code", None) or getattr(x, "outcome", None) for x in outcomes]
        assert codes == ["E-TASK-02", "duplicate", "E-IDEM-01", "E-DATA-15"]

    def test_a_message_that_comes_again_after_its_deadline_gets_its_task(
        self, engine: Engine, handlers: Handlers, caller: Principal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """By the id of the message alone, without any key; another message with a passed deadline is refused."""
        engine.register(one)
        soon = datetime.now(UTC) + timedelta(minutes=1)
        command = SubmitTask(workflow=one.name, input={"text": "a"}, deadline=soon)
        request = Request(engine.tenant, command, "kafka", "ann", str(uuid4()))
        made = handlers.submit_many([handlers.plan(request)])[0]
        monkeypatch.setattr("services.task_service.handlers.utc_now", lambda: soon + timedelta(seconds=1))
        with pytest.raises(Unprocessable, match="E-TASK-03") as refused:
            handlers.plan(request)
        stranger = Request(engine.tenant, command, "kafka", "ann", str(uuid4()))
        again, other = handlers.recognise([(request, refused.value), (stranger, refused.value)])
        assert again == Answer("duplicate", made.task_id, made.run_id, "accepted")
        assert other is refused.value
        reply = Repetition(Asked(Envelope.new("SubmitTask", "test", "t"), engine.tenant), made).reply()
        assert reply["type"] == "TaskAccepted"
        assert json.loads(reply["body"])["duplicate"] is True

    def test_only_what_would_be_refused_is_looked_up(
        self, engine: Engine, handlers: Handlers, caller: Principal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A submission that is in order costs no look at what was submitted before."""
        engine.register(one)
        asked: list[int] = []
        find = Submission.find
        monkeypatch.setattr(Submission, "find", lambda self, some: asked.append(len(some)) or find(self, some))
        handlers.submit(caller, SubmitTask(workflow=one.name, input={"text": "a"}, idempotency_key="k"))
        assert asked == [0]
