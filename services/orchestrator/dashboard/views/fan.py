"""A fan-out: its join, every child as a cell, those with a problem first."""

from __future__ import annotations

from typing import Any, Final

from stanchion.authority.fan_view import LETTERS, Fan
from stanchion.authority.queries import BARRIER
from stanchion.authority.rows import Row
from stanchion.contracts import ids, limits

from ..view import Asked, Page, Shown, Twin

CHUNK: Final = 512
"""Cells in one piece of the stream: only pieces that changed are sent."""
ROWS: Final = 50
GROUPS: Final = {
    "failed": "f",
    "unknown": "u",
    "retrying": "y",
    "running": "l",
    "ready": "r",
    "waiting": "p",
    "succeeded": "s",
    "cancelled": "c",
}
"""States as people group them, with their letters; problems first."""
SHAPES: Final = {
    "f": "dead",
    "u": "unknown",
    "y": "retrying",
    "l": "running",
    "r": "ready",
    "p": "waiting",
    "s": "succeeded",
    "c": "cancelled",
}


def show(asked: Asked) -> Shown:
    """The children of one node of a task, in one of its fan-outs."""
    tenant_id, node = asked.visitor.tenant_id, asked.path["node"]
    task_id = asked.id("task_id", ids.TASK)
    fan = asked.reads.fans.fan(tenant_id, task_id, node, asked.chosen_id("fan", ids.STEP))
    state = asked.one_of("state", ("all", *GROUPS)) or ("failed" if "f" in fan.cells else "all")
    after = asked.number("after", -1, limits.FAN_OUT_CHILDREN)
    states = None if state == "all" else tuple(name for name, letter in LETTERS.items() if letter == GROUPS[state])
    page = asked.reads.fans.children(tenant_id, fan.fan_id, node, states=states, limit=ROWS, after=after)
    tsk = ids.public(ids.TASK, task_id)
    reasons = (
        asked.reads.asking.about(tenant_id, ids.public(BARRIER, fan.barrier["barrier_id"])).reasons
        if fan.barrier
        else []
    )
    cells = fan.cells
    return Shown(
        "fan",
        f"{node} of {fan.task['workflow']}",
        ("head", "why", "legend", "groups", "children"),
        {
            "fan": fan,
            "task": fan.task,
            "tsk": tsk,
            "node": node,
            "base": f"/tasks/{tsk}/fan/{node}",
            "counts": [(name, letter, SHAPES[letter], fan.counts.get(letter, 0)) for name, letter in GROUPS.items()],
            "total": len(cells),
            "expected": fan.barrier["expected"] if fan.barrier else len(cells),
            "state": state,
            "after": after,
            "page": page,
            "reasons": reasons,
            "cells": cells,
            "chunk": CHUNK,
            "bar": _bar(fan),
            "ways": _ways(fan, tsk),
            "groups": asked.reads.errors.of_run(tenant_id, fan.task["run_id"], fan.fan_id) if "f" in cells else [],
        },
        Twin(f"stanchion task steps {tsk} --node {node}", f"GET /v1/tasks/{tsk}/steps?node={node}"),
        "tasks",
        (("Tasks", "/tasks"), (tsk, f"/tasks/{tsk}")),
        run_id=fan.task["run_id"],
        ended=fan.task["ended_at"] is not None,
        raw={f"cells-{n // CHUNK}": cells[n : n + CHUNK] for n in range(0, len(cells), CHUNK)},
        said=_said(fan),
    )


def _bar(fan: Fan) -> dict[str, int]:
    """Counts by state for the bar over them."""
    names = {
        "f": "failed",
        "u": "unknown",
        "y": "retry_wait",
        "l": "running",
        "r": "ready",
        "p": "pending",
        "s": "succeeded",
    }
    return {names.get(letter, "cancelled"): count for letter, count in fan.counts.items()}


def _ways(fan: Fan, tsk: str) -> list[dict[str, Any]]:
    """What can be done about failed children, while a join holds for them."""
    barrier: Row | None = fan.barrier
    if barrier is None or barrier["state"] != "waiting" or barrier["on_failed"] != "hold" or "f" not in fan.cells:
        return []
    count = fan.counts["f"]
    return [
        {"name": "task.reopen", "target": tsk, "title": f"Reopen {count:,} failed", "given": {"node": fan.node}},
        {"name": "barrier.open", "target": ids.public(BARRIER, barrier["barrier_id"]), "title": None, "given": {}},
    ]


def _said(fan: Fan) -> str:
    counts = fan.counts
    failed = f", {counts['f']:,} failed" if "f" in counts else ""
    return f"{counts.get('s', 0):,} of {len(fan.cells):,} succeeded{failed}"


def outliers(asked: Asked) -> Shown:
    """What stands out among the children of a node: asked for by itself, since it looks at all of their attempts."""
    tenant_id, node = asked.visitor.tenant_id, asked.path["node"]
    task_id = asked.id("task_id", ids.TASK)
    fan = asked.reads.fans.fan(tenant_id, task_id, node, asked.chosen_id("fan", ids.STEP))
    tsk = ids.public(ids.TASK, task_id)
    return Shown(
        "outliers",
        f"{node}: what stands out",
        ("found",),
        {"found": asked.reads.outliers.of(tenant_id, fan.fan_id, node), "node": node},
        Twin(f"stanchion task steps {tsk} --node {node}", f"GET /v1/tasks/{tsk}/steps?node={node}"),
        "tasks",
        (("Tasks", "/tasks"), (tsk, f"/tasks/{tsk}"), (node, f"/tasks/{tsk}/fan/{node}")),
        every=10.0,
        ended=fan.task["ended_at"] is not None,
    )


PAGES: Final = (
    Page("/tasks/{task_id}/fan/{node}/outliers", outliers, query=("fan",)),
    Page("/tasks/{task_id}/fan/{node}", show, query=("fan", "state", "after")),
)
