"""The rows of a scope, worked out once a graph: every instance has the same ones, and differs only in ids and place.

A unit is one row: a plain step of the scope, or a fan-out that opens in it. What it is connected to stands as names
here; the planner fills in the ids of one instance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .anatomy import Scope, fans_inside, holds, inside, is_chosen, is_uncollected, joins_of, once, opens_scope
from .graph import Graph, JoinSpec, Node


@dataclass(frozen=True, slots=True)
class Unit:
    """One row of a scope. `fixed` is the same everywhere; the others are names of units, and what surrounds them."""

    name: str
    priority: int
    is_fan: bool
    fixed: dict[str, Any]
    before: tuple[str, ...]
    """Units of this plan that it comes after: its `after` barrier waits for them."""
    barrier: JoinSpec
    feeds: tuple[str, ...]
    """Units whose `after` barrier it feeds; of a fan-out its joins."""
    sources: tuple[str, ...] | None
    """Where its arguments come from: units here, or steps around."""
    chooses: tuple[str, ...] | None


def milliseconds(seconds: float | None) -> int | None:
    """Whole milliseconds, at least one; None stays None."""
    return None if seconds is None else max(1, round(seconds * 1000))


@once
def blueprint(graph: Graph, scope: Scope, only: frozenset[str] | None = None) -> tuple[Unit, ...]:
    """The units of an instance of `scope`; `only` restricts it to some of them (a further round)."""
    nodes = [n for n in (*inside(graph, scope), *fans_inside(graph, scope)) if only is None or n.name in only]
    return _Drawer(graph, scope, nodes).draw()


class _Drawer:
    def __init__(self, graph: Graph, scope: Scope, nodes: list[Node]) -> None:
        self.graph = graph
        self.scope = scope
        self.nodes = nodes
        self.here = {n.name for n in nodes}
        self.before = {n.name: self._before(n) for n in nodes}
        self.feeds: dict[str, list[str]] = {n.name: [] for n in nodes}
        for node in nodes:
            for name in self.before[node.name]:
                self.feeds[name].append(node.name)

    def draw(self) -> tuple[Unit, ...]:
        return tuple(self._unit(node) for node in self.nodes)

    def _is_child(self, node: Node) -> bool:
        return node.scope == self.scope and opens_scope(node)

    def _before(self, node: Node) -> tuple[str, ...]:
        if self._is_child(node):
            return ()
        return tuple(p for p in node.after if p in self.here and self.graph.node(p).scope == self.scope)

    def _unit(self, node: Node) -> Unit:
        is_fan = opens_scope(node) and node.scope[:-1] == self.scope
        waits = self._waits(node)
        held = holds(self.graph, self.scope)
        feeds = self.feeds[node.name]
        if is_fan:
            feeds = [j.name for j, _ in joins_of(self.graph, node.name) if j.name in self.here]
        fixed = row_of(self.graph, node, is_fan) | {
            "waits": waits,
            "state": "ready" if waits == 0 and not is_fan else "pending",
            "counts": is_fan or not self.scope,
            "holds": held,
            "uncollected": not is_fan and is_uncollected(self.graph, node),
        }
        return Unit(
            name=node.name,
            priority=node.priority,
            is_fan=is_fan,
            fixed=fixed,
            before=self.before[node.name],
            # a failed step of a branch that holds may be reopened: what comes after it waits for that
            barrier=JoinSpec(rule="all", on_failed="hold" if held else "fail"),
            feeds=tuple(feeds),
            sources=self._sources(node, is_fan),
            chooses=tuple(n for n in node.next if n in self.here) if node.next and not is_fan else None,
        )

    def _waits(self, node: Node) -> int:
        """How many things it waits for: what it comes after here, a fan-out that it joins, and being chosen."""
        waits = 1 if self.before[node.name] else 0
        if not self._is_child(node):
            waits += sum(1 for p in node.after if self._is_joined(p))
        return waits + (1 if node.on_demand and is_chosen(self.graph, node.name) else 0)

    def _is_joined(self, name: str) -> bool:
        scope = self.graph.node(name).scope
        fans = fans_inside(self.graph, self.scope)
        return len(scope) == len(self.scope) + 1 and scope[-1] in self.here and any(f.name == scope[-1] for f in fans)

    def _sources(self, node: Node, is_fan: bool) -> tuple[str, ...] | None:
        """The steps named in `after`; for a joined step, its fan-out."""
        if self._is_child(node) and not is_fan:
            return None
        around = [self.graph.node(p) for p in node.after]
        return tuple(p.scope[-1] if len(p.scope) > len(self.scope) else p.name for p in around) or None


def row_of(graph: Graph, node: Node, is_fan: bool) -> dict[str, Any]:
    """What a step's row has from its definition, wherever it stands."""
    return {
        "kind": "fan" if is_fan else "step",
        "node": node.name,
        "queue": node.queue,
        "max_attempts": node.retries + 1,
        "workflow": graph.name,
        "workflow_version": graph.version,
        "timeout_ms": milliseconds(node.timeout_seconds),
        "lease_ms": milliseconds(node.lease_seconds),
        "start_within_ms": None if is_fan else milliseconds(node.start_within_seconds),
        "total_ms": None if is_fan else milliseconds(node.total_seconds),
    }
