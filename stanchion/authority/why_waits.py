"""What waits for something else: operations in doubt, people, joins, the steps before; and a run that ends."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import String, and_, any_, case, cast, exists, func, literal, or_, select
from sqlalchemy.dialects.postgresql import aggregate_order_by, distinct_on

from stanchion.db import tables
from stanchion.workflow.graph import Graph

from . import why_wait_texts as texts
from .graph_view import arrived_at_barrier
from .rows import Row
from .why_codes import Reason
from .why_look import ACTIVE, OPEN, SHOWN, Look, Scope, directly_before

_STEP, _BARRIER, _TIMER, _READY = tables.step.c, tables.barrier.c, tables.timer.c, tables.ready.c
_OPERATION, _APPROVAL, _VOTE, _STAT = tables.operation.c, tables.approval.c, tables.approval_vote.c, tables.node_stat.c

_ATTEMPT: Final = tables.attempt.c
HELD: Final = ("leased", "running", "reconciling")
ENDED: Final = ("succeeded", "failed", "cancelled", "skipped")


def winding(look: Look, run: Row) -> list[Reason]:
    """A run that ends: what of it still runs, and what it undoes."""
    if run["state"] != "cancelling":
        return []
    held = _STEP.state.in_(("leased", "running")) & (_STEP.kind != "undo")
    counts = look.rows(
        select(
            func.count().filter(held).label("running"),
            func.count().filter((_STEP.kind == "undo") & _STEP.state.in_(OPEN)).label("undoing"),
            func.any_value(_STEP.node).filter(held).label("node"),
            func.any_value(_STEP.step_id).filter(held).label("step_id"),
        ).where(_STEP.run_id == run["run_id"], or_(_STEP.state.in_(OPEN)))
    )[0]
    return [texts.winding(look, run, counts)]


def doubts(look: Look, run: Row, scope: Scope) -> list[Reason]:
    """Operations of unknown fate: a worker asks, they are asked after, or only a person can tell."""
    due = select(func.min(_TIMER.due_at)).where(_TIMER.target_id == _STEP.step_id, _TIMER.kind == "probe")
    due_at = due.correlate(tables.step).scalar_subquery()
    offered = exists().where(_READY.step_id == _STEP.step_id)
    held = exists().where(
        _ATTEMPT.step_id == _STEP.step_id, _ATTEMPT.ended_at.is_(None), _ATTEMPT.lease_until >= look.now
    )
    asked = case(
        (_STEP.state.in_(ENDED), "ended"),
        (and_(_STEP.state != "unknown", held), "now"),
        (_STEP.state.in_(HELD), "lost"),
        (or_(offered, due_at.is_not(None)), "due"),
        else_="never",
    )
    found = (
        select(
            *(
                _OPERATION[name]
                for name in ("operation_id", "step_id", "kind", "key", "unknown_since", "probes", "can_query")
            ),
            due_at.label("due"),
            asked.label("asked"),
        )
        .select_from(tables.operation.join(tables.step, _OPERATION.step_id == _STEP.step_id))
        .where(_OPERATION.run_id == run["run_id"], _OPERATION.state == "unknown", scope.steps)
        .subquery()
    )
    names = ("operation_id", "step_id", "probes", "can_query")
    groups = (
        select(
            found.c.kind,
            found.c.asked,
            func.count().label("count"),
            func.min(found.c.unknown_since).label("since"),
            func.min(found.c.due).label("due"),
            *(func.any_value(found.c[name]).label(name) for name in names),
        )
        .group_by(found.c.kind, found.c.asked)
        .order_by(func.min(found.c.unknown_since))
        .limit(SHOWN)
    )
    return [texts.doubt(look, row) for row in look.rows(groups)]


def approvals(look: Look, scope: Scope) -> list[Reason]:
    """People who are asked, one line a node."""
    joined = tables.step.join(tables.approval, and_(_APPROVAL.step_id == _STEP.step_id, _APPROVAL.fence == _STEP.fence))
    votes = (
        select(func.string_agg(_VOTE.subject, aggregate_order_by(literal(", "), _VOTE.number)))
        .where(_VOTE.approval_id == _APPROVAL.approval_id, _VOTE.vote == "approve")
        .correlate(tables.approval)
        .scalar_subquery()
    )
    shown = ("approval_id", "step_id", "node", "people", "teams", "needs", "on_timeout", "created_at", "expires_at")
    rows = look.rows(
        select(
            *(_APPROVAL[name] for name in shown),
            votes.label("approved_by"),
            func.count().over(partition_by=_APPROVAL.node).label("count"),
        )
        .select_from(joined)
        .where(scope.steps, _STEP.state == "waiting", _APPROVAL.state == "requested")
        .ext(distinct_on(_APPROVAL.node))
        .order_by(_APPROVAL.node, _APPROVAL.expires_at)
        .limit(SHOWN)
    )
    return [texts.approval(look, row) for row in rows]


def barriers(look: Look, run: Row, scope: Scope) -> list[Reason]:
    """Joins that wait, one line a node; of those that hold for failed branches, what holds them."""
    if run["state"] not in ("created", "running"):
        return []
    which = and_(scope.barriers, _BARRIER.state == "waiting", _BARRIER.step_id.is_not(None), _BARRIER.kind == "gather")
    sums = {name: func.sum(_BARRIER[name]) for name in ("need", "expected", "succeeded", "failed", "skipped")}
    joins = look.rows(
        select(
            _BARRIER.node,
            _BARRIER.rule,
            _BARRIER.on_failed,
            func.count().label("count"),
            *(total.label(name) for name, total in sums.items()),
            func.sum(arrived_at_barrier()).label("arrived"),
            func.min(_BARRIER.created_at).label("since"),
            func.min(_BARRIER.deadline_at).label("deadline_at"),
            func.any_value(_BARRIER.barrier_id).label("barrier_id"),
        )
        .where(which)
        .group_by(_BARRIER.node, _BARRIER.rule, _BARRIER.on_failed)
        .order_by(func.min(_BARRIER.created_at))
        .limit(SHOWN)
    )
    holding = _holding(look, which) if any(join["on_failed"] == "hold" for join in joins) else {}
    reasons = [texts.overdue(look, run, join) for join in joins if look.is_overdue(join["deadline_at"])]
    for join in joins:
        held = holding.get(join["node"]) if join["on_failed"] == "hold" else None
        reasons.append(texts.held(look, run, join, held) if held else texts.barrier(look, join))
    return reasons


def _holding(look: Look, which: Any) -> dict[str, Row]:
    """By joining node what holds it: failed steps of its branches, and branches that an inner join ended for good."""
    failed = _STEP.state == "failed"
    lost = _STEP.spoiled & (_BARRIER.barrier_id == any_(_STEP.feeds))
    beside = tables.step.alias("beside")
    stands = failed & ~exists().where(
        beside.c.fan_id == _STEP.fan_id, beside.c.idx == _STEP.idx, beside.c.state.in_(ACTIVE)
    )
    # a failed step that is joined itself is counted by the join already
    still = stands & func.array_position(_STEP.feeds, _BARRIER.barrier_id).is_(None)
    branch = func.row(_BARRIER.barrier_id, _STEP.idx)
    rows = look.rows(
        select(
            _BARRIER.node,
            func.count().filter(failed).label("holding"),
            func.count().filter(lost).label("lost"),
            func.count(branch.distinct()).filter(still).label("still"),
            func.array_agg(_STEP.node.distinct()).filter(failed).label("nodes"),
            func.any_value(_STEP.step_id).filter(failed).label("step_id"),
            func.any_value(_BARRIER.barrier_id).label("barrier_id"),
            func.count(_BARRIER.barrier_id.distinct()).label("joins"),
            func.min(_STEP.updated_at).label("since"),
            func.max(_inner_join()).filter(lost).label("inner"),
        )
        .select_from(tables.barrier.join(tables.step, _STEP.fan_id == _BARRIER.fan_id))
        .where(which, _BARRIER.on_failed == "hold", or_(failed, _STEP.spoiled))
        .group_by(_BARRIER.node)
    )
    return {row["node"]: row for row in rows if row["holding"] or row["lost"]}


def _inner_join() -> Any:
    """The join that ended a step before it could run: what the step itself waited for."""
    inner = tables.barrier.alias("inner_join")
    return (
        select(func.min(inner.c.node))
        .where(inner.c.step_id == _STEP.step_id, inner.c.kind == "gather", inner.c.state == "failed")
        .correlate(tables.step)
        .scalar_subquery()
    )


def upstream(look: Look, graph: Graph, step: Row, scope: Scope) -> list[Reason]:
    """What a pending step comes after, and how that stands; what it joins has a line of its own."""
    joined = set() if graph.node(step["node"]).join is None else set(graph.node(step["node"]).after)
    names = sorted(directly_before(graph, step["node"]) - joined)
    usual = and_(_STAT.workflow == _STEP.workflow, _STAT.version == _STEP.workflow_version, _STAT.node == _STEP.node)
    rows = look.rows(
        select(
            _STEP.node,
            _STEP.state,
            func.count().label("count"),
            func.min(_STEP.updated_at).label("since"),
            func.any_value(_STEP.step_id).label("step_id"),
            func.max(_STAT.mean_ms).label("mean_ms"),
        )
        .select_from(tables.step.outerjoin(tables.node_stat, usual))
        .where(scope.steps, _STEP.node.in_(names), _STEP.state.in_((*OPEN, "failed")))
        .group_by(_STEP.node, _STEP.state)
        .order_by(cast(_STEP.node, String))
        .limit(SHOWN)
    )
    return [texts.upstream(look, step, row) for row in rows]


def late(look: Look, step: Row) -> list[Reason]:
    """Joins that opened without this step."""
    if not step["late_for"]:
        return []
    rows = look.rows(
        select(_BARRIER.node, _BARRIER.barrier_id, _BARRIER.released_at).where(
            _BARRIER.barrier_id.in_(step["late_for"])
        )
    )
    return [texts.late(step, row) for row in rows]


def late_at(look: Look, barrier: Row) -> list[Reason]:
    """What came, or will come, too late for a join that has opened."""
    which = and_(_STEP.fan_id == barrier["fan_id"], barrier["barrier_id"] == any_(_STEP.feeds))
    came = func.count().filter(barrier["barrier_id"] == any_(_STEP.late_for))
    rows = look.rows(select(came.label("late"), func.count().filter(_STEP.state.in_(OPEN)).label("open")).where(which))
    return [texts.late_at(barrier, rows[0])] if rows[0]["late"] or rows[0]["open"] else []
