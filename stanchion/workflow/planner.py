"""Plans: which steps and barriers a piece of a run consists of, worked out from the graph alone, without any I/O.

A *scope instance* is the run itself or one branch of a fan-out. Inside it each declared step has one row, and so has
each fan-out that opens there. What a step waits for is counted in its `waits`: one `after` barrier for the steps of its
own scope that it comes after, one gather for a fan-out that it joins (inserted when the fan-out is expanded, since only
then it is known how many children there are), and one for being chosen by Go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from stanchion.contracts import limits
from stanchion.contracts.ids import new_id

from .anatomy import between, ends_of, fans_inside, holds, inside, is_uncollected, joins_of
from .blueprint import Unit, blueprint, milliseconds, row_of
from .graph import Graph, JoinSpec, Node


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
    units = blueprint(graph, scope, None if only is None else frozenset(only))
    plan = Plan(ids={unit.name: new_id() for unit in units})
    names = {name: str(step_id) for name, step_id in plan.ids.items()}
    around = {name: str(step_id) for name, step_id in (known or {}).items()}
    waited = {unit.name: new_id() for unit in units if unit.before}
    outer: dict[str, list[str]] = {}
    for (_, joined), barrier_id in (gathers or {}).items():
        outer.setdefault(joined, []).append(str(barrier_id))
    for unit in units:
        if unit.before:
            plan.barriers.append(
                _barrier_row(
                    place,
                    waited[unit.name],
                    plan.ids[unit.name],
                    None,
                    unit.name,
                    "after",
                    unit.barrier,
                    len(unit.before),
                )
            )
        row = _placed(place, unit.priority, names[unit.name], unit.fixed)
        row["feeds"] = (
            [names[name] for name in unit.feeds]
            if unit.is_fan
            else [*(str(waited[name]) for name in unit.feeds), *outer.get(unit.name, ())]
        )
        row["sources"] = _sources(unit, names, around)
        if unit.chooses is not None:
            row["chooses"] = [names[name] for name in unit.chooses]
        if inputs and unit.name in inputs and not unit.is_fan:
            row["input"] = inputs[unit.name]
        plan.steps.append(row)
    return plan


def _sources(unit: Unit, here: Mapping[str, str], around: Mapping[str, str]) -> list[str] | None:
    if unit.sources is None:
        return None
    found = [here.get(name) or around.get(name) for name in unit.sources]
    for name, step_id in zip(unit.sources, found, strict=True):
        if step_id is None:
            raise LookupError(f"{unit.name} needs {name}, which is neither planned here nor known")
    return [step_id for step_id in found if step_id is not None]


def _placed(place: Place, priority: int, step_id: str, fixed: Mapping[str, Any]) -> dict[str, Any]:
    """A step's row in one instance."""
    return {
        "tenant_id": str(place.tenant_id),
        "step_id": step_id,
        "run_id": str(place.run_id),
        "fan_id": str(place.fan_id) if place.fan_id else None,
        "idx": place.idx,
        "round": place.round,
        "priority": max(-100, min(100, priority + (place.priority or 0))),
        **fixed,
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
    held: bool = False,
) -> dict[str, Any]:
    # a slot takes nothing back: where a join over the fan-out holds, its failed children may be reopened, so that all
    # joins beside it count in their rows
    slotted = kind == "gather" and join.rule == "all" and not held and expected > limits.BARRIER_SLOTS
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
        "share": join.need if isinstance(join.need, float) else None,
        "expected": expected,
        "on_failed": join.on_failed,
        "rest": join.rest,
        "within_ms": milliseconds(join.within_seconds),
        "slots": min(limits.BARRIER_SLOTS, -(-expected // limits.SLOT_RUN)) if slotted else 0,
    }


def needed(join: JoinSpec, expected: int) -> int | None:
    """How many arrivals open the barrier; None for a share, which the database works out from those that take part.

    Nothing expected: it opens at once, whatever its rule.
    """
    if expected == 0:
        return 0
    if join.rule == "all":
        return expected
    if join.rule == "first":
        return 1
    assert join.need is not None
    return join.need if isinstance(join.need, int) else None


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
    held = holds(graph, fan.opener.scope)
    for j, x in joins_of(graph, fan.opener.name):
        assert j.join is not None
        ids[j.name, x.name] = new_id()
        rows.append(
            _barrier_row(
                fan.place,
                ids[j.name, x.name],
                fan.held.get(j.name),
                fan.fan_id,
                j.name,
                "gather",
                j.join,
                fan.total,
                held,
            )
        )
    # a gather without a step only waits for the end of all branches: who fails there has failed the run already
    for x in ends_of(graph, fan.opener.name):
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
                held,
            )
        )
    return rows, ids


def branch_steps(graph: Graph, opener: Node) -> int:
    """How many rows one branch of a fan-out has, its inner fan-outs counted as one each."""
    return len(inside(graph, opener.scope)) + len(fans_inside(graph, opener.scope))


def child_template(graph: Graph, fan: FanOut, feeds: Iterable[UUID]) -> dict[str, Any] | None:
    """What all children share, when a branch is one step; None when branches have several."""
    if branch_steps(graph, fan.opener) > 1:
        return None
    row = _placed(fan.place, fan.opener.priority, str(fan.fan_id), row_of(graph, fan.opener, False))
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
    fan = _placed(place, child.priority, str(fan_id), row_of(graph, child, True)) | {
        "waits": 0,
        "state": "pending",
        "counts": True,
        "holds": holds(graph, owner.scope),
        "feeds": [str(join_id)],
        "input": items,
        "input_blob": items_blob,
    }
    joined = _placed(place, join.priority, str(join_id), row_of(graph, join, False)) | {
        "waits": 1,
        "state": "pending",
        "counts": counts,
        "holds": holds(graph, owner.scope),
        "feeds": feeds,
        "sources": [str(fan_id)],
        "answers": answers,
    }
    return Plan([fan, joined], [], {child.name: fan_id, join.name: join_id}), join_id, fan_id
