"""Reading: every record at least once, through rebalances, outages and rubbish; offsets only past what is done."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest
from bus_kit import LEFT_SOCKETS, Reader, eventually, messages, new_topic, own_server, reading, settings, swept

from stanchion.bus.admin import ensure_topics, with_admin
from stanchion.bus.consumer import Consumer
from stanchion.bus.group_care import repair
from stanchion.bus.lag import committed_offsets, group_lag, true_end_offsets
from stanchion.bus.library import OffsetAndMetadata, TopicPartition
from stanchion.bus.messages import Message
from stanchion.bus.producer import Producer
from stanchion.contracts.topics import TopicSpec
from stanchion.embedded import Endpoints
from stanchion.embedded.ports import free_port
from stanchion.embedded.server import Server
from stanchion.embedded.tansu import Tansu
from stanchion.runtime.clock import monotonic
from stanchion.runtime.kafka_settings import KafkaSettings

__all__ = ["swept"]

pytestmark = LEFT_SOCKETS


@pytest.fixture
def broker() -> Iterator[Server]:
    """One that the test may kill."""
    with own_server(Tansu) as server:
        yield server


@pytest.fixture
def config(endpoints: Endpoints) -> KafkaSettings:
    return settings(endpoints.kafka_bootstrap)


@pytest.fixture
def producer(config: KafkaSettings) -> Iterator[Producer]:
    made = Producer(config)
    yield made
    made.stop()


def has(reader: Reader, tag: str, count: int) -> bool:
    return len(set(reader.values(tag))) == count


def stored(producer: Producer, batch: list[Message]) -> bool:
    return producer.send_all(batch).count(None) == len(batch)


def owns(consumer: Consumer, count: int) -> bool:
    return len(consumer.assigned()) == count


def paused(consumer: Consumer) -> set[tuple[str, int]]:
    return set(consumer._queues._paused)


def topic_of(config: KafkaSettings, partitions: int = 4) -> TopicSpec:
    spec = new_topic(partitions)
    ensure_topics(config, [spec])
    return spec


class TestOffsets:
    def test_what_is_done_is_not_read_again(self, config: KafkaSettings, producer: Producer) -> None:
        """A restarted service goes on where it was."""
        topic = topic_of(config).name
        producer.send_all(messages(topic, 100, "a"))
        with reading(config, "g-" + topic, topic) as reader:
            eventually(lambda: len(reader.values("a")) == 100)
        producer.send_all(messages(topic, 10, "b"))
        with reading(config, "g-" + topic, topic) as reader:
            eventually(lambda: len(reader.values("b")) == 10)
        assert reader.values("a") == []

    def test_what_was_sent_before_the_first_reader_is_read(self, config: KafkaSettings, producer: Producer) -> None:
        """A new deployment loses nothing that waited for it."""
        topic = topic_of(config).name
        producer.send_all(messages(topic, 20))
        with reading(config, "g-" + topic, topic) as reader:
            eventually(lambda: len(reader.values()) == 20)

    def test_a_record_that_is_not_done_comes_again(self, config: KafkaSettings, producer: Producer) -> None:
        """With the first in hand and all others done, the first and all after it come back after the end."""
        topic = topic_of(config, partitions=1).name
        producer.send_all(messages(topic, 20))
        with reading(config, "g-" + topic, topic) as reader:
            reader.hold = lambda record: record.offset == 3
            eventually(lambda: len(reader.values()) == 20)
            eventually(lambda: committed_offsets(config, "g-" + topic).get((topic, 0)) == 3)
        with reading(config, "g-" + topic, topic) as reader:
            eventually(lambda: len(reader.values()) == 17)
        assert [record.offset for record in reader.records] == list(range(3, 20))

    def test_are_committed_while_it_reads(self, config: KafkaSettings, producer: Producer) -> None:
        """By time, so that a killed process repeats little."""
        topic = topic_of(config).name
        with reading(config, "g-" + topic, topic) as reader:
            for tag in ("a", "b", "c"):
                producer.send_all(messages(topic, 25, tag))
                eventually(partial(has, reader, tag, 25))
                eventually(lambda: sum(group_lag(config, "g-" + topic, [topic]).values()) == 0)

    def test_a_lost_group_reads_everything_again(self, config: KafkaSettings, producer: Producer) -> None:
        """From the earliest record, never from the latest."""
        topic = topic_of(config).name
        producer.send_all(messages(topic, 30))
        for group in ("one", "two"):
            with reading(config, f"{group}-{topic}", topic) as reader:
                eventually(partial(has, reader, "m", 30))


class TestGroup:
    def test_members_come_and_go_and_nothing_is_lost(self, config: KafkaSettings, producer: Producer) -> None:
        """Eight changes of membership while records flow and are done out of order."""
        topic, total = topic_of(config, partitions=6).name, 1_500
        choose = random.Random(7)
        running: list[Reader] = []
        ended: list[Reader] = []

        def join() -> None:
            consumer = Consumer(config, "g-" + topic, [topic])
            consumer.start()
            running.append(Reader(consumer, batch=choose.randint(1, 40)))

        def leave() -> None:
            reader = running.pop(choose.randrange(len(running)))
            reader.stop()
            assert reader.consumer.stop(15)
            ended.append(reader)

        def seen() -> Counter[str]:
            return Counter(value for reader in [*running, *ended] for value in reader.values())

        join()
        for step in range(8):
            producer.send_all(messages(topic, total // 8 + 1, f"m-{step}"))
            eventually(lambda: any(reader.consumer.assigned() for reader in running))
            if len(running) < 2 or (len(running) < 4 and choose.random() < 0.5):
                join()
            else:
                leave()
        try:
            eventually(lambda: len(seen()) == 8 * (total // 8 + 1), 60)
            eventually(lambda: sum(group_lag(config, "g-" + topic, [topic]).values()) == 0)
        finally:
            while running:
                leave()
        repeated = sum(seen().values()) - len(seen())
        assert repeated < total // 4, "a rebalance must not repeat the world"

    def test_partitions_are_shared(self, config: KafkaSettings) -> None:
        """Two members, four partitions, two each."""
        topic = topic_of(config).name
        with reading(config, "g-" + topic, topic) as one, reading(config, "g-" + topic, topic) as other:
            eventually(lambda: len(one.consumer.assigned()) == len(other.consumer.assigned()) == 2)
            assert not one.consumer.assigned() & other.consumer.assigned()

    def test_the_partitions_of_a_member_that_left_go_on_at_once(
        self, config: KafkaSettings, producer: Producer
    ) -> None:
        """A clean leave does not wait for a session to run out."""
        topic = topic_of(config).name
        with reading(config, "g-" + topic, topic) as stays:
            with reading(config, "g-" + topic, topic) as leaves:
                eventually(lambda: len(leaves.consumer.assigned()) == 2 == len(stays.consumer.assigned()))
            eventually(lambda: len(stays.consumer.assigned()) == 4)
            producer.send_all(messages(topic, 40))
            eventually(lambda: len(stays.values()) == 40)

    def test_a_slow_handler_does_not_lose_its_partitions(self, config: KafkaSettings, producer: Producer) -> None:
        """Membership is kept by another thread than the work."""
        topic = topic_of(config, partitions=1).name
        producer.send_all(messages(topic, 3))
        consumer = Consumer(config, "g-" + topic, [topic])
        consumer.start()
        try:
            taken = consumer.take(1, 20)
            release = threading.Event()
            release.wait(config.session_timeout_ms / 1000 * 1.5)  # longer than the session: that is the point
            assert consumer.assigned() == {(topic, 0)}
            consumer.done(taken)
            eventually(lambda: committed_offsets(config, "g-" + topic).get((topic, 0)) == 1)
        finally:
            assert consumer.stop(15)


class TestBounds:
    def test_a_handler_that_does_not_take_stops_the_fetching(self, config: KafkaSettings, producer: Producer) -> None:
        """Memory stays within the bound, and everything comes once it takes again."""
        topic = topic_of(config, partitions=2).name
        small = replace(config, queue_high=50, queue_low=10, queue_bytes=300_000, fetch_max_bytes=100_000)
        for number in range(40):  # values that can't be compressed, in many batches: a batch is fetched whole
            batch = [
                Message(topic, bytes([key]), [], f"m-{number}-{key} ".encode() + random.randbytes(1_000))
                for key in range(50)
            ]
            assert producer.send_all(batch).count(None) == 50
        consumer = Consumer(small, "g-" + topic, [topic])
        consumer.start()
        try:
            eventually(lambda: len(paused(consumer)) == 2)
            assert 0 < consumer._queues.queued < 1_000
            reader = Reader(consumer)
            eventually(lambda: len(reader.records) == 2_000)
            reader.stop()
        finally:
            assert consumer.stop(15)
        assert len({record.value for record in reader.records}) == 2_000

    def test_a_paused_partition_does_not_silence_the_other(self, config: KafkaSettings, producer: Producer) -> None:
        """And it comes back itself once its records are done, although the other one is quiet then."""
        topic = topic_of(config, partitions=2).name
        with reading(replace(config, queue_high=20, queue_low=5), "g-" + topic, topic) as reader:
            reader.hold = lambda record: record.partition == 0
            producer.send_all(messages(topic, 200))
            eventually(lambda: (topic, 0) in paused(reader.consumer))
            before = Counter(record.partition for record in reader.records)[1]
            producer.send_all(messages(topic, 200, "n"))
            eventually(lambda: Counter(record.partition for record in reader.records)[1] > before)
            reader.hold = lambda _record: False
            reader.consumer.done(list(reader.records))
            eventually(lambda: len(reader.values()) == 200 == len(reader.values("n")))


class TestEnding:
    def test_leaves_fast_and_clean(self, config: KafkaSettings, producer: Producer) -> None:
        """What is done is committed on the way out."""
        topic = topic_of(config).name
        producer.send_all(messages(topic, 40))
        consumer = Consumer(config, "g-" + topic, [topic])
        consumer.start()
        reader = Reader(consumer)
        eventually(lambda: len(reader.values()) == 40)
        reader.stop()
        started = monotonic()
        assert consumer.stop(15)
        assert monotonic() - started < 5
        assert sum(committed_offsets(config, "g-" + topic).values()) == 40
        assert consumer.take(1, 5) == []

    def test_ends_while_it_joins_and_leaves_no_ghost(self, config: KafkaSettings) -> None:
        """A member stopped in the middle of its join does not hold up the next one."""
        topic = topic_of(config).name
        for pause in (0.05, 0.9):
            consumer = Consumer(config, "g-" + topic, [topic])
            consumer.start()
            threading.Event().wait(pause)  # somewhere within its join
            assert consumer.stop(15)
        with reading(config, "g-" + topic, topic) as reader:
            eventually(lambda: len(reader.consumer.assigned()) == 4, 15)

    def test_drains_what_is_in_hand_and_then_leaves(self, config: KafkaSettings, producer: Producer) -> None:
        """After quiesce nothing more is handed out; its partitions go on elsewhere once the work in hand is done."""
        topic = topic_of(config, partitions=1).name
        producer.send_all(messages(topic, 10))
        consumer = Consumer(config, "g-" + topic, [topic])
        consumer.start()
        try:
            taken: list[object] = []
            first = consumer.take(4, 20)
            taken.extend(first)
            consumer.quiesce()
            assert consumer.take(4, 1) == []
            assert consumer.busy()
            consumer.done(first)
            eventually(lambda: not consumer.busy())
            assert committed_offsets(config, "g-" + topic) == {(topic, 0): len(first)}
        finally:
            assert consumer.stop(15)

    def test_ends_without_a_broker_too(self) -> None:
        """Shutdown does not wait for an outage to end."""
        consumer = Consumer(settings(f"127.0.0.1:{free_port()}", bootstrap_timeout_ms=300), "g", ["stanchion.test.x"])
        consumer.start()
        eventually(lambda: consumer.check() is not None)
        assert consumer.stop(10)


class TestRubbish:
    def test_records_that_no_library_can_decode_do_not_stop_a_partition(
        self, config: KafkaSettings, producer: Producer
    ) -> None:
        """A header name that is not UTF-8 arrives marked; the records around it arrive as they are."""

        class RawName(str):
            def encode(self, *_: object, **__: object) -> bytes:
                return b"\xff\xfe"

        topic = topic_of(config, partitions=1).name
        good = messages(topic, 3)
        bad = Message(topic, None, [(RawName("xx"), b"1"), ("ce_id", b"\x8d")], b"\x00\xff")
        null = Message(topic, b"k", [], None)
        assert producer.send_all([good[0], bad, good[1], null, good[2]]) == [None] * 5
        with reading(config, "g-" + topic, topic) as reader:
            eventually(lambda: len(reader.records) == 5)
            eventually(lambda: sum(group_lag(config, "g-" + topic, [topic]).values()) == 0)
        assert reader.values() == ["m-0", "m-1", "m-2"]
        assert reader.records[1].headers == [("\ufffd\ufffd", b"1"), ("ce_id", b"\x8d")]
        assert (reader.records[1].value, reader.records[3].value) == (b"\x00\xff", None)


class TestFragileGroups:
    """The embedded broker's groups get stuck for good when their leader leaves during another's join."""

    def test_a_member_may_leave_while_another_joins(self, config: KafkaSettings) -> None:
        """At any moment of the join: scaling up and down at once is no accident."""
        topic = topic_of(config).name
        current = Consumer(config, "g-" + topic, [topic])
        current.start()
        eventually(lambda: len(current.assigned()) == 4)
        for pause in (0.1, 0.6):
            following = Consumer(config, "g-" + topic, [topic])
            following.start()
            threading.Event().wait(pause)  # somewhere within its join
            assert current.stop(15)
            current = following
            eventually(partial(owns, current, 4))
        assert current.stop(15)

    def test_a_group_that_is_stuck_all_the_same_is_repaired(self, broker: Server) -> None:
        """It keeps its offsets; a member that joins between its deletion and their return reads again, at most once."""
        config = settings(broker.url)
        careless = replace(config, fragile_groups=False)
        topic = topic_of(config).name
        producer = Producer(config)
        producer.send_all(messages(topic, 50))
        leader = Consumer(careless, "g", [topic])
        leader.start()
        reader = Reader(leader)
        eventually(lambda: sum(group_lag(config, "g", [topic]).values()) == 0)
        stuck = Consumer(careless, "g", [topic])
        stuck.start()
        threading.Event().wait(0.3)  # it is joining now
        reader.stop()
        assert leader.stop(15)
        with reading(config, "g", topic) as later:
            repair(config, "g", timeout=30.0)  # a consumer that meets a slower broker tries again
            eventually(lambda: len(later.consumer.assigned() | stuck.assigned()) == 4)
            eventually(lambda: sum(committed_offsets(config, "g").values()) == 50)
            assert len(set(later.values())) == len(later.values())
        assert stuck.stop(15)
        producer.stop()


class TestOutages:
    def test_waits_for_a_topic_that_does_not_exist_yet(self, broker: Server) -> None:
        """It says so, creates nothing, and reads once somebody has created it."""
        config, spec = settings(broker.url), new_topic(partitions=3)
        with reading(config, "g", spec.name) as reader:
            eventually(lambda: "E-NET-02" in (reader.consumer.check() or ""))
            ensure_topics(config, [spec])
            producer = Producer(config)
            producer.send_all(messages(spec.name, 10))
            eventually(lambda: len(reader.values()) == 10)
            assert reader.consumer.check() is None
            assert len(true_end_offsets(config, [spec.name])) == 3
            producer.stop()

    def test_a_broker_that_comes_back_empty_is_read_from_its_start(self, broker: Server) -> None:
        """Positions kept in memory belong to a log that is gone: nothing of the new one may be skipped."""
        config = settings(broker.url)
        spec = topic_of(config)
        producer = Producer(config)
        with reading(config, "g", spec.name) as reader:
            producer.send_all(messages(spec.name, 300, "old"))
            eventually(lambda: len(reader.values("old")) == 300)
            for round_number in range(2):
                broker.kill()
                broker.restart()
                ensure_topics(config, [spec])
                tag = f"new{round_number}"
                eventually(partial(stored, producer, messages(spec.name, 400, tag)))
                eventually(partial(has, reader, tag, 400))
        producer.stop()

    def test_a_position_beyond_the_end_is_left(self, broker: Server) -> None:
        """Offsets from before the broker lost its data, written back after it: what comes would never be heard."""
        config = settings(broker.url)
        topic = topic_of(config).name
        places = [TopicPartition(topic, number) for number in range(4)]
        too_far = {one: OffsetAndMetadata(5_000) for one in places}
        with_admin(config, lambda admin: admin.alter_group_offsets("g", too_far), timeout=10)
        producer = Producer(config)
        producer.send_all(messages(topic, 40))
        with reading(config, "g", topic) as reader:
            eventually(partial(has, reader, "m", 40))
            producer.send_all(messages(topic, 10, "n"))
            eventually(partial(has, reader, "n", 10))
            eventually(lambda: sum(committed_offsets(config, "g").values()) == 50)
        producer.stop()

    def test_an_outage_is_told_and_waited_out(self, broker: Server) -> None:
        """The health check knows of it; reading goes on by itself."""
        config = settings(broker.url)
        spec = topic_of(config)
        producer = Producer(config)
        with reading(config, "g", spec.name) as reader:
            producer.send_all(messages(spec.name, 10, "a"))
            eventually(lambda: len(reader.values("a")) == 10)
            broker.kill()
            eventually(lambda: reader.consumer.check() is not None)
            broker.restart()
            ensure_topics(config, [spec])
            eventually(lambda: producer.send_all(messages(spec.name, 10, "b")).count(None) == 10)
            eventually(lambda: len(set(reader.values("b"))) == 10)
            eventually(lambda: reader.consumer.check() is None)
        producer.stop()

    def test_a_broker_that_freezes_is_waited_out(self, broker: Server) -> None:
        """Longer than the session: the group drops this member, which joins again."""
        config = settings(broker.url)
        spec = topic_of(config)
        producer = Producer(config)
        with reading(config, "g", spec.name) as reader:
            producer.send_all(messages(spec.name, 10, "a"))
            eventually(lambda: len(reader.values("a")) == 10)
            broker.freeze()
            threading.Event().wait(config.session_timeout_ms / 1000 * 1.5)  # longer than the session: that is the point
            broker.thaw()
            eventually(lambda: producer.send_all(messages(spec.name, 10, "b")).count(None) == 10)
            eventually(lambda: len(set(reader.values("b"))) == 10)
        producer.stop()

    def test_a_service_may_start_before_its_broker(self, broker: Server) -> None:
        """It reads as soon as both are there."""
        config = settings(broker.url)
        spec = new_topic()
        broker.kill()
        with reading(config, "g", spec.name) as reader:
            eventually(lambda: reader.consumer.check() is not None)
            broker.restart()
            ensure_topics(config, [spec])
            producer = Producer(config)
            producer.send_all(messages(spec.name, 10))
            eventually(lambda: len(reader.values()) == 10)
            producer.stop()
