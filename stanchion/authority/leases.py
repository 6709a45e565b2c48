"""Leases: what a worker may ask of the database. Every write names the fence that the lease was issued with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from psycopg.types.json import Jsonb

from stanchion.contracts import payload
from stanchion.db.engine import Database
from stanchion.errors import Unprocessable

from .objects import Objects
from .places import find_around

Verdict = Literal["ok", "cancel", "lost", "busy"]


class Lease(NamedTuple):
    """One step in this worker's hands, in the order of the database's type `leased`."""

    outcome: str
    tenant_id: UUID
    task_id: UUID
    run_id: UUID
    step_id: UUID
    fence: int
    workflow: str
    workflow_version: int
    node: str
    fan_id: UUID | None
    idx: int
    round: int
    number: int
    max_attempts: int
    started: bool
    timeout_ms: int | None
    lease_ms: int
    input: Any
    input_blob: bytes | None
    sources: list[UUID] | None
    inputs: list[dict[str, Any] | None] | None


@dataclass(frozen=True, slots=True)
class Done:
    """A result to be accepted: JSON in the row, or the name of a stored blob."""

    lease: Lease
    body: Any = None
    blob: bytes | None = None


class Completed(NamedTuple):
    """What came of results that were handed in."""

    accepted: set[UUID]
    granted: list[Lease]
    posted: bool  # whether there is something for the relay


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt that failed: the error for people, whether another attempt may help, and after how long."""

    lease: Lease
    error: dict[str, Any]
    final: bool
    delay_ms: int


@dataclass(frozen=True, slots=True)
class Reach:
    """What this worker serves: tenants (None: all), workflow versions as `name@version`, queues."""

    tenants: list[UUID] | None
    definitions: list[str]
    queues: list[str]


def _json(value: Any) -> Jsonb:
    return Jsonb(value, dumps=payload.dumps)


def _shown(progress: Any) -> Jsonb | None:
    """Progress is for people: what is no JSON is left out, and harms no lease."""
    if progress is None:
        return None
    try:
        return _json(payload.check(progress))
    except Unprocessable:
        return None


class Question(NamedTuple):
    """What people are asked: `asked` is the question, what it covers and who decides, `payload` what is bound."""

    approval_id: UUID
    asked: dict[str, Any]
    payload: Any


class Leases:
    """The worker's side of the database, under the worker's login."""

    def __init__(
        self, database: Database, worker_id: UUID, reach: Reach, ttl_ms: int, objects: Objects | None = None
    ) -> None:
        self.database = database
        self.worker_id = worker_id
        self.reach = reach
        self.ttl_ms = ttl_ms
        self.objects = objects or Objects(None)

    def lease(self, steps: Sequence[UUID], starting: int) -> list[Lease]:
        """Lease those of `steps` that are ready; the first `starting` of them begin at once."""
        rows = self.database.call(
            "lease",
            "SELECT * FROM stanchion.lease(%s, %s, %s, %s, %s, %s, %s)",
            (
                self.worker_id,
                self.reach.tenants,
                self.reach.definitions,
                self.reach.queues,
                list(steps),
                self.ttl_ms,
                starting,
            ),
        )
        return [Lease._make(r) for r in rows]

    def complete(self, done: Sequence[Done], room: int) -> Completed:
        """Hand in results; what is not accepted was refused for its fence and is on record as such. At most `room` of what
        became ready is leased in return."""
        rows = self.database.call(
            "complete",
            "SELECT * FROM stanchion.complete(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (
                self.worker_id,
                [d.lease.step_id for d in done],
                [d.lease.fence for d in done],
                [None if d.blob is not None else _json(d.body) for d in done],
                [d.blob for d in done],
                self.reach.tenants,
                self.reach.definitions,
                self.reach.queues,
                room,
                self.ttl_ms,
            ),
        )
        return Completed(
            {r[4] for r in rows if r[0] == "done"},
            [Lease._make(r) for r in rows if r[0] not in ("done", "posted")],
            any(r[0] == "posted" for r in rows),
        )

    def steer(self, done: Done, plan: dict[str, Any]) -> bool:
        """Hand in a result that steers the run (Go, Again, Spawn); False when it was refused for its fence."""
        rows = self.database.call(
            "steer",
            "SELECT stanchion.complete_with_plan(%s, %s, %s, %s, %s, %s)",
            (
                self.worker_id,
                done.lease.step_id,
                done.lease.fence,
                None if done.blob is not None else _json(done.body),
                done.blob,
                _json(plan),
            ),
        )
        return bool(rows[0][0])

    def ask(self, lease: Lease, question: Question) -> bool:
        """Ask people, and let the step wait for them; False when it was refused for its fence.

        Raises Conflict E-APR-07 for a version that is not the latest of its name.
        """
        rows = self.database.call(
            "ask",
            "SELECT stanchion.ask(%s, %s, %s, %s, %s, %s, %s)",
            (
                self.worker_id,
                lease.step_id,
                lease.fence,
                question.approval_id,
                _json(question.asked),
                _json(question.payload),
                payload.digest(question.payload),
            ),
        )
        return bool(rows[0][0])

    def fail(self, failures: Sequence[Failure]) -> dict[UUID, str]:
        """Record failed attempts. Returns each step's new state (retry_wait or failed); a refused one is missing."""
        rows = self.database.call(
            "fail",
            "SELECT * FROM stanchion.fail(%s, %s, %s, %s, %s, %s)",
            (
                self.worker_id,
                [f.lease.step_id for f in failures],
                [f.lease.fence for f in failures],
                [_json(f.error) for f in failures],
                [f.final for f in failures],
                [f.delay_ms for f in failures],
            ),
        )
        return dict(rows)

    def give_back(self, leases: Sequence[Lease], why: str) -> set[UUID]:
        """Hand leases back without spending an attempt; returns those that were still ours."""
        rows = self.database.call(
            "give_back",
            "SELECT * FROM stanchion.give_back(%s, %s, %s, %s)",
            (self.worker_id, [x.step_id for x in leases], [x.fence for x in leases], why),
        )
        return {r[0] for r in rows}

    def give_back_unheld(self, held: Sequence[Lease]) -> set[UUID]:
        """Hand back what this worker has leased without learning of it, all but `held`; returns which steps these were."""
        rows = self.database.call(
            "give_back",
            "SELECT * FROM stanchion.give_back_unheld(%s, %s, %s)",
            (self.worker_id, [x.step_id for x in held], [x.fence for x in held]),
        )
        return {r[0] for r in rows}

    def end_cancelled(self, leases: Sequence[Lease]) -> set[UUID]:
        """Report attempts that ended because their run is being cancelled; returns those that were still ours."""
        rows = self.database.call(
            "give_back",
            "SELECT * FROM stanchion.end_cancelled(%s, %s, %s)",
            (self.worker_id, [x.step_id for x in leases], [x.fence for x in leases]),
        )
        return {r[0] for r in rows}

    def renew(self, leases: Sequence[Lease], begun: Sequence[bool], progress: Sequence[Any]) -> dict[UUID, Verdict]:
        """One heartbeat for all leases: renews, records what has begun, and says what is lost or cancelled."""
        rows = self.database.call(
            "renew",
            "SELECT * FROM stanchion.renew(%s, %s, %s, %s, %s::jsonb[], %s)",
            (
                self.worker_id,
                [x.step_id for x in leases],
                [x.fence for x in leases],
                list(begun),
                [_shown(p) for p in progress],
                self.ttl_ms,
            ),
        )
        return dict(rows)

    def find_ready(self, older_ms: int, limit: int) -> list[UUID]:
        """Ready steps that were offered at least `older_ms` ago and that nobody leased."""
        rows = self.database.read(
            "SELECT * FROM stanchion.find_ready(%s, %s, %s, %s, %s)",
            (self.reach.queues, self.reach.definitions, self.reach.tenants, older_ms, limit),
        )
        return [r[0] for r in rows]

    def find_around(self, lease: Lease, names: Sequence[str]) -> dict[str, UUID]:
        """The ids of steps in the same branch as `lease`, or in the branches around it, by name."""
        return find_around(self.database, lease.tenant_id, lease.run_id, lease.fan_id, lease.idx, names)

    def results_page(self, lease: Lease, fan_id: UUID, node: str, after: int, limit: int) -> list[tuple[Any, ...]]:
        """Children of a fan-out by index: (idx, state, body, blob, error)."""
        return self.database.read(
            "SELECT * FROM stanchion.results_page(%s, %s, %s, %s, %s, %s)",
            (lease.step_id, lease.fence, fan_id, node, after, limit),
        )

    def results_counts(self, lease: Lease, fan_id: UUID) -> dict[str, int]:
        """How many children were expected, succeeded, failed and were skipped when the join opened."""
        rows = self.database.read(
            "SELECT * FROM stanchion.results_counts(%s, %s, %s)", (lease.step_id, lease.fence, fan_id)
        )
        return dict(zip(("expected", "succeeded", "failed", "skipped"), rows[0] if rows else (0, 0, 0, 0), strict=True))

    def get_blob(self, lease: Lease, sha256: bytes) -> bytes | None:
        """A stored value, still compressed; None when the lease is gone or the blob is."""
        rows = self.database.read("SELECT stanchion.get_blob(%s, %s, %s)", (lease.step_id, lease.fence, sha256))
        return rows[0][0]  # type: ignore[no-any-return]  # bytea

    def seen(self, *, name: str, host: str, pid: int, slots: int, running: int, state: str, clock: datetime) -> bool:
        """Report presence; True when somebody asked this worker to drain."""
        reach = self.reach
        serves, busy = (reach.queues, reach.definitions), (slots, running, state, clock)
        rows = self.database.read(
            "SELECT stanchion.worker_seen(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (self.worker_id, name, host, pid, *serves, *busy, reach.tenants),
        )
        return bool(rows[0][0])

    def note_durations(self, means: dict[tuple[str, int, str], tuple[int, int]]) -> None:
        """Report how long steps took: (mean milliseconds, samples) by (workflow, version, node)."""
        keys = list(means)
        self.database.read(
            "SELECT stanchion.note_durations(%s, %s, %s, %s, %s)",
            (
                [k[0] for k in keys],
                [k[1] for k in keys],
                [k[2] for k in keys],
                [means[k][0] for k in keys],
                [means[k][1] for k in keys],
            ),
        )

    def input_of(self, lease: Lease, step_id: UUID) -> tuple[Any, bytes | None]:
        """The input of another step of the same run: the value in its row, or the name of a stored one."""
        rows = self.database.read("SELECT * FROM stanchion.input_of(%s, %s, %s)", (lease.step_id, lease.fence, step_id))
        return rows[0] if rows else (None, None)
