"""A task's graph as a picture: each node with its state and counts, joins as gates, fan-outs as one node with a bar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from stanchion.authority.rows import Row
from stanchion.contracts import ids
from stanchion.workflow.graph import Graph, Node

from .. import look
from ..drawing.layers import Box, Edge, Layout, layout

DRAWN: Final = 300
"""Nodes that are drawn without being asked; more are a table first."""
NAME_CHARACTERS: Final = 19


@dataclass(frozen=True, slots=True)
class Drawn:
    """One node as it is drawn."""

    box: Box
    name: str
    label: str
    shape: str
    state: str
    said: str
    line: str
    is_fan: bool
    bar: list[dict[str, Any]]
    gate: Mapping[str, Any] | None
    href: str
    to: str


@dataclass(frozen=True, slots=True)
class Line:
    """One edge: dashed when it was not taken, or leads back."""

    path: str
    dashed: bool
    label: str


@dataclass(frozen=True, slots=True)
class Picture:
    """What is drawn; `title` says it in words."""

    width: int
    height: int
    nodes: tuple[Drawn, ...]
    lines: tuple[Line, ...]


def picture(graph: Graph, task: Row, base: str) -> Picture:
    """The picture of a task's current run, over the graph of the version that runs."""
    rows = {row["name"]: row for row in task["nodes"]}
    gated = frozenset(node.name for node in graph if node.join is not None)
    placed = layout([node.name for node in graph], _edges(graph), gated)
    return Picture(
        placed.width,
        placed.height,
        tuple(_node(box, rows[box.name], placed, base) for box in placed.boxes),
        tuple(_line(edge, graph, rows) for edge in placed.edges),
    )


def _edges(graph: Graph) -> Iterator[tuple[str, str]]:
    for node in graph:
        yield from ((before, node.name) for before in node.after)
        yield from ((node.name, target) for target in node.next)
        yield from ((node.name, target) for target in node.again)
        if node.spawns is not None:
            yield from ((node.name, target) for target in node.spawns)


def _node(box: Box, row: Row, placed: Layout, base: str) -> Drawn:
    state = _state(row)
    done, failed = row["counts"].get("succeeded", 0), row["counts"].get("failed", 0)
    is_fan = row["kind"] == "fan" or row["total"] > 1
    told = line = state
    if is_fan and row["total"]:
        told = f"{done:,}/{row['total']:,}" + (f" · {failed:,} failed" if failed else "")
        line = f"{look.about(done)}/{look.about(row['total'])}" + (f" · {look.about(failed)} failed" if failed else "")
    told = f"{row['name']}: {told}" if told == state else f"{row['name']}: {state}, {told}"
    return Drawn(
        box,
        row["name"],
        look.short(row["name"], NAME_CHARACTERS),
        look.shape(state),
        state,
        told,
        line,
        is_fan,
        look.shares(row["counts"], row["total"]) if is_fan else [],
        _gate(row),
        _href(row, base, is_fan=is_fan),
        " ".join(edge.target for edge in placed.edges if edge.source == box.name),
    )


def _gate(row: Row) -> Mapping[str, Any] | None:
    barrier = row["barrier"]
    join = row["join"]
    if join is None:
        return None
    rule = join["rule"] if join["rule"] != "at_least" else "at least"
    if barrier is None or barrier["kind"] != "gather":
        return {"rule": rule, "line": "", "open": False, "failed": False, "said": f"gate {rule}: not there yet"}
    states = barrier["states"]
    arrived, need = barrier["arrived"], barrier["need"] or barrier["expected"]
    opened = bool(states.get("released"))
    return {
        "rule": rule,
        "line": f"{look.about(arrived)} / {look.about(need)}",
        "open": opened and not states.get("waiting"),
        "failed": bool(states.get("failed")) or bool(barrier["failed"] and barrier["on_failed"] == "hold"),
        "said": f"gate {rule}: {arrived:,} / {need:,} arrived" + (", open" if opened else ""),
    }


def _href(row: Row, base: str, *, is_fan: bool) -> str:
    if is_fan:
        return f"{base}/fan/{row['name']}"
    if row["step_id"] is not None:
        return f"/steps/{ids.public(ids.STEP, row['step_id'])}"
    return f"{base}/steps?node={row['name']}"


def _state(row: Row) -> str:
    """The state that matters most of a node: problems first, then what is under way."""
    counts = look.ordered(row["counts"])
    if counts:
        return counts[0][0]
    fans = look.ordered(row["fans"])
    if fans:
        return fans[0][0]
    return "on demand" if row["on_demand"] else "not there yet"


def _line(edge: Edge, graph: Graph, rows: Mapping[str, Row]) -> Line:
    source, target = _of(graph, edge.source), rows[edge.target]
    counts = target["counts"]
    untaken = bool(counts) and set(counts) <= {"skipped"}
    chosen = source is not None and edge.target in source.next
    label = "again" if edge.back else "go" if chosen else ""
    return Line(edge.path, edge.back or untaken or (chosen and not counts), label)


def _of(graph: Graph, name: str) -> Node | None:
    return next((node for node in graph if node.name == name), None)
