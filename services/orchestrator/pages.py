"""The pages: tasks, one task, one step. HTML from the server, readable without scripts, and nothing on it can be changed.

Everything that comes from people or workers is escaped by the templates, and the content policy lets no inline script
run should one ever get through.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from stanchion.authority.queries import TaskFilter
from stanchion.authority.rows import Row
from stanchion.authority.why_codes import Reason
from stanchion.authority.withholding import reason_text, withheld
from stanchion.contracts import ids, limits
from stanchion.errors import InvariantViolated, NotFound, StanchionError, Unauthenticated, Unavailable, Unprocessable
from stanchion.runtime.http import Check, health_routes
from stanchion.runtime.logging import get_logger
from stanchion.state import StepState, TaskState

from . import page_look
from .page_door import PageDoor, Visitor
from .page_queries import PageQueries, TaskPage, Wanted, mark_take_overs

HOME: Final = Path(__file__).parent
TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
TASK_STATES: Final = tuple(state.value for state in TaskState)
HEADERS: Final = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}

log = get_logger()

Page = Callable[[Request, Visitor], Response]


class Pages:
    """The pages, for the HTTP server of an orchestrator; as a part of its service they close their connections."""

    name = "pages"

    def __init__(self, queries: PageQueries, door: PageDoor) -> None:
        self.queries = queries
        self.door = door
        self._files = {name: _Asset(HOME / "static" / name) for name in ("page.css", "page.js", "icon.svg")}
        self._environment = _environment({name: f"/static/{asset.name}" for name, asset in self._files.items()})
        self._by_name = {asset.name: asset for asset in self._files.values()}

    def start(self) -> None:
        """Nothing: the first visitor connects."""

    def stop(self, timeout: float = 0.0) -> bool:  # noqa: ARG002 - the signature of a part
        """Close the connections."""
        self.queries.database.close()
        return True

    def app(self, checks: Mapping[str, Check], *, with_metrics: bool) -> Starlette:
        """The pages and the health pages as one application."""
        routes = [*health_routes(checks, with_metrics=with_metrics), *self.routes()]
        return Starlette(routes=routes, exception_handlers={404: self._lost, 405: self._lost})

    def routes(self) -> list[BaseRoute]:
        """All routes."""
        return [
            Route("/", self._guarded(self.tasks)),
            Route("/live", self._guarded(self.tasks_live)),
            Route("/tasks/{task_id}", self._guarded(self.task)),
            Route("/tasks/{task_id}/live", self._guarded(self.task_live)),
            Route("/steps/{step_id}", self._guarded(self.step)),
            Route("/static/{name}", self.asset),
        ]

    def tasks(self, request: Request, visitor: Visitor) -> Response:
        """The newest tasks of the tenant."""
        return self._page(request, "tasks.html", visitor, **self._tasks(request, visitor))

    def tasks_live(self, request: Request, visitor: Visitor) -> Response:
        """What changes on the page of tasks."""
        return self._fragment(request, "tasks_live.html", **self._tasks(request, visitor))

    def task(self, request: Request, visitor: Visitor) -> Response:
        """One task: its graph, what it waits for, attempts, events."""
        return self._page(request, "task.html", visitor, **self._task(request, visitor))

    def task_live(self, request: Request, visitor: Visitor) -> Response:
        """What changes on the page of a task."""
        return self._fragment(request, "task_live.html", **self._task(request, visitor))

    def step(self, request: Request, visitor: Visitor) -> Response:
        """One step: its attempts, what was refused, its last events."""
        _known(request, ())
        view = self.queries.step(visitor.tenant_id, ids.parse(request.path_params["step_id"], ids.STEP))
        mark_take_overs(view.step["attempt_list"])
        return self._page(request, "step.html", visitor, view=view, whole=visitor.sees_payloads)

    def asset(self, request: Request) -> Response:
        """A file whose name says what is in it, so that it never changes."""
        found = self._by_name.get(request.path_params["name"])
        if found is None:
            return Response("not found", 404, headers=HEADERS)
        forever = HEADERS | {"cache-control": "public, max-age=31536000, immutable"}
        return Response(found.content, media_type=found.type, headers=forever)

    def _tasks(self, request: Request, visitor: Visitor) -> dict[str, Any]:
        given = _known(request, ("state", "before"))
        state = _one_of(given.get("state"), TASK_STATES, "state")
        before = _id(given.get("before"), ids.TASK)
        page = self.queries.tasks(visitor.tenant_id, TaskFilter((state,) if state else None), before)
        query = _query(state=state, before=given.get("before"))
        return {
            "page": page, "wanted": state, "before": before, "states": TASK_STATES, "live_url": f"/live?{query}",
            "whole": visitor.sees_payloads,
        }  # fmt: skip

    def _task(self, request: Request, visitor: Visitor) -> dict[str, Any]:
        given = _known(request, ("node", "state", "after"))
        task_id = ids.parse(request.path_params["task_id"], ids.TASK)
        state = _one_of(given.get("state"), tuple(s.value for s in StepState), "state")
        node = given.get("node") or None
        if node is not None and (len(node) > limits.NAME_CHARACTERS or not node.isprintable()):
            raise Unprocessable("E-DATA-15", "this is no name of a node", where="query.node")
        wanted = Wanted(node, state, _id(given.get("after"), ids.STEP))
        view = self.queries.task(visitor.tenant_id, task_id, wanted)
        query = _query(node=node, state=state, after=given.get("after"))
        path = f"/tasks/{ids.public(ids.TASK, task_id)}/live"
        found = {"view": view, "wanted": wanted, "sentence": _sentence(view), "live_url": f"{path}?{query}"}
        return found | {"whole": visitor.sees_payloads}

    def _guarded(self, page: Page) -> Callable[[Request], Response]:
        def answer(request: Request) -> Response:
            try:
                return page(request, self.door.visitor(request))
            except StanchionError as error:
                return self._error(request, error)
            except Exception:
                log.error("http.request_failed", path=request.url.path, exc_info=True)
                return self._error(request, InvariantViolated("E-BUG-01", "this page could not be made"))

        return answer

    def _lost(self, request: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", 404)
        found = NotFound("E-HTTP-01", "there is no such page" if status == 404 else "pages are only read: use GET")
        response = self._error(request, found)
        response.status_code = status
        return response

    def _error(self, request: Request, error: StanchionError) -> Response:
        shown = {"code": error.code, "what": error.what, "why": error.why, "fix": error.fix}
        if isinstance(error, InvariantViolated):
            shown = {"code": error.code, "what": "this page could not be made", "why": None, "fix": None}
            log.error("http.request_failed", path=request.url.path, code=error.code, what=error.what)
        text = self._environment.get_template("error.html").render(tenant=None, **shown)
        headers = dict(HEADERS)
        if isinstance(error, Unauthenticated):
            headers["www-authenticate"] = "Bearer"
        if isinstance(error, Unavailable):
            headers["retry-after"] = "2"
        return HTMLResponse(text, error.status, headers=headers)

    def _page(self, _request: Request, template: str, visitor: Visitor, **context: Any) -> Response:
        text = self._environment.get_template(template).render(tenant=visitor.tenant, **context)
        return HTMLResponse(text, headers=HEADERS)

    def _fragment(self, request: Request, template: str, **context: Any) -> Response:
        text = self._environment.get_template(template).render(**context)
        tag = f'"{hashlib.sha256(text.encode()).hexdigest()[:24]}"'
        headers = HEADERS | {"etag": tag}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return HTMLResponse(text, headers=headers)


class _Asset:
    """A file of the pages, under a name that has its hash."""

    def __init__(self, path: Path) -> None:
        self.content = path.read_bytes()
        self.type = TYPES[path.suffix]
        self.name = f"{path.stem}.{hashlib.sha256(self.content).hexdigest()[:12]}{path.suffix}"


def _environment(static: Mapping[str, str]) -> Environment:
    made = Environment(
        loader=FileSystemLoader(HOME / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    names = ("shape", "ordered", "shares", "between", "moment", "absolute", "clock", "public")
    made.filters |= {name: getattr(page_look, name) for name in names}
    made.filters |= {"error_text": _error_text, "reason_text": _reason_text}
    made.globals |= {"static": dict(static), "query": _query}
    made.globals["parts"] = made.get_template("parts.html").module
    return made


@pass_context
def _error_text(context: Context, error: Any) -> str:
    """What an error says, to somebody who may not see payloads without the words of a step's author."""
    return page_look.error_text(error if context.get("whole") else withheld(error))


@pass_context
def _reason_text(context: Context, reason: Reason) -> str:
    return reason_text(reason, whole=bool(context.get("whole")))


def _query(**given: str | None) -> str:
    return urlencode({name: value for name, value in given.items() if value})


def _known(request: Request, names: tuple[str, ...]) -> dict[str, str]:
    """The query; a parameter that is not known, or comes twice, is refused: a filter must never be ignored."""
    given = request.query_params.multi_items()
    for name, _ in given:
        if name not in names or len(request.query_params.getlist(name)) > 1:
            raise Unprocessable("E-DATA-15", f"there is no query parameter {name[:40]!a} here", where="query")
    return dict(given)


def _one_of(text: str | None, allowed: tuple[str, ...], name: str) -> str | None:
    if text is not None and text not in allowed:
        raise Unprocessable("E-DATA-15", f"{text[:40]!a} is no {name}", where=f"query.{name}")
    return text


def _id(text: str | None, prefix: str) -> UUID | None:
    return None if text is None else ids.parse(text, prefix)


def _sentence(view: TaskPage) -> str:
    """One sentence on how it stands, for those who don't see the page."""
    parts = [_said(node) for node in view.task["nodes"] if node["total"] > 1 and node["counts"]]
    return f"{view.task['workflow']} is {view.task['state']}" + (": " + "; ".join(parts[:3]) if parts else "")


def _said(node: Row) -> str:
    done = node["counts"].get("succeeded", 0)
    failed = node["counts"].get("failed", 0)
    return f"{node['name']} {done:,} of {node['total']:,}" + (f", {failed:,} failed" if failed else "")
