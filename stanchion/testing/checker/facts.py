"""All that a history consists of, read in one snapshot: rows and events as they are, with nothing worked out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, LiteralString, TypeVar
from uuid import UUID

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row

from stanchion.testing.history import Execution

Row = dict[str, Any]
K = TypeVar("K", bound=Hashable)

_TABLES: Final[dict[str, LiteralString]] = {
    "tasks": "SELECT task_id, run_id, state, version FROM stanchion.task WHERE task_id = ANY (%(tasks)s)",
    "runs": """SELECT run_id, task_id, number, state, version, open FROM stanchion.run
        WHERE run_id = ANY (%(runs)s) ORDER BY number""",
    "steps": """SELECT step_id, run_id, fan_id, idx, round, node, kind, answers, state, version, fence, attempts,
        max_attempts, doubts, feeds, counts, spoiled, replaced_by FROM stanchion.step WHERE run_id = ANY (%(runs)s)""",
    "attempts": """SELECT step_id, fence, number, counted, state, ended_at IS NULL AS is_open FROM stanchion.attempt
        WHERE run_id = ANY (%(runs)s) ORDER BY step_id, fence""",
    "results": """SELECT r.step_id, r.fence, r.late FROM stanchion.result r
        JOIN stanchion.step s ON s.step_id = r.step_id WHERE s.run_id = ANY (%(runs)s)""",
    "barriers": """SELECT barrier_id, run_id, step_id, fan_id, node, kind, rule, need, expected, succeeded, failed, skipped,
        slots, slots_left, on_failed, state, version FROM stanchion.barrier WHERE run_id = ANY (%(runs)s)""",
    "slots": """SELECT l.barrier_id, l.slot, l.remaining FROM stanchion.barrier_slot l
        JOIN stanchion.barrier b ON b.barrier_id = l.barrier_id WHERE b.run_id = ANY (%(runs)s)""",
    "releases": """SELECT l.barrier_id, l.included, l.failed, l.skipped FROM stanchion.barrier_release l
        JOIN stanchion.barrier b ON b.barrier_id = l.barrier_id WHERE b.run_id = ANY (%(runs)s)""",
    "events": """SELECT event_id, run_id, step_id, kind, version, fence, actor, body FROM stanchion.event
        WHERE run_id = ANY (%(runs)s) ORDER BY event_id""",
    "artifacts": """SELECT version_id, artifact_id, state, number, encode(sha256, 'hex') AS sha256
        FROM stanchion.artifact_version WHERE task_id = ANY (%(tasks)s)""",
    "operations": """SELECT operation_id, run_id, step_id, kind, key, state, version, sends, compensates FROM stanchion.operation
        WHERE task_id = ANY (%(tasks)s)""",
    "approvals": """SELECT approval_id, node, state, version, needs, encode(payload_hash, 'hex') AS hash
        FROM stanchion.approval WHERE task_id = ANY (%(tasks)s)""",
    "budgets": "SELECT task_id, unit, spent FROM stanchion.budget WHERE task_id = ANY (%(tasks)s)",
    "ready": """SELECT y.step_id, y.node FROM stanchion.ready y
        JOIN stanchion.step s ON s.step_id = y.step_id WHERE s.run_id = ANY (%(runs)s)""",
    "timers": "SELECT kind, target_id FROM stanchion.timer WHERE run_id = ANY (%(runs)s)",
    "outbox": "SELECT id, type, key FROM stanchion.outbox WHERE correlation_id = ANY (%(runs)s::uuid[]::text[])",
    "refused": """SELECT w.step_id, w.fence, w.attempted FROM stanchion.refused_write w
        JOIN stanchion.step s ON s.step_id = w.step_id WHERE s.run_id = ANY (%(runs)s)""",
}

_SESSIONS = """SELECT pid, usename, application_name, extract(epoch FROM clock_timestamp() - state_change) AS seconds
FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'"""


@dataclass(slots=True)
class Facts:
    """The rows of some tasks, by table, and the indexes that checks share."""

    tasks: list[Row]
    runs: list[Row]
    steps: list[Row]
    attempts: list[Row]
    results: list[Row]
    barriers: list[Row]
    slots: list[Row]
    releases: list[Row]
    events: list[Row]
    artifacts: list[Row]
    operations: list[Row]
    approvals: list[Row]
    budgets: list[Row]
    ready: list[Row]
    timers: list[Row]
    outbox: list[Row]
    refused: list[Row]
    sessions: list[Row]
    executions: list[Execution] | None = None
    settled: bool = True
    """The history is over: every task has ended, nothing is under way."""

    step: dict[UUID, Row] = field(default_factory=dict)
    run: dict[UUID, Row] = field(default_factory=dict)
    attempts_of: dict[UUID, list[Row]] = field(default_factory=dict)
    step_events: dict[UUID, list[Row]] = field(default_factory=dict)
    barrier_events: dict[UUID, list[Row]] = field(default_factory=dict)
    artifact_events: list[Row] = field(default_factory=list)
    operation_events: dict[UUID, list[Row]] = field(default_factory=dict)
    approval_events: dict[UUID, list[Row]] = field(default_factory=dict)
    feeders: dict[UUID, list[Row]] = field(default_factory=dict)
    """The steps that arrive at a barrier."""

    def __post_init__(self) -> None:
        self.step = {s["step_id"]: s for s in self.steps}
        self.run = {r["run_id"]: r for r in self.runs}
        self.attempts_of = _grouped(self.attempts, lambda a: a["step_id"])
        self.artifact_events = [e for e in self.events if e["kind"].startswith("Artifact")]
        of_operations = [e for e in self.events if e["kind"].startswith("Operation")]
        others = ("Artifact", "Operation", "Approval", "Budget")
        of_steps = [e for e in self.events if e["step_id"] and not e["kind"].startswith(others)]
        of_approvals = [e for e in self.events if e["kind"].startswith("Approval")]
        self.approval_events = _grouped(of_approvals, lambda e: UUID(e["body"]["approval"]))
        self.step_events = _grouped(of_steps, lambda e: e["step_id"])
        self.operation_events = _grouped(of_operations, lambda e: UUID(e["body"]["operation"]))
        joins = [e for e in self.events if not e["step_id"] and e["kind"].startswith("Barrier")]
        self.barrier_events = _grouped(joins, lambda e: UUID(e["body"]["barrier"]))
        arriving: defaultdict[UUID, list[Row]] = defaultdict(list)
        for step in self.steps:
            if step["kind"] == "step":
                for barrier in step["feeds"] or ():
                    arriving[barrier].append(step)
        self.feeders = dict(arriving)


def read(
    connection: psycopg.Connection[Any],
    tasks: Sequence[UUID] | None,
    executions: Sequence[Execution] | None,
    settled: bool,
) -> Facts:
    """Read everything about `tasks` (None: all) in one snapshot, unless `connection` is in a transaction already."""
    fresh = connection.info.transaction_status is TransactionStatus.IDLE
    with connection.transaction(), connection.cursor(row_factory=dict_row) as cursor:
        if fresh:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        wanted = _ids(cursor, "SELECT task_id AS id FROM stanchion.task", {}) if tasks is None else list(tasks)
        runs = _ids(cursor, "SELECT run_id AS id FROM stanchion.run WHERE task_id = ANY (%(tasks)s)", {"tasks": wanted})
        named = {"tasks": wanted, "runs": runs}
        rows: dict[str, Any] = {name: cursor.execute(sql, named).fetchall() for name, sql in _TABLES.items()}
        sessions = cursor.execute(_SESSIONS).fetchall()
    own = {s["step_id"] for s in rows["steps"]}
    seen = None if executions is None else [e for e in executions if tasks is None or e.step_id in own]
    return Facts(**rows, sessions=sessions, executions=seen, settled=settled)


def _ids(cursor: psycopg.Cursor[Row], sql: LiteralString, named: Row) -> list[UUID]:
    return [row["id"] for row in cursor.execute(sql, named).fetchall()]


def _grouped(rows: Sequence[Row], key: Callable[[Row], K]) -> dict[K, list[Row]]:
    grouped: defaultdict[K, list[Row]] = defaultdict(list)
    for row in rows:
        grouped[key(row)].append(row)
    return dict(grouped)
