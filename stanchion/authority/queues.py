"""Queues as one tenant has them: what waits and runs, who serves it, how fast it goes, and whether somebody paused it.

Counts are the tenant's own. Workers serve several tenants, so their slots are what there is, not what is free for one.
Rates are those of the last samples, never counted on a request; without an orchestrator there are none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, func, select

from stanchion.contracts import limits
from stanchion.contracts.topics import validate_queue
from stanchion.db import tables
from stanchion.db.engine import Database

from .queries import rows_of
from .rows import Row, missing
from .samples import Lately, Samples

DRAIN_SECONDS: Final = 300  # in how long a backlog should be gone, where workers are advised

_READY, _WORKER, _ATTEMPT = tables.ready.c, tables.worker.c, tables.attempt.c
_STEP, _PAUSE = tables.step.c, tables.queue_pause.c


@dataclass(frozen=True, slots=True)
class Pace:
    """Steps a second that became ready and that were leased, over the samples of about a minute up to `until`."""

    rate_in: float
    rate_out: float
    until: datetime


@dataclass(slots=True)
class _Queue:
    """What is found of one queue."""

    name: str
    ready: int = 0
    oldest_ready_at: datetime | None = None
    ready_age_seconds: float | None = None
    running: int = 0
    workers: int = 0
    slots: int = 0
    versions: dict[str, list[int]] = field(default_factory=dict)
    paused: Row | None = None


class Queues:
    """Under the task service's login; reading goes under the dashboard's as well."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.samples = Samples(database)

    def of(self, tenant_id: UUID) -> list[Row]:
        """Every queue in which the tenant has something, or that a live worker serves for it, or that it paused."""
        with self.database.tenant(tenant_id) as connection:
            found = _Found(connection, tenant_id)
        lately = self.samples.lately(tenant_id)
        return [_shown(queue, lately) for _, queue in sorted(found.queues.items())]

    def get(self, tenant_id: UUID, name: str) -> Row:
        """One of them; raises NotFound, and Unprocessable E-DATA-14 for what is no name of a queue."""
        wanted = validate_queue(name)
        for row in self.of(tenant_id):
            if row["queue"] == wanted:
                return row
        raise missing("queue")

    @staticmethod
    def empty(name: str) -> Row:
        """A queue in which there is nothing, and that nobody serves."""
        return _shown(_Queue(name), None)

    def pause(self, tenant_id: UUID, name: str, *, reason: str, actor: str) -> bool:
        """Lease and offer nothing new of a queue for this tenant; False when it was paused before, and stays as it was."""
        rows = self.database.call(
            "pause",
            "SELECT stanchion.pause_queue(%s, %s, %s, %s)",
            (tenant_id, validate_queue(name), reason, actor),
        )
        return bool(rows[0][0])

    def resume(self, tenant_id: UUID, name: str, *, actor: str) -> bool:
        """Let it go on: what waited is offered at once; False when it was not paused."""
        rows = self.database.call(
            "pause", "SELECT stanchion.resume_queue(%s, %s, %s)", (tenant_id, validate_queue(name), actor)
        )
        return bool(rows[0][0])

    def republish(self, tenant_id: UUID, task_id: UUID, *, actor: str) -> int:
        """Offer all ready steps of a task again; returns how many there are. Raises NotFound."""
        rows = self.database.call("offer", "SELECT stanchion.republish_task(%s, %s, %s)", (tenant_id, task_id, actor))
        return int(rows[0][0])

    def paused(self, tenant_id: UUID) -> list[Row]:
        """The queues that the tenant paused: queue, reason, paused_by, since."""
        with self.database.tenant(tenant_id) as connection:
            return _pauses(connection)


class _Found:
    """What the tables say about the queues of one tenant, in four statements however much there is."""

    def __init__(self, connection: Connection, tenant_id: UUID) -> None:
        self.queues: dict[str, _Queue] = {}
        self._ready(connection)
        self._running(connection)
        self._workers(connection, tenant_id)
        for row in _pauses(connection):
            self.queue(row["queue"]).paused = row

    def queue(self, name: str) -> _Queue:
        return self.queues.setdefault(name, _Queue(name))

    def _ready(self, connection: Connection) -> None:
        since = func.min(_READY.since)
        age = func.greatest(func.extract("epoch", func.stanchion.clock() - since), 0).label("age")
        counted = select(_READY.queue, func.count().label("count"), since.label("since"), age).group_by(_READY.queue)
        for row in rows_of(connection, counted):
            queue = self.queue(row["queue"])
            queue.ready, queue.oldest_ready_at, queue.ready_age_seconds = row["count"], row["since"], float(row["age"])

    def _running(self, connection: Connection) -> None:
        joined = tables.attempt.join(tables.step, _STEP.step_id == _ATTEMPT.step_id)
        held = select(_STEP.queue, func.count().label("count")).select_from(joined)
        for row in rows_of(connection, held.where(_ATTEMPT.ended_at.is_(None)).group_by(_STEP.queue)):
            self.queue(row["queue"]).running = row["count"]

    def _workers(self, connection: Connection, tenant_id: UUID) -> None:
        heard = func.stanchion.clock() - func.make_interval(0, 0, 0, 0, 0, 0, limits.WORKER_SEEN_SECONDS)
        alive = (_WORKER.state == "active") & (_WORKER.seen_at > heard)
        alive &= _WORKER.tenants.is_(None) | _WORKER.tenants.contains([tenant_id])
        for row in rows_of(connection, select(_WORKER.queues, _WORKER.workflows, _WORKER.slots).where(alive)):
            for name in set(row["queues"]):
                queue = self.queue(name)
                queue.workers += 1
                queue.slots += row["slots"]
                for definition in set(row["workflows"]):
                    count = queue.versions.setdefault(definition, [0, 0])
                    count[0] += 1
                    count[1] += row["slots"]


def _pauses(connection: Connection) -> list[Row]:
    columns = (_PAUSE.queue, _PAUSE.reason, _PAUSE.paused_by, _PAUSE.since)
    return rows_of(connection, select(*columns).order_by(_PAUSE.queue))


def _shown(queue: _Queue, lately: Lately | None) -> Row:
    pace = _pace(queue.name, lately)
    advice = advise(queue.ready, queue.workers, pace, paused=queue.paused is not None)
    return {
        "queue": queue.name,
        "ready": queue.ready,
        "oldest_ready_at": queue.oldest_ready_at,
        "ready_age_seconds": queue.ready_age_seconds,
        "running": queue.running,
        "workers": queue.workers,
        "slots": queue.slots,
        "versions": [
            {"workflow": name, "workers": workers, "slots": slots}
            for name, (workers, slots) in sorted(queue.versions.items())
        ],
        "rate_in": pace and round(pace.rate_in, 3),
        "rate_out": pace and round(pace.rate_out, 3),
        "rates_until": pace and pace.until,
        "drain_seconds": advice.drain_seconds,
        "workers_needed": advice.workers_needed,
        "advice": advice.text,
        "paused": queue.paused and {name: queue.paused[name] for name in ("reason", "paused_by", "since")},
    }


def _pace(name: str, lately: Lately | None) -> Pace | None:
    if lately is None:
        return None
    return Pace(lately.rate(f"steps_made_ready:{name}"), lately.rate(f"steps_leased:{name}"), lately.until)


@dataclass(frozen=True, slots=True)
class Advice:
    """How long the backlog takes with what is there, and how many workers would be through with it in five minutes."""

    text: str
    drain_seconds: float | None = None
    workers_needed: int | None = None


def advise(ready: int, workers: int, pace: Pace | None, *, paused: bool = False) -> Advice:
    """What to do about a queue. A worker is taken to do what each did on average while something waited."""
    if paused:
        return Advice("paused: nothing of it is started")
    if not ready:
        return Advice("nothing waits", 0.0)
    if not workers:
        return Advice("no live worker serves it")
    if pace is None:
        return Advice("no rate is known: no orchestrator has taken samples in the last minutes")
    if pace.rate_out <= 0:
        return Advice("nothing of it was started in the last minute")
    gain = pace.rate_out - pace.rate_in
    drain = round(ready / gain, 1) if gain > 0 else None
    needed = math.ceil(workers * (pace.rate_in + ready / DRAIN_SECONDS) / pace.rate_out)
    if needed <= workers:
        return Advice(f"drained in about {drain:,.0f} s" if drain else "it keeps up", drain, needed)
    return Advice(f"workers needed to drain in 5 min: {needed:,} (you have {workers:,})", drain, needed)
