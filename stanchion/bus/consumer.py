"""Reading: one thread owns the KafkaConsumer; the service takes records from local queues and says when they are done.

At least once. The offset of a partition is committed by time, up to the first record that is not done. Partitions that
are revoked are committed on the way out and their queued records dropped; what the service has in hand of them it may
finish, its `done` is then nobody's business. A partition whose queue is full is paused. Whatever the broker does, be it
away, without the topic, back and empty, the thread waits, says so once, and goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from stanchion.bus.client import build_consumer, translate
from stanchion.bus.group_care import GroupCare
from stanchion.bus.group_listener import GroupListener, as_commit
from stanchion.bus.library import TopicPartition, kafka_errors
from stanchion.bus.local_queue import LocalQueues, Place
from stanchion.bus.messages import Record
from stanchion.bus.tolerant_records import UNREADABLE
from stanchion.errors import StanchionError
from stanchion.runtime.backoff import Backoff
from stanchion.runtime.clock import Deadline, monotonic
from stanchion.runtime.kafka_settings import KafkaSettings
from stanchion.runtime.logging import bind, get_logger
from stanchion.telemetry import metrics

POLL_MS: Final = 100  # how late a pause or a commit may be noticed
POLL_IDLE_MS: Final = 250  # how late a stop may be noticed when nothing is in hand
SILENCE_SECONDS: Final = 3.0  # a broker that is away for less is not worth a line
TOPIC_WAIT_SECONDS: Final = 0.5

# The work belongs to another member now: it is dropped here, and the next poll joins again.
_NOT_OURS = (
    kafka_errors.CommitFailedError,
    kafka_errors.IllegalGenerationError,
    kafka_errors.UnknownMemberIdError,
)

log = get_logger()


class Consumer:
    """A member of `group` that reads `topics`. `wake` is set whenever records arrive. A part of a `Service`."""

    def __init__(
        self,
        settings: KafkaSettings,
        group: str,
        topics: Sequence[str],
        *,
        wake: threading.Event | None = None,
    ) -> None:
        assert topics, "a consumer reads at least one topic"
        self.settings = settings
        self.group = group
        self.topics = tuple(topics)
        self.name = f"consumer-{group}"
        self._queues = LocalQueues(settings.queue_high, settings.queue_low, settings.queue_bytes, wake)
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._draining = threading.Event()
        self._fault: StanchionError | None = None
        self._care = GroupCare(settings, group)
        self._commit_at = 0.0
        self._last_record = self._heard_at = monotonic()

    # --- for the service ---

    def start(self) -> None:
        """Start the thread; it connects by itself, also later."""
        assert self._thread is None, f"{self.name} was started before"
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def take(self, most: int, timeout: float = 0.0) -> list[Record]:
        """Up to `most` records; waits up to `timeout` seconds for the first one. Each must be given to `done`."""
        return [] if self._draining.is_set() else self._queues.take(most, timeout)

    def done(self, records: Iterable[Record]) -> None:
        """These are handled: their offsets may be committed as soon as everything before them is done too."""
        self._queues.done(records)

    def assigned(self) -> frozenset[Place]:
        """The partitions that this member reads now, as (topic, partition)."""
        return self._queues.places

    def quiesce(self) -> None:
        """Hand out no more records; leave the group once those in hand are done."""
        self._draining.set()

    def busy(self) -> bool:
        """Whether it still waits for records in hand after `quiesce`."""
        return self._draining.is_set() and self._thread is not None and self._thread.is_alive()

    def stop(self, timeout: float = 5.0) -> bool:
        """Commit what is done, leave the group, end; True if that took no longer than `timeout` seconds."""
        self._stopping.set()
        self._queues.close()
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    close = stop

    def check(self) -> str | None:
        """A health check: what keeps it from reading, None while all is well."""
        if self._fault is not None:
            return str(self._fault)
        return None if self._thread is not None and self._thread.is_alive() else f"{self.name} does not run"

    # --- the thread ---

    def _run(self) -> None:
        backoff = Backoff(0.1, 5.0)
        with bind(group=self.group):
            while not self._ends():
                consumer = None
                try:
                    consumer = build_consumer(self.settings, self.group)
                    if self._await_topics(consumer):
                        self._session(consumer, backoff)
                except Exception as error:  # noqa: BLE001 - the top of a thread: translated, said, tried again
                    self._troubled(error)
                    self._stopping.wait(backoff.next())
                finally:
                    self._leave(consumer)

    def _ends(self) -> bool:
        return self._stopping.is_set() or (self._draining.is_set() and self._queues.taken == 0)

    def _await_topics(self, consumer: Any) -> bool:
        said = False
        while not self._ends():
            # Asking for all topics creates none; naming one that is missing would, on some brokers.
            missing = sorted(set(self.topics) - set(consumer.topics()))
            if not missing:
                return True
            if not said:
                said = True
                log.warning("bus.topic_missing", topics=missing)
            self._fault = translate(kafka_errors.UnknownTopicOrPartitionError(", ".join(missing)))
            self._stopping.wait(TOPIC_WAIT_SECONDS)
        return False

    def _session(self, consumer: Any, backoff: Backoff) -> None:
        self._care = GroupCare(self.settings, self.group)
        self._heard_at = monotonic()
        self._commit_at = self._heard_at + self.settings.commit_interval_ms / 1000
        consumer.subscribe(topics=list(self.topics), listener=GroupListener(self, consumer))
        while not self._ends():
            self._apply_pauses(consumer)
            self._pace(consumer)
            try:
                polled = consumer.poll(timeout_ms=POLL_IDLE_MS if self._queues.empty else POLL_MS)
            except kafka_errors.CorruptRecordError as error:
                self._skip_corrupt(consumer, error)
                continue
            self._watch_broker(consumer, backoff)
            self._care.look(consumer)
            self._go_back(consumer, self._care.stranded(consumer, self._last_record))
            for partition, found in polled.items():
                self._receive(partition, found)
            if monotonic() >= self._commit_at:
                self._commit(consumer)

    def _watch_broker(self, consumer: Any, backoff: Backoff) -> None:
        """A poll is silent about a broker that is away; that the group's coordinator is unknown tells."""
        if not consumer._coordinator.coordinator_unknown():
            self._heard_at = monotonic()
            if self._fault is not None and consumer.assignment():
                self._recovered(backoff)
        elif monotonic() - self._heard_at > SILENCE_SECONDS:
            self._troubled(kafka_errors.KafkaConnectionError("the group's coordinator is unknown"))

    def _pace(self, consumer: Any) -> None:
        """Longer fetches the longer nothing has come: 50 ms more for each idle second."""
        shortest, longest = self.settings.fetch_max_wait_ms, self.settings.fetch_idle_wait_ms
        if shortest < longest:
            idle_ms = int((monotonic() - self._last_record) * 50)
            consumer._fetcher.config["fetch_max_wait_ms"] = min(longest, max(shortest, idle_ms))

    def _go_back(self, consumer: Any, stranded: Sequence[TopicPartition]) -> None:
        """From positions that the broker has forgotten to the beginning of what it has: all of that is unread."""
        if not stranded:
            return
        places = [(one.topic, one.partition) for one in stranded]
        log.warning("bus.offsets_reset", partitions=[f"{topic}[{partition}]" for topic, partition in sorted(places)])
        self._queues.drop(places)
        self._queues.assign(places)
        consumer.seek_to_beginning(*stranded)

    def _receive(self, partition: TopicPartition, found: Sequence[Any]) -> None:
        place = (partition.topic, partition.partition)
        self._last_record = monotonic()
        self._queues.put(place, [_record(raw) for raw in found])
        metrics.bus_records.labels(partition.topic).inc(len(found))
        metrics.bus_queued.labels(self.group).set(self._queues.queued)

    def _apply_pauses(self, consumer: Any) -> None:
        stop, go = self._queues.pauses()
        assigned = consumer.assignment() if stop or go else set()
        if stopped := [TopicPartition(*place) for place in stop if TopicPartition(*place) in assigned]:
            log.debug("bus.paused", partitions=len(stopped))
            consumer.pause(*stopped)
        if resumed := [TopicPartition(*place) for place in go if TopicPartition(*place) in assigned]:
            consumer.resume(*resumed)

    def _commit(self, consumer: Any, timeout_ms: int | None = None) -> None:
        self._commit_at = monotonic() + self.settings.commit_interval_ms / 1000
        offsets = self._queues.uncommitted()
        if not offsets:
            return
        try:
            consumer.commit(as_commit(offsets), timeout_ms=timeout_ms or self.settings.request_timeout_ms)
        except _NOT_OURS as error:
            log.info("bus.commit_refused", error=type(error).__name__, partitions=len(offsets))
        except kafka_errors.RebalanceInProgressError:
            pass  # the listener, or the next time, commits
        except kafka_errors.KafkaError as error:
            if not getattr(error, "retriable", False):
                raise
            log.debug("bus.broker_away", error=type(error).__name__)
        else:
            self._queues.committed(offsets)

    def _skip_corrupt(self, consumer: Any, error: Exception) -> None:
        """Past a record of which not even the end can be found; the library would stay at it for ever."""
        fetcher = consumer._fetcher
        broken = getattr(fetcher, "_next_partition_records", None)
        if broken is None:
            raise error
        fetcher._next_partition_records = None
        partition, offset = broken.topic_partition, broken.next_fetch_offset
        log.error(
            "bus.unreadable_record", topic=partition.topic, partition=partition.partition, offset=offset, why=str(error)
        )
        consumer.seek(partition, offset + 1)

    def _leave(self, consumer: Any) -> None:
        if consumer is not None:
            deadline = Deadline(self.settings.close_timeout_ms / 1000)
            with suppress(Exception):
                self._commit(consumer, deadline.left_ms)
            self._care.leave(consumer, deadline)
        self._queues.drop()

    def _troubled(self, error: Exception) -> None:
        ours = translate(error, self.settings.bootstrap)
        if self._fault is None or self._fault.code != ours.code:
            log.warning("bus.broker_away", code=ours.code, what=ours.what, why=ours.why)
        self._fault = ours

    def _recovered(self, backoff: Backoff) -> None:
        log.info("bus.broker_back")
        self._fault = None
        backoff.reset()

    # --- called by the listener, on the client's IO thread ---

    def on_assigned(self, places: Sequence[Place]) -> None:
        """Partitions came."""
        log.info("bus.assigned", partitions=[f"{topic}[{partition}]" for topic, partition in sorted(places)])
        self._queues.assign(places)

    def on_revoked(self, places: Sequence[Place]) -> dict[Place, int]:
        """Partitions go to somebody else; the offsets that this member may still commit."""
        log.info("bus.revoked", partitions=[f"{topic}[{partition}]" for topic, partition in sorted(places)])
        return self._queues.drop(places)

    def on_lost(self, places: Sequence[Place]) -> None:
        """The group dropped this member: nothing may be committed; positions come from the committed offsets again."""
        log.warning("bus.lost", partitions=[f"{topic}[{partition}]" for topic, partition in sorted(places)])
        self._queues.drop(places)


def _record(raw: Any) -> Record:
    headers = raw.headers
    unreadable = None
    if headers and headers[0][0] == UNREADABLE:
        unreadable, headers = headers[0][1].decode(errors="replace"), []
    return Record(raw.topic, raw.partition, raw.offset, raw.timestamp, raw.key, headers, raw.value, unreadable)
