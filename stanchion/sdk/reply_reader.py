"""Answers to Kafka commands: one thread reads the replies topic from its end on and hands each to whoever waits.

There is no consumer group: every client reads all partitions, and takes what answers its own messages. A broker that
comes back empty counts from zero again: whoever misses an answer asks for a fresh look (`refresh`), which finds that.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from stanchion.bus.client import build_consumer, translate
from stanchion.bus.library import TopicPartition
from stanchion.contracts.commands import REPLIES
from stanchion.contracts.envelope import Envelope
from stanchion.contracts.message import Message
from stanchion.contracts.topics import TASK_SERVICE_REPLIES
from stanchion.errors import StanchionError, Unavailable
from stanchion.runtime.backoff import Backoff
from stanchion.runtime.kafka_settings import KafkaSettings

_POLL_MS: Final = 50
_STOP_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: who sent it when, and what it says."""

    envelope: Envelope
    body: Message


class ReplyReader:
    """Reads while it is open; any thread may wait for answers."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        self._waiting: dict[UUID, Future[Reply]] = {}
        self._lock = threading.Lock()
        self._ready = threading.Event()
        self._stopping = threading.Event()
        self._fresh = threading.Event()
        self._fault: StanchionError | None = None
        self._positions: dict[Any, int] = {}
        self._thread: threading.Thread | None = None

    def start(self, timeout: float) -> None:
        """Read from now on: what is sent after this returns is not missed. Raises Unavailable after `timeout`."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="stanchion-replies", daemon=True)
                self._thread.start()
        if not self._ready.wait(timeout):
            raise self._fault or Unavailable("E-NET-01", "the broker does not answer", where=self.settings.bootstrap)

    def expect(self, message_id: UUID) -> Future[Reply]:
        """The answer to a message that is about to be sent."""
        answer: Future[Reply] = Future()
        with self._lock:
            self._waiting[message_id] = answer
        return answer

    def forget(self, message_id: UUID) -> None:
        """Nobody waits for this answer any more."""
        with self._lock:
            self._waiting.pop(message_id, None)

    def refresh(self) -> None:
        """Check soon that the places it reads at still exist."""
        self._fresh.set()

    def close(self) -> None:
        """End the thread."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        backoff = Backoff(0.1, 2.0)
        while not self._stopping.is_set():
            consumer = None
            try:
                consumer = build_consumer(self.settings, None)
                self._place(consumer)
                self._fault = None
                backoff.reset()
                self._ready.set()
                self._read(consumer)
            except Exception as error:  # noqa: BLE001 - the top of the thread: whatever it is, it tries again
                self._fault = translate(error, self.settings.bootstrap)
                self._stopping.wait(backoff.next())
            finally:
                if consumer is not None:
                    with suppress(Exception):
                        consumer.close(autocommit=False, timeout_ms=1_000)

    def _place(self, consumer: Any) -> None:
        """Go on where it was, on the first time at the end; at the start where the log is shorter than it was."""
        if TASK_SERVICE_REPLIES not in consumer.topics():
            raise Unavailable("E-NET-02", "the topic does not exist", where=TASK_SERVICE_REPLIES)
        numbers = consumer.partitions_for_topic(TASK_SERVICE_REPLIES) or ()
        partitions = [TopicPartition(TASK_SERVICE_REPLIES, number) for number in sorted(numbers)]
        if not partitions:
            raise Unavailable("E-NET-02", "the topic has no partitions yet", where=TASK_SERVICE_REPLIES)
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        first = not self._ready.is_set()
        for partition in partitions:
            known = self._positions.get(partition)
            end = int(ends[partition])
            if known is None:
                place = end if first else 0
            else:
                place = known if known <= end else 0
            consumer.seek(partition, place)
            self._positions[partition] = place

    def _read(self, consumer: Any) -> None:
        while not self._stopping.is_set():
            if self._fresh.is_set():
                self._fresh.clear()
                self._place(consumer)
            for partition, records in consumer.poll(timeout_ms=_POLL_MS).items():
                for record in records:
                    self._receive(record)
                    self._positions[partition] = record.offset + 1

    def _receive(self, record: Any) -> None:
        try:
            envelope = Envelope.from_headers(record.headers)
        except StanchionError:
            return  # somebody else's rubbish on the topic answers nobody
        with self._lock:
            answer = self._waiting.pop(envelope.correlation_id, None) if envelope.correlation_id else None
        if answer is None or not answer.set_running_or_notify_cancel():
            return
        try:
            answer.set_result(Reply(envelope, REPLIES[envelope.type].from_value(record.value)))
        except KeyError:
            answer.set_exception(StanchionError("E-MSG-02", f"the answer is of an unknown type, {envelope.type[:60]}"))
        except StanchionError as error:
            answer.set_exception(error)
