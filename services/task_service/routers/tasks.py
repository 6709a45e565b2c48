"""Tasks: submit, look, cancel, take the result."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from starlette.responses import Response

from stanchion.authority.keys import Principal
from stanchion.authority.rows import Row
from stanchion.authority.submission import Answer
from stanchion.authority.task_search import ORDERS
from stanchion.authority.withholding import withheld
from stanchion.contracts import ids, limits
from stanchion.contracts.commands import SubmitTask
from stanchion.contracts.envelope import parse_time
from stanchion.contracts.filter_values import age_of
from stanchion.contracts.filters import TIMES, Filter, Term, parse
from stanchion.contracts.message import read
from stanchion.errors import StanchionError, TooLarge, Unprocessable
from stanchion.state.task import TaskState as State

from ..access import Caller, needs
from ..bodies import BulkBody, CancelBody, body_schema
from ..deps import Deps, Has
from ..handlers import with_header_key
from ..params import Body, Cursor, Limit, StrictRoute, cursor_of, json_object, message, one_of, plain, some_of
from ..views import BulkAnswer, BulkItem, InputView, Outcome, Submitted, TaskState, TaskView
from ..views_lists import StateCounts, TaskPage

router = APIRouter(route_class=StrictRoute, tags=["tasks"])

BULK_ITEMS = 1_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Query_ = Annotated[
    str | None, Query(max_length=limits.FILTER_CHARACTERS, description="a filter, like state:failed tag:nightly")
]
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


@router.get("/v1/tasks", response_model=TaskPage, **needs("task.read"))
def list_tasks(
    *,
    deps: Has,
    caller: Caller,
    q: Query_ = None,
    state: Annotated[str | None, Query(max_length=200, description="one or several, separated by commas")] = None,
    workflow: Annotated[str | None, Query()] = None,
    tag: Annotated[str | None, Query(description="one or several, separated by commas; a task has all of them")] = None,
    submitted_after: Annotated[str | None, Query(max_length=64, description="RFC 3339")] = None,
    order: Annotated[str | None, Query(description="newest, oldest, or still: longest without a change")] = None,
    scope: Annotated[str | None, Query(description="how far back: 30d, or all", max_length=10)] = None,
    limit: Limit = limits.PAGE_ROWS,
    cursor: Cursor = None,
) -> Row:
    """Tasks that fit a filter, newest first.

    What no index serves (worker:, op:, error:, input., words) is looked at one by one, for 3 seconds and 7 days back
    unless `scope` or the filter says otherwise; the answer tells how far it came.
    """
    terms = [*_terms_of(state, workflow, tag, submitted_after), *parse(q or "", "query.q").terms]
    wanted = asked_for(deps, caller, Filter(tuple(terms)))
    found = deps.search.page(
        caller.tenant_id,
        wanted,
        limit=limit,
        order=one_of(order, "order", ORDERS) or "newest",  # type: ignore[arg-type]  # it is one of them
        before=cursor_of(cursor, ids.TASK),
        since=deps.search.since(caller.tenant_id, wanted, _days(scope)),
    )
    items = found.items if caller.sees_payloads else [_without_texts(row) for row in found.items]
    told = {"scanned": found.scanned, "partial": found.partial, "since": found.since}
    return {"items": items, "next": found.next and ids.public(ids.TASK, found.next), **told}


@router.get("/v1/tasks/counts", response_model=StateCounts, **needs("task.read"))
def count_tasks(deps: Has, caller: Caller, q: Query_ = None) -> Row:
    """How many tasks of each state fit a filter, without what it says of states; exact up to 10,000."""
    wanted = asked_for(deps, caller, parse(q or "", "query.q"))
    return {"states": {str(s): count for s, count in deps.search.counts(caller.tenant_id, wanted).items()}}


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


def asked_for(deps: Deps, caller: Principal, wanted: Filter) -> Filter:
    """A filter as this caller means it now; raises NotAllowed when it tells of payloads that the caller may not see."""
    if wanted.needs_payload:
        caller.require("payload.read")
    times = any(term.name in TIMES for term in wanted.terms)
    return wanted.settled(caller.subject, deps.search.now(caller.tenant_id) if times else EPOCH)


def _terms_of(state: str | None, workflow: str | None, tag: str | None, after: str | None) -> Iterator[Term]:
    if (states := some_of(state, "state", tuple(State))) is not None:
        yield Term("state", states)
    if (name := plain(workflow, "workflow")) is not None:
        yield Term("workflow", (name,))
    if (tags := plain(tag, "tag", limits.TAGS * (limits.TAG_CHARACTERS + 1))) is not None:
        yield from (Term("tag", (one,)) for one in tags.split(","))
    if after is not None:
        yield Term("created", (parse_time(after, "query.submitted_after").isoformat(),), ">")


def _days(scope: str | None) -> float | None:
    if scope is None:
        return limits.SEARCH_DAYS
    age = age_of(scope)
    if scope != "all" and age is None:
        raise Unprocessable("E-DATA-15", f"{scope[:10]!a} is no scope", where="query.scope", fix="7d, 30d or all")
    return None if age is None else age.total_seconds() / 86_400


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
