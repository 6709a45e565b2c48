"""A task as its graph: what each node has come to, in counts that the database works out, whatever their number."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import case, func, or_, select

from stanchion.db import tables
from stanchion.db.engine import Database
from stanchion.workflow import anatomy
from stanchion.workflow.graph import Node

from .queries import rows_of, runs_of, task_row
from .rows import Row
from .workflows import Workflows

_STEP = tables.step.c
_BARRIER = tables.barrier.c


class GraphView:
    """Under the task service's login; every call sees one tenant."""

    def __init__(self, database: Database, workflows: Workflows) -> None:
        self.database = database
        self.workflows = workflows

    def head(self, tenant_id: UUID, task_id: UUID) -> Row:
        """A task with its runs and its budget, without its graph: of 100,000 steps none is looked at; raises NotFound."""
        with self.database.tenant(tenant_id) as connection:
            task = task_row(connection, task_id)
            return task | {"runs": runs_of(connection, task_id), "budget": rows_of(connection, _budget_of(task_id))}

    def task(self, tenant_id: UUID, task_id: UUID, *, with_payload: bool) -> Row:
        """A task with its runs and, for each node of its graph, counts by state and the barrier; raises NotFound."""
        with self.database.tenant(tenant_id) as connection:
            task = task_row(connection, task_id)
            runs = runs_of(connection, task_id)
            run_id = task["run_id"]
            counts = rows_of(connection, _step_counts(run_id))
            barriers = rows_of(connection, _barrier_counts(run_id))
            refused = dict(tuple(row) for row in connection.execute(_refused_counts(run_id)))
            budget = rows_of(connection, _budget_of(task_id))
            payload = rows_of(connection, _payload_of(task_id))[0] if with_payload else None
        graph = self.workflows.get(task["workflow"], task["version"])
        nodes = [_node_view(node, counts, barriers, refused.get(node.name, 0)) for node in graph]
        return task | {"runs": runs, "nodes": nodes, "budget": budget, "payload": payload}


def _step_counts(run_id: UUID) -> Any:
    """Per node, kind and state: how many, how often leased, how often taken over from a lost worker."""
    lost = tables.attempt.c
    # Only steps that lost a worker are looked up: of 100,000 children those are few.
    taken = case(
        (
            _STEP.losses > 0,
            select(func.count())
            .where(lost.step_id == _STEP.step_id, lost.state == "lost", lost.fence < _STEP.fence)
            .correlate(tables.step)
            .scalar_subquery(),
        ),
        else_=0,
    )
    return (
        select(
            _STEP.node,
            _STEP.kind,
            _STEP.state,
            func.count().label("count"),
            func.sum(_STEP.fence).label("attempts"),
            func.sum(taken).label("take_overs"),
            func.max(_STEP.round).label("round"),
            func.min(_STEP.created_at).label("first_at"),
            func.max(_STEP.updated_at).label("last_at"),
            func.any_value(_STEP.step_id).label("step_id"),
        )
        .where(_STEP.run_id == run_id)
        .group_by(_STEP.node, _STEP.kind, _STEP.state)
    )


def _refused_counts(run_id: UUID) -> Any:
    refused = tables.refused_write.c
    return (
        select(_STEP.node, func.count())
        .select_from(tables.refused_write.join(tables.step, _STEP.step_id == refused.step_id))
        .where(refused.run_id == run_id)
        .group_by(_STEP.node)
    )


def _payload_of(task_id: UUID) -> Any:
    task = tables.task.c
    return select(task.input, task.input_blob, task.constraints).where(task.task_id == task_id)


def _budget_of(task_id: UUID) -> Any:
    budget = tables.budget.c
    return select(budget.unit, budget.allowed, budget.spent).where(budget.task_id == task_id).order_by(budget.unit)


def remaining_in_slots() -> Any:
    """What the slots of a barrier still wait for; its row learns of it only at the end."""
    slot = tables.barrier_slot.c
    total = select(func.coalesce(func.sum(slot.remaining), 0)).where(slot.barrier_id == _BARRIER.barrier_id)
    return total.correlate(tables.barrier).scalar_subquery()


def arrived_at_barrier() -> Any:
    """How many arrivals count for a barrier's rule, also while they stand in its slots."""
    waits_in_slots = (_BARRIER.slots > 0) & (_BARRIER.state == "waiting")
    in_slots = _BARRIER.expected - remaining_in_slots() - _BARRIER.failed - _BARRIER.skipped
    succeeded = case((waits_in_slots, in_slots), else_=_BARRIER.succeeded)
    return succeeded + case((_BARRIER.on_failed == "collect", _BARRIER.failed), else_=0)


def _barrier_counts(run_id: UUID) -> Any:
    """Per node and kind: one barrier as it is, or the sums of many (a join inside a fan-out has one a branch)."""
    release = tables.barrier_release.c
    sums = {name: func.sum(_BARRIER[name]) for name in ("need", "expected", "failed", "skipped")}
    states = {
        f"{state}_count": func.count().filter(_BARRIER.state == state)
        for state in ("waiting", "released", "failed", "cancelled")
    }
    return (
        select(
            _BARRIER.node,
            _BARRIER.kind,
            func.count().label("count"),
            func.any_value(_BARRIER.barrier_id).label("barrier_id"),
            func.min(_BARRIER.rule).label("rule"),
            func.min(_BARRIER.on_failed).label("on_failed"),
            func.min(_BARRIER.rest).label("rest"),
            func.min(_BARRIER.state).label("state"),
            func.sum(arrived_at_barrier()).label("arrived"),
            func.sum(release.included).label("included"),
            func.max(_BARRIER.released_at).label("released_at"),
            func.min(_BARRIER.deadline_at).label("deadline_at"),
            *(expression.label(name) for name, expression in (sums | states).items()),
        )
        .select_from(tables.barrier.outerjoin(tables.barrier_release, release.barrier_id == _BARRIER.barrier_id))
        # A gather without a step only waits for the end of branches that nobody joins.
        .where(_BARRIER.run_id == run_id, or_(_BARRIER.kind == "after", _BARRIER.step_id.is_not(None)))
        .group_by(_BARRIER.node, _BARRIER.kind)
    )


def _node_view(node: Node, counts: Iterable[Row], barriers: Iterable[Row], refused: int) -> Row:
    mine = [row for row in counts if row["node"] == node.name]
    steps = [row for row in mine if row["kind"] == "step"]
    fans = [row for row in mine if row["kind"] == "fan"]
    barrier = _barrier_view(node, barriers)
    return {
        "name": node.name,
        "kind": "fan" if anatomy.opens_scope(node) else "join" if node.join is not None else "step",
        "after": list(node.after),
        "scope": list(node.scope),
        "on_demand": node.on_demand,
        "next": list(node.next),
        "queue": node.queue,
        "join": node.join.model_dump() if node.join is not None else None,
        "total": sum(row["count"] for row in steps),
        "step_id": steps[0]["step_id"] if len(steps) == 1 and steps[0]["count"] == 1 else None,  # of an only one
        "counts": {row["state"]: row["count"] for row in steps},
        "fans": {row["state"]: row["count"] for row in fans},
        "rounds": max((row["round"] + 1 for row in mine), default=0),
        "attempts": int(sum(row["attempts"] for row in steps)),
        "take_overs": int(sum(row["take_overs"] for row in steps)),
        "refused_writes": refused,
        "first_at": _began(steps, barrier),
        "last_at": max((row["last_at"] for row in mine), default=None),
        "barrier": barrier,
    }


def _began(steps: Iterable[Row], barrier: Row | None) -> datetime | None:
    """Since when there was something to do: its steps were there, and what they waited for."""
    born: datetime | None = min((row["first_at"] for row in steps), default=None)
    if born is None or barrier is None:
        return born
    opened: datetime | None = barrier["released_at"]
    return None if opened is None and not barrier["states"].get("released") else max(born, opened or born)


def _barrier_view(node: Node, barriers: Iterable[Row]) -> Row | None:
    kind = "gather" if node.join is not None else "after"
    found = next((row for row in barriers if row["node"] == node.name and row["kind"] == kind), None)
    if found is None:
        return None
    several = found["count"] > 1
    return {
        "barrier_id": None if several else found["barrier_id"],
        "kind": kind,
        "rule": found["rule"],
        "on_failed": found["on_failed"],
        "rest": found["rest"],
        "state": None if several else found["state"],
        "count": found["count"],
        "states": {
            state: found[f"{state}_count"]
            for state in ("waiting", "released", "failed", "cancelled")
            if found[f"{state}_count"]
        },
        **{name: int(found[name]) for name in ("need", "expected", "arrived", "failed", "skipped")},
        "included": None if found["included"] is None else int(found["included"]),
        "released_at": None if several and found["waiting_count"] else found["released_at"],
        "deadline_at": found["deadline_at"],
    }
