"""Dead letters sent again in bulk: at a rate, each recorded once, whatever happens in the middle."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from kit.engine import Admin
from maintenance_kit import Hand, rows

from services.workers.maintenance.jobs import Redriving
from stanchion.authority.bulk_redrive import BulkRedrive
from stanchion.authority.dead_letters import DeadLetters, Letter
from stanchion.authority.maintenance import NOBODY, Maintenance, Redrive
from stanchion.bus.admin import ensure_topics
from stanchion.bus.consumer import Consumer
from stanchion.bus.messages import Record
from stanchion.bus.producer import Producer
from stanchion.contracts.topics import TopicSpec
from stanchion.db.engine import Database
from stanchion.errors import Unavailable, Unprocessable
from stanchion.runtime.clock import Deadline
from stanchion.runtime.kafka_settings import KafkaSettings

if TYPE_CHECKING:
    from stanchion.embedded import Endpoints


class Scene:
    """A topic, dead letters that came from it, and the worker that sends them again."""

    def __init__(self, endpoints: Endpoints, hand: Hand, service: Database, tenant: UUID) -> None:
        self.config = KafkaSettings.dev(endpoints.kafka_bootstrap, f"test-{os.getpid()}")
        self.producer = Producer(self.config)
        self.hand = hand
        self.tenant = tenant
        self.letters = DeadLetters(service)
        self.asking = Maintenance(service)
        self.topic = f"stanchion.test.{uuid.uuid4().hex[:10]}"
        ensure_topics(self.config, [TopicSpec(self.topic, "a test", "any", "commands", 1)])
        hand.periods.clear()
        hand.works["redrive"] = Redriving(BulkRedrive(hand.database), self.producer)

    def bury(
        self, count: int, *, code: str = "E-MSG-01", tenant: UUID | None = None, first: int = 0, **fields: Any
    ) -> None:
        """Park messages, as an intake would."""
        records = [
            Record(
                self.topic,
                0,
                first + n,
                0,
                b"key",
                [("ce_id", b"id-%d" % n), ("raw", b"\xff\x00")],
                b"m-%d" % (first + n),
            )
            for n in range(count)
        ]
        self.letters.bury(
            [Letter(replace(r, **fields), Unprocessable(code, "no"), tenant or self.tenant) for r in records]
        )

    def work(self) -> int:
        """Plan and perform until nothing is due; returns how many entries were taken."""
        taken = 0
        while True:
            self.hand.planner.run_once()
            if not (now := self.hand.drain()):
                return taken
            taken += now

    def received(self, count: int) -> list[Record]:
        """What the topic has, once there is that much of it."""
        consumer = Consumer(self.config, f"test-{uuid.uuid4().hex[:8]}", [self.topic])
        consumer.start()
        found: list[Record] = []
        deadline = Deadline(30)
        while len(found) < count:
            assert not deadline.passed, f"{len(found)} of {count} messages within 30 s"
            found += consumer.take(100, 0.2)
        assert consumer.stop(15)
        return found


@pytest.fixture
def scene(endpoints: Endpoints, hand: Hand, db: Callable[[str], Database], tenant: UUID) -> Iterator[Scene]:
    """A topic and a worker for this test."""
    made = Scene(endpoints, hand, db("stanchion_task_service"), tenant)
    yield made
    made.producer.stop()


def test_all_of_a_tenant_are_sent_as_they_came(scene: Scene, admin: Admin) -> None:
    """Key, value and headers are those of the first time, and each letter says when it was sent again."""
    scene.bury(25)
    scene.asking.request_redrive(scene.tenant, "r", Redrive(rate=1_000), actor="key:ops")
    scene.work()
    report = scene.asking.redrive(scene.tenant, "r")
    assert (report.state, report.result["sent"], report.result["skipped"]) == ("done", 25, 0)
    got = {record.value: record for record in scene.received(25)}
    assert set(got) == {b"m-%d" % n for n in range(25)}
    assert (got[b"m-3"].key, got[b"m-3"].headers) == (b"key", [("ce_id", b"id-3"), ("raw", b"\xff\x00")])
    assert admin.execute("SELECT count(*) FROM stanchion.dead_letter WHERE redriven_at IS NULL").fetchone() == (0,)


def test_only_what_matches_is_sent(scene: Scene, admin: Admin) -> None:
    """By code, and never another tenant's."""
    other = admin.execute("SELECT stanchion.create_tenant('other')").fetchone()[0]  # type: ignore[index]
    scene.bury(3)
    scene.bury(4, code="E-TASK-01", first=10)
    scene.bury(5, tenant=other, first=20)
    scene.asking.request_redrive(scene.tenant, "r", Redrive(code="E-TASK-01", topic=scene.topic), actor="x")
    scene.work()
    assert scene.asking.redrive(scene.tenant, "r").result["sent"] == 4
    assert {r.value for r in scene.received(4)} == {b"m-%d" % n for n in range(10, 14)}


def test_those_of_no_tenant_are_asked_for_by_name(scene: Scene, db: Callable[[str], Database]) -> None:
    """The nil tenant stands for them; a tenant's own request leaves them alone."""
    record = Record(scene.topic, 0, 1, 0, None, [], b"m-x")
    scene.letters.bury([Letter(record, Unprocessable("E-MSG-01", "no"), None)])
    scene.asking.request_redrive(scene.tenant, "mine", Redrive(), actor="x")
    scene.asking.request_redrive(NOBODY, "theirs", Redrive(), actor="x")
    scene.work()
    assert scene.asking.redrive(scene.tenant, "mine").result["sent"] == 0
    assert scene.asking.redrive(NOBODY, "theirs").result["sent"] == 1


def test_one_that_comes_back_is_not_sent_for_ever(scene: Scene) -> None:
    """A request is about what was parked before it."""
    scene.bury(2)
    scene.asking.request_redrive(scene.tenant, "r", Redrive(rate=2), actor="x")
    scene.hand.planner.run_once()
    scene.bury(2, first=50)
    scene.work()
    assert scene.asking.redrive(scene.tenant, "r").result["sent"] == 2


def test_what_was_cut_is_skipped_with_its_reason(scene: Scene, admin: Admin) -> None:
    """It is counted, and does not stop those behind it."""
    scene.bury(1, value=b"x" * 1_000_001)
    scene.bury(2, first=5)
    scene.asking.request_redrive(scene.tenant, "r", Redrive(), actor="x")
    scene.work()
    result = scene.asking.redrive(scene.tenant, "r").result
    assert (result["sent"], result["skipped"], result["reasons"]) == (2, 1, {"E-DEAD-01": 1})
    assert admin.execute("SELECT count(*) FROM stanchion.dead_letter WHERE redriven_at IS NULL").fetchone() == (1,)


def test_what_the_relay_had_parked_goes_back_into_the_outbox(scene: Scene, admin: Admin) -> None:
    """In the transaction that records it, and once."""
    admin.execute(
        'INSERT INTO stanchion.dead_letter (tenant_id, topic, partition, "offset", key, value, headers, code, reason)'
        " SELECT %s, 'outbox:' || %s, 3, n, 'k', '{}', jsonb_build_array("
        "'[\"ce_type\", \"RunFailed\"]'::jsonb, jsonb_build_array('ce_sequence', n::text)), 'E-NET-03', 'large'"
        " FROM generate_series(1, 3) n",
        (scene.tenant, scene.topic),
    )
    before = admin.execute("SELECT count(*) FROM stanchion.outbox").fetchone()
    scene.asking.request_redrive(scene.tenant, "r", Redrive(topic=scene.topic), actor="x")
    scene.work()
    found = admin.execute("SELECT part, topic, key, type, body, sequence FROM stanchion.outbox ORDER BY id").fetchall()
    assert before == (0,)
    assert found == [(3, scene.topic, "k", "RunFailed", "{}", n) for n in (1, 2, 3)]


def test_a_broker_that_is_away_costs_time_only(scene: Scene, admin: Admin) -> None:
    """Nothing is recorded as sent, no try is spent, and it goes on later."""

    class Away:
        def send_all(self, messages: list[Any]) -> list[Exception | None]:
            return [Unavailable("E-NET-01", "the broker is away") for _ in messages]

    scene.bury(3)
    real = scene.hand.works["redrive"]
    scene.hand.works["redrive"] = replace(real, producer=Away())  # type: ignore[type-var]  # a dataclass it is
    scene.asking.request_redrive(scene.tenant, "r", Redrive(), actor="x")
    scene.work()
    (row,) = rows(admin, "redrive")
    assert (row["state"], row["tries"]) == ("due", 0)
    assert admin.execute("SELECT count(*) FROM stanchion.dead_letter WHERE redriven_at IS NOT NULL").fetchone() == (0,)
    admin.execute("UPDATE stanchion.maintenance_job SET due_at = due_at - interval '1 min'")
    scene.hand.works["redrive"] = real
    scene.work()
    assert scene.asking.redrive(scene.tenant, "r").result["sent"] == 3


def test_a_worker_that_lost_the_job_records_nothing(scene: Scene, make_hand: Callable[..., Hand], admin: Admin) -> None:
    """Its letters stay to be sent by the one that has it."""
    scene.bury(3)
    scene.asking.request_redrive(scene.tenant, "r", Redrive(), actor="x")
    (due,) = scene.hand.maintenance.due({})
    stale = scene.hand.maintenance.claim(*due[:4], 60_000)
    assert stale
    admin.execute("UPDATE stanchion.maintenance_job SET lease_until = lease_until - interval '5 min'")
    other = make_hand("other")
    (again,) = other.maintenance.due({})
    assert other.maintenance.claim(*again[:4], 60_000)
    bulk = BulkRedrive(scene.hand.database)
    letters = [kept.dead_letter_id for kept in bulk.next(stale, UUID(int=0), 10)]
    assert bulk.note(stale, letters) is None
    assert admin.execute("SELECT count(*) FROM stanchion.dead_letter WHERE redriven_at IS NOT NULL").fetchone() == (0,)
