"""A graph as text for people: one line for each step, indented by fan-out."""

from __future__ import annotations

from stanchion.workflow.durations import written
from stanchion.workflow.graph import Graph, JoinSpec, Node

__all__ = ["describe"]

_HEADER = ("step", "takes", "then", "queue", "attempts")


def describe(graph: Graph) -> str:
    """A table of the steps: what each takes, what may follow, its queue and attempts."""
    rows = [_HEADER, *(_row(node) for node in graph.nodes)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join((f"{graph.name} v{graph.version}", *lines))


def _row(node: Node) -> tuple[str, ...]:
    return (
        "  " * len(node.scope) + node.name,
        _takes(node) or "–",
        _then(node) or "–",
        node.queue + (f" {node.priority:+d}" if node.priority else ""),
        f"{node.retries + 1}" + (f" × {written(node.timeout_seconds)}" if node.timeout_seconds else ""),
    )


def _takes(node: Node) -> str:
    if node.each:
        return f"each of {node.after[0]}"
    parts = []
    for param in node.params:
        if param.source == "step" and param.step:
            parts.append(param.step)
        elif param.source == "results" and node.join:
            parts.append(f"{_rule(node.join)} of {param.step}")
        elif param.source == "item":
            parts.append(f"item {param.name}")
        else:
            parts.append(param.name if param.required else f"{param.name}?")
    return ", ".join(parts)


def _rule(join: JoinSpec) -> str:
    text = {"all": "all", "first": "the first", "at_least": f"at least {join.need}"}[join.rule]
    if isinstance(join.need, float):
        text = f"at least {join.need:.0%}" if (join.need * 100).is_integer() else f"at least {join.need * 100:g}%"
    if join.on_failed != "fail":
        text += f" ({join.on_failed} failed)"
    return text + (f" within {written(join.within_seconds)}" if join.within_seconds else "")


def _then(node: Node) -> str:
    parts = [f"go {' or '.join(node.next)}"] if node.next else []
    if node.again:
        parts.append(f"again {' or '.join(node.again)} (≤ {node.max_rounds})")
    if node.spawns:
        parts.append(f"spawn {node.spawns[0]} → {node.spawns[1]}")
    return ", ".join(parts)
