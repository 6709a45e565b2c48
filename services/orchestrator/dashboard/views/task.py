"""One task, in parts: its graph, its steps, its history, what it did outside, what people were asked, what it made."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from stanchion.authority.events import Cursor
from stanchion.authority.queries import rows_of
from stanchion.authority.rows import Row
from stanchion.authority.why_codes import Reason
from stanchion.contracts import ids
from stanchion.state import StepState

from ..view import Asked, Page, Shown, Twin
from . import approvals, artifacts, audit, operations, task_graph, task_reads, timeline

STEPS_SHOWN: Final = 50
STEP_STATES: Final = tuple(state.value for state in StepState)

Part = Callable[[Asked, Row], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Tab:
    """A part of a task's page: its regions, what they show, and which parameters it knows."""

    name: str
    title: str
    regions: tuple[str, ...]
    part: Part
    query: tuple[str, ...] = ()
    command: str = ""
    request: str = ""
    counted: bool = False
    """It shows how many steps of each node there are: whoever does not, spares a look at all of them."""


def _graph(asked: Asked, task: Row) -> dict[str, Any]:
    run_id = task["run_id"]
    with asked.reads.database.tenant(asked.visitor.tenant_id) as connection:
        # only a run that has any is searched for them
        lost = rows_of(connection, task_reads.lost(run_id)) if any(n["take_overs"] for n in task["nodes"]) else ()
        refused = (
            rows_of(connection, task_reads.refused(run_id)) if any(n["refused_writes"] for n in task["nodes"]) else ()
        )
    drawn = len(task["nodes"]) <= task_graph.DRAWN or asked.query.get("draw") == "all"
    graph = asked.reads.workflows.get(task["workflow"], task["version"]) if drawn else None
    base = f"/tasks/{ids.public(ids.TASK, task['task_id'])}"
    return {"lost": lost, "refused": refused, "picture": task_graph.picture(graph, task, base) if graph else None}


def _steps(asked: Asked, task: Row) -> dict[str, Any]:
    node, state = asked.text("node"), asked.one_of("state", STEP_STATES)
    after = asked.chosen_id("after", ids.STEP)
    tenant_id = asked.visitor.tenant_id
    steps = asked.reads.queries.steps(
        tenant_id, task["task_id"], node=node, states=(state,) if state else None, limit=STEPS_SHOWN, after=after
    )
    with asked.reads.database.tenant(tenant_id) as connection:
        attempts = task_reads.attempts_of(connection, [row["step_id"] for row in steps.items])
    return {"steps": steps, "attempts": attempts, "node": node, "state": state, "after": after}


def _history(asked: Asked, task: Row) -> dict[str, Any]:
    before = Cursor.parse(asked.query["before"], "query.before") if asked.query.get("before") else None
    with asked.reads.database.tenant(asked.visitor.tenant_id) as connection:
        found = rows_of(connection, task_reads.events(task["run_id"], before=before))
        rows = task_reads.named(connection, found[: task_reads.EVENTS_SHOWN])
    more = Cursor(int(rows[-1]["xid"]), rows[-1]["event_id"]) if len(found) > len(rows) else None
    return {"rows": rows, "more": more, "before": before}


TABS: Final = (
    Tab(
        "graph",
        "Graph",
        ("graph", "nodes", "fencing"),
        _graph,
        ("draw",),
        command="stanchion task show {id}",
        request="GET /v1/tasks/{id}",
        counted=True,
    ),
    Tab(
        "steps",
        "Steps",
        ("steps",),
        _steps,
        ("node", "state", "after"),
        "stanchion task steps {id}{filter}",
        "GET /v1/tasks/{id}/steps",
    ),
    Tab(
        "timeline",
        "Timeline",
        ("timeline",),
        timeline.part,
        ("by", "from", "to"),
        "stanchion task steps {id}",
        "GET /v1/tasks/{id}/steps",
    ),
    Tab(
        "history",
        "History",
        ("history",),
        _history,
        ("before",),
        "stanchion task watch {id}",
        "GET /v1/tasks/{id}/events",
    ),
    Tab(
        "operations",
        "Operations",
        ("operations",),
        operations.part,
        ("before",),
        "stanchion op list --task {id}",
        "GET /v1/operations?task={id}",
    ),
    Tab(
        "approvals",
        "Approvals",
        ("approvals",),
        approvals.part,
        ("before",),
        "stanchion approval list --task {id}",
        "GET /v1/approvals?task={id}",
    ),
    Tab(
        "artifacts",
        "Artifacts",
        ("artifacts",),
        artifacts.part,
        ("before",),
        "stanchion artifact list {id}",
        "GET /v1/tasks/{id}/artifacts",
    ),
    Tab("audit", "Audit", ("audit",), audit.part, ("before",), "stanchion audit list --target {id}", "GET /v1/audit"),
)


def _of(tab: Tab) -> Callable[[Asked], Shown]:
    def show(asked: Asked) -> Shown:
        task_id = asked.id("task_id", ids.TASK)
        task, reasons = _seen(asked, task_id, counted=tab.counted)
        tsk = ids.public(ids.TASK, task_id)
        context = tab.part(asked, task)
        base = f"/tasks/{tsk}"
        titles = [(one.name, one.title, None) for one in TABS]
        return Shown(
            "task",
            f"{task['workflow']} {task['state']}",
            ("head", "why", *tab.regions),
            {"task": task, "tsk": tsk, "reasons": reasons, "tab": tab.name, "tabs": titles, "base": base}
            | {"ways": _ways(task)}
            | context,
            Twin(tab.command.format(id=tsk, filter=_filter(asked)), tab.request.format(id=tsk)),
            "tasks",
            (("Tasks", "/tasks"), (tsk, base)) if tab.name != "graph" else (("Tasks", "/tasks"),),
            run_id=task["run_id"],
            ended=task["ended_at"] is not None,
            said=_sentence(task),
        )

    return show


def _seen(asked: Asked, task_id: UUID, *, counted: bool) -> tuple[Row, Sequence[Reason]]:
    tenant_id, graph = asked.visitor.tenant_id, asked.reads.graph
    task = graph.task(tenant_id, task_id, with_payload=False) if counted else graph.head(tenant_id, task_id)
    return task, asked.reads.asking.about(tenant_id, ids.public(ids.TASK, task_id)).reasons


def _ways(task: Row) -> tuple[str, ...]:
    """What can be done to a task as it stands."""
    if task["ended_at"] is not None:
        return () if task["state"] == "completed" else ("task.retry",)
    return ("task.resume" if task["paused_at"] else "task.pause", "task.cancel")


def _filter(asked: Asked) -> str:
    return "".join(f" --{name} {shlex.quote(asked.query[name])}" for name in ("node", "state") if asked.query.get(name))


def _sentence(task: Row) -> str:
    """One sentence on how it stands, for those who don't see the page."""
    parts = [_said(node) for node in task.get("nodes", ()) if node["total"] > 1 and node["counts"]]
    return f"{task['workflow']} is {task['state']}" + (": " + "; ".join(parts[:3]) if parts else "")


def _said(node: Row) -> str:
    done, failed = node["counts"].get("succeeded", 0), node["counts"].get("failed", 0)
    return f"{node['name']} {done:,} of {node['total']:,}" + (f", {failed:,} failed" if failed else "")


PAGES: Final = tuple(
    Page("/tasks/{task_id}" + ("" if tab.name == "graph" else f"/{tab.name}"), _of(tab), query=tab.query)
    for tab in TABS
)
