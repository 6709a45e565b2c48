"""One step: its attempts with their leases and fences, what was refused, what it waits for, its last events."""

from __future__ import annotations

from typing import Final

from stanchion.authority.queries import rows_of
from stanchion.contracts import ids

from ..view import Asked, Page, Shown, Twin
from . import task_reads


def show(asked: Asked) -> Shown:
    """A step's page; payloads only for those who may see them."""
    step_id, tenant_id = asked.id("step_id", ids.STEP), asked.visitor.tenant_id
    step = asked.reads.queries.step(tenant_id, step_id, with_payload=asked.visitor.sees_payloads)
    task_reads.mark_take_overs(step["attempt_list"])
    reasons = asked.reads.asking.about(tenant_id, ids.public(ids.STEP, step_id)).reasons
    with asked.reads.database.tenant(tenant_id) as connection:
        rows = task_reads.named(connection, rows_of(connection, task_reads.events(step["run_id"], step_id)))
    stp, tsk = ids.public(ids.STEP, step_id), ids.public(ids.TASK, step["task_id"])
    name = step["node"] + (f"[{step['index']}]" if step["fan_id"] else "")
    return Shown(
        "step",
        f"{name} {step['state']}",
        ("head", "why", "attempts", "data", "events"),
        {"step": step, "stp": stp, "tsk": tsk, "name": name, "reasons": reasons, "rows": rows},
        Twin(f"stanchion step show {stp}", f"GET /v1/steps/{stp}"),
        "tasks",
        (("Tasks", "/tasks"), (tsk, f"/tasks/{tsk}")),
        run_id=step["run_id"],
        said=f"{name} is {step['state']}",
    )


PAGES: Final = (Page("/steps/{step_id}", show),)
