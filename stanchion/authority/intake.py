"""What comes over Kafka, a batch a transaction: tasks, the answers to their submitters, and what was parked.

The answer stands in the outbox of the transaction that it answers for, so neither can exist without the other. What was
applied is known by its message id in `inbox`: handled again, a submission gives the same task, a cancel does nothing, and
either is answered once more; its sender knows answers by correlation id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson
from psycopg.types.json import Jsonb

from stanchion.contracts.commands import CancelTask, TaskAccepted, TaskRejected
from stanchion.contracts.envelope import Envelope
from stanchion.contracts.topics import TASK_SERVICE_REPLIES
from stanchion.db.engine import Database
from stanchion.errors import StanchionError

from . import blobs
from .dead_letters import Letter
from .submission import Answer, Prepared, rows_of


@dataclass(frozen=True, slots=True)
class Asked:
    """Who is to be answered: the message's envelope, and the tenant that its rights were found to be of."""

    envelope: Envelope
    tenant_id: UUID

    def address(self) -> dict[str, Any]:
        """Where an answer goes, as `post` takes it: by correlation id, under the id of the message."""
        return {
            "tenant_id": str(self.tenant_id),
            "topic": TASK_SERVICE_REPLIES,
            "key": str(self.envelope.id),
            "correlation_id": str(self.envelope.correlation_id or self.envelope.id),
            "causation_id": str(self.envelope.id),
        }


@dataclass(frozen=True, slots=True)
class Refusal:
    """A command that was understood and refused."""

    asked: Asked
    error: StanchionError

    def reply(self) -> dict[str, Any]:
        """The answer, as `post` takes it."""
        return self.asked.address() | {"type": TaskRejected.TYPE, "body": rejection(self.error).to_value().decode()}


@dataclass(frozen=True, slots=True)
class Repetition:
    """A submission that was accepted before, and could not be now."""

    asked: Asked
    answer: Answer

    def reply(self) -> dict[str, Any]:
        """The answer, as `post` takes it."""
        task = self.answer
        body = TaskAccepted(task_id=task.task_id, run_id=task.run_id, state=task.state, duplicate=True)
        return self.asked.address() | {"type": TaskAccepted.TYPE, "body": body.to_value().decode()}


def rejection(error: StanchionError) -> TaskRejected:
    """An error as an answer on Kafka."""
    return TaskRejected(code=error.code, what=error.what, where=error.where, why=error.why, fix=error.fix)


class Intake:
    """Under the task service's login."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def take_in(
        self,
        submissions: Sequence[tuple[Asked, Prepared]],
        replies: Sequence[Refusal | Repetition],
        letters: Sequence[Letter],
        conflict: StanchionError,
    ) -> list[Answer]:
        """Accept, answer and park a batch in one transaction; an answer for each submission, in order."""
        prepared = [one for _, one in submissions]
        blobs.put(self.database, [one.blob for one in prepared if one.blob])
        asked = [{"ord": n} | one.address() for n, (one, _) in enumerate(submissions)]
        rows = self.database.call(
            "submit",
            "SELECT ord, outcome, task_id, run_id, state FROM stanchion.take_in("
            "%s::text::jsonb, %s::text::jsonb, %s::text::jsonb, %s::text::jsonb, %s, %s::text::jsonb, %s)",
            (
                *rows_of(prepared),
                orjson.dumps(asked).decode(),
                Jsonb(rejection(conflict).model_dump(exclude_none=True)),
                orjson.dumps([reply.reply() for reply in replies]).decode(),
                Jsonb([letter.row() for letter in letters]),
            ),
        )
        return [Answer(*row[1:]) for row in sorted(rows)]

    def cancel(
        self, asked: Asked, command: CancelTask, *, actor: str, missing: StanchionError, too_late: StanchionError
    ) -> str:
        """Cancel a task and answer; returns its state, or `missing`. Of the same message again: the state of the first time."""
        rows = self.database.call(
            "cancel",
            "SELECT stanchion.cancel_by_message(%s, %s, %s, %s, %s, %s, %s, %s)",
            (
                asked.tenant_id,
                command.task_id,
                str(asked.envelope.id),
                command.reason,
                actor,
                Jsonb(asked.address()),
                Jsonb(rejection(missing).model_dump(exclude_none=True)),
                Jsonb(rejection(too_late).model_dump(exclude_none=True)),
            ),
        )
        return str(rows[0][0])
