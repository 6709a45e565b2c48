"""The outbox as a relay sees it: partitions under fenced leases, rows in order, deletion after the broker's word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from stanchion.db.engine import Database


class Row(NamedTuple):
    """One message to publish."""

    id: int
    part: int
    tenant_id: UUID
    message_id: UUID
    topic: str
    key: str
    type: str
    correlation_id: str | None
    causation_id: str | None
    sequence: int | None
    at: datetime
    body: str


class Outbox:
    """Under the relay's login, which has nothing but these calls."""

    def __init__(self, database: Database, relay_id: UUID, name: str, ttl_ms: int) -> None:
        self.database = database
        self.relay_id = relay_id
        self.name = name
        self.ttl_ms = ttl_ms

    def claim(self) -> dict[int, int]:
        """Keep, take and give up partitions; returns the fence of each that is ours now."""
        return dict(
            self.database.call(
                "relay_claim", "SELECT * FROM stanchion.relay_tick(%s, %s, %s)", (self.relay_id, self.name, self.ttl_ms)
            )
        )

    def read(self, parts: Sequence[int], limit: int) -> list[Row]:
        """The next rows of these partitions, in order of their ids within each."""
        return [
            Row._make(r)
            for r in self.database.read(
                "SELECT * FROM stanchion.relay_read(%s, %s, %s)", (self.relay_id, list(parts), limit)
            )
        ]

    def delete(self, fences: Mapping[int, int], ids: Sequence[int]) -> int:
        """Delete what the broker acknowledged; rows of a partition that is no longer ours stay."""
        return int(
            self.database.call(
                "relay_delete",
                "SELECT stanchion.relay_sent(%s, %s, %s, %s)",
                (self.relay_id, list(fences), list(fences.values()), list(ids)),
            )[0][0]
        )

    def park(self, row_id: int, code: str, reason: str) -> None:
        """Take a message that can never be published out of the way of those behind it."""
        self.database.call("bury", "SELECT stanchion.relay_park(%s, %s, %s)", (row_id, code, reason))

    def lag(self) -> tuple[int, float]:
        """(messages waiting, age of the oldest in seconds)."""
        rows = self.database.read("SELECT * FROM stanchion.outbox_lag()")
        return int(rows[0][0]), float(rows[0][1])

    def tenant_names(self, tenants: Sequence[UUID]) -> dict[UUID, str]:
        """The names of tenants, as messages carry them."""
        return dict(self.database.read("SELECT * FROM stanchion.tenant_names(%s)", (list(tenants),)))
