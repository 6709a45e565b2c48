"""Maintenance: jobs that cost nothing when they come late. Each is a row, whatever becomes of the queue.

A periodic job is named by its kind and the start of its period, a requested one by its request: so however many workers
derive it, and however often the queue is lost, it is one row. Who works on it has claimed its fence; whoever comes with
an older one changes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

from psycopg.types.json import Jsonb
from sqlalchemy import select

from stanchion.contracts import limits
from stanchion.db import tables
from stanchion.db.engine import Database
from stanchion.errors import NotFound, Unprocessable, register_code

NOBODY: Final = UUID(int=0)
"""The tenant of what belongs to none."""

TRIES: Final = 5  # failures in a row, or lost workers, after which a job is given up

REDRIVE: Final = "redrive"

LOST: Final = register_code(
    "E-MAINT-03",
    "maintenance job lost its workers",
    status=500,
    meaning=f"The process that worked on this job ended in the middle of it, {TRIES} times.",
    fix="Look into the logs of the maintenance workers; a periodic job is derived again with its next period.",
)


class Due(NamedTuple):
    """A job that waits for a worker. `fence` is the one to claim it with; `offer` counts how often nobody came."""

    kind: str
    key: str
    tenant_id: UUID
    fence: int
    offer: int

    @property
    def entry(self) -> str:
        """The id of its entry in a queue: the same from whoever derives it, another one after each claim."""
        name = hashlib.sha256(f"{self.kind}\n{self.key}\n{self.tenant_id}".encode()).hexdigest()[:24]
        return f"{self.kind}-{name}-{self.fence}-{self.offer}"


class Job(NamedTuple):
    """A job that was claimed: what was asked for, and how far it is."""

    kind: str
    key: str
    tenant_id: UUID
    fence: int
    request: dict[str, Any]
    result: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Report:
    """How a requested job stands: due, running, done or failed; `result` has the counts so far."""

    key: str
    state: str
    request: dict[str, Any]
    result: dict[str, Any]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Redrive:
    """Which dead letters to send again; None means any. `rate` is letters a second."""

    topic: str | None = None
    code: str | None = None
    before: datetime | None = None
    rate: int = 50

    def checked(self) -> dict[str, Any]:
        """As it is stored; raises Unprocessable for a rate out of bounds, or a filter that is longer than any name."""
        if not 1 <= self.rate <= limits.REDRIVE_RATE_MAX:
            raise Unprocessable(
                "E-DATA-15",
                f"a rate is 1 to {limits.REDRIVE_RATE_MAX:,} letters a second, not {self.rate:,}",
                where="$.rate",
                fix="use the default, or a rate within these bounds",
            )
        for name in ("topic", "code"):
            if len(getattr(self, name) or "") > limits.NAME_CHARACTERS:
                raise Unprocessable("E-DATA-15", f"{name} is longer than any {name} can be", where=f"$.{name}")
        before = self.before.isoformat() if self.before else None
        return {"topic": self.topic, "code": self.code, "before": before, "rate": self.rate}


class Maintenance:
    """The jobs: asked for under the task service's login, worked on under the maintenance worker's."""

    def __init__(self, database: Database, worker: str = "") -> None:
        self.database = database
        self.worker = worker[: limits.NAME_CHARACTERS]

    def due(self, periods: Mapping[str, int], limit: int = 100) -> list[Due]:
        """Derive the periodic jobs of this moment (seconds of a period by kind), and list what waits for a worker."""
        rows = self.database.call(
            "maintain",
            "SELECT * FROM stanchion.plan_maintenance(%s, %s, %s, %s)",
            (list(periods), list(periods.values()), TRIES, limit),
        )
        return [Due._make(row) for row in rows]

    def claim(self, kind: str, key: str, tenant_id: UUID, fence: int, lease_ms: int) -> Job | None:
        """Take a job with the fence that it was offered with; None when that is over, or it is not due."""
        rows = self.database.call(
            "maintain",
            "SELECT * FROM stanchion.claim_maintenance(%s, %s, %s, %s, %s, %s)",
            (kind, key, tenant_id, fence, self.worker, lease_ms),
        )
        return Job(kind, key, tenant_id, rows[0][0], rows[0][1] or {}, rows[0][2] or {}) if rows else None

    def keep(self, job: Job, result: Mapping[str, Any], lease_ms: int) -> bool:
        """Keep how far a job is, and its lease; False: another worker has it, stop."""
        rows = self.database.call(
            "maintain",
            "SELECT stanchion.keep_maintenance(%s, %s, %s, %s, %s, %s)",
            (job.kind, job.key, job.tenant_id, job.fence, Jsonb(result), lease_ms),
        )
        return bool(rows[0][0])

    def finish(
        self, job: Job, outcome: Literal["done", "more", "failed"], result: Mapping[str, Any], wait_ms: int = 0
    ) -> str | None:
        """End a claim; the job's new state, None when another worker has it. `more` and `failed` make it due again."""
        rows = self.database.call(
            "maintain",
            "SELECT stanchion.finish_maintenance(%s, %s, %s, %s, %s, %s, %s, %s)",
            (job.kind, job.key, job.tenant_id, job.fence, outcome, Jsonb(result), wait_ms, TRIES),
        )
        state: str | None = rows[0][0]
        return state

    def forget(self, seconds: int, limit: int = 1_000) -> int:
        """Remove jobs that ended longer than `seconds` ago; returns how many."""
        rows = self.database.call("maintain", "SELECT stanchion.forget_maintenance(%s, %s)", (seconds, limit))
        return int(rows[0][0])

    def request_redrive(self, tenant_id: UUID, key: str, wanted: Redrive, *, actor: str) -> bool:
        """Ask for dead letters to be sent again, at a rate; False when this key was asked for before.

        Raises Unprocessable.
        """
        rows = self.database.call(
            "maintain",
            "SELECT stanchion.request_maintenance(%s, %s, %s, %s, %s)",
            (tenant_id, REDRIVE, key, Jsonb(wanted.checked()), actor),
        )
        return bool(rows[0][0])

    def redrive(self, tenant_id: UUID, key: str) -> Report:
        """How a requested redrive stands; raises NotFound."""
        job = tables.maintenance_job.c
        columns = (job.key, job.state, job.request, job.result, job.created_at, job.started_at, job.finished_at)
        found = select(*columns).where(job.tenant_id == tenant_id, job.kind == REDRIVE, job.key == key)
        with self.database.tenant(tenant_id) as connection:
            row = connection.execute(found).first()
        if row is None:
            raise NotFound("E-FIND-01", "there is no such job in this tenant")
        return Report(row.key, row.state, row.request or {}, row.result or {}, *row[4:])
