"""The check of a database: each run is rebuilt from its events alone, and every difference from its rows is told.

It needs to see all tenants, so it runs under the administrator's URL. It changes nothing, and may run while work goes
on: each run is looked at in one snapshot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import psycopg
from psycopg.rows import namedtuple_row

from stanchion.contracts import limits
from stanchion.db import grants
from stanchion.db.engine import Database

from .history import Barrier, Event, Step, Story

LIVE: Final = ("created", "running")
COUNTED: Final = (*LIVE, "succeeded")
"""Runs whose joins were counted to the end; one that winds down cancels without counting."""
PAGE: Final = 200
FETCH: Final = 5_000

_BOOKED: Final = "SELECT unit, sum(amount) AS amount FROM stanchion.spending"

Connection = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """What stands in a row, and what the events say; `what` is the table, `which` its key."""

    tenant_id: UUID | None
    run_id: UUID
    what: str
    which: UUID | None
    field: str
    stored: Any
    told: Any

    def __str__(self) -> str:
        name = f"{self.what} {self.which}" if self.which else self.what
        return f"run {self.run_id}: {name}: {self.field} is {self.stored!r}, the events say {self.told!r}"


def check(database: Database, run_id: UUID | None = None) -> Iterator[Difference]:
    """Every difference between events and rows, of one run or of all.

    `database` is opened with the administrator's URL. Memory is bounded by the steps of the largest run. Raises
    Unavailable.
    """
    with database.connection() as connection:
        runs = iter([run_id]) if run_id is not None else _runs(connection)
        for each in runs:
            yield from _check_run(connection, each)


def _runs(connection: Connection) -> Iterator[UUID]:
    """All runs that have a row or an event, in order of their ids."""
    after = UUID(int=0)
    while True:
        with connection.transaction():
            connection.execute(f"SET LOCAL ROLE {grants.OWNER}")
            rows = connection.execute(
                "SELECT run_id FROM (SELECT run_id FROM stanchion.run WHERE run_id > %(after)s ORDER BY run_id LIMIT %(page)s) r"
                " UNION SELECT run_id FROM (SELECT DISTINCT run_id FROM stanchion.event WHERE run_id > %(after)s ORDER BY run_id"
                " LIMIT %(page)s) e ORDER BY run_id LIMIT %(page)s",
                {"after": after, "page": PAGE},
            ).fetchall()
        if not rows:
            return
        for (run_id,) in rows:
            yield run_id
        after = rows[-1][0]


def _check_run(connection: Connection, run_id: UUID) -> Iterator[Difference]:
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    connection.execute(f"SET LOCAL ROLE {grants.OWNER}")
    try:
        yield from _Checked(connection, run_id).differences()
    finally:
        connection.execute("ROLLBACK")


class _Checked:
    """One run: its story, and the rows beside it."""

    def __init__(self, connection: Connection, run_id: UUID) -> None:
        self.connection = connection
        self.run_id = run_id
        self.tenant_id: UUID | None = None
        self.story = Story()

    def rows(self, sql: str) -> Iterator[Any]:
        """Rows of a query about this run, fetched in chunks."""
        with self.connection.cursor(name="stanchion_check", row_factory=namedtuple_row) as cursor:
            cursor.itersize = FETCH
            cursor.execute(sql, {"run": self.run_id})
            yield from cursor

    def _one(self, sql: str) -> Any | None:
        return next(iter(self.rows(sql)), None)

    def _unlike(self, what: str, which: UUID | None, **fields: tuple[Any, Any]) -> Iterator[Difference]:
        for name, (stored, told) in fields.items():
            if stored != told:
                yield Difference(self.tenant_id, self.run_id, what, which, name, stored, told)

    def differences(self) -> Iterator[Difference]:
        self.story.tell(
            Event(row.kind, row.step_id, row.fence, row.version, row.actor, row.body or {})
            for row in self.rows(
                "SELECT kind, step_id, fence, version, actor, body FROM stanchion.event WHERE run_id = %(run)s ORDER BY event_id"
            )
        )
        run = self._one(
            "SELECT r.*, t.state AS task_state, t.version AS task_version, t.run_id AS newest, t.payload_removed_at"
            " FROM stanchion.run r LEFT JOIN stanchion.task t ON t.task_id = r.task_id AND t.tenant_id = r.tenant_id"
            " WHERE r.run_id = %(run)s"
        )
        if run is None:
            if not self.story.payload_removed:  # else retention removed it: its events go with their month
                yield from self._unlike("run", self.run_id, row=(None, self.story.state))
            return
        self.tenant_id = run.tenant_id
        for what, which, fault in self.story.faults:
            yield Difference(self.tenant_id, self.run_id, what, which, "events", None, fault)
        yield from self._run(run)
        yield from self._steps(run)
        yield from self._attempts()
        yield from self._operations()
        yield from self._approvals()
        yield from self._spending()
        yield from self._barriers(run)
        yield from self._artifacts()

    def _run(self, run: Any) -> Iterator[Difference]:
        story = self.story
        yield from self._unlike("run", self.run_id, begun=(True, story.begun), state=(run.state, story.state))
        yield from self._unlike("run", self.run_id, version=(run.version, story.version))
        yield from self._unlike("run", self.run_id, paused=(run.paused_at is not None, story.paused))
        if run.state in LIVE:
            yield from self._unlike("run", self.run_id, open=(run.open, story.open))
        if run.newest is None:
            yield from self._unlike("task", run.task_id, row=(None, story.task_state))
        elif run.newest == self.run_id:
            yield from self._unlike("task", run.task_id, state=(run.task_state, story.task_state))
            yield from self._unlike("task", run.task_id, version=(run.task_version, story.task_version))
            yield from self._budget(run.task_id)

    def _steps(self, run: Any) -> Iterator[Difference]:
        seen: set[UUID] = set()
        gone = run.payload_removed_at is not None
        for row in self.rows(
            "SELECT s.step_id, s.state, s.version, s.fence, s.attempts, s.doubts, s.spoiled, s.counts, s.kind, s.idx, s.fan_id, s.feeds,"
            " x.step_id IS NOT NULL AS has_result, x.fence AS result_fence,"
            " (SELECT count(*) FROM stanchion.attempt a WHERE a.step_id = s.step_id AND a.ended_at IS NULL) AS held"
            " FROM stanchion.step s LEFT JOIN stanchion.result x ON x.step_id = s.step_id AND x.tenant_id = s.tenant_id"
            " WHERE s.run_id = %(run)s"
        ):
            seen.add(row.step_id)
            step = self.story.steps.get(row.step_id)
            if step is None:
                yield from self._unlike("step", row.step_id, row=(row.state, None))
                continue
            yield from self._step(row, step, gone)
        for step_id in self.story.steps.keys() - seen:
            yield from self._unlike("step", step_id, row=(None, self.story.steps[step_id].state))

    def _step(self, row: Any, step: Step, payload_gone: bool) -> Iterator[Difference]:
        yield from self._unlike(
            "step",
            row.step_id,
            state=(row.state, step.state),
            version=(row.version, step.version),
            fence=(row.fence, step.fence),
            attempts=(row.attempts, step.attempts),
            spoiled=(row.spoiled, step.spoiled),
            counts=(row.counts, step.counts),
            kind=(row.kind, step.kind),
            idx=(row.idx, step.idx),
            fan_id=(row.fan_id, step.fan_id),
            held=(row.held, int(step.state in ("leased", "running", "reconciling"))),
            doubts=(row.doubts, self.story.doubts(row.step_id)),
        )
        if step.kind == "step":
            yield from self._unlike("step", row.step_id, feeds=(sorted(row.feeds or []), sorted(step.feeds)))
        if not payload_gone:
            yield from self._unlike("result", row.step_id, there=(row.has_result, step.with_result))
        if row.has_result and row.result_fence is not None:
            yield from self._unlike("result", row.step_id, fence=(row.result_fence, step.fence))

    def _attempts(self) -> Iterator[Difference]:
        left = dict(self.story.attempts)
        for row in self.rows(
            "SELECT a.step_id, a.fence, a.state, a.counted, a.worker_id FROM stanchion.attempt a WHERE a.step_id IN"
            " (SELECT s.step_id FROM stanchion.step s WHERE s.run_id = %(run)s)"
        ):
            attempt = left.pop((row.step_id, row.fence), None)
            if attempt is None:
                yield from self._unlike("attempt", row.step_id, row=((row.fence, row.state), None))
                continue
            yield from self._unlike(
                "attempt",
                row.step_id,
                state=((row.fence, row.state), (row.fence, attempt.state)),
                counted=((row.fence, row.counted), (row.fence, attempt.counted)),
                worker_id=((row.fence, str(row.worker_id)), (row.fence, attempt.worker_id)),
            )
        for (step_id, fence), attempt in left.items():
            yield from self._unlike("attempt", step_id, row=(None, (fence, attempt.state)))

    def _operations(self) -> Iterator[Difference]:
        left = dict(self.story.operations)
        for row in self.rows(
            "SELECT o.operation_id, o.step_id, o.state, o.version FROM stanchion.operation o WHERE o.run_id = %(run)s"
        ):
            told = left.pop(row.operation_id, None)
            if told is None:
                yield from self._unlike("operation", row.operation_id, row=(row.state, None))
                continue
            yield from self._unlike(
                "operation",
                row.operation_id,
                state=(row.state, told.state),
                version=(row.version, told.version),
                step_id=(row.step_id, told.step_id),
            )

    def _approvals(self) -> Iterator[Difference]:
        left = dict(self.story.approvals)
        for row in self.rows(
            "SELECT a.approval_id, a.state, a.version, (SELECT count(*) FROM stanchion.approval_vote v"
            " WHERE v.approval_id = a.approval_id) AS votes FROM stanchion.approval a WHERE a.run_id = %(run)s"
        ):
            told = left.pop(row.approval_id, None)
            if told is None:
                yield from self._unlike("approval", row.approval_id, row=(row.state, None))
                continue
            yield from self._unlike(
                "approval",
                row.approval_id,
                state=(row.state, told.state),
                version=(row.version, told.version),
                votes=(row.votes, told.votes),
            )
        for approval_id, told in left.items():
            yield from self._unlike("approval", approval_id, row=(None, told.state))

    def _spending(self) -> Iterator[Difference]:
        """What was booked in this run; what of it went back to another task's budget, too."""
        sums = {row.unit: row.amount for row in self.rows(_BOOKED + " WHERE run_id = %(run)s GROUP BY unit")}
        told = {unit: amount for unit, amount in self.story.spent.items() if amount or unit in sums}
        yield from self._unlike("spending", None, booked=(sums, told))

    def _budget(self, task_id: UUID) -> Iterator[Difference]:
        """Limits by the events, and sums by the bookings, each of which is held against the events of its own run."""
        rows = list(
            self.rows(
                "SELECT b.unit, b.allowed, b.spent FROM stanchion.budget b JOIN stanchion.run r ON r.task_id = b.task_id"
                " WHERE r.run_id = %(run)s"
            )
        )
        mine = " WHERE task_id = (SELECT r.task_id FROM stanchion.run r WHERE r.run_id = %(run)s) GROUP BY unit"
        booked = {row.unit: row.amount for row in self.rows(_BOOKED + mine)}
        allowed = {row.unit: float(row.allowed) for row in rows if row.allowed is not None}
        yield from self._unlike("budget", task_id, allowed=(allowed, self.story.allowed))
        spent = {row.unit: row.spent for row in rows if row.spent or row.unit in booked}
        yield from self._unlike("budget", task_id, spent=(spent, booked))

    def _artifacts(self) -> Iterator[Difference]:
        left = dict(self.story.artifacts)
        for row in self.rows(
            "SELECT v.version_id, v.step_id, v.fence, v.state, v.version, v.number, encode(v.sha256, 'hex') AS sha256, v.size,"
            " v.pinned_at IS NOT NULL AS pinned FROM stanchion.artifact_version v WHERE v.run_id = %(run)s"
        ):
            artifact = left.pop(row.version_id, None)
            if artifact is None:
                yield from self._unlike("artifact", row.version_id, row=(row.state, None))
                continue
            names = ("step_id", "fence", "state", "version", "number", "sha256", "size", "pinned")
            told = {name: (getattr(row, name), getattr(artifact, name)) for name in names}
            yield from self._unlike("artifact", row.version_id, **told)
        for version_id, artifact in left.items():
            yield from self._unlike("artifact", version_id, row=(None, artifact.state))

    def _barriers(self, run: Any) -> Iterator[Difference]:
        arrived = self._arrivals()
        left = dict(self.story.barriers)
        slots = self._slots()
        for row in self.rows(
            "SELECT b.*, r.included, r.barrier_id IS NOT NULL AS has_release FROM stanchion.barrier b"
            " LEFT JOIN stanchion.barrier_release r ON r.barrier_id = b.barrier_id AND r.tenant_id = b.tenant_id"
            " WHERE b.run_id = %(run)s"
        ):
            barrier = left.pop(row.barrier_id, None)
            if barrier is None:
                yield from self._unlike("barrier", row.barrier_id, row=(row.state, None))
                continue
            yield from self._unlike(
                "barrier",
                row.barrier_id,
                state=(row.state, barrier.state),
                version=(row.version, barrier.version),
                expected=(row.expected, barrier.expected),
                releases=(int(row.has_release), barrier.releases),
                included=(row.included, barrier.included),
            )
            if run.state in COUNTED:
                counts = arrived.get(row.barrier_id, Counter())
                yield from self._counts(row, barrier, counts, slots.get(row.barrier_id, {}))
        for barrier_id, barrier in left.items():
            yield from self._unlike("barrier", barrier_id, row=(None, barrier.state))

    def _counts(self, row: Any, barrier: Barrier, counts: Counter[Any], slots: dict[int, int]) -> Iterator[Difference]:
        ok, bad, skipped = counts["ok"], counts["bad"], counts["skipped"]
        everything = ok + bad + skipped >= barrier.expected
        yield from self._unlike(
            "barrier",
            row.barrier_id,
            succeeded=(row.succeeded, ok if not barrier.slots or everything else 0),
            failed=(row.failed, bad),
            skipped=(row.skipped, skipped),
            slots=(row.slots, barrier.slots),
        )
        if barrier.kind == "gather":
            yield from self._unlike(
                "barrier", row.barrier_id, closed=(row.closed, everything and barrier.state != "waiting")
            )
        if barrier.slots:
            capacity = Counter((i // limits.SLOT_RUN) % limits.BARRIER_SLOTS for i in range(barrier.expected))
            told = {slot: n - counts["slot", slot] for slot, n in capacity.items()}
            yield from self._unlike("barrier_slot", row.barrier_id, remaining=(slots, told))
            yield from self._unlike(
                "barrier", row.barrier_id, slots_left=(row.slots_left, sum(1 for n in told.values() if n > 0))
            )

    def _arrivals(self) -> dict[UUID, Counter[Any]]:
        found: dict[UUID, Counter[Any]] = {}
        for step in self.story.steps.values():
            how = _arrival(step)
            if how is None:
                continue
            for barrier_id in step.feeds:
                counter = found.setdefault(barrier_id, Counter())
                counter[how] += 1
                counter["slot", (step.idx // 64) % 16] += 1
        return found

    def _slots(self) -> dict[UUID, dict[int, int]]:
        found: dict[UUID, dict[int, int]] = {}
        for row in self.rows(
            "SELECT l.barrier_id, l.slot, l.remaining FROM stanchion.barrier_slot l WHERE l.barrier_id IN"
            " (SELECT b.barrier_id FROM stanchion.barrier b WHERE b.run_id = %(run)s)"
        ):
            found.setdefault(row.barrier_id, {})[row.slot] = row.remaining
        return found


def _arrival(step: Step) -> str | None:
    """How a step counts where it is awaited; None while it doesn't, or when another one answers for it."""
    if step.kind != "step" or step.stand_in:
        return None
    if step.state == "skipped":
        return "bad" if step.spoiled else "skipped"
    if step.state == "cancelled":
        return "skipped" if step.left_over else None
    return {"succeeded": "ok", "failed": "bad"}.get(step.state)
