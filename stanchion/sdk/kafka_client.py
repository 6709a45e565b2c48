"""KafkaClient: submit and cancel over Kafka alone, with no HTTP between; answers come by correlation id."""

from __future__ import annotations

import base64
import binascii
import os
import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import TimeoutError as NoAnswer
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import UUID

from stanchion.bus.messages import Message as KafkaMessage
from stanchion.bus.producer import Producer
from stanchion.contracts import ids, payload
from stanchion.contracts.commands import CancelTask, SubmitTask, TaskAccepted, TaskCancelling, TaskRejected
from stanchion.contracts.envelope import Envelope
from stanchion.contracts.message import Message, read
from stanchion.contracts.topics import TASK_SERVICE_COMMANDS
from stanchion.errors import CODES, StanchionError, Unavailable, Unprocessable
from stanchion.runtime.clock import Deadline
from stanchion.runtime.kafka_settings import KafkaSettings
from stanchion.sdk import faults
from stanchion.sdk.models import Receipt
from stanchion.sdk.reply_reader import Reply, ReplyReader
from stanchion.sdk.submissions import body_of

if TYPE_CHECKING:
    from stanchion.workflow.definition import Workflow

__all__ = ["KafkaClient"]

BOOTSTRAP_VARIABLE: Final = "STANCHION_KAFKA_BOOTSTRAP"
_AGAIN_SECONDS: Final = 5.0  # without an answer for so long, the message may have gone down with a broker
_LOOPBACK: Final = ("127.", "localhost", "[::1]", "::1")


class KafkaClient:
    """Sends commands of `tenant` to `bootstrap` (default: STANCHION_KAFKA_BOOTSTRAP) and waits for their answers.

    Where commands must be signed, `key_id` names a registered key and `signing_key` is its private half: 32 bytes, or
    their base64. A message without an answer is sent again as it is; it counts once. Any thread may use a client.
    """

    def __init__(
        self,
        bootstrap: str | KafkaSettings | None = None,
        *,
        tenant: str = "dev",
        key_id: str | None = None,
        signing_key: bytes | str | None = None,
        timeout: float = 30.0,
    ) -> None:
        self.tenant = tenant
        self.timeout = timeout
        self.settings = _settings(bootstrap)
        self._source = f"stanchion-client/{socket.gethostname()}"[:200]
        self._signer = None if signing_key is None else (key_id or "", _private(signing_key))
        if (key_id is None) != (signing_key is None) or key_id == "":
            raise Unprocessable("E-AUTH-02", "key_id= and signing_key= belong together", fix="give both, or neither")
        self._producer = Producer(self.settings)
        self._replies = ReplyReader(self.settings)

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
        timeout: float | None = None,
        **named: Any,
    ) -> Receipt:
        """Submit a task and wait for the answer; see `Client.submit` for the arguments.

        Raises what a refusal says (Unprocessable, Conflict, NotFound), and WaitTimeout E-WAIT-01 when no answer came:
        then the task may exist, and submitting again with the `key` that the error names finds it.
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
        payload.check(body["input"])
        command = read(SubmitTask, body)
        reply = self._ask(command, key=body["idempotency_key"], timeout=timeout)
        assert isinstance(reply.body, TaskAccepted), "refusals were raised"
        answer = reply.body
        return Receipt(
            ids.public(ids.TASK, answer.task_id), ids.public(ids.RUN, answer.run_id), answer.state, answer.duplicate
        )

    def cancel(self, task_id: str | UUID, *, reason: str = "", timeout: float | None = None) -> str:
        """Ask for the end of a task and wait for the answer; the state of the task then."""
        wanted = task_id if isinstance(task_id, UUID) else ids.parse(task_id, ids.TASK)
        reply = self._ask(CancelTask(task_id=wanted, reason=reason), key=str(wanted), timeout=timeout)
        assert isinstance(reply.body, TaskCancelling), "refusals were raised"
        return reply.body.state

    def close(self) -> None:
        """Close the connections."""
        self._replies.close()
        self._producer.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, command: Message, *, key: str, timeout: float | None) -> Reply:
        deadline = Deadline(self.timeout if timeout is None else timeout)
        self._replies.start(deadline.left)
        message_id, message = self._message(command, key)
        answer = self._replies.expect(message_id)
        failure: StanchionError | None = None
        try:
            while not deadline.passed:
                try:
                    self._producer.send(message, timeout=deadline.left)
                    failure = None
                except Unavailable as error:
                    failure = error  # it may have been stored all the same
                try:
                    reply = answer.result(timeout=min(_AGAIN_SECONDS, deadline.left))
                except NoAnswer:
                    self._replies.refresh()
                    continue
                return _accepted(reply)
        finally:
            self._replies.forget(message_id)
        raise failure or faults.WaitTimeout(
            faults.WAITED,
            f"no answer to {type(command).__name__} came in time",
            where=self.settings.bootstrap,
            why="the task service may be away; the command may yet be done",
            fix=f"send it again with key={key!a}: it counts once",
            key=key,
        )

    def _message(self, command: Message, key: str) -> tuple[UUID, KafkaMessage]:
        body = command.to_value()
        envelope = Envelope.new(command.TYPE, self._source, self.tenant, schema_version=command.SCHEMA_VERSION)
        if self._signer is not None:
            from stanchion.contracts.signing import sign_envelope

            envelope = sign_envelope(envelope, body, *self._signer)
        return envelope.id, KafkaMessage(TASK_SERVICE_COMMANDS, key.encode(), envelope.to_headers(), body)


def _accepted(reply: Reply) -> Reply:
    """The reply, unless it refuses: then its error, in the family that its code has over HTTP too."""
    body = reply.body
    if not isinstance(body, TaskRejected):
        return reply
    raise refusal(body.code, body.what, where=body.where, why=body.why, fix=body.fix)


def refusal(code: str, what: str, **given: str | None) -> StanchionError:
    """An error from its code alone."""
    status = CODES[code].status if code in CODES else 422
    return faults.from_problem(status, {"code": code, "detail": what, **given}, where=given.get("where") or "Kafka")


def _settings(bootstrap: str | KafkaSettings | None) -> KafkaSettings:
    if isinstance(bootstrap, KafkaSettings):
        return bootstrap
    found = bootstrap or os.environ.get(BOOTSTRAP_VARIABLE)
    if not found:
        raise Unavailable(
            "E-NET-01", "nothing says where Kafka is", fix=f"KafkaClient(bootstrap), or set {BOOTSTRAP_VARIABLE}"
        )
    local = all(place.strip().startswith(_LOOPBACK) for place in found.split(","))
    make = KafkaSettings.dev if local else KafkaSettings
    return make(found, f"stanchion-client-{os.getpid()}")


def _private(key: bytes | str) -> bytes:
    if isinstance(key, bytes):
        return key
    try:
        return base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        raise Unprocessable("E-AUTH-02", "signing_key= is not base64") from None
