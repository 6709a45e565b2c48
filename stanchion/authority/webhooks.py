"""Webhooks: whom we call, the calls that are due, and what became of them.

The secret with which a webhook's calls are signed is derived from a master key and the webhook's id. It stands in no
table, so a copy of the database signs nothing. The row says which master key it was made with.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from stanchion.contracts import limits, webhook_signing
from stanchion.contracts.ids import new_id
from stanchion.db.engine import Database
from stanchion.errors import Conflict, NotFound, Unprocessable, register_code

EVENTS: Final[dict[str, str]] = {
    "task.completed": "a task has ended with its result",
    "task.failed": "a task has ended without one",
    "task.cancelled": "a task was cancelled and nothing of it runs any more",
    "task.rejected": "somebody said no to what a task asked, and it ended with that",
    "approval.requested": "somebody is asked for a decision",
    "approval.decided": "a decision was made, or came too late",
}
"""What a webhook can want to hear of; `*` is all of it, also what is added later."""

NO_MASTER: Final = register_code(
    "E-HOOK-02",
    "no master key for webhooks",
    status=409,
    meaning="The secrets of webhooks are derived from a master key, and none is set, or not the one it was made with.",
    fix="Set STANCHION_WEBHOOK_KEYS to 32 random bytes in base64, the same for task service and orchestrator.",
)
TOO_MANY: Final = register_code(
    "E-HOOK-03",
    "too many webhooks",
    status=409,
    meaning=f"A tenant has at most {limits.WEBHOOKS} webhooks.",
    fix="Remove one, or let one endpoint take several kinds of events.",
)
REFUSED: Final = register_code(
    "E-HOOK-04",
    "endpoint did not accept",
    status=502,
    meaning="The endpoint of a webhook answered with something else than 2xx. It is called again, for three days.",
    fix="Look at the endpoint: it has to answer 2xx, without a redirect, within ten seconds.",
)
HELD_TOO_LONG: Final = register_code(
    "E-HOOK-05",
    "held for too long",
    status=409,
    meaning="The webhook was paused, or had failed, for three days: what waited was given up.",
    fix="Resume the webhook; stanchion webhook resend sends what was given up.",
)


@dataclass(frozen=True, slots=True)
class Masters:
    """Master keys by their marks; the first makes new secrets, the others still sign what they made."""

    keys: tuple[tuple[str, bytes], ...]

    @classmethod
    def read(cls, texts: Sequence[str]) -> Masters:
        """Master keys from base64; raises Unprocessable E-CONF-02 for one that has not 32 bytes."""
        found: list[tuple[str, bytes]] = []
        for text in texts:
            try:
                raw = base64.b64decode(text, validate=True)
            except binascii.Error:
                raw = b""
            if len(raw) != 32:
                raise Unprocessable("E-CONF-02", "webhook_keys: a master key is 32 bytes in base64")
            found.append((_mark_of(raw), raw))
        return cls(tuple(found))

    @classmethod
    def of(cls, texts: Sequence[str], profile: str) -> Masters:
        """Those that are set; in the dev profile, when none is, the one that everybody knows."""
        return cls.of_dev() if profile == "dev" and not texts else cls.read(texts)

    @classmethod
    def of_dev(cls) -> Masters:
        """The key of the dev profile, which everybody knows: there is nothing to protect on a laptop."""
        raw = hashlib.sha256(b"stanchion: the dev profile signs webhooks with this").digest()
        return cls(((_mark_of(raw), raw),))

    @property
    def newest(self) -> str | None:
        """The mark of the key that makes new secrets."""
        return self.keys[0][0] if self.keys else None

    def secret_of(self, master: str, webhook_id: UUID) -> str | None:
        """The secret of a webhook; None when the key that made it is not among these."""
        raw = dict(self.keys).get(master)
        return webhook_signing.secret_of(raw, webhook_id) if raw is not None else None


def _mark_of(raw: bytes) -> str:
    return hashlib.sha256(b"stanchion webhook master" + raw).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Delivery:
    """A call that a courier has taken."""

    delivery_id: UUID
    tenant_id: UUID
    tenant: str
    webhook_id: UUID
    url: str
    master: str
    event_id: UUID
    type: str
    subject: str
    body: dict[str, Any]
    fence: int
    tries: int
    created_at: datetime


class Webhooks:
    """Under the task service's login; the calls themselves under the orchestrator's."""

    def __init__(self, database: Database, masters: Masters) -> None:
        self.database = database
        self.masters = masters

    def create(self, tenant_id: UUID, url: str, events: Sequence[str], *, actor: str) -> tuple[UUID, str]:
        """A new webhook: its id and its secret. Raises Unprocessable, Conflict E-HOOK-02 and E-HOOK-03."""
        if unknown := sorted(set(events) - {*EVENTS, "*"}):
            raise Unprocessable(
                "E-DATA-15",
                f"there is no event {unknown[0][:60]!a}",
                where="$.events",
                fix=f"use some of {', '.join(EVENTS)}, or *",
            )
        master, webhook_id = self.masters.newest, new_id()
        secret = self.masters.secret_of(master, webhook_id) if master else None
        if master is None or secret is None:
            raise Conflict(NO_MASTER, "no master key is set here")
        wanted = sorted(set(events))
        rows = self.database.read(
            "SELECT stanchion.create_webhook(%s, %s, %s, %s, %s, %s, %s)",
            (tenant_id, webhook_id, url, wanted, master, limits.WEBHOOKS, actor),
        )
        if not rows[0][0]:
            raise Conflict(TOO_MANY, f"there are {limits.WEBHOOKS} webhooks already", limit=limits.WEBHOOKS)
        return webhook_id, secret

    def page(self, tenant_id: UUID, *, limit: int, before: UUID | None = None) -> list[dict[str, Any]]:
        """Webhooks, the newest first, without secrets."""
        rows = self.database.read("SELECT * FROM stanchion.list_webhooks(%s, %s, %s)", (tenant_id, before, limit))
        names = (
            "webhook_id",
            "url",
            "events",
            "state",
            "created_by",
            "created_at",
            "changed_at",
            "waiting",
            "failed",
        )
        return [dict(zip(names, row, strict=True)) for row in rows]

    def pause(self, tenant_id: UUID, webhook_id: UUID, *, paused: bool, actor: str) -> None:
        """Hold its deliveries, or let them go again, also after it failed; raises NotFound."""
        self._there(
            self.database.read(
                "SELECT stanchion.pause_webhook(%s, %s, %s, %s)", (tenant_id, webhook_id, paused, actor)
            ),
            "webhook",
        )

    def remove(self, tenant_id: UUID, webhook_id: UUID, *, actor: str) -> None:
        """Remove it with its deliveries; raises NotFound."""
        self._there(
            self.database.read("SELECT stanchion.remove_webhook(%s, %s, %s)", (tenant_id, webhook_id, actor)),
            "webhook",
        )

    def deliveries(
        self,
        tenant_id: UUID,
        *,
        webhook_id: UUID | None = None,
        state: str | None = None,
        limit: int,
        before: UUID | None = None,
    ) -> list[dict[str, Any]]:
        """Deliveries, the newest first, without their bodies."""
        rows = self.database.read(
            "SELECT * FROM stanchion.list_deliveries(%s, %s, %s, %s, %s)",
            (tenant_id, webhook_id, state, before, limit),
        )
        names = (
            "delivery_id",
            "webhook_id",
            "event_id",
            "type",
            "subject",
            "state",
            "tries",
            "status",
            "error",
            "created_at",
            "due_at",
            "ended_at",
        )
        return [dict(zip(names, row, strict=True)) for row in rows]

    def resend(self, tenant_id: UUID, delivery_id: UUID, *, actor: str) -> None:
        """Send a delivery again, whatever became of it; raises NotFound."""
        self._there(
            self.database.read("SELECT stanchion.resend_delivery(%s, %s, %s)", (tenant_id, delivery_id, actor)),
            "delivery",
        )

    # -- the courier's --

    def claim(self, most: int, each: int, busy: Sequence[UUID], lease_seconds: float) -> list[Delivery]:
        """Take up to `most` deliveries that are due; `busy` names a webhook once for each call of it under way here."""
        rows = self.database.call(
            "claim_deliveries",
            "SELECT * FROM stanchion.claim_deliveries(%s, %s, %s, %s)",
            (most, each, list(busy), int(lease_seconds * 1000)),
        )
        return [Delivery(*row) for row in rows]

    def finish(
        self, delivery: Delivery, *, sent: bool, status: int | None, error: str | None, delay_seconds: float
    ) -> str | None:
        """Record a try: sent, due or failed; None when another courier has it by now."""
        rows = self.database.call(
            "finish_delivery",
            "SELECT stanchion.finish_delivery(%s, %s, %s, %s, %s, %s, %s)",
            (
                delivery.tenant_id,
                delivery.delivery_id,
                delivery.fence,
                sent,
                status,
                error,
                int(delay_seconds * 1000),
            ),
        )
        outcome: str | None = rows[0][0]
        return outcome

    def trim(self, limit: int = 1_000) -> int:
        """Give up what was held too long, forget what ended long ago; returns how many."""
        return int(self.database.read("SELECT stanchion.trim_deliveries(%s)", (limit,))[0][0])

    def _there(self, rows: Sequence[tuple[Any, ...]], kind: str) -> None:
        if not rows[0][0]:
            raise NotFound("E-FIND-01", f"there is no such {kind} in this tenant")
