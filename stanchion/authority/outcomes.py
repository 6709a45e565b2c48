"""Values by way of their tasks: what went in, what came out, wherever it is stored."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, Text, cast, func, select
from sqlalchemy.dialects.postgresql import ARRAY

from stanchion.contracts import limits
from stanchion.db import tables
from stanchion.db.engine import Database
from stanchion.errors import Conflict, register_code
from stanchion.workflow.graph import Graph, Node

from . import blobs
from .objects import Objects
from .queries import rows_of, task_row
from .retention import PAYLOAD_REMOVED
from .rows import Row, missing
from .workflows import Workflows

CHILDREN_IN_RESULT: Final = limits.PAGE_ROWS_MAX

NOT_ENDED: Final = register_code(
    "E-TASK-07",
    "task has not ended",
    status=409,
    meaning="Only what has ended has a result, and only what has failed or was cancelled is retried.",
    fix="Wait for its end, or cancel it first.",
)
COMPLETED: Final = register_code(
    "E-TASK-09",
    "nothing to retry",
    status=409,
    meaning="The task is completed: only what has failed or was cancelled is retried.",
    fix="Submit a new task.",
)


class Outcomes:
    """Under the task service's login; every call sees one tenant."""

    def __init__(self, database: Database, workflows: Workflows, objects: Objects) -> None:
        self.database = database
        self.workflows = workflows
        self.objects = objects

    def input_of(self, tenant_id: UUID, task_id: UUID) -> Any:
        """What a task was submitted with; raises NotFound, and Conflict E-TASK-08 once retention has removed it."""
        task = tables.task.c
        with self.database.tenant(tenant_id) as connection:
            columns = (task.input, task.input_blob, task.payload_removed_at)
            found = rows_of(connection, select(*columns).where(task.task_id == task_id))
        if not found:
            raise missing("task")
        _refuse_removed(found[0])
        return self.value(tenant_id, found[0]["input"], found[0]["input_blob"])

    def result_of(self, tenant_id: UUID, task_id: UUID) -> Row:
        """What became of a task: its state, and its result or the reason why there is none.

        The result is that of the one node that nothing comes after, or an object of them by name; of a node inside a
        fan-out the list of its branches' results, in their order. Of several rounds the newest counts. Raises NotFound, and
        Conflict E-TASK-07 (with `state`) while the task goes on, E-TASK-08 once retention has removed the result.
        """
        with self.database.tenant(tenant_id) as connection:
            task = task_row(connection, task_id)
            if task["ended_at"] is None:
                raise _not_ended(task["state"])
            outcome = {name: task[name] for name in ("task_id", "run_id", "state", "reason", "ended_at")}
            if task["state"] != "completed":
                return outcome | {"result": None}
            _refuse_removed(task)
            graph = self.workflows.get(task["workflow"], task["version"])
            ends = result_nodes(graph)
            found = {name: _rows_of_node(connection, tenant_id, task["run_id"], graph.node(name)) for name in ends}
        inside = {name: bool(graph.node(name).scope) for name in ends}
        results = {name: self._result(tenant_id, rows, many=inside[name]) for name, rows in found.items() if rows}
        return outcome | {"result": results.get(ends[0]) if len(ends) == 1 else results}

    def value(self, tenant_id: UUID, inline: Any, blob: bytes | None) -> Any:
        """A value from its row, or from where the name in the row leads."""
        return inline if blob is None else blobs.read(self.database, tenant_id, blob, self.objects)

    def _result(self, tenant_id: UUID, rows: list[Row], *, many: bool) -> Any:
        if not many:
            return self.value(tenant_id, rows[0]["body"], rows[0]["blob"])
        if len(rows) > CHILDREN_IN_RESULT:
            return {"children": CHILDREN_IN_RESULT, "more": True, "read": "GET /v1/tasks/{task_id}/steps, then each"}
        return [self.value(tenant_id, row["body"], row["blob"]) for row in rows]


def result_nodes(graph: Graph) -> list[str]:
    """The nodes whose results are the task's: nothing comes after them, and they stand for themselves."""
    spawned = {name for node in graph for name in node.spawns or ()}
    ends = [n.name for n in graph if not graph.successors(n.name) and not n.next and n.name not in spawned]
    return ends or [n.name for n in graph.sinks()]


def _rows_of_node(connection: Connection, tenant_id: UUID, run_id: UUID, node: Node) -> list[Row]:
    columns = func.stanchion.answers_of(
        tenant_id, run_id, node.name, cast(list(node.scope), ARRAY(Text)), CHILDREN_IN_RESULT + 1
    ).table_valued("body", "blob", "path")
    return rows_of(connection, select(columns.c.body, columns.c.blob).order_by(columns.c.path))


def _refuse_removed(task: Row) -> None:
    if task["payload_removed_at"] is not None:
        raise Conflict(
            PAYLOAD_REMOVED,
            "the payloads of this task were removed",
            why=f"they are kept for a limited time after the end of a task; it was over at {task['payload_removed_at']}",
        )


def _not_ended(state: str) -> Conflict:
    return Conflict(
        NOT_ENDED,
        f"the task is {state}: it has no result yet",
        fix="wait for its end: stanchion task wait, or follow its events",
        state=state,
    )
