"""The list of tasks: what fits a filter, how many of each state, and views that are looked at often."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any, Final

from stanchion.authority.saved_views import BUILT_IN
from stanchion.authority.task_search import ORDERS, Found
from stanchion.contracts import filters, ids, limits
from stanchion.contracts.filters import Filter, Term
from stanchion.errors import Rejected, Unprocessable
from stanchion.state import TaskState

from ..view import Asked, Page, Shown, Twin, query_text

SHOWN: Final = 50
STATES: Final = tuple(state.value for state in TaskState)
QUERY: Final = ("q", "order", "before", "state")


@dataclass(frozen=True, slots=True)
class Chip:
    """One term of the filter, and the filter without it."""

    text: str
    without: str


def show(asked: Asked) -> Shown:
    """The tasks of the tenant that fit, the newest first."""
    text = asked.text("q", limits.FILTER_CHARACTERS) or ""
    state = asked.one_of("state", STATES)  # a link of an older page
    text = filters.with_terms(text, state=state) if state else text
    order = asked.one_of("order", ORDERS) or "newest"
    context: dict[str, Any] = {
        "text": text,
        "order": order,
        "before": asked.chosen_id("before", ids.TASK),
        "fault": None,
    }
    try:
        wanted = filters.parse(text)
        if wanted.needs_payload:
            asked.visitor.require("payload.read")
        context |= _found(asked, wanted, order)
    except Rejected as error:
        context |= {"fault": error, "page": Found([]), "counts": {}, "chips": [], "current": set(), "next": None}
    command = "stanchion task list" + (f" --filter {shlex.quote(text)}" if text else "")
    return Shown(
        "tasks",
        "Tasks",
        ("counts", "list"),
        context
        | {
            "states": STATES,
            "views": BUILT_IN,
            "saved": asked.reads.views.all(asked.visitor.tenant_id, asked.visitor.name),
            "names": filters.NAMES,
            "with_state": with_state,
            "tagged": tagged,
        },
        Twin(command, f"GET /v1/tasks?{query_text(q=text)}"),
        "tasks",
    )


def _found(asked: Asked, wanted: Filter, order: str) -> dict[str, Any]:
    search, tenant_id = asked.reads.search, asked.visitor.tenant_id
    settled = wanted.settled(asked.visitor.name, search.now(tenant_id))
    since = search.since(tenant_id, settled)
    before = asked.chosen_id("before", ids.TASK)
    stateless = str(Filter(tuple(term for term in settled.terms if term.kind != "state")))
    page = search.page(tenant_id, settled, limit=SHOWN, order=order, before=before, since=since)  # type: ignore[arg-type]  # one of ORDERS
    return {
        "page": page,
        # the same for every state that is looked at; over two million tasks it takes longer than the page
        "counts": asked.reads.counts.get((tenant_id, stateless), lambda: search.counts(tenant_id, settled)),
        "chips": [Chip(str(term), str(_without(wanted, term))) for term in wanted.terms],
        "current": {value for term in wanted.of("state") if not term.negated for value in term.values},
        "next": page.next,
    }


def _without(wanted: Filter, term: Term) -> Filter:
    return Filter(tuple(one for one in wanted.terms if one is not term))


def with_state(text: str, state: str | None) -> str:
    """The filter with one state in place of those it has; what can't be read is left as it is."""
    try:
        wanted = filters.parse(text)
    except Unprocessable:
        return text
    rest = tuple(term for term in wanted.terms if term.kind != "state")
    return str(Filter((*rest, Term("state", (state,))) if state else rest))


def tagged(tag: str) -> str:
    """The filter that tasks with this tag fit, whatever stands in it."""
    return str(Term("tag", (tag,)))


PAGES: Final = (Page("/tasks", show, query=QUERY, personal=True),)
