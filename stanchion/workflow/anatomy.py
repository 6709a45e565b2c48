"""What follows from a graph alone: what stands in a scope, what joins what, and whose failure nobody would learn of.

Every branch of a fan-out has the same answers, and there may be 100,000 of them: each is worked out once a graph and
kept with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from .graph import Graph, Node

P = ParamSpec("P")
T = TypeVar("T")
Scope = tuple[str, ...]


def once(work: Callable[Concatenate[Graph, P], T]) -> Callable[Concatenate[Graph, P], T]:
    """Work it out once a graph; arguments are names, so that they can be keys. Nobody changes what comes back."""

    @wraps(work)
    def look(graph: Graph, /, *names: P.args, **none: P.kwargs) -> T:
        key = (work.__name__, *names)
        if key not in graph.memo:
            graph.memo[key] = work(graph, *names, **none)
        found: T = graph.memo[key]
        return found

    return look


def opens_scope(node: Node) -> bool:
    """True for a step that runs once an item: an each= step, or the child of a Spawn."""
    return bool(node.scope) and node.scope[-1] == node.name


@once
def choosers_of(graph: Graph, name: str) -> tuple[str, ...]:
    """The steps that may choose this one with Go."""
    return _choosers(graph).get(name, ())


@once
def _choosers(graph: Graph) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for node in graph.nodes:
        for target in node.next:
            found[target] = (*found.get(target, ()), node.name)
    return found


def is_chosen(graph: Graph, name: str) -> bool:
    """True for a step that starts when Go names it."""
    return name in _choosers(graph)


@once
def inside(graph: Graph, scope: Scope) -> tuple[Node, ...]:
    """The plain steps that run once in an instance of `scope`, its own opening step included."""
    return tuple(
        n
        for n in graph.nodes
        if n.scope == scope and not (n.on_demand and not is_chosen(graph, n.name) and not opens_scope(n))
    )


@once
def fans_inside(graph: Graph, scope: Scope) -> tuple[Node, ...]:
    """The fan-outs that open in an instance of `scope`; those of Spawn come only when they are spawned."""
    return tuple(n for n in graph.nodes if opens_scope(n) and n.scope[:-1] == scope and not n.on_demand)


@once
def joins_of(graph: Graph, opener: str) -> tuple[tuple[Node, Node], ...]:
    """Pairs (joining step, joined step) over the fan-out that `opener` opens."""
    node = graph.node(opener)
    for owner in graph.nodes:
        if owner.spawns and owner.spawns[0] == opener:
            return ((graph.node(owner.spawns[1]), node),)
    return tuple(
        (j, graph.node(x))
        for j in graph.nodes
        if j.join is not None
        for x in j.after
        if graph.node(x).scope == node.scope and j.scope == node.scope[:-1]
    )


@once
def continued(graph: Graph, scope: Scope) -> dict[str, tuple[str, ...]]:
    """By step of the scope the steps of the scope that lead to it directly, choices and inner fan-outs included."""
    plain = {n.name: n for n in inside(graph, scope)}
    found: dict[str, list[str]] = {name: [] for name in plain}
    for name, node in plain.items():
        found[name] += [p for p in node.after if p in plain]
        for target in node.next:
            if target in plain:
                found[target].append(name)
    for fan in fans_inside(graph, scope):  # over an inner fan-out: its join comes after what its list came from
        for joining, _ in joins_of(graph, fan.name):
            if joining.name in plain:
                found[joining.name] += [p for p in fan.after if p in plain]
    return {name: tuple(before) for name, before in found.items()}


@once
def ends_of(graph: Graph, opener: str) -> tuple[Node, ...]:
    """Steps inside the fan-out that nothing continues and no join reads: a gather without a step waits for them."""
    scope = graph.node(opener).scope
    joined = {x.name for _, x in joins_of(graph, opener)}
    leading = {p for before in continued(graph, scope).values() for p in before}
    return tuple(n for n in inside(graph, scope) if n.name not in joined and n.name not in leading)


@once
def holds(graph: Graph, scope: Scope) -> bool:
    """True when a failed branch of this scope holds any of its joins: a failed step in it may be reopened as long as
    that join waits, and the joins beside it take the failure back as well."""
    return bool(scope) and any(j.join is not None and j.join.on_failed == "hold" for j, _ in joins_of(graph, scope[-1]))


@once
def collected(graph: Graph, scope: Scope) -> frozenset[str]:
    """The steps of a branch from which a way leads to a joined step."""
    before = continued(graph, scope)
    reached = {x.name for _, x in joins_of(graph, scope[-1])}
    todo = [name for name in reached if name in before]
    while todo:
        for name in before[todo.pop()]:
            if name not in reached:
                reached.add(name)
                todo.append(name)
    return frozenset(reached)


def is_uncollected(graph: Graph, node: Node) -> bool:
    """True for a step of a branch from which no way leads to a joined step: nobody would learn that it failed."""
    return bool(node.scope) and node.name not in collected(graph, node.scope)


@once
def outer_names(graph: Graph, scope: Scope) -> tuple[str, ...]:
    """Steps around a scope that its steps read: they are complete, and their ids must be known to plan a branch."""
    units = (*inside(graph, scope), *fans_inside(graph, scope))
    return tuple(
        sorted(
            {
                p
                for n in units
                if not (n.scope == scope and opens_scope(n))
                for p in n.after
                if len(graph.node(p).scope) < len(scope)
            }
        )
    )


@once
def between(graph: Graph, target: str, current: str) -> tuple[str, ...]:
    """The steps of a further round: all on a way from `target` to `current`, both included, in their scope. A step that
    chooses leads to what it may choose."""
    depth = len(graph.node(current).scope)
    before = {
        node.name: [graph.node(p).scope[-1] if len(graph.node(p).scope) > depth else p for p in node.after]
        + list(choosers_of(graph, node.name))
        for node in graph.nodes
    }
    ahead: dict[str, list[str]] = {node.name: [] for node in graph.nodes}
    for name, places in before.items():
        for place in places:
            ahead[place].append(name)
    leads = _reached(target, ahead)
    on_the_way = {name: [] if name == target else [p for p in places if p in leads] for name, places in before.items()}
    reached = _reached(current, on_the_way)
    return tuple(n.name for n in graph.nodes if n.name in reached)


def _reached(start: str, edges: Mapping[str, Sequence[str]]) -> set[str]:
    found = {start}
    todo = [start]
    while todo:  # not by recursion: a chain may be longer than Python's stack
        for name in edges[todo.pop()]:
            if name not in found:
                found.add(name)
                todo.append(name)
    return found
