"""One look at one tenant as of one moment: the rows that reasons are read from, and which steps they are about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, and_, literal, or_, select

from stanchion.contracts import ids, limits
from stanchion.db import tables
from stanchion.workflow import anatomy
from stanchion.workflow.graph import Graph

from .queries import BARRIER, rows_of
from .rows import Row
from .why_codes import Evidence

SHOWN: Final = 20  # lines of one kind at most: 10,000 running children are one
STALLED_SECONDS: Final = 60  # what is due for so long is not done any more
ACTIVE: Final = ("ready", "leased", "running", "retry_wait", "waiting", "unknown", "reconciling")
OPEN: Final = ("pending", *ACTIVE)

Which = Callable[[Any], ColumnElement[bool]]
"""A condition on the columns of a step, under whatever name it stands in a statement."""

# By name: a column that a later release adds must not be asked of an earlier schema.
_STEP = tables.step.c
_RUN_SHOWN: Final = [
    tables.run.c[name]
    for name in (
        "run_id",
        "tenant_id",
        "task_id",
        "number",
        "workflow",
        "workflow_version",
        "state",
        "outcome",
        "reason",
        "retry_of",
        "paused_at",
        "created_at",
        "updated_at",
        "ended_at",
    )
]
_STEP_SHOWN: Final = [
    _STEP[name]
    for name in (
        "step_id",
        "run_id",
        "fan_id",
        "idx",
        "kind",
        "node",
        "state",
        "holds",
        "feeds",
        "late_for",
        "replaced_by",
        "attempts",
        "updated_at",
    )
]
_TASK_SHOWN: Final = [tables.task.c[name] for name in ("task_id", "run_id", "state", "runs", "deadline_at")]


@dataclass(frozen=True, slots=True)
class Scope:
    """Which steps a look is about, and the barriers that hold them."""

    steps: ColumnElement[bool]
    barriers: ColumnElement[bool]
    is_run: bool = False


@dataclass
class Look:
    """A connection that sees one tenant, the moment by the database's clock, and what could not be checked."""

    connection: Connection
    tenant_id: UUID
    now: datetime
    lag_seconds: float = 0.0
    waiting_messages: int = 0
    unchecked: list[str] = field(default_factory=list)

    def rows(self, statement: Any) -> list[Row]:
        """The rows of a statement, by column name."""
        return rows_of(self.connection, statement)

    def first(self, statement: Any) -> Row | None:
        """Its first row."""
        found = self.rows(statement.limit(1))
        return found[0] if found else None

    def task(self, task_id: UUID) -> Row | None:
        """A task."""
        return self.first(select(*_TASK_SHOWN).where(tables.task.c.task_id == task_id))

    def run(self, run_id: UUID) -> Row | None:
        """A run."""
        return self.first(select(*_RUN_SHOWN).where(tables.run.c.run_id == run_id))

    def step(self, step_id: UUID) -> Row | None:
        """A step."""
        return self.a_step(_STEP.step_id == step_id)

    def a_step(self, which: ColumnElement[bool]) -> Row | None:
        """Any step like that."""
        return self.first(select(*_STEP_SHOWN).where(which))

    def could_not(self, what: str) -> None:
        """Say once what was not checked, and why."""
        if what not in self.unchecked:
            self.unchecked.append(what)

    def passed(self, moment: datetime) -> float:
        """Seconds since a moment."""
        return (self.now - moment).total_seconds()

    def is_overdue(self, moment: datetime | None) -> bool:
        """Whether what was due then should long be done."""
        return moment is not None and self.passed(moment) > STALLED_SECONDS


def evidence(kind: str, *values: UUID | None) -> tuple[Evidence, ...]:
    """Rows that were read, by their public ids."""
    prefix = {
        "task": ids.TASK,
        "run": ids.RUN,
        "step": ids.STEP,
        "barrier": BARRIER,
        "worker": ids.WORKER,
        "operation": ids.OPERATION,
        "approval": ids.APPROVAL,
        "dead_letter": ids.DEAD_LETTER,
    }[kind]
    return tuple(Evidence(kind, ids.public(prefix, value)) for value in values if value is not None)


def whole_run(run_id: UUID) -> Scope:
    """All that a run consists of."""
    return Scope(_STEP.run_id == run_id, tables.barrier.c.run_id == run_id, is_run=True)


def only(step: Row) -> Scope:
    """One step, and the barriers that hold it."""
    return Scope(_STEP.step_id == step["step_id"], tables.barrier.c.step_id == step["step_id"])


def inside_fan(run_id: UUID, fan_id: UUID) -> Scope:
    """All branches of a fan-out, those of fan-outs inside of it included."""
    return _scope(run_id, lambda step: _within(step, lambda one: one.fan_id == fan_id))


def before(graph: Graph, step: Row) -> Scope:
    """What a step comes after, in its own branch: the steps that lead to it, and what they opened."""
    names = sorted(names_before(graph, step["node"]))
    fan_id, idx = step["fan_id"], step["idx"]
    if fan_id is None:
        return _scope(step["run_id"], lambda one: one.node.in_(names))
    return _scope(
        step["run_id"],
        lambda one: _within(one, lambda own: (own.fan_id == fan_id) & (own.idx == idx)) & one.node.in_(names),
    )


def _scope(run_id: UUID, which: Which) -> Scope:
    held = tables.step.alias("held")
    holding = select(held.c.step_id).where(held.c.run_id == run_id, which(held.c))
    return Scope(
        and_(_STEP.run_id == run_id, which(_STEP)),
        and_(tables.barrier.c.run_id == run_id, tables.barrier.c.step_id.in_(holding)),
    )


def _within(step: Any, branch: Which) -> ColumnElement[bool]:
    """Whether a step is one of a branch, or of a fan-out that was opened inside of it, at any depth."""
    outer, inner = tables.step.alias(), tables.step.alias()
    fans = select(outer.c.step_id).where(branch(outer.c), outer.c.kind == "fan").cte(recursive=True)
    deeper = select(inner.c.step_id).where(inner.c.fan_id == fans.c.step_id, inner.c.kind == "fan")
    return or_(branch(step), step.fan_id.in_(select(fans.union_all(deeper).c.step_id)))


def directly_before(graph: Graph, name: str) -> frozenset[str]:
    """The nodes that a node waits for: what it comes after, what may choose or spawn it; and what answers for these."""
    node = graph.node(name)
    spawners = {one.name for one in graph if one.spawns and one.spawns[0] == name}
    joined = {one.spawns[0] for one in graph if one.spawns and one.spawns[1] == name}
    answering = {spawns[1] for before in node.after if (spawns := graph.node(before).spawns)}
    return frozenset({*node.after, *anatomy.choosers_of(graph, name), *spawners, *joined, *answering})


def names_before(graph: Graph, name: str) -> frozenset[str]:
    """All nodes on any way to a node."""
    found: set[str] = set()
    todo = [name]
    while todo:  # not by recursion: a chain may be longer than Python's stack
        for other in directly_before(graph, todo.pop()) - found:
            found.add(other)
            todo.append(other)
    return frozenset(found - {name})


def may_be_leased(run: Row) -> ColumnElement[bool]:
    """Which steps of a run may be leased now: the database's function of this name, which a reader may not call.

    A test compares the two for every state.
    """
    live = run["state"] in ("created", "running")
    if live and run["paused_at"] is None:
        return literal(True)
    probed = _STEP.state == "unknown" if live or run["state"] == "cancelling" else literal(False)
    return or_(probed, _STEP.kind == "undo")


def seen_lately(now: datetime) -> ColumnElement[bool]:
    """Which workers take on work: the database's function `is_alive`, held against it by the same test."""
    worker = tables.worker.c
    return (worker.state == "active") & (worker.seen_at > now - timedelta(seconds=limits.WORKER_SEEN_SECONDS))
