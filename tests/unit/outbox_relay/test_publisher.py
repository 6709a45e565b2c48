"""One topic that can't be had holds up its own messages, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

from services.outbox_relay import topic_care
from services.outbox_relay.publisher import Publisher
from stanchion.authority.outbox import Row
from stanchion.contracts.topics import DEAD_LETTER_SUFFIX, EVENTS, TopicSpec, worker_commands
from stanchion.errors import NotAllowed, StanchionError, Unavailable
from stanchion.runtime.kafka_settings import KafkaSettings

TENANT = uuid4()
ONE, OTHER = worker_commands("one"), worker_commands("other")
REFUSED = NotAllowed("E-NET-06", "the broker refuses")
LATER = Unavailable("E-NET-01", "the brokers are not ready to hold a new topic")


class Outbox:
    """Rows of two partitions, in order, and what became of them."""

    def __init__(self, rows: Sequence[tuple[int, int, str]]) -> None:
        self.rows = [
            Row(number, part, TENANT, uuid4(), topic, "k", "ExecuteSteps", None, None, None, datetime.now(UTC), "{}")
            for number, part, topic in rows
        ]
        self.sent: list[int] = []
        self.parked: dict[int, str] = {}

    def claim(self) -> dict[int, int]:
        return {0: 1, 1: 1}

    def read(self, _parts: Sequence[int], _limit: int) -> list[Row]:
        return [row for row in self.rows if row.id not in self.parked and row.id not in self.sent]

    def delete(self, _fences: dict[int, int], ids: Sequence[int]) -> None:
        self.sent += ids

    def park(self, row_id: int, code: str, _reason: str) -> None:
        self.parked[row_id] = code

    def tenant_names(self, _ids: Sequence[UUID]) -> dict[UUID, str]:
        return {TENANT: "acme"}


class Producer:
    """Stores whatever it is given."""

    settings = KafkaSettings("nowhere:1", "test")

    def send_all(self, messages: Sequence[Any]) -> list[None]:
        return [None] * len(messages)


class Broker:
    """Makes topics, but for those that have a fault; counts how often it is asked."""

    def __init__(self, **faults: StanchionError) -> None:
        self.faults = {worker_commands(queue): error for queue, error in faults.items()}
        self.away: StanchionError | None = None
        self.asked: list[set[str]] = []

    def __call__(self, _settings: object, specs: Sequence[TopicSpec], **_: object) -> dict[str, StanchionError]:
        self.asked.append({spec.name for spec in specs if not spec.name.endswith(DEAD_LETTER_SUFFIX)})
        if self.away is not None:
            raise self.away
        return {spec.name: self.faults[spec.name] for spec in specs if spec.name in self.faults}


def relay(monkeypatch: pytest.MonkeyPatch, outbox: Outbox, broker: Broker) -> Publisher:
    """A relay over these."""
    monkeypatch.setattr(topic_care, "ensure_each", broker)
    return Publisher(outbox, Producer(), batch=10, renew_seconds=60, topic_partitions=1)  # type: ignore[arg-type]  # stand-ins


def test_what_a_refused_topic_holds_is_parked_and_all_else_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what stands behind it in its own partition; it is not asked for again at once."""
    outbox = Outbox([(1, 0, ONE), (2, 0, EVENTS), (3, 1, OTHER)])
    broker = Broker(one=REFUSED)
    publisher = relay(monkeypatch, outbox, broker)
    assert publisher.run_once()
    assert (outbox.sent, outbox.parked) == ([2, 3], {1: "E-NET-06"})
    outbox.rows += Outbox([(4, 0, ONE)]).rows
    assert publisher.run_once()
    assert outbox.parked == {1: "E-NET-06", 4: "E-NET-06"}
    assert broker.asked == [{ONE, OTHER, EVENTS}]


def test_a_topic_that_is_not_there_yet_holds_its_own_partition_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one goes on; nothing is parked, and when it is there the rest follows in order."""
    monkeypatch.setattr(topic_care, "AGAIN_SECONDS", 0.0)
    outbox = Outbox([(1, 0, EVENTS), (2, 0, ONE), (3, 0, EVENTS), (4, 1, EVENTS)])
    broker = Broker(one=LATER)
    publisher = relay(monkeypatch, outbox, broker)
    assert publisher.run_once()
    assert (outbox.sent, outbox.parked) == ([1, 4], {})
    assert publisher.run_once() is False, "with nothing else to do it waits"
    broker.faults.clear()
    assert publisher.run_once()
    assert outbox.sent == [1, 4, 2, 3]


def test_a_relay_that_is_not_let_in_parks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong password is refused for good as well, but says nothing about a topic."""
    monkeypatch.setattr(topic_care, "AGAIN_SECONDS", 0.0)
    outbox = Outbox([(1, 0, ONE), (2, 1, EVENTS)])
    broker = Broker()
    broker.away = REFUSED
    publisher = relay(monkeypatch, outbox, broker)
    assert publisher.run_once() is False
    assert (outbox.sent, outbox.parked) == ([], {})
    broker.away = None
    assert publisher.run_once()
    assert outbox.sent == [1, 2]
