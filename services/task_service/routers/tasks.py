"""Tasks: submit, look, cancel, take the result."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from starlette.responses import Response

from stanchion.authority.queries import TaskFilter
from stanchion.authority.rows import Row
from stanchion.authority.submission import Answer
from stanchion.authority.withholding import withheld
from stanchion.contracts import ids, limits
from stanchion.contracts.commands import SubmitTask
from stanchion.contracts.envelope import parse_time
from stanchion.contracts.message import read
from stanchion.errors import StanchionError, TooLarge, Unprocessable
from stanchion.state.task import TaskState as State

from ..access import Caller, needs
from ..bodies import BulkBody, CancelBody, body_schema
from ..deps import Has
from ..handlers import with_header_key
from ..params import Body, Cursor, Limit, StrictRoute, cursor_of, json_object, message, plain, some_of
from ..views import BulkAnswer, BulkItem, InputView, Outcome, Paged, Submitted, TaskState, TaskSummary, TaskView

router = APIRouter(route_class=StrictRoute, tags=["tasks"])

BULK_ITEMS = 1_000
KeyHeader = Annotated[str | None, Header(alias="idempotency-key", max_length=4 * limits.KEY_CHARACTERS)]


@router.post(
    "/v1/tasks",
    status_code=201,
    response_model=Submitted,
    responses={200: {"model": Submitted, "description": "The task of this key, which exists already"}},
    **body_schema(needs("task.submit"), SubmitTask),
)
def submit(response: Response, deps: Has, caller: Caller, body: Body, idempotency_key: KeyHeader = None) -> Row:
    """Submit a task. The same idempotency key with the same payload gives the same task, with another one an error."""
    command = read(SubmitTask, with_header_key(json_object(body), idempotency_key))
    answer = deps.handlers.submit(caller, command)
    response.status_code = 201 if answer.outcome == "created" else 200
    return _submitted(answer)


@router.post("/v1/tasks/bulk", response_model=BulkAnswer, **body_schema(needs("task.submit"), BulkBody))
def submit_bulk(deps: Has, caller: Caller, body: Body) -> Row:
    """Submit up to 1,000 tasks in one transaction; each item has an answer of its own, as if it had come alone."""
    items = json_object(body).get("tasks")
    if not isinstance(items, list):
        raise Unprocessable("E-DATA-15", "tasks is not a list", where="$.tasks", fix='send {"tasks": [...]}')
    if len(items) > BULK_ITEMS:
        raise TooLarge(
            "E-SIZE-01",
            f"there are {len(items):,} tasks, the limit is {BULK_ITEMS:,}",
            where="$.tasks",
            fix="send several bulks",
            limit=BULK_ITEMS,
            value=len(items),
        )
    commands = [_read_or_error(item, f"$.tasks[{place}]") for place, item in enumerate(items)]
    return {"items": [_bulk_item(outcome) for outcome in deps.handlers.submit_bulk(caller, commands)]}


@router.get("/v1/tasks", response_model=Paged[TaskSummary], **needs("task.read"))
def list_tasks(
    *,
    deps: Has,
    caller: Caller,
    state: Annotated[str | None, Query(max_length=200, description="one or several, separated by commas")] = None,
    workflow: Annotated[str | None, Query()] = None,
    tag: Annotated[str | None, Query(description="one or several, separated by commas; a task has all of them")] = None,
    submitted_after: Annotated[str | None, Query(max_length=64, description="RFC 3339")] = None,
    limit: Limit = limits.PAGE_ROWS,
    cursor: Cursor = None,
) -> Row:
    """Tasks, newest first."""
    wanted = TaskFilter(
        states=some_of(state, "state", tuple(State)),
        workflow=plain(workflow, "workflow"),
        tags=None
        if (tags := plain(tag, "tag", limits.TAGS * (limits.TAG_CHARACTERS + 1))) is None
        else tuple(tags.split(",")),
        submitted_after=None if submitted_after is None else parse_time(submitted_after, "query.submitted_after"),
    )
    page = deps.queries.tasks(caller.tenant_id, wanted, limit=limit, before=cursor_of(cursor, ids.TASK))
    items = page.items if caller.sees_payloads else [_without_texts(row) for row in page.items]
    return {"items": items, "next": page.next and ids.public(ids.TASK, page.next)}


@router.get("/v1/tasks/{task_id}", response_model=TaskView, **needs("task.read"))
def get_task(deps: Has, caller: Caller, task_id: str) -> Row:
    """A task, its runs, and the graph of the current run in counts."""
    parsed = ids.parse(task_id, ids.TASK)
    task = deps.graph_view.task(caller.tenant_id, parsed, with_payload=caller.sees_payloads)
    payload = task.pop("payload") or {}
    if not caller.sees_payloads:
        runs = [_without_texts(run) for run in task["runs"]]
        return _without_texts(task) | {"runs": runs, "withheld": ["input", "constraints"]}
    large = payload.get("input_blob") is not None
    shown = {"input": payload.get("input"), "constraints": payload.get("constraints"), "input_is_large": large}
    return task | shown


@router.get("/v1/tasks/{task_id}/input", response_model=InputView, **needs("payload.read"))
def get_input(deps: Has, caller: Caller, task_id: str) -> Row:
    """What a task was submitted with, however large."""
    parsed = ids.parse(task_id, ids.TASK)
    return {"task_id": parsed, "input": deps.outcomes.input_of(caller.tenant_id, parsed)}


@router.get("/v1/tasks/{task_id}/result", response_model=Outcome, **needs("payload.read"))
def get_result(deps: Has, caller: Caller, task_id: str) -> Row:
    """What became of a task that has ended; 409 while it goes on."""
    return deps.outcomes.result_of(caller.tenant_id, ids.parse(task_id, ids.TASK))


@router.post(
    "/v1/tasks/{task_id}/cancel",
    status_code=202,
    response_model=TaskState,
    **body_schema(needs("task.cancel"), CancelBody, required=False),
)
def cancel_task(deps: Has, caller: Caller, task_id: str, body: Body) -> Row:
    """Ask for the end of a task: what has not started never will, what runs gets a grace."""
    parsed = ids.parse(task_id, ids.TASK)
    state = deps.handlers.cancel(caller, parsed, message(CancelBody, body).reason)
    return {"task_id": parsed, "state": state}


def _without_texts(row: Row) -> Row:
    return row | {"reason": withheld(row["reason"])}


def _submitted(answer: Answer) -> Row:
    return {
        "task_id": answer.task_id,
        "run_id": answer.run_id,
        "state": answer.state,
        "duplicate": answer.outcome == "duplicate",
    }


def _read_or_error(item: Any, where: str) -> SubmitTask | StanchionError:
    try:
        return read(SubmitTask, item, where)
    except StanchionError as error:
        return error


def _bulk_item(outcome: Answer | StanchionError) -> BulkItem:
    if isinstance(outcome, StanchionError):
        return BulkItem(status=outcome.status, problem=outcome.problem())
    created = outcome.outcome == "created"
    return BulkItem(status=201 if created else 200, **_submitted(outcome))
