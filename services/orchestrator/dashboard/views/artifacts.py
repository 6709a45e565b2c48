"""Versions of artifacts: the newest of the tenant, or those of one task."""

from __future__ import annotations

import shlex
from typing import Any, Final

from stanchion.authority.rows import Page as Rows
from stanchion.authority.rows import Row
from stanchion.contracts import ids

from ..view import Asked, Page, Shown, Twin

SHOWN: Final = 50


def show(asked: Asked) -> Shown:
    """The newest versions; with `task` those of one task."""
    task_id, name = asked.chosen_id("task", ids.TASK), asked.text("name")
    before, tenant_id = asked.chosen_id("before", ids.ARTIFACT), asked.visitor.tenant_id
    artifacts = asked.reads.artifacts
    if task_id is None:
        page = artifacts.newest(tenant_id, name=name, limit=SHOWN, before=before)
    else:
        page = artifacts.page(tenant_id, task_id, name=name, limit=SHOWN, before=before)
    tsk = ids.public(ids.TASK, task_id) if task_id else None
    return Shown(
        "artifacts",
        "Artifacts",
        ("list",),
        _context(asked, page, "/artifacts") | {"name": name, "tsk": tsk},
        Twin(
            f"stanchion artifact list {tsk or '@last'}{f' --name {shlex.quote(name)}' if name else ''}",
            f"GET /v1/tasks/{tsk or 'TASK'}/artifacts",
        ),
        "records",
        every=5.0,
    )


def _context(asked: Asked, page: Rows, listed: str) -> dict[str, Any]:
    first = {name: value for name, value in asked.query.items() if name != "before"}
    more = first | {"before": ids.public(ids.ARTIFACT, page.next)} if page.next else None
    return {
        "page": page,
        "listed": listed,
        "first": first,
        "more": more,
        "moved": "before" in asked.query,
        "place": "artifacts",
    }


def part(asked: Asked, task: Row) -> dict[str, Any]:
    """What a task made, as a part of its page."""
    before = asked.chosen_id("before", ids.ARTIFACT)
    page = asked.reads.artifacts.page(asked.visitor.tenant_id, task["task_id"], name=None, limit=SHOWN, before=before)
    tsk = ids.public(ids.TASK, task["task_id"])
    return _context(asked, page, f"/tasks/{tsk}/artifacts") | {"name": None}


PAGES: Final = (Page("/artifacts", show, query=("task", "name", "before")),)
