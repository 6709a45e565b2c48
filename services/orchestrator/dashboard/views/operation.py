"""One operation: what happened, what was promised outside, what was found out, and what follows from each answer."""

from __future__ import annotations

from typing import Final

from stanchion.authority.queries import rows_of
from stanchion.authority.rows import Row
from stanchion.contracts import ids
from stanchion.state import OperationState

from .. import operation_words as words
from ..view import Asked, Page, Shown, Twin
from . import operation_reads, task_reads

ENDED: Final = (OperationState.REFUSED, OperationState.COMPENSATED)


def show(asked: Asked) -> Shown:
    """An operation's page; payload and receipt only for those who may see them."""
    operation_id, visitor = asked.id("operation_id", ids.OPERATION), asked.visitor
    found = asked.reads.operations.get(visitor.tenant_id, operation_id, with_payload=visitor.sees_payloads)
    row = found | operation_reads.around(asked, found)
    for probe in row["probed"]:
        probe["actor"] = probe["by"].removeprefix("worker ")
    op, tsk = ids.public(ids.OPERATION, operation_id), ids.public(ids.TASK, row["task_id"])
    base = f"/tasks/{tsk}"
    unknown = row["state"] == OperationState.UNKNOWN
    return Shown(
        "operation",
        f"{row['kind']} {row['state']}",
        ("head", "next", "promised", "probes", "data", "events"),
        {"row": row, "op": op, "tsk": tsk, "words": words, "ways": words.ways(row)}
        | {"outcomes": words.outcomes(row) if unknown else [], "rows": _events(asked, row)},
        Twin(f"stanchion op show {op}", f"GET /v1/operations/{op}"),
        "operations",
        (("Operations", "/operations"), (tsk, f"{base}/operations")),
        run_id=row["run_id"],
        ended=row["state"] in ENDED,
        said=f"{row['kind']} is {row['state']}",
    )


def _events(asked: Asked, row: Row) -> list[Row]:
    """The events of this operation among the last ones of its step; workers get their names, also where they asked."""
    with asked.reads.database.tenant(asked.visitor.tenant_id) as connection:
        found = rows_of(connection, task_reads.events(row["run_id"], row["step_id"]))
        mine: list[Row] = [one for one in found if (one["body"] or {}).get("operation") == str(row["operation_id"])]
        task_reads.named(connection, row["probed"])
        return task_reads.named(connection, mine)


PAGES: Final = (Page("/operations/{operation_id}", show),)
