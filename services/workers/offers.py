"""Offers as they come from the queues' topics: decoded, kept until there is room, given back to the bus once decided.

A record is done when each of its steps was leased or dropped. Offsets so never wait for work to end, and an offer that
was never looked at is read again by somebody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from pydantic import ValidationError

from stanchion.authority.dead_letters import Letter
from stanchion.bus.consumer import Consumer
from stanchion.bus.messages import Record
from stanchion.contracts.commands import ExecuteSteps
from stanchion.contracts.envelope import BadMessage, Envelope
from stanchion.contracts.payload import parse
from stanchion.errors import StanchionError
from stanchion.runtime.logging import get_logger

from .durations import Key

log = get_logger()


@dataclass(slots=True)
class _Open:
    record: Record
    left: int


@dataclass(frozen=True, slots=True)
class Offer:
    """One step that was offered."""

    step_id: UUID
    key: Key
    of: _Open


class Offers:
    """Offers in hand, oldest first."""

    def __init__(
        self, consumer: Consumer, serves: Callable[[str, int], bool], bury: Callable[[Sequence[Letter]], object]
    ) -> None:
        self.consumer = consumer
        self.serves = serves
        self.bury = bury
        self._waiting: deque[Offer] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def take_in(self, room: int) -> None:
        """Read offers until `room` of them are in hand, without waiting."""
        while len(self._waiting) < room and (records := self.consumer.take(room - len(self._waiting))):
            for record in records:
                self._take_in(record)

    def next_key(self) -> Key | None:
        """What kind of step is offered next."""
        return self._waiting[0].key if self._waiting else None

    def pick(self, room: int) -> list[Offer]:
        """The next offers, at most `room`; give them to `decided` afterwards."""
        return [self._waiting.popleft() for _ in range(min(room, len(self._waiting)))]

    def put_back(self, offers: Sequence[Offer]) -> None:
        """Not decided after all (the database was away)."""
        self._waiting.extendleft(reversed(offers))

    def decided(self, offers: Iterable[Offer]) -> None:
        """These were leased, or somebody else has them: their records may be committed."""
        done = []
        for offer in offers:
            offer.of.left -= 1
            if offer.of.left == 0:
                done.append(offer.of.record)
        if done:
            self.consumer.done(done)

    def drop_all(self) -> None:
        """Forget what is in hand, undecided: others will read it."""
        self._waiting.clear()

    def _take_in(self, record: Record) -> None:
        try:
            offer = decode(record)
        except StanchionError as error:
            self.bury([Letter(record, error)])
            log.warning("intake.dead_lettered", place=record.place, code=error.code, what=error.what)
            self.consumer.done([record])
            return
        if not self.serves(offer.workflow, offer.version):
            # the step stays ready: it is offered again, or an idle worker that knows the version finds it
            log.info("worker.offer_dropped", workflow=offer.workflow, version=offer.version)
            self.consumer.done([record])
            return
        opened = _Open(record, len(offer.steps))
        key = (offer.workflow, offer.version, offer.node)
        self._waiting.extend(Offer(step, key, opened) for step in offer.steps)


def decode(record: Record) -> ExecuteSteps:
    """The offer in a record; raises BadMessage for what is none."""
    if record.unreadable is not None:
        raise BadMessage(record.unreadable)
    envelope = Envelope.from_headers(record.headers)
    if envelope.type != "ExecuteSteps":
        raise BadMessage(f"a {envelope.type[:60]} is no offer", where="ce_type")
    if record.value is None:
        raise BadMessage("the message has no value")
    try:
        return ExecuteSteps.model_validate(parse(record.value))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise BadMessage(f"{'.'.join(str(x) for x in first['loc'])}: {first['msg']}") from None
