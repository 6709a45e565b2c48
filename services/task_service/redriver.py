"""Sends parked messages to their topics again: claimed first, given back when the broker does not take them."""

from __future__ import annotations

from uuid import UUID

from stanchion.authority.dead_letters import OUTBOX, DeadLetters
from stanchion.authority.keys import Principal
from stanchion.bus.producer import Producer
from stanchion.runtime.hints import RELAY, Hints


class Redriver:
    """One message at a time; sending is bounded by the producer's delivery timeout."""

    def __init__(self, letters: DeadLetters, producer: Producer, hints: Hints) -> None:
        self.letters = letters
        self.producer = producer
        self.hints = hints

    def redrive(self, tenant_id: UUID | None, letter_id: UUID, *, again: bool, caller: Principal) -> str:
        """Send a letter again; returns its topic. Raises NotFound, Conflict E-DEAD-01, and what the broker refuses.

        A crash between the claim and the send leaves a letter that looks sent; `again` sends it.
        """
        kept = self.letters.claim(tenant_id, letter_id, again=again, by=caller.tenant_id, actor=caller.actor)
        if kept is None:
            self.hints.publish(RELAY)
            return self.letters.get(tenant_id, letter_id).topic.removeprefix(OUTBOX)
        try:
            self.producer.send(kept.message())
        except BaseException:
            self.letters.release(letter_id)
            raise
        return kept.topic
