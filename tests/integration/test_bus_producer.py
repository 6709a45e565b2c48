"""Sending: an outcome for each message, bounded in time, back after everything a broker can do."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from bus_kit import LEFT_SOCKETS, eventually, messages, new_topic, own_server, reading, settings, swept

from stanchion.bus.admin import ensure_topics
from stanchion.bus.lag import true_end_offsets
from stanchion.bus.messages import Message
from stanchion.bus.producer import Producer
from stanchion.embedded import Endpoints
from stanchion.embedded.ports import free_port
from stanchion.embedded.server import Server
from stanchion.embedded.tansu import Tansu
from stanchion.errors import TooLarge, Unavailable, Unprocessable
from stanchion.runtime.clock import monotonic

__all__ = ["swept"]

pytestmark = LEFT_SOCKETS


@pytest.fixture
def broker() -> Iterator[Server]:
    """One that the test may kill."""
    with own_server(Tansu) as server:
        yield server


class TestOutcomes:
    def test_a_batch_is_stored_in_order(self, endpoints: Endpoints) -> None:
        """Within a partition, messages are read in the order in which they were given."""
        spec, config = new_topic(partitions=1), settings(endpoints.kafka_bootstrap)
        ensure_topics(config, [spec])
        producer = Producer(config)
        assert producer.send_all(messages(spec.name, 2_000)) == [None] * 2_000
        with reading(config, f"g-{spec.name}", spec.name) as reader:
            eventually(lambda: len(reader.records) == 2_000)
        assert reader.values() == [f"m-{number}" for number in range(2_000)]
        producer.stop()

    def test_one_key_stays_in_one_partition(self, endpoints: Endpoints) -> None:
        """The order of an aggregate rests on it."""
        spec, config = new_topic(partitions=4), settings(endpoints.kafka_bootstrap)
        ensure_topics(config, [spec])
        producer = Producer(config)
        keyed = [Message(spec.name, f"run-{number % 9}".encode(), [], b"m-0") for number in range(90)]
        assert producer.send_all(keyed) == [None] * 90
        with reading(config, f"g-{spec.name}", spec.name) as reader:
            eventually(lambda: len(reader.records) == 90)
        homes = {(record.key, record.partition) for record in reader.records}
        assert len(homes) == 9
        producer.stop()

    def test_one_that_is_too_large_fails_alone(self, endpoints: Endpoints) -> None:
        """And for good: its sender puts it aside instead of trying for ever; the others flow."""
        spec = new_topic(partitions=1)
        config = settings(endpoints.kafka_bootstrap, max_request_bytes=10_000)
        ensure_topics(config, [spec])
        producer = Producer(config)
        batch = messages(spec.name, 3)
        batch[1] = Message(spec.name, b"k", [], b"x" * 20_000)
        first, second, third = producer.send_all(batch)
        assert (first, third) == (None, None)
        assert isinstance(second, TooLarge)
        assert second.code == "E-NET-03"
        assert sum(true_end_offsets(config, [spec.name]).values()) == 2
        producer.stop()

    @pytest.mark.parametrize(
        "bad",
        [
            Message("no topic name!", b"k", [], b"v"),
            Message("stanchion.test.x", None, [], None),
            Message("stanchion.test.x", b"k", [("a", None)], b"v"),  # type: ignore[list-item]
            Message("stanchion.test.x", b"k", [], "text"),  # type: ignore[arg-type]
        ],
        ids=["topic", "empty", "header", "text"],
    )
    def test_one_that_can_not_be_encoded_fails_alone(self, endpoints: Endpoints, bad: Message) -> None:
        """A bug of one sender is not an outage."""
        spec, config = new_topic(), settings(endpoints.kafka_bootstrap)
        ensure_topics(config, [spec])
        producer = Producer(config)
        outcomes = producer.send_all([*messages(spec.name, 1), bad, *messages(spec.name, 1)])
        assert (outcomes[0], outcomes[2]) == (None, None)
        assert isinstance(outcomes[1], Unprocessable)
        producer.stop()

    def test_one_of_a_megabyte_passes(self, endpoints: Endpoints) -> None:
        """As large as a submitted payload can be, and far beyond."""
        spec, config = new_topic(partitions=1), settings(endpoints.kafka_bootstrap)
        ensure_topics(config, [spec])
        producer = Producer(config)
        producer.send(Message(spec.name, b"k", [], b"x" * 1_000_000))
        with reading(config, f"g-{spec.name}", spec.name) as reader:
            eventually(lambda: reader.records)
        assert len(reader.records[0].value or b"") == 1_000_000
        producer.stop()

    def test_more_than_may_be_in_flight_is_sent_in_turns(self, endpoints: Endpoints) -> None:
        """The client holds no more than its bound, whatever it is given."""
        spec = new_topic(partitions=2)
        config = settings(endpoints.kafka_bootstrap, in_flight_messages=50, in_flight_bytes=100_000)
        ensure_topics(config, [spec])
        producer = Producer(config)
        assert producer.send_all(messages(spec.name, 1_000, size=1_000)) == [None] * 1_000
        assert sum(true_end_offsets(config, [spec.name]).values()) == 1_000
        producer.stop()

    def test_threads_may_share_one(self, endpoints: Endpoints) -> None:
        """Each gets the outcomes of its own batch."""
        spec, config = new_topic(), settings(endpoints.kafka_bootstrap)
        ensure_topics(config, [spec])
        producer = Producer(config)
        found: list[int] = []
        threads = [
            threading.Thread(target=lambda: found.append(producer.send_all(messages(spec.name, 20)).count(None)))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert found == [20] * 8
        producer.stop()

    def test_nothing_to_send_needs_no_broker(self) -> None:
        """And connects to none."""
        assert Producer(settings("127.0.0.1:1")).send_all([]) == []


class TestOutages:
    def test_without_a_broker_it_answers_in_time(self) -> None:
        """Each message with the reason; nothing waits for ever."""
        producer = Producer(settings(f"127.0.0.1:{free_port()}", bootstrap_timeout_ms=300))
        started = monotonic()
        outcomes = producer.send_all(messages("stanchion.test.x", 3), timeout=1.0)
        assert monotonic() - started < 10
        assert [type(outcome) for outcome in outcomes] == [Unavailable] * 3
        assert producer.check()

    def test_a_broker_that_comes_back_empty(self, broker: Server) -> None:
        """Its session is over with the broker's memory: a new one is made, and nobody has to restart anything."""
        spec, config = new_topic(), settings(broker.url)
        ensure_topics(config, [spec])
        producer = Producer(config)
        assert producer.send_all(messages(spec.name, 20)) == [None] * 20
        for _ in range(2):
            broker.kill()
            broker.restart()
            ensure_topics(config, [spec])
            eventually(lambda: producer.send_all(messages(spec.name, 20)) == [None] * 20)
        assert sum(true_end_offsets(config, [spec.name]).values()) >= 20
        assert producer.check() is None
        producer.stop()

    def test_a_broker_that_comes_back_empty_gets_what_it_never_had(self, broker: Server) -> None:
        """The library sees no loss where it had sent nothing before: the message must pass all the same."""
        used, unused = new_topic(), new_topic()
        config = settings(broker.url)
        ensure_topics(config, [used, unused])
        producer = Producer(config)
        assert producer.send_all(messages(used.name, 20)) == [None] * 20
        broker.kill()
        broker.restart()
        ensure_topics(config, [used, unused])
        eventually(lambda: producer.send_all(messages(unused.name, 20), timeout=3.0) == [None] * 20)
        assert producer.send_all(messages(used.name, 20)) == [None] * 20
        producer.stop()

    def test_a_frozen_broker_is_told_and_waited_out(self, broker: Server) -> None:
        """The outcome says that it may have been stored; once it thaws, sending works."""
        spec, config = new_topic(), settings(broker.url)
        ensure_topics(config, [spec])
        producer = Producer(config)
        producer.send(messages(spec.name, 1)[0])
        broker.freeze()
        (outcome,) = producer.send_all(messages(spec.name, 1), timeout=0.5)
        assert isinstance(outcome, Unavailable)
        assert outcome.code == "E-NET-04"
        broker.thaw()
        eventually(lambda: producer.send_all(messages(spec.name, 5)) == [None] * 5)
        producer.stop()

    def test_a_broker_that_is_away_and_back(self, broker: Server) -> None:
        """Several losses in a row: after each it works again."""
        spec, config = new_topic(), settings(broker.url)
        ensure_topics(config, [spec])
        producer = Producer(config)
        for _ in range(3):
            producer.send(messages(spec.name, 1)[0])
            broker.kill()
            assert producer.send_all(messages(spec.name, 3), timeout=0.3).count(None) == 0
            broker.restart()
            ensure_topics(config, [spec])
            eventually(lambda: producer.send_all(messages(spec.name, 3)) == [None] * 3)
        producer.stop()
