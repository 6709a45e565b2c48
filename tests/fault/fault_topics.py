"""Reading and writing topics past the engine: what a broker may do to messages, done on purpose."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kit.world import PATIENCE, World, until

from stanchion.bus.client import build_consumer
from stanchion.bus.lag import group_lag, true_end_offsets
from stanchion.bus.library import TopicPartition
from stanchion.bus.messages import Message
from stanchion.bus.producer import Producer
from stanchion.runtime.kafka_settings import KafkaSettings

OFFERS = "stanchion.workers.default.commands.v1"
COMMANDS = "stanchion.task-service.commands.v1"
EVENTS = "stanchion.events.v1"


def settings(world: World) -> KafkaSettings:
    """Those of the dev profile."""
    return KafkaSettings.dev(world.stack.endpoints.kafka_bootstrap, "fault-tests")


def read_all(world: World, topic: str) -> list[Any]:
    """All records that a topic holds now, partition by partition."""
    ends = {place: end for place, end in true_end_offsets(settings(world), [topic], timeout=PATIENCE).items() if end}
    consumer = build_consumer(settings(world), None)
    try:
        places = [TopicPartition(topic, number) for _, number in ends]
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        found: list[Any] = []

        def complete() -> bool:
            for records in consumer.poll(timeout_ms=200).values():
                found.extend(records)
            return all(consumer.position(place) >= ends[topic, place.partition] for place in places)

        until(complete, PATIENCE, f"the end of {topic}")
        return found
    finally:
        consumer.close()


def send(world: World, messages: Sequence[Message]) -> None:
    """Send messages as they are; each must be stored."""
    producer = Producer(settings(world))
    try:
        for start in range(0, len(messages), 500):
            outcomes = producer.send_all(messages[start : start + 500], timeout=PATIENCE)
            assert not any(outcomes), [o for o in outcomes if o][:3]
    finally:
        producer.stop()


def again(records: Iterable[Any]) -> list[Message]:
    """The same messages, to be sent once more."""
    return [Message(r.topic, r.key, list(r.headers), r.value) for r in records]


def header(record: Any, name: str) -> str | None:
    """A header of a record as text."""
    return next((value.decode() for key, value in record.headers if key == name), None)


def lag_of(world: World, group: str, topic: str) -> int:
    """How many records of a topic a group has not committed."""
    return sum(group_lag(settings(world), group, [topic], timeout=PATIENCE).values())
