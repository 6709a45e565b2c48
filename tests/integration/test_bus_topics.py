"""Topics, dead letters and lag on a real broker."""

from __future__ import annotations

import threading

import pytest
from bus_kit import LEFT_SOCKETS, eventually, messages, new_topic, own_server, reading, settings, swept

from stanchion.bus.admin import ensure_topics, missing_topics
from stanchion.bus.dead_letters import dead_letter, redrive
from stanchion.bus.lag import committed_offsets, group_lag, true_end_offsets
from stanchion.bus.producer import Producer
from stanchion.contracts import topics
from stanchion.contracts.envelope import BadMessage
from stanchion.embedded import Endpoints
from stanchion.embedded.ports import free_port
from stanchion.embedded.tansu import Tansu
from stanchion.errors import Unavailable

__all__ = ["swept"]

pytestmark = LEFT_SOCKETS


class TestTopics:
    def test_creating_is_harmless_to_repeat(self, endpoints: Endpoints) -> None:
        """Every service may do it at its start, several at once."""
        spec = new_topic(partitions=3)
        config = settings(endpoints.kafka_bootstrap)
        assert missing_topics(config, [spec.name]) == [spec.name]
        starts = [threading.Thread(target=ensure_topics, args=(config, [spec])) for _ in range(3)]
        for start in starts:
            start.start()
        for start in starts:
            start.join(30)
        ensure_topics(config, [spec])
        assert missing_topics(config, [spec.name]) == []
        assert set(true_end_offsets(config, [spec.name])) == {(spec.name, number) for number in range(3)}

    def test_asking_for_a_topic_does_not_create_it(self, endpoints: Endpoints) -> None:
        """Some brokers create whatever is named."""
        name = new_topic().name
        for _ in range(3):
            assert missing_topics(endpoints.kafka_bootstrap, [name]) == [name]
            assert true_end_offsets(endpoints.kafka_bootstrap, [name]) == {}

    def test_all_topics_of_an_installation_can_be_created(self, endpoints: Endpoints) -> None:
        """Names, counts and settings are such that a broker takes them."""
        wanted = topics.specs(["default", "crawl"], partitions=topics.PARTITIONS_EMBEDDED)
        ensure_topics(endpoints.kafka_bootstrap, wanted)
        assert missing_topics(endpoints.kafka_bootstrap, [spec.name for spec in wanted]) == []

    def test_waits_for_a_broker_that_is_still_starting(self) -> None:
        """The services of a stack start in any order."""
        spec = new_topic()
        with own_server(Tansu) as broker:
            broker.kill()
            creating = threading.Thread(target=ensure_topics, args=(settings(broker.url), [spec]))
            creating.start()
            broker.restart()
            creating.join(30)
            assert not creating.is_alive()
            assert missing_topics(settings(broker.url), [spec.name]) == []

    def test_gives_up_with_a_reason_when_there_is_no_broker(self) -> None:
        """Bounded, and with the address."""
        address = f"127.0.0.1:{free_port()}"
        with pytest.raises(Unavailable, match=address) as caught:
            ensure_topics(settings(address, bootstrap_timeout_ms=200), [new_topic()], timeout=0.5)
        assert caught.value.code == "E-NET-01"


class TestLag:
    def test_counts_records_and_not_batches(self, endpoints: Endpoints) -> None:
        """The offset API of one broker counts batches; the watermark is right on all."""
        spec, config = new_topic(partitions=2), settings(endpoints.kafka_bootstrap)
        ensure_topics(config, [spec])
        producer = Producer(config)
        assert producer.send_all(messages(spec.name, 50)) == [None] * 50
        assert sum(true_end_offsets(config, [spec.name]).values()) == 50
        group = f"g-{spec.name}"
        assert sum(group_lag(config, group, [spec.name]).values()) == 50
        with reading(config, group, spec.name) as reader:
            eventually(lambda: len(reader.values()) == 50)
            eventually(lambda: sum(group_lag(config, group, [spec.name]).values()) == 0)
        assert sum(committed_offsets(config, group).values()) == 50
        producer.send_all(messages(spec.name, 7))
        assert sum(group_lag(config, group, [spec.name]).values()) == 7
        producer.stop()


def test_a_message_that_can_not_be_read_is_parked_and_comes_back(endpoints: Endpoints) -> None:
    """Its bytes survive the trip to the dead letters and home again."""
    config = settings(endpoints.kafka_bootstrap)
    spec = new_topic()
    letters = new_topic()
    letters = type(letters)(topics.dead_letter(spec.name), "a test", "any", "dead letters", 2, -1)
    ensure_topics(config, [spec, letters])
    producer = Producer(config)
    bad = messages(spec.name, 1)[0]
    bad = type(bad)(bad.topic, b"\x00\xff", [("ce_id", b"\xff\xfe"), ("empty", b"")], b"\x8d\x00{")
    producer.send(bad)
    with reading(config, f"g-{spec.name}", spec.name) as reader:
        eventually(lambda: reader.records)
        producer.send(dead_letter(reader.records[0], BadMessage("not UTF-8")))
        with reading(config, f"g-{letters.name}", letters.name) as parked:
            eventually(lambda: parked.records)
            producer.send(redrive(parked.records[0]))
        eventually(lambda: len(reader.records) == 2)
    first, again = reader.records
    assert (again.key, again.headers, again.value) == (first.key, first.headers, first.value)
    producer.stop()
