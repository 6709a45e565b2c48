"""Sending: a batch of messages, and for each whether it was acknowledged.

The library has no bound on what it holds, so this keeps one. Its idempotent session ends for good when the broker
forgets it (a broker that came back empty does): then a new producer is built, and what failed only for that is sent
once more. Within a partition the order of a batch is kept, except across such a rebuild or an error.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from stanchion.bus.client import build_producer, translate
from stanchion.bus.library import kafka_errors
from stanchion.bus.messages import Message
from stanchion.errors import Rejected, StanchionError, Unavailable
from stanchion.runtime.clock import Deadline
from stanchion.runtime.kafka_settings import KafkaSettings
from stanchion.runtime.logging import get_logger
from stanchion.telemetry import metrics

_SESSION_OVER: Final = (
    kafka_errors.UnknownProducerIdError,
    kafka_errors.InvalidProducerIdMappingError,
    kafka_errors.InvalidProducerEpochError,
    kafka_errors.OutOfOrderSequenceNumberError,
    kafka_errors.ProducerFencedError,
    kafka_errors.IllegalStateError,
)

Outcome = Exception | None

log = get_logger()


class Producer:
    """A producer for a service; any thread may send, one batch at a time. Connects with the first batch."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        self.name = "producer"
        self._lock = threading.Lock()
        self._client: Any = None
        self._last: StanchionError | None = None

    def start(self) -> None:
        """Nothing: the first batch connects. Here so that it can be a part of a `Service`."""

    def send_all(self, messages: Sequence[Message], timeout: float | None = None) -> list[Outcome]:
        """Send all and wait for the acknowledgements: None for a message that is stored, else why it is not.

        TooLarge, NotAllowed and Unprocessable never pass; Unavailable may have been stored all the same. Takes at most
        about `timeout` seconds (default: the delivery timeout).
        """
        if not messages:
            return []
        deadline = Deadline(timeout if timeout is not None else self.settings.delivery_timeout_ms / 1000)
        with self._lock:
            outcomes = self._attempt(messages, deadline)
            again = [index for index, outcome in enumerate(outcomes) if isinstance(outcome, _SessionOver)]
            if again:
                self._rebuild(outcomes[again[0]])
                retried = self._attempt([messages[index] for index in again], deadline)
                for index, outcome in zip(again, retried, strict=True):
                    outcomes[index] = outcome
                if any(isinstance(outcome, _SessionOver) for outcome in retried):
                    self._rebuild(retried[0])
            if any(isinstance(outcome, _NotInTime) for outcome in outcomes):
                self._close(0.0)  # or it would send behind our back what the caller sends again
            self._count(messages, outcomes)
        return [outcome.error if isinstance(outcome, _SessionOver) else outcome for outcome in outcomes]

    def send(self, message: Message, timeout: float | None = None) -> None:
        """Send one message; raises what `send_all` would return."""
        if (outcome := self.send_all([message], timeout)[0]) is not None:
            raise outcome

    def check(self) -> str | None:
        """A health check: what the last batch ran into, None when it was stored."""
        return str(self._last) if self._last is not None else None

    def stop(self, timeout: float = 3.0) -> bool:
        """Close the connection; what `send_all` has returned is settled already."""
        with self._lock:
            self._close(timeout)
        return True

    close = stop

    def _attempt(self, messages: Sequence[Message], deadline: Deadline) -> list[Outcome]:
        outcomes: list[Outcome] = [None] * len(messages)
        try:
            client = self._connected()
        except Exception as error:  # noqa: BLE001 - translated: the library raises more than its own errors
            return [_passing(translate(error, self.settings.bootstrap))] * len(messages)
        flying: deque[tuple[int, Any, int]] = deque()
        held = 0
        failed_topics: dict[str, StanchionError] = {}
        for index, message in enumerate(messages):
            while flying and (len(flying) >= self.settings.in_flight_messages or held > self.settings.in_flight_bytes):
                first, future, size = flying.popleft()
                outcomes[first] = self._settled(messages[first], future, deadline)
                held -= size
            if message.topic in failed_topics:  # or each of a thousand messages would wait for the topic in turn
                outcomes[index] = failed_topics[message.topic]
                continue
            try:
                future = client.send(message.topic, message.value, message.key, message.headers)
            except Exception as error:  # noqa: BLE001 - the same
                outcomes[index] = self._outcome(message, error)
                if isinstance(error, kafka_errors.KafkaTimeoutError):
                    failed_topics[message.topic] = translate(
                        kafka_errors.UnknownTopicOrPartitionError(str(error)), message.topic
                    )
                    outcomes[index] = failed_topics[message.topic]
                continue
            size = message.size
            held += size
            flying.append((index, future, size))
        if flying:
            with suppress(kafka_errors.KafkaTimeoutError):  # each future tells for itself
                client.flush(timeout=deadline.left)
        for index, future, _ in flying:
            outcomes[index] = self._settled(messages[index], future, deadline)
        return outcomes

    def _settled(self, message: Message, future: Any, deadline: Deadline) -> Outcome:
        try:
            future.get(timeout=max(deadline.left, 0.001))
        except kafka_errors.KafkaTimeoutError as error:
            return _NotInTime("E-NET-04", "the broker did not acknowledge in time", where=message.topic, why=str(error))
        except Exception as error:  # noqa: BLE001 - the same
            return self._outcome(message, error)
        return None

    def _outcome(self, message: Message, error: Exception) -> Outcome:
        if isinstance(error, _SESSION_OVER) or "InitProducerId" in str(error):
            return _SessionOver(error, message.topic)
        ours = translate(error, message.topic)
        if isinstance(error, kafka_errors.SaslAuthenticationFailedError):
            return _passing(ours)
        if isinstance(ours, Rejected):
            log.error("bus.message_refused", topic=message.topic, code=ours.code, why=ours.why, bytes=message.size)
        return ours

    def _connected(self) -> Any:
        if self._client is None:
            log.debug("bus.connecting", bootstrap=self.settings.bootstrap)
            self._client = build_producer(self.settings)
        return self._client

    def _rebuild(self, outcome: Outcome) -> None:
        log.warning("bus.producer_rebuilt", why=str(outcome))
        self._close(0.5)

    def _close(self, timeout: float) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(Exception):  # a session that is over can't say goodbye either
                client.close(timeout=timeout)

    def _count(self, messages: Sequence[Message], outcomes: Sequence[Outcome]) -> None:
        stored: dict[str, int] = {}
        failed: dict[str, int] = {}
        for message, outcome in zip(messages, outcomes, strict=True):
            counts = stored if outcome is None else failed
            counts[message.topic] = counts.get(message.topic, 0) + 1
        for topic, count in stored.items():
            metrics.bus_produced.labels(topic).inc(count)
        for topic, count in failed.items():
            metrics.bus_produce_errors.labels(topic).inc(count)
        away = next((outcome for outcome in outcomes if isinstance(outcome, Unavailable)), None)
        if away is not None and self._last is None:
            log.warning("bus.broker_away", what=away.what, why=away.why)
        elif away is None and self._last is not None:
            log.info("bus.broker_back")
        self._last = away


def _passing(error: StanchionError) -> StanchionError:
    """A client that is not let in says nothing about its messages: with the right password they are as good as any."""
    if not isinstance(error, Rejected):
        return error
    return Unavailable(error.code, error.what, where=error.where, why=error.why)


class _NotInTime(Unavailable):
    """The client still has the message, and may yet send it."""


class _SessionOver(Exception):  # noqa: N818 - a mark on an outcome, never raised
    """The idempotent session ended; the message itself is as good as any."""

    def __init__(self, cause: Exception, topic: str) -> None:
        super().__init__(f"{type(cause).__name__}: {cause}")
        self.error = Unavailable("E-NET-04", "the producer's session ended", where=topic, why=str(self))
