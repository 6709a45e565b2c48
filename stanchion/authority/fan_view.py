"""A fan-out as people look at it: the state of every child as one letter, in their order, and children in pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, case, exists, func, literal, select
from sqlalchemy.dialects.postgresql import aggregate_order_by, distinct_on

from stanchion.contracts import limits
from stanchion.db import tables
from stanchion.db.engine import Database

from .graph_view import arrived_at_barrier
from .queries import rows_of, task_row
from .rows import Page, Row, missing

LETTERS: Final[dict[str, str]] = {
    "pending": "p",
    "waiting": "p",
    "ready": "r",
    "leased": "l",
    "running": "l",
    "retry_wait": "y",
    "unknown": "u",
    "reconciling": "u",
    "succeeded": "s",
    "failed": "f",
    "cancelled": "c",
    "skipped": "c",
}
"""The letter of each state: states that people see as one have one."""
FANS_SHOWN: Final = 200

_STEP, _BARRIER, _ATTEMPT, _WORKER = tables.step.c, tables.barrier.c, tables.attempt.c, tables.worker.c

_LETTER = case(LETTERS, value=_STEP.state, else_="p")
_CELLS = func.coalesce(func.string_agg(_LETTER, aggregate_order_by(literal(""), _STEP.idx)), "")


@dataclass(frozen=True, slots=True)
class Fan:
    """One fan-out: its task, its own step, the node whose children are looked at, their states, the join over them."""

    task: Row
    node: str
    fan_id: UUID
    cells: str
    first_at: Any
    last_at: Any
    barrier: Row | None
    fans: list[Row]

    @property
    def counts(self) -> dict[str, int]:
        """How many children have each letter."""
        return {letter: count for letter in "fuylrpsc" if (count := self.cells.count(letter))}


class FanView:
    """Under a login that reads; every call sees one tenant."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def fan(self, tenant_id: UUID, task_id: UUID, node: str, fan_id: UUID | None = None) -> Fan:
        """The children of a node in one fan-out of the current run (the first one); raises NotFound."""
        with self.database.tenant(tenant_id) as connection:
            task = task_row(connection, task_id)
            fans = self._fans(connection, task["run_id"], node)
            chosen = next((one["fan_id"] for one in fans if fan_id in (None, one["fan_id"])), None)
            if chosen is None:
                raise missing("fan-out")
            times = (func.min(_STEP.created_at).label("first_at"), func.max(_STEP.updated_at).label("last_at"))
            found = select(_CELLS.label("cells"), *times).where(_STEP.fan_id == chosen, _STEP.node == node)
            row = connection.execute(found.where(_STEP.kind != "fan")).one()
            barrier = self._barrier(connection, chosen)
        return Fan(task, node, chosen, row.cells, row.first_at, row.last_at, barrier, fans)

    def child(self, tenant_id: UUID, task_id: UUID, node: str, index: int, fan_id: UUID | None = None) -> UUID:
        """The step of one child, by its index; raises NotFound."""
        with self.database.tenant(tenant_id) as connection:
            fans = self._fans(connection, task_row(connection, task_id)["run_id"], node)
            chosen = next((one["fan_id"] for one in fans if fan_id in (None, one["fan_id"])), None)
            found = select(_STEP.step_id).where(_STEP.fan_id == chosen, _STEP.node == node, _STEP.idx == index)
            step_id: UUID | None = connection.execute(found.where(_STEP.kind != "fan")).scalar()
        if step_id is None:
            raise missing("step")
        return step_id

    def children(
        self,
        tenant_id: UUID,
        fan_id: UUID,
        node: str,
        *,
        states: tuple[str, ...] | None = None,
        limit: int = limits.PAGE_ROWS,
        after: int | None = None,
    ) -> Page:
        """Children by their index, behind `after`, each with its newest attempt."""
        found = (
            select(
                _STEP.step_id, _STEP.idx.label("index"), _STEP.state, _STEP.fence, _STEP.attempts, _STEP.max_attempts
            )
            .where(_STEP.fan_id == fan_id, _STEP.node == node, _STEP.kind != "fan")
            .order_by(_STEP.idx)
            .limit(limit + 1)
        )
        if states is not None:
            found = found.where(_STEP.state.in_(states))
        if after is not None:
            found = found.where(_STEP.idx > after)
        with self.database.tenant(tenant_id) as connection:
            rows = rows_of(connection, found)
            more = rows[limit - 1]["index"] if len(rows) > limit else None
            rows = rows[:limit]
            attempts = self._newest(connection, [row["step_id"] for row in rows])
        none = dict.fromkeys(("attempt_state", "worker", "worker_id", "granted_at", "ended_at", "error"))
        return Page([row | attempts.get(row["step_id"], none) for row in rows], more)

    @staticmethod
    def _fans(connection: Connection, run_id: UUID, node: str) -> list[Row]:
        """The fan-outs that this node opens, or whose branches it stands in."""
        # every fan-out has a row among the barriers, and those are few: a run may have 100,000 steps
        gathered = select(_BARRIER.fan_id).where(_BARRIER.run_id == run_id, _BARRIER.kind == "gather").distinct()
        opened = select(_STEP.step_id.label("fan_id"), _STEP.idx.label("index"), _STEP.node).where(
            _STEP.step_id.in_(gathered)
        )
        mine = rows_of(connection, opened.where(_STEP.node == node).order_by(_STEP.step_id).limit(FANS_SHOWN))
        if mine:
            return mine
        child = tables.step.alias()
        inside = exists().where(child.c.fan_id == _STEP.step_id, child.c.node == node, child.c.kind != "fan")
        return rows_of(connection, opened.where(inside).order_by(_STEP.step_id).limit(FANS_SHOWN))

    @staticmethod
    def _barrier(connection: Connection, fan_id: UUID) -> Row | None:
        names = ("barrier_id", "node", "rule", "need", "expected", "failed", "skipped", "on_failed", "rest", "state")
        times = ("created_at", "released_at", "deadline_at")
        columns = [*(_BARRIER[name] for name in (*names, *times)), arrived_at_barrier().label("arrived")]
        found = select(*columns).where(
            _BARRIER.fan_id == fan_id, _BARRIER.kind == "gather", _BARRIER.step_id.is_not(None)
        )
        rows = rows_of(connection, found.order_by(_BARRIER.barrier_id).limit(1))
        return rows[0] if rows else None

    @staticmethod
    def _newest(connection: Connection, steps: list[UUID]) -> dict[UUID, Row]:
        if not steps:
            return {}
        columns = (
            _ATTEMPT.step_id,
            _ATTEMPT.state.label("attempt_state"),
            _WORKER.name.label("worker"),
            *(_ATTEMPT[name] for name in ("worker_id", "granted_at", "ended_at", "error")),
        )
        found = (
            select(*columns)
            .outerjoin(tables.worker, _WORKER.worker_id == _ATTEMPT.worker_id)
            .where(_ATTEMPT.step_id.in_(steps))
            .ext(distinct_on(_ATTEMPT.step_id))
            .order_by(_ATTEMPT.step_id, _ATTEMPT.fence.desc())
        )
        return {row.pop("step_id"): row for row in rows_of(connection, found)}
