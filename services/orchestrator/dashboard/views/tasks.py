"""The list of tasks."""

from __future__ import annotations

from typing import Final

from stanchion.authority.queries import TaskFilter
from stanchion.contracts import ids
from stanchion.state import TaskState

from ..view import Asked, Page, Shown, Twin

SHOWN: Final = 50
STATES: Final = tuple(state.value for state in TaskState)


def show(asked: Asked) -> Shown:
    """The newest tasks of the tenant."""
    state = asked.one_of("state", STATES)
    before = asked.chosen_id("before", ids.TASK)
    wanted = TaskFilter((state,) if state else None)
    page = asked.reads.queries.tasks(asked.visitor.tenant_id, wanted, limit=SHOWN, before=before)
    return Shown(
        "tasks",
        "Tasks",
        ("list",),
        {"page": page, "wanted": state, "before": before, "states": STATES},
        Twin("stanchion task list" + (f" --state {state}" if state else ""), f"GET /v1/tasks?{asked.link()}"),
        "tasks",
    )


PAGES: Final = (Page("/tasks", show, query=("state", "before")), Page("/", show, query=("state", "before")))
