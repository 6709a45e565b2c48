"""The relay's one loop: read what is visible, publish it in order, delete what the broker acknowledged.

No cursor: a row that commits late has a lower id than rows already sent, and is simply there at the next look. A relay
that was frozen and lost its partitions may still send what it had read; its delete is refused by the fence, so the worst
is a duplicate, which readers drop by its message id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from stanchion.authority.outbox import Outbox, Row
from stanchion.bus.messages import Message
from stanchion.bus.producer import Producer
from stanchion.contracts.envelope import Envelope
from stanchion.errors import Rejected, StanchionError, Unavailable
from stanchion.runtime import failpoints
from stanchion.runtime.clock import monotonic
from stanchion.runtime.logging import get_logger
from stanchion.telemetry import metrics

from .topic_care import TopicCare

log = get_logger()

SOURCE: Final = "stanchion/outbox-relay"
READ = failpoints.declare("relay.read", "messages were read from the outbox, none is sent")
SENT = failpoints.declare("relay.sent", "the broker acknowledged messages that still stand in the outbox")


class Publisher:
    """Publishes the partitions that this relay holds. `run_once` is one look; True when there was something."""

    def __init__(
        self, outbox: Outbox, producer: Producer, *, batch: int, renew_seconds: float, topic_partitions: int
    ) -> None:
        self.outbox = outbox
        self.producer = producer
        self.batch = batch
        self.renew_seconds = renew_seconds
        self.topics = TopicCare(producer.settings, topic_partitions)
        self._fences: dict[int, int] = {}
        self._claimed_at = 0.0
        self._tenants: dict[UUID, str] = {}

    def run_once(self) -> bool:
        """Keep the partitions, publish what they hold."""
        if monotonic() - self._claimed_at >= self.renew_seconds:
            self._claim()
        if not self._fences:
            return False
        rows = self.outbox.read(list(self._fences), self.batch)
        if not rows:
            return False
        failpoints.hit(READ)
        ready, parked = self._sort_out(rows)
        if not ready:  # what waits for its topic must not make this loop spin, nor back off from what comes next
            return parked > 0
        sent = self._publish(ready)
        failpoints.hit(SENT)
        if sent:
            self.outbox.delete(self._fences, sent)
            metrics.relay_messages.inc(len(sent))
            metrics.relay_batch_rows.observe(len(sent))
        return True

    def _claim(self) -> None:
        started = monotonic()  # the lease runs from before the call, whenever its answer came
        held = self.outbox.claim()
        if held.keys() != self._fences.keys():
            for part in held.keys() - self._fences.keys():
                log.info("relay.partition_taken", part=part, fence=held[part])
            for part in self._fences.keys() - held.keys():
                log.info("relay.partition_lost", part=part)
        self._fences = held
        self._claimed_at = started
        metrics.relay_partitions.set(len(held))

    def _sort_out(self, rows: Sequence[Row]) -> tuple[list[Row], int]:
        """(rows that can be sent now, how many were parked).

        A row whose topic is refused for good is parked; behind one whose topic can't be had now its partition waits.
        """
        faults = self.topics.faults(row.topic for row in rows)
        if not faults:
            return list(rows), 0
        ready: list[Row] = []
        waiting: set[int] = set()
        parked = 0
        for row in rows:
            fault = faults.get(row.topic)
            if row.part in waiting:
                continue
            if fault is None:
                ready.append(row)
            elif isinstance(fault, Rejected):
                self._park(row, fault)
                parked += 1
            else:
                waiting.add(row.part)
        return ready, parked

    def _park(self, row: Row, error: StanchionError) -> None:
        log.error("relay.parked", topic=row.topic, code=error.code, why=error.what)
        self.outbox.park(row.id, error.code, error.what)
        metrics.relay_parked.inc()

    def _publish(self, rows: Sequence[Row]) -> list[int]:
        self._name_tenants(rows)
        outcomes = self.producer.send_all([self._message(row) for row in rows])
        sent: list[int] = []
        stuck: set[int] = (
            set()
        )  # partitions in which a message could not be sent: what follows it waits, so order holds
        for row, outcome in zip(rows, outcomes, strict=True):
            if outcome is None and row.part not in stuck:
                sent.append(row.id)
            elif isinstance(outcome, Rejected):
                self._park(row, outcome)
            elif outcome is not None:
                stuck.add(row.part)
                self.topics.doubt(row.topic)
        if stuck and not sent:
            first = next(o for o in outcomes if o is not None)
            raise first if isinstance(first, Unavailable) else Unavailable("E-NET-04", str(first))
        return sent

    def _message(self, row: Row) -> Message:
        envelope = Envelope(
            id=row.message_id,
            type=row.type,
            source=SOURCE,
            time=row.at,
            tenant=self._tenants.get(row.tenant_id, str(row.tenant_id)),
            correlation_id=UUID(row.correlation_id) if row.correlation_id else None,
            causation_id=UUID(row.causation_id) if row.causation_id else None,
            sequence=row.sequence,
        )
        return Message(row.topic, row.key.encode(), envelope.to_headers(), row.body.encode())

    def _name_tenants(self, rows: Sequence[Row]) -> None:
        if unknown := {row.tenant_id for row in rows} - self._tenants.keys():
            self._tenants |= self.outbox.tenant_names(list(unknown))
