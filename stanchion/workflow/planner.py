"""Plans: which steps and barriers a piece of a run consists of, worked out from the graph alone, without any I/O.

A *scope instance* is the run itself or one branch of a fan-out. Inside it each declared step has one row, and so has
each fan-out that opens there. What a step waits for is counted in its `waits`: one `after` barrier for the steps of its
own scope that it comes after, one gather for a fan-out that it joins (inserted when the fan-out is expanded, since only
then it is known how many children there are), and one for being chosen by Go.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from stanchion.contracts.ids import new_id

from .graph import Graph, JoinSpec, Node

SLOTS = 16
CHILDREN_PER_SLOT_RUN = 64
"""Neighbouring children share a slot, so that a batch touches one to three of them; the database has the same numbers."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a piece is planned: the run, or one branch (`idx`) of the fan-out step `fan_id`."""

    tenant_id: UUID
    run_id: UUID
    fan_id: UUID | None = None
    idx: int = 0
    round: int = 0
    priority: int | None = None


@dataclass(slots=True)
class Plan:
    """Rows to insert, as the JSON that `insert_plan` takes; `open` is what it adds to the run's open count."""

    steps: list[dict[str, Any]] = field(default_factory=list)
    barriers: list[dict[str, Any]] = field(default_factory=list)
    ids: dict[str, UUID] = field(default_factory=dict)

    @property
    def open(self) -> int:
        return sum(1 for s in self.steps if s.get("counts"))


def milliseconds(seconds: float | None) -> int | None:
    """Whole milliseconds, at least one; None stays None."""
    return None if seconds is None else max(1, round(seconds * 1000))


def scope_of(node: Node) -> tuple[str, ...]:
    """The scope in which the node's row (for a fan-out: the fan-out's own row) stands."""
    return node.scope[:-1] if opens_scope(node) else node.scope


def opens_scope(node: Node) -> bool:
    """True for a step that runs once an item: an each= step, or the child of a Spawn."""
    return bool(node.scope) and node.scope[-1] == node.name


def holds(graph: Graph, scope: tuple[str, ...]) -> bool:
    """True when a failed branch of this scope holds all its joins, so that a failed step in it may be reopened."""
    if not scope:
        return False
    joins = joins_of(graph, graph.node(scope[-1]))
    return bool(joins) and all(j.join is not None and j.join.on_failed == "hold" for j, _ in joins)


def is_uncollected(graph: Graph, node: Node) -> bool:
    """True for a step of a branch from which no way leads to a joined step: nobody would learn that it failed."""
    if not node.scope:
        return False
    joined = {x.name for _, x in joins_of(graph, graph.node(node.scope[-1]))}
    plain = inside(graph, node.scope)
    reached, todo = {node.name}, [node]
    while todo:
        one = todo.pop()
        for other in plain:
            if other.name not in reached and _continues(graph, one, other):
                reached.add(other.name)
                todo.append(other)
    return not reached & joined


def inside(graph: Graph, scope: tuple[str, ...]) -> list[Node]:
    """The plain steps that run once in an instance of `scope`, its own opening step included."""
    return [
        n
        for n in graph.nodes
        if n.scope == scope and not (n.on_demand and not _is_chosen(graph, n) and not opens_scope(n))
    ]


def fans_inside(graph: Graph, scope: tuple[str, ...]) -> list[Node]:
    """The fan-outs that open in an instance of `scope`; those of Spawn come only when they are spawned."""
    return [n for n in graph.nodes if opens_scope(n) and n.scope[:-1] == scope and not n.on_demand]


def _is_chosen(graph: Graph, node: Node) -> bool:
    return any(node.name in n.next for n in graph.nodes)


def joins_of(graph: Graph, opener: Node) -> list[tuple[Node, Node]]:
    """Pairs (joining step, joined step) over the fan-out that `opener` opens."""
    for owner in graph.nodes:
        if owner.spawns and owner.spawns[0] == opener.name:
            return [(graph.node(owner.spawns[1]), opener)]
    return [
        (j, graph.node(x))
        for j in graph.nodes
        if j.join is not None
        for x in j.after
        if graph.node(x).scope == opener.scope and j.scope == opener.scope[:-1]
    ]


def ends_of(graph: Graph, opener: Node) -> list[Node]:
    """Steps inside the fan-out that nothing continues and no join reads: a gather without a step waits for them."""
    joined = {x.name for _, x in joins_of(graph, opener)}
    plain = inside(graph, opener.scope)
    return [n for n in plain if n.name not in joined and not any(_continues(graph, n, m) for m in plain)]


def _continues(graph: Graph, first: Node, then: Node) -> bool:
    if first.name in then.after or then.name in first.next:
        return True
    # over an inner fan-out: `then` joins what opens after `first`
    return any(
        first.name in fan.after and any(j.name == then.name for j, _ in joins_of(graph, fan))
        for fan in fans_inside(graph, first.scope)
    )


def plan_scope(
    graph: Graph,
    scope: tuple[str, ...],
    place: Place,
    *,
    only: Iterable[str] | None = None,
    known: Mapping[str, UUID] | None = None,
    gathers: Mapping[tuple[str, str], UUID] | None = None,
    inputs: Mapping[str, Any] | None = None,
) -> Plan:
    """The rows of one instance of `scope`.

    `only` restricts it to some steps (a further round); `known` has the ids of steps that exist already, in this scope
    or around it; `gathers` has the barrier of (joining step or "", joined step) for the fan-out around this branch;
    `inputs` has the inputs that are known now, by step.
    """
    wanted = None if only is None else set(only)
    units = [n for n in (*inside(graph, scope), *fans_inside(graph, scope)) if wanted is None or n.name in wanted]
    plan = Plan(ids={n.name: new_id() for n in units})
    known = known or {}
    gathers = gathers or {}
    feeds: dict[str, list[UUID]] = {n.name: [] for n in units}
    waits: dict[str, int] = {}
    for node in units:
        waits[node.name] = _wire(graph, scope, node, plan, place, feeds)
    for (_, joined), barrier_id in gathers.items():
        if joined in feeds:
            feeds[joined].append(barrier_id)
    for node in units:
        is_fan = scope_of(node) == scope and opens_scope(node)
        row = _step_row(graph, node, place, plan.ids[node.name], is_fan)
        row["waits"] = waits[node.name]
        row["state"] = "ready" if waits[node.name] == 0 and not is_fan else "pending"
        row["counts"] = is_fan or not scope
        row["feeds"] = (
            [str(plan.ids[j.name]) for j, _ in joins_of(graph, node) if j.name in plan.ids]
            if is_fan
            else [str(f) for f in feeds[node.name]]
        )
        row["sources"] = _sources(graph, scope, node, plan.ids, known, is_fan)
        row["holds"] = holds(graph, scope)
        row["uncollected"] = not is_fan and is_uncollected(graph, node)
        if node.next and not is_fan:
            row["chooses"] = [str(plan.ids[n]) for n in node.next if n in plan.ids]
        if inputs and node.name in inputs and not is_fan:
            row["input"] = inputs[node.name]
        plan.steps.append(row)
    return plan


def _wire(
    graph: Graph, scope: tuple[str, ...], node: Node, plan: Plan, place: Place, feeds: dict[str, list[UUID]]
) -> int:
    """Adds the barrier of what `node` comes after in this scope; returns how many things it waits for."""
    is_child = node.scope == scope and opens_scope(node)
    before = [p for p in node.after if p in plan.ids and graph.node(p).scope == scope and not is_child]
    waits = 0
    if before:
        barrier_id = new_id()
        plan.barriers.append(
            _barrier_row(
                place,
                barrier_id,
                plan.ids[node.name],
                None,
                node.name,
                "after",
                # a failed step of a branch that holds may be reopened: what comes after it waits for that
                JoinSpec(rule="all", on_failed="hold" if holds(graph, scope) else "fail"),
                len(before),
            )
        )
        for p in before:
            feeds[p].append(barrier_id)
        waits += 1
    waits += sum(
        1
        for p in node.after
        if not is_child
        and len(graph.node(p).scope) == len(scope) + 1
        and any(f.name == graph.node(p).scope[-1] for f in fans_inside(graph, scope))
        and graph.node(p).scope[-1] in plan.ids
    )
    if node.on_demand and _is_chosen(graph, node):
        waits += 1
    return waits


def _sources(
    graph: Graph, scope: tuple[str, ...], node: Node, ids: Mapping[str, UUID], known: Mapping[str, UUID], is_fan: bool
) -> list[str] | None:
    """Where the arguments come from: the steps named in `after`; for a joined step, its fan-out."""
    if node.scope == scope and opens_scope(node) and not is_fan:
        return None
    out = []
    for p in node.after:
        name = graph.node(p).scope[-1] if len(graph.node(p).scope) > len(scope) else p
        found = ids.get(name) or known.get(name)
        if found is None:
            raise LookupError(f"{node.name} needs {name}, which is neither planned here nor known")
        out.append(str(found))
    return out or None


def _step_row(graph: Graph, node: Node, place: Place, step_id: UUID, is_fan: bool) -> dict[str, Any]:
    return {
        "tenant_id": str(place.tenant_id),
        "step_id": str(step_id),
        "run_id": str(place.run_id),
        "fan_id": str(place.fan_id) if place.fan_id else None,
        "idx": place.idx,
        "round": place.round,
        "kind": "fan" if is_fan else "step",
        "node": node.name,
        "queue": node.queue,
        "priority": max(-100, min(100, node.priority + (place.priority or 0))),
        "max_attempts": node.retries + 1,
        "workflow": graph.name,
        "workflow_version": graph.version,
        "timeout_ms": milliseconds(node.timeout_seconds),
        "lease_ms": milliseconds(node.lease_seconds),
        "start_within_ms": None if is_fan else milliseconds(node.start_within_seconds),
        "total_ms": None if is_fan else milliseconds(node.total_seconds),
    }


def _barrier_row(
    place: Place,
    barrier_id: UUID,
    step_id: UUID | None,
    fan_id: UUID | None,
    node: str,
    kind: str,
    join: JoinSpec,
    expected: int,
) -> dict[str, Any]:
    # with slots it is not known which children are in, so a join that may be opened without some of them counts in its row
    slotted = kind == "gather" and join.rule == "all" and join.on_failed != "hold" and expected > SLOTS
    return {
        "tenant_id": str(place.tenant_id),
        "barrier_id": str(barrier_id),
        "run_id": str(place.run_id),
        "step_id": str(step_id) if step_id else None,
        "fan_id": str(fan_id) if fan_id else None,
        "node": node,
        "kind": kind,
        "rule": join.rule,
        "need": needed(join, expected),
        "expected": expected,
        "on_failed": join.on_failed,
        "rest": join.rest,
        "within_ms": milliseconds(join.within_seconds),
        "slots": min(SLOTS, -(-expected // CHILDREN_PER_SLOT_RUN)) if slotted else 0,
    }


def needed(join: JoinSpec, expected: int) -> int:
    """How many arrivals open the barrier. Nothing expected: it opens at once, whatever its rule."""
    if expected == 0:
        return 0
    if join.rule == "all":
        return expected
    if join.rule == "first":
        return 1
    assert join.need is not None
    return join.need if isinstance(join.need, int) else math.ceil(round(join.need * expected, 9))


def first_plan(graph: Graph, place: Place, task_input: Any) -> Plan:
    """The steps and barriers that exist from the first moment of a run; roots read the task's input."""
    return plan_scope(graph, (), place, inputs={n.name: task_input for n in graph.roots()})


@dataclass(frozen=True, slots=True)
class FanOut:
    """A fan-out that is being expanded: its own row, and the step that holds for each join (`held`, by node name)."""

    fan_id: UUID
    place: Place
    opener: Node
    total: int
    held: Mapping[str, UUID]


def gathers(graph: Graph, fan: FanOut) -> tuple[list[dict[str, Any]], dict[tuple[str, str], UUID]]:
    """The joins over a fan-out, now that the number of its children is known: rows, and ids by (join, joined)."""
    rows: list[dict[str, Any]] = []
    ids: dict[tuple[str, str], UUID] = {}
    for j, x in joins_of(graph, fan.opener):
        assert j.join is not None
        ids[j.name, x.name] = new_id()
        rows.append(
            _barrier_row(
                fan.place, ids[j.name, x.name], fan.held.get(j.name), fan.fan_id, j.name, "gather", j.join, fan.total
            )
        )
    # a gather without a step only waits for the end of all branches: who fails there has failed the run already
    for x in ends_of(graph, fan.opener):
        ids["", x.name] = new_id()
        rows.append(
            _barrier_row(
                fan.place,
                ids["", x.name],
                None,
                fan.fan_id,
                x.name,
                "gather",
                JoinSpec(rule="all", on_failed="collect"),
                fan.total,
            )
        )
    return rows, ids


def child_template(graph: Graph, fan: FanOut, feeds: Iterable[UUID]) -> dict[str, Any] | None:
    """What all children share, when a branch is one step; None when branches have several."""
    if len(inside(graph, fan.opener.scope)) > 1 or fans_inside(graph, fan.opener.scope):
        return None
    row = _step_row(graph, fan.opener, fan.place, fan.fan_id, False)
    kept = ("queue", "priority", "max_attempts", "node", "timeout_ms", "lease_ms", "start_within_ms", "total_ms")
    return {k: row[k] for k in kept} | {
        "feeds": [str(f) for f in feeds],
        "holds": holds(graph, fan.opener.scope),
        "uncollected": is_uncollected(graph, fan.opener),
    }


def plan_branch(
    graph: Graph,
    fan: FanOut,
    idx: int,
    item: Any,
    gather_ids: Mapping[tuple[str, str], UUID],
    known: Mapping[str, UUID],
) -> Plan:
    """The rows of one branch that has several steps."""
    place = Place(fan.place.tenant_id, fan.place.run_id, fan.fan_id, idx, fan.place.round, fan.place.priority)
    return plan_scope(graph, fan.opener.scope, place, known=known, gathers=gather_ids, inputs={fan.opener.name: item})


def outer_names(graph: Graph, scope: tuple[str, ...]) -> list[str]:
    """Steps around a scope that its steps read: they are complete, and their ids must be known to plan a branch."""
    return sorted(
        {
            p
            for n in (*inside(graph, scope), *fans_inside(graph, scope))
            if not (n.scope == scope and opens_scope(n))
            for p in n.after
            if len(graph.node(p).scope) < len(scope)
        }
    )


def between(graph: Graph, target: str, current: str) -> list[str]:
    """The steps of a further round: all on a way from `target` to `current`, both included, in their scope."""
    scope = graph.node(current).scope

    def row_before(name: str) -> list[str]:
        return [graph.node(p).scope[-1] if len(graph.node(p).scope) > len(scope) else p for p in graph.node(name).after]

    leads: dict[str, bool] = {target: True}

    def comes_from(name: str) -> bool:
        if name not in leads:
            leads[name] = False
            leads[name] = any(comes_from(p) for p in row_before(name))
        return leads[name]

    comes_from(current)
    reached: set[str] = set()
    todo = [current]
    while todo:
        name = todo.pop()
        if name in reached or not leads.get(name):
            continue
        reached.add(name)
        if name != target:
            todo += row_before(name)
    return [n.name for n in graph.nodes if n.name in reached]


def plan_again(
    graph: Graph,
    place: Place,
    current: str,
    target: str,
    target_input: Any,
    *,
    feeds: list[str],
    counts: bool,
    answers: str | None,
    known: Mapping[str, UUID],
) -> tuple[Plan, UUID]:
    """A further round from `target` to `current`; the new `current` stands in for the old one at what it feeds."""
    scope = graph.node(current).scope
    names = between(graph, target, current)
    plan = plan_scope(graph, scope, place, only=names, known=known, inputs={target: target_input})
    for row in plan.steps:
        if row["node"] == target and row["kind"] == "step" and target != current:
            row["waits"], row["state"] = 0, "ready"
        if row["node"] == current:
            row["feeds"], row["counts"], row["answers"] = feeds, counts, answers
            if target == current:
                row["waits"], row["state"] = 0, "ready"
    return plan, plan.ids[current]


def plan_spawn(
    graph: Graph,
    place: Place,
    owner: Node,
    items: Any,
    items_blob: str | None,
    *,
    feeds: list[str],
    counts: bool,
    answers: str,
) -> tuple[Plan, UUID, UUID]:
    """A fan-out and its join in place of the step that spawned them: plan, the join's id (the stand-in), the fan-out's id."""
    assert owner.spawns is not None
    child, join = (graph.node(n) for n in owner.spawns)
    fan_id, join_id = new_id(), new_id()
    fan = _step_row(graph, child, place, fan_id, True) | {
        "waits": 0,
        "state": "pending",
        "counts": True,
        "holds": holds(graph, owner.scope),
        "feeds": [str(join_id)],
        "input": items,
        "input_blob": items_blob,
    }
    joined = _step_row(graph, join, place, join_id, False) | {
        "waits": 1,
        "state": "pending",
        "counts": counts,
        "holds": holds(graph, owner.scope),
        "feeds": feeds,
        "sources": [str(fan_id)],
        "answers": answers,
    }
    return Plan([fan, joined], [], {child.name: fan_id, join.name: join_id}), join_id, fan_id
