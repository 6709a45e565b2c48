"""Commands over Kafka: each is done once and answered, or parked with its reason; the partition goes on."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from sqlalchemy.engine import make_url
from task_service_kit import Api, Gate, Hand, uuid_of

from services.task_service.app import Connections, command_intake
from services.task_service.command_reader import CommandReader
from services.task_service.intake import CommandIntake
from services.task_service.settings import TaskServiceSettings
from stanchion.authority.dead_letters import DeadLetters
from stanchion.authority.keys import Keys
from stanchion.bus.admin import ensure_topics
from stanchion.bus.consumer import Consumer
from stanchion.bus.messages import Message, Record
from stanchion.bus.producer import Producer
from stanchion.contracts import limits, signing, topics
from stanchion.contracts.commands import CancelTask, SubmitTask
from stanchion.contracts.envelope import Envelope
from stanchion.contracts.ids import new_id
from stanchion.db.engine import Database
from stanchion.runtime.hints import Hints
from stanchion.runtime.loop import Loop

COMMANDS = topics.TASK_SERVICE_COMMANDS
Look = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture(scope="module")
def settings(settings: TaskServiceSettings, admin_url: str) -> Iterator[TaskServiceSettings]:
    """The same, with a gate between the intake and PostgreSQL, and a group of its own."""
    place = make_url(admin_url)
    gate = Gate(place.host or "127.0.0.1", place.port or 5432)
    url = make_url(settings.database_url.get_secret_value()).set(host="127.0.0.1", port=gate.port)
    GATES.append(gate)
    yield settings.model_copy(
        update={
            "database_url": type(settings.database_url)(url.render_as_string(hide_password=False)),
            "kafka_group": f"test-{uuid4().hex[:8]}",
        }
    )
    gate.close()


GATES: list[Gate] = []


@pytest.fixture(scope="module")
def parts(settings: TaskServiceSettings, database: Database) -> Iterator[tuple[CommandIntake, Producer]]:
    """A running intake, and a producer to send it commands."""
    ensure_topics(settings.kafka, topics.specs(partitions=2))
    hints, connections, producer = Hints(None), Connections(settings), Producer(settings.kafka)
    consumer = Consumer(settings.kafka, settings.kafka_group, [COMMANDS])
    intake = command_intake(settings, connections.make("intake", 2), hints, producer, consumer)
    loop = Loop("intake", intake.run_once, idle_wait=0.02)
    consumer.start()
    loop.start()
    yield intake, producer
    loop.stop(10)
    consumer.stop(10)
    producer.stop()
    connections.stop()


@pytest.fixture
def send(parts: tuple[CommandIntake, Producer]) -> Callable[..., UUID]:
    """`send(body, type, tenant)`: a command goes to the topic; returns its message id."""

    def sent(body: Any, kind: str = "SubmitTask", tenant: str = "acme", **changes: Any) -> UUID:
        envelope = Envelope.new(kind, "test", tenant)
        envelope = replace(envelope, **{k: v for k, v in changes.items() if k in ("id", "correlation_id")})
        raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = changes.get("headers", envelope.to_headers())
        parts[1].send(Message(COMMANDS, changes.get("key"), headers, raw))
        return envelope.id

    return sent


@pytest.fixture
def reply(look: Look, eventually: Callable[..., Any]) -> Callable[..., tuple[str, Any]]:
    """`reply(message_id)`: type and body of the answer, once it stands in the outbox."""

    def answer(message_id: UUID, correlation: UUID | None = None) -> tuple[str, Any]:
        def found() -> Any:
            return look.execute(
                "SELECT type, body, key, causation_id FROM stanchion.outbox WHERE topic = %s AND correlation_id = %s",
                (topics.TASK_SERVICE_REPLIES, str(correlation or message_id)),
            ).fetchone()

        kind, body, key, cause = eventually(found, 20)
        assert (key, cause) == (str(message_id), str(message_id))
        return kind, json.loads(body)

    return answer


@pytest.fixture
def letter(look: Look, eventually: Callable[..., Any]) -> Callable[..., Any]:
    """`letter(mark)`: the dead letter whose key is the mark: (tenant, value, headers, code, reason)."""

    def found(mark: bytes) -> Any:
        query = "SELECT tenant_id, value, headers, code, reason FROM stanchion.dead_letter WHERE key = %s"
        return eventually(lambda: look.execute(query, (mark,)).fetchone(), 20)

    return found


class TestCommands:
    """What is right is done and answered."""

    def test_a_submission_becomes_a_task_and_is_answered(
        self, send: Callable[..., UUID], reply: Callable[..., Any], api: Api
    ) -> None:
        """TaskAccepted by correlation id, keyed by the message; the task is there, submitted over Kafka."""
        asked = new_id()
        message = send({"workflow": "pair", "input": {"topic": "kafka"}, "tags": ["k"]}, correlation_id=asked)
        kind, body = reply(message, asked)
        assert (kind, body["state"], body["duplicate"]) == ("TaskAccepted", "accepted", False)
        task = api.get(f"/v1/tasks/{body['task_id']}")
        assert (task["submitted_via"], task["input"]) == ("kafka", {"topic": "kafka"})

    def test_a_message_that_comes_twice_is_one_task(
        self, send: Callable[..., UUID], reply: Callable[..., Any], look: Look, eventually: Callable[..., Any]
    ) -> None:
        """The same message id: the same task, the same answer once more."""
        message = new_id()
        body = {"workflow": "single", "input": {"x": 7}, "tags": ["twice"]}
        for _ in range(3):
            send(body, id=message)
        reply(message)
        query = "SELECT body FROM stanchion.outbox WHERE correlation_id = %s AND type = 'TaskAccepted' AND topic = %s"
        rows = eventually(
            lambda: len(r := look.execute(query, (str(message), topics.TASK_SERVICE_REPLIES)).fetchall()) == 3 and r
        )
        assert len({json.loads(row[0])["task_id"] for row in rows}) == 1
        assert look.execute("SELECT count(*) FROM stanchion.task WHERE tags = '{twice}'").fetchone() == (1,)

    def test_http_and_kafka_share_keys(self, send: Callable[..., UUID], reply: Callable[..., Any], api: Api) -> None:
        """The same key and payload over both doors is one task; another payload is refused on both."""
        made = api.submit("single", {"x": 1}, idempotency_key="both")
        kind, body = reply(send({"workflow": "single", "input": {"x": 1}, "idempotency_key": "both"}))
        assert (kind, body["duplicate"]) == ("TaskAccepted", True)
        assert UUID(body["task_id"]) == uuid_of(made["task_id"])
        kind, body = reply(send({"workflow": "single", "input": {"x": 2}, "idempotency_key": "both"}))
        assert (kind, body["code"]) == ("TaskRejected", "E-IDEM-01")

    @pytest.mark.parametrize(
        ("body", "code"),
        [
            ({"workflow": "nowhere"}, "E-TASK-01"),
            ({"workflow": "pair", "input": {}}, "E-TASK-02"),
            ({"workflow": "pair", "input": {"topic": 5}}, "E-TASK-02"),
            ({"workflow": "single", "input": {}, "deadline": "2001-01-01T00:00:00Z"}, "E-TASK-03"),
        ],
    )
    def test_what_is_understood_and_refused_is_answered_and_not_parked(
        self, send: Callable[..., UUID], reply: Callable[..., Any], look: Look, body: Any, code: str
    ) -> None:
        """TaskRejected with the code of HTTP; no dead letter."""
        mark = uuid4().hex.encode()
        kind, answer = reply(send(body, key=mark))
        assert (kind, answer["code"]) == ("TaskRejected", code)
        assert look.execute("SELECT count(*) FROM stanchion.dead_letter WHERE key = %s", (mark,)).fetchone() == (0,)

    def test_what_was_accepted_is_answered_as_such_after_its_deadline(
        self, send: Callable[..., UUID], reply: Callable[..., Any], look: Look, eventually: Callable[..., Any]
    ) -> None:
        """The same message again, as a broker may send it: TaskAccepted for the same task, not TaskRejected."""
        soon = datetime.now(UTC) + timedelta(seconds=3)
        body = {"workflow": "single", "input": {}, "deadline": soon.isoformat()}
        message = send(body)
        first = reply(message)
        look.execute("DELETE FROM stanchion.outbox WHERE correlation_id = %s", (str(message),))
        eventually(lambda: datetime.now(UTC) > soon, 10)
        send(body, id=message)
        kind, again = reply(message)
        assert kind == first[0] == "TaskAccepted"
        assert (again["task_id"], again["duplicate"]) == (first[1]["task_id"], True)

    def test_a_cancel_is_answered(
        self, send: Callable[..., UUID], reply: Callable[..., Any], api: Api, hand: Hand
    ) -> None:
        """TaskCancelling, also when it comes again after the end; TaskRejected for what has ended otherwise."""
        made = api.submit("pair", {"topic": "c"})
        task = str(uuid_of(made["task_id"]))
        assert reply(send({"task_id": task, "reason": "r"}, "CancelTask")) == (
            "TaskCancelling",
            {"task_id": task, "state": "cancelling"},
        )
        hand.sweep()
        assert reply(send({"task_id": task}, "CancelTask"))[1]["state"] == "cancelled"
        assert api.get(f"/v1/tasks/{task}")["reason"]["why"] == "r"
        done = api.submit("single", {"x": 1})
        hand.complete(hand.lease_of(done), lambda lease: 1)
        kind, body = reply(send({"task_id": str(uuid_of(done["task_id"]))}, "CancelTask"))
        assert (kind, body["code"]) == ("TaskRejected", "E-TASK-05")

    def test_a_foreign_task_is_not_found(self, send: Callable[..., UUID], reply: Callable[..., Any], api: Api) -> None:
        """Another tenant's cancel is answered like one for a task that never was, and does nothing."""
        made = api.submit("pair", {"topic": "mine"})
        foreign = reply(send({"task_id": str(uuid_of(made["task_id"]))}, "CancelTask", "beta"))
        unknown = reply(send({"task_id": str(new_id())}, "CancelTask", "beta"))
        assert foreign == unknown
        assert foreign[1]["code"] == "E-FIND-01"
        assert api.get(f"/v1/tasks/{made['task_id']}")["state"] == "accepted"


class TestPoison:
    """What can't be read is parked, with its bytes, its place and the reason."""

    @pytest.mark.parametrize(
        ("value", "code"),
        [
            (b"\x8d", "E-DATA-02"),
            (b"", "E-DATA-01"),
            (None, "E-DATA-01"),
            (b'{"workflow": "pai', "E-DATA-01"),
            (b'{"workflow": 5}', "E-DATA-15"),
            (b'["workflow"]', "E-DATA-15"),
            (b'{"workflow": "pair", "input": {"topic": "\\u0000"}}', "E-DATA-03"),
            (b'{"workflow": "pair", "input": {"topic": NaN}}', "E-DATA-05"),
            (b'{"workflow": "pair", "input": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "E-DATA-08"),
            (b'{"workflow": "pair", "input": {"topic": "' + b"x" * 70_000 + b'"}}', "E-SIZE-01"),
            (b'{"workflow": "pair", "input": {"topic": "x"}, "idempotency_key": " "}', "E-DATA-12"),
        ],
    )
    def test_a_bad_body_is_parked_and_answered(
        self, send: Callable[..., UUID], reply: Callable[..., Any], letter: Callable[..., Any], value: Any, code: str
    ) -> None:
        """The dead letter has the bytes as they came; whoever sent them with good rights is told."""
        mark = uuid4().hex.encode()
        kind, body = reply(send(value, key=mark))
        assert (kind, body["code"]) == ("TaskRejected", code)
        tenant, kept, _, found, reason = letter(mark)
        assert (kept, found) == (value, code)
        assert tenant is not None
        assert reason

    @pytest.mark.parametrize(
        ("change", "code"),
        [
            (lambda h: [], "E-MSG-01"),
            (lambda h: [(n, b"\xff\xfe") if n == "ce_source" else (n, v) for n, v in h], "E-MSG-01"),
            (lambda h: [(n, v) for n, v in h if n != "ce_id"], "E-MSG-01"),
            (lambda h: [*h, ("ce_tenant", b"beta")], "E-MSG-01"),
            (lambda h: [(n, b"PlanRun") if n == "ce_type" else (n, v) for n, v in h], "E-MSG-02"),
            (lambda h: [(n, b"strangers") if n == "ce_tenant" else (n, v) for n, v in h], "E-AUTH-05"),
            (lambda h: [(n, b"") if n == "ce_tenant" else (n, v) for n, v in h], "E-MSG-01"),
        ],
        ids=["none", "no UTF-8", "no id", "two tenants", "another type", "a stranger", "no tenant"],
    )
    def test_a_bad_envelope_is_parked_without_an_owner(
        self, send: Callable[..., UUID], letter: Callable[..., Any], change: Callable[[Any], Any], code: str
    ) -> None:
        """Nobody's right was shown, so it belongs to no tenant, and nobody is answered."""
        mark = uuid4().hex.encode()
        headers = change(Envelope.new("SubmitTask", "test", "acme").to_headers())
        send({"workflow": "single", "input": {}}, key=mark, headers=headers)
        tenant, _, _, found, _ = letter(mark)
        assert (tenant, found) == (None, code)

    def test_a_key_that_is_no_text_is_parked(self, send: Callable[..., UUID], letter: Callable[..., Any]) -> None:
        """Bytes that are no UTF-8 come from a sender that means another topic."""
        mark = b"\xff" + uuid4().bytes
        send({"workflow": "single", "input": {}}, key=mark)
        assert letter(mark)[3] == "E-MSG-01"

    def test_secrets_in_headers_are_not_kept(self, send: Callable[..., UUID], letter: Callable[..., Any]) -> None:
        """What is marked as secret by its name is hidden in the table; a signature is kept."""
        mark = uuid4().hex.encode()
        secrets = [("authorization", b"Bearer canary-1"), ("x-api-key", b"canary-2"), ("ce_signature", b"c2ln")]
        send(b"{", key=mark, headers=[*Envelope.new("SubmitTask", "t", "acme").to_headers(), *secrets])
        headers = dict(header[:2] for header in letter(mark)[2])
        assert "canary" not in str(headers)
        assert headers["ce_signature"] == "c2ln"

    def test_bad_records_do_not_spoil_their_batch(
        self, send: Callable[..., UUID], reply: Callable[..., Any], look: Look, eventually: Callable[..., Any]
    ) -> None:
        """Good and bad ones in one go: every good one is accepted, every bad one is parked."""
        good = []
        for n in range(60):
            good.append(send({"workflow": "single", "input": {"x": n}, "tags": ["mixed"]}))
            send(b"rubbish %d" % n, key=b"mixed")
        for message in good:
            assert reply(message)[0] == "TaskAccepted"
        query = "SELECT count(*) FROM stanchion.dead_letter WHERE key = 'mixed'"
        eventually(lambda: look.execute(query).fetchone() == (60,))
        assert look.execute("SELECT count(*) FROM stanchion.task WHERE tags = '{mixed}'").fetchone() == (60,)

    def test_the_dead_letter_topic_has_it_too(
        self, send: Callable[..., UUID], letter: Callable[..., Any], settings: TaskServiceSettings
    ) -> None:
        """With the bytes, and headers that say where it came from and why it is there."""
        mark = uuid4().hex.encode()
        send(b"\x8d", key=mark)
        letter(mark)
        consumer = Consumer(settings.kafka, f"test-{uuid4().hex[:8]}", [topics.dead_letter(COMMANDS)])
        consumer.start()
        try:
            found: list[Record] = []
            for _ in range(200):
                taken = consumer.take(100, 0.2)
                consumer.done(taken)
                found += [record for record in taken if record.key == mark]
                if found:
                    break
            notes = dict(found[0].headers)
            assert found[0].value == b"\x8d"
            assert notes["dlq_topic"] == COMMANDS.encode()
            assert notes["dlq_code"] == b"E-DATA-02"
        finally:
            consumer.stop(10)


class TestTrouble:
    """What happens around it."""

    def test_while_the_database_is_away_nothing_is_lost_or_skipped(
        self,
        send: Callable[..., UUID],
        reply: Callable[..., Any],
        look: Look,
        api: Api,
        eventually: Callable[..., Any],
    ) -> None:
        """Commands wait; once the database is back they are done, the bad one among them parked, none twice."""
        gate = GATES[-1]
        gate.shut = True
        gate.break_all()
        messages = [send({"workflow": "single", "input": {"x": n}, "tags": ["away"]}) for n in range(20)]
        send(b"bad", key=b"away")
        assert look.execute("SELECT count(*) FROM stanchion.task WHERE tags = '{away}'").fetchone() == (0,)
        assert api.http.get("/v1/tasks").status_code == 503
        gate.shut = False
        eventually(lambda: api.http.get("/v1/tasks").status_code == 200)
        for message in messages:
            assert reply(message)[0] == "TaskAccepted"
        assert look.execute("SELECT count(*) FROM stanchion.task WHERE tags = '{away}'").fetchone() == (20,)

    def test_a_parked_message_can_be_sent_again(
        self,
        send: Callable[..., UUID],
        letter: Callable[..., Any],
        reply: Callable[..., Any],
        api: Api,
        other: Api,
        look: Look,
    ) -> None:
        """Redrive posts the bytes as they came, once; what was wrong meanwhile may be right now."""
        mark = uuid4().hex.encode()
        message = send({"workflow": "single", "input": {}}, tenant="latecomer", key=mark)
        letter(mark)
        found = [x for x in api.get("/v1/dead-letters?unowned=true")["items"] if x["code"] == "E-AUTH-05"]
        shown = [api.get(f"/v1/dead-letters/{x['dead_letter_id']}?unowned=true") for x in found]
        mine = next(x for x in shown if base64.b64decode(x["key"] or "") == mark)
        assert json.loads(base64.b64decode(mine["value"])) == {"workflow": "single", "input": {}}
        assert api.get("/v1/dead-letters")["items"] != found
        path = f"/v1/dead-letters/{mine['dead_letter_id']}/redrive"
        assert other.post(path, {}, 404)["code"] == "E-FIND-01"
        assert api.post(path + "?unowned=true", {}, 202)["topic"] == COMMANDS
        assert api.post(path + "?unowned=true", {}, 409)["code"] == "E-DEAD-01"
        count = "SELECT count(*) FROM stanchion.dead_letter WHERE key = %s"
        del message
        for _ in range(200):
            if look.execute(count, (mark,)).fetchone() == (2,):
                break
            send({"workflow": "single", "input": {}})  # its reply says that what came before was handled
        assert look.execute(count, (mark,)).fetchone() == (2,)

    def test_many_can_be_asked_for_at_once(self, api: Api, other: Api) -> None:
        """A job by filter and rate, the same under the same key, and nobody else's business."""
        body = {"code": "E-DATA-01", "rate": 10, "key": "monday"}
        job = api.post("/v1/dead-letters/redrive", body, 202)
        assert (job["key"], job["state"], job["request"]["code"]) == ("monday", "due", "E-DATA-01")
        assert api.post("/v1/dead-letters/redrive", body, 202)["created_at"] == job["created_at"]
        assert api.get("/v1/dead-letters/redrives/monday")["state"] == "due"
        assert other.get("/v1/dead-letters/redrives/monday", 404)["code"] == "E-FIND-01"
        assert api.post("/v1/dead-letters/redrive", {"rate": 10**9}, 422)["where"] == "$.rate"


class TestSignatures:
    """Where commands must be signed."""

    @pytest.fixture
    def reader(self, database: Database) -> Any:
        """A reader that asks for signatures."""
        return CommandReader(Keys(database), "signed", (), 0.0)

    def record(self, key: tuple[str, bytes] | None, tenant: str = "acme", **changes: Any) -> Record:
        """A signed submission, or what a forger makes of it."""
        body = SubmitTask(workflow="single", input={}).to_value()
        envelope = Envelope.new("SubmitTask", "test", tenant)
        if key is not None:
            envelope = signing.sign_envelope(envelope, body, *key)
        envelope = replace(envelope, **{k: v for k, v in changes.items() if k != "value"})
        return Record(COMMANDS, 0, 1, 0, b"k", list(envelope.to_headers()), changes.get("value", body))

    def test_the_right_signature_opens(self, reader: Any, database: Database) -> None:
        """A registered key speaks for its tenant, with its own rights, and no further than they go."""
        keys = Keys(database)
        private, public = signing.new_key()
        tenant = keys.create_tenant("acme")
        keys.create_signing(tenant, "signer", public, ["task.submit"], actor="test")
        read = reader.read(self.record(("signer", private)))
        assert (read.principal.tenant, read.principal.actor) == ("acme", "signing key:signer")
        body = CancelTask(task_id=new_id()).to_value()
        envelope = signing.sign_envelope(Envelope.new("CancelTask", "t", "acme"), body, "signer", private)
        cancel = reader.read(Record(COMMANDS, 0, 2, 0, None, list(envelope.to_headers()), body))
        assert cancel.letter.error.code == "E-AUTH-03"

    def test_a_command_of_a_key_that_came_later_can_be_sent_again(self, reader: Any, database: Database) -> None:
        """After a rotation in the wrong order: parked with its reason, read once its key is registered."""
        keys, letters = Keys(database), DeadLetters(database)
        private, public = signing.new_key()
        found = reader.read(self.record(("rotated", private)))
        assert found.letter.error.code == "E-AUTH-04"
        letters.bury([found.letter])
        row = next(row for row in letters.page(None, limit=100) if row["code"] == "E-AUTH-04")
        keys.create_signing(keys.create_tenant("acme"), "rotated", public, ["task.submit"], actor="test")
        kept = letters.get(None, row["dead_letter_id"]).message()
        again = reader.read(Record(COMMANDS, 0, 9, 0, kept.key, list(kept.headers), kept.value))
        assert again.principal.actor == "signing key:rotated"

    def test_a_signature_has_its_time(self, reader: Any, database: Database) -> None:
        """Older than ids are remembered, or ahead of every clock: parked with its owner and its reason, and answered."""
        keys = Keys(database)
        private, public = signing.new_key()
        keys.create_signing(keys.create_tenant("acme"), "timed", public, ["task.submit"], actor="test")
        body, now = SubmitTask(workflow="single", input={}).to_value(), datetime.now(UTC)

        def read(age: timedelta) -> Any:
            envelope = replace(Envelope.new("SubmitTask", "test", "acme"), time=now - age)
            signed = signing.sign_envelope(envelope, body, "timed", private)
            return reader.read(Record(COMMANDS, 0, 1, 0, b"k", list(signed.to_headers()), body))

        for age in (timedelta(days=29, hours=1), timedelta(days=3_000), timedelta(minutes=-6)):
            found = read(age)
            assert (found.letter.error.code, found.letter.error.where) == ("E-AUTH-06", "ce_time")
            assert found.letter.tenant_id is not None
            assert found.refusal is not None
        for age in (timedelta(days=28, hours=23), timedelta(), timedelta(minutes=-4)):
            assert read(age).principal.actor == "signing key:timed"
        assert limits.SIGNED_DAYS < limits.INBOX_DAYS

    def test_every_other_signature_is_parked(self, reader: Any, database: Database) -> None:
        """Unsigned, by a stranger, by another tenant's key, of another body, tenant or time, or with a revoked key."""
        keys = Keys(database)
        private, public = signing.new_key()
        stranger, _ = signing.new_key()
        tenant = keys.create_tenant("acme")
        keys.create_signing(tenant, "known", public, ["task.submit"], actor="test")
        keys.create_tenant("beta")
        good = ("known", private)
        cases = {
            "E-AUTH-01": [self.record(None)],
            "E-AUTH-04": [
                self.record(("known", stranger)),
                self.record(("unknown", private)),
                self.record(good, "beta"),
                self.record(good, "nobody"),
                self.record(good, value=b'{"workflow": "other"}'),
                self.record(good, tenant="beta"),
                self.record(good, id=new_id()),
                self.record(good, time=Envelope.new("x", "x", "x").time),
                self.record(good, extensions={"ce_keyid": b"known", "ce_signature": b"!"}),
            ],
        }
        for code, records in cases.items():
            for record in records:
                found = reader.read(record)
                assert found.letter.error.code == code
                assert (found.letter.tenant_id, found.refusal) == (None, None)
        keys.revoke_signing(tenant, "known", actor="test")
        assert reader.read(self.record(good)).letter.error.code == "E-AUTH-04"
