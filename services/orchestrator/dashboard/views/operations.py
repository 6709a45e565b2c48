"""The ledger: what nobody knows first, the oldest of it at the top."""

from __future__ import annotations

import shlex
from typing import Any, Final

from stanchion.authority.rows import Row
from stanchion.contracts import ids
from stanchion.state import OperationState

from ..view import Asked, Page, Shown, Twin
from . import operation_reads
from .operation_reads import SHOWN, Filter, Place

ALL: Final = "all"
STATES: Final = tuple(state.value for state in OperationState)


def show(asked: Asked) -> Shown:
    """Those of unknown fate, unless something else is asked for."""
    task_id = asked.chosen_id("task", ids.TASK)
    state = asked.one_of("state", (*STATES, ALL)) or (ALL if task_id else OperationState.UNKNOWN.value)
    wanted = Filter(None if state == ALL else state, asked.text("kind"), task_id)
    context = _page(asked, wanted)
    return Shown(
        "operations",
        "Operations",
        ("headline", "list"),
        context
        | {"counts": operation_reads.unknown_counts(asked), "state": state, "states": STATES, "kind": wanted.kind}
        | {"task_id": task_id, "filtered": bool(wanted.kind or task_id), "listed": "/operations"}
        | {"last": operation_reads.last_settled(asked) if state == "unknown" and not context["rows"] else None},
        _twin(wanted),
        "operations",
        said=f"{len(context['rows'])} operations",
    )


def _page(asked: Asked, wanted: Filter) -> dict[str, Any]:
    more: str | None = None
    if wanted.state == OperationState.UNKNOWN:
        after = Place.parse(asked.query["after"], "query.after") if asked.query.get("after") else None
        rows = operation_reads.unknown_ones(asked, wanted, after)
        if len(rows) > SHOWN:
            more = str(Place(rows[SHOWN - 1]["unknown_since"], rows[SHOWN - 1]["operation_id"]))
    else:
        rows, last = operation_reads.newest(asked, wanted, asked.chosen_id("before", ids.OPERATION))
        more = ids.public(ids.OPERATION, last) if last else None
    moved = bool(asked.query.get("after") or asked.query.get("before"))
    turn = "after" if wanted.state == OperationState.UNKNOWN else "before"
    links = {name: value for name, value in asked.query.items() if name not in ("after", "before")}
    return {"rows": rows[:SHOWN], "more": links | {turn: more} if more else None, "moved": moved, "first": links}


def _twin(wanted: Filter) -> Twin:
    given = {"state": wanted.state, "kind": wanted.kind}
    given["task"] = ids.public(ids.TASK, wanted.task_id) if wanted.task_id else None
    options = "".join(f" --{name} {shlex.quote(value)}" for name, value in given.items() if value)
    query = "&".join(f"{name}={value}" for name, value in given.items() if value)
    return Twin(f"stanchion op list{options}", "GET /v1/operations" + (f"?{query}" if query else ""))


def part(asked: Asked, task: Row) -> dict[str, Any]:
    """What a task did outside, as a part of its page."""
    base = f"/tasks/{ids.public(ids.TASK, task['task_id'])}/operations"
    return _page(asked, Filter(task_id=task["task_id"])) | {"listed": base}


PAGES: Final = (Page("/operations", show, query=("state", "kind", "task", "after", "before")),)
