"""The dashboard as an application: pages, their live streams, what they are made of, and the doors to the task service.

Everything that comes from people or workers is escaped by the templates, and the content policy lets no inline script
run should one ever get through.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from stanchion.contracts import ids
from stanchion.errors import InvariantViolated, NotFound, StanchionError, Unauthenticated, Unavailable, Unprocessable
from stanchion.runtime.http import Check, Closing, health_routes
from stanchion.runtime.logging import get_logger

from . import status
from .acts import Acts, Form
from .door import Door, Visitor
from .files import Files
from .live import Squeezed, Watches, hashed
from .own_paths import own_path
from .painting import Painter
from .reads import Reads
from .remembered import Shared
from .shell import DONE_COOKIE, Shell
from .sign_in import SignIn
from .status import Status
from .task_api import TaskApi
from .view import Asked, Elsewhere, Looked, Page, query_text
from .views import PAGES

HERE: Final = Path(__file__).parent
TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
EVENT_STREAM: Final = "text/event-stream"
HEADERS: Final = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # with none at all browsers say "Origin: null" with a form, which is refused
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
STREAM_HEADERS: Final = HEADERS | {"x-accel-buffering": "no"}

log = get_logger()

READING: Final = 16
ACTING: Final = 8
"""Threads that may read, and that may wait for the task service. Health pages have others: when the database or the task
service hangs, visitors must neither make this process look dead nor keep each other from what still works."""

Answer = Callable[[Request], Response]
Endpoint = Callable[[Request], Awaitable[Response]]


class Site:
    """The pages, for the HTTP server of an orchestrator; as a part of its service they close their connections."""

    name = "dashboard"

    def __init__(self, reads: Reads, door: Door, api: TaskApi, *, dev: bool, open_status: bool = False) -> None:
        self.reads = reads
        self.door = door
        self.api = api
        self._assets = {path.name: Asset(path) for path in sorted((HERE / "static").iterdir())}
        self._by_name = {asset.name: asset for asset in self._assets.values()}
        self.painter = Painter(HERE / "templates", {n: f"/static/{asset.name}" for n, asset in self._assets.items()})
        self.shell = Shell(reads)
        self.watches = Watches(reads.pulse)
        self.sign_in = SignIn(api, self.painter, door, dev=dev)
        self.acts = Acts(reads, api, self.painter)
        self.status = Status(reads, self.painter, door, is_open=open_status)
        self.files = Files(reads, api)
        self._looks: Shared[Looked] = Shared()
        self._reading, self._acting = CapacityLimiter(READING), CapacityLimiter(ACTING)

    def start(self) -> None:
        """Nothing: the first visitor connects."""

    def stop(self, timeout: float = 0.0) -> bool:  # noqa: ARG002 - the signature of a part
        """Close the connections."""
        self.reads.database.close()
        self.api.close()
        return True

    def app(self, checks: Mapping[str, Check], *, with_metrics: bool) -> Starlette:
        """The pages and the health pages as one application."""
        routes = [*health_routes(checks, with_metrics=with_metrics), *self.routes()]
        return Starlette(routes=routes, exception_handlers={404: self._lost, 405: self._lost})

    def routes(self) -> list[BaseRoute]:
        """All routes."""
        return [
            *(Route(page.path, self._endpoint(page)) for page in PAGES),
            Route("/tasks/{task_id}/fan/{node}/{index:int}", self._guarded(self._child)),
            Route("/do/{action}", self._open(self.named)),
            Route("/do/{action}/{target:path}", self._guarded(self._asked)),
            Route("/artifacts/{version_id}/content", self._guarded(self.files.content, self._acting)),
            Route("/artifacts/{version_id}/image", self._guarded(self.files.image, self._acting)),
            Route("/audit/export", self._guarded(self.files.audit)),
            Route("/do/{action}/{target:path}", self._form(self._done), methods=["POST"]),
            Route("/sign-in", self._open(self.sign_in.page, self._acting)),
            Route("/sign-in", self._form(self.sign_in.enter), methods=["POST"]),
            Route("/sign-out", self._open(self.sign_in.leaving)),
            Route("/sign-out", self._form(self.sign_in.leave), methods=["POST"]),
            Route("/v1/session/oidc", self._open(self.sign_in.forward, self._acting)),
            Route("/v1/session/oidc/callback", self._open(self.sign_in.forward, self._acting)),
            Route("/look", self._open(self.sign_in.look)),
            Route(status.PATH, self._open(self.status.answer)),
            Route("/static/{name}", self.asset),
        ]

    # -- pages --

    def look(self, page: Page, visitor: Visitor, path: Mapping[str, str], query: Mapping[str, str]) -> Looked:
        """A view as it is now, painted."""
        shown = page.view(Asked(visitor, self.reads, path, query, self.api))
        shown.context |= {"tenant_id": visitor.tenant_id, "whole": visitor.sees_payloads, "visitor": visitor}
        regions = {name: self.painter.region(shown, name) for name in shown.regions}
        regions |= shown.raw
        hashes = {name: hashed(html) for name, html in regions.items()}
        return Looked(shown, regions, hashes, hashed("".join(hashes.values())))

    def _endpoint(self, page: Page) -> Endpoint:
        async def answer(request: Request) -> Response:
            live = request.method == "GET" and EVENT_STREAM in request.headers.get("accept", "")
            return await self._guarded(lambda r, v: (self._stream if live else self._page)(page, r, v))(request)

        return answer

    def _page(self, page: Page, request: Request, visitor: Visitor) -> Response:
        path, query = self._question(page, request, visitor)
        key = page.shared_as(visitor, path, query)
        looked = self._looks.get(key, lambda: self.look(page, visitor, path, query))
        answer = _squeezed(request, self.painter.page(looked, self.shell.around(request, visitor)))
        if DONE_COOKIE in request.cookies:
            answer.delete_cookie(DONE_COOKIE, httponly=True, samesite="strict")
        return answer

    def _stream(self, page: Page, request: Request, visitor: Visitor) -> Response:
        path, query = self._question(page, request, visitor)
        if self.watches.full:
            raise Unavailable("E-BUSY-01", f"{self.watches.streams:,} pages are open here", fix="try another replica")
        revision = request.headers.get("last-event-id") or request.query_params.get("since", "")
        key = page.shared_as(visitor, path, query)
        self._looks.get(key, lambda: self.look(page, visitor, path, query))  # what is not there is refused here
        closing: Closing = request.app.state.closing
        frames = self.watches.follow(key, lambda: self.look(page, visitor, path, query), revision[:40], closing)
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers = STREAM_HEADERS | {"content-encoding": "gzip", "vary": "accept-encoding"}
            return StreamingResponse(Squeezed(frames), media_type=EVENT_STREAM, headers=headers)
        return StreamingResponse(frames, media_type=EVENT_STREAM, headers=STREAM_HEADERS)

    def _question(self, page: Page, request: Request, visitor: Visitor) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Path and query; a parameter that is not known, or comes twice, is refused: a filter must never be ignored."""
        visitor.require(page.right)
        given = request.query_params.multi_items()
        known = {*page.query, "since"}
        for name, _ in given:
            if name not in known or len(request.query_params.getlist(name)) > 1:
                raise Unprocessable("E-DATA-15", f"there is no query parameter {name[:40]!a} here", where="query")
        return request.path_params, {name: value for name, value in given if name != "since"}

    # -- doors --

    def _child(self, request: Request, visitor: Visitor) -> Response:
        """On to the page of one child: a picture knows its index, and not its id."""
        visitor.require("task.read")
        given, fan = request.path_params, request.query_params.get("fan")
        task_id, fan_id = ids.parse(given["task_id"], ids.TASK), ids.parse(fan, ids.STEP) if fan else None
        step_id = self.reads.fans.child(visitor.tenant_id, task_id, given["node"], given["index"], fan_id)
        return RedirectResponse(f"/steps/{ids.public(ids.STEP, step_id)}", 303)

    def named(self, request: Request) -> Response:
        """On to an action whose target was typed: a form can send a name, and not put it into a path."""
        given = dict(request.query_params)
        target = quote(given.pop("target", "").strip() or "-", safe="")
        return RedirectResponse(
            f"/do/{quote(request.path_params['action'], safe='')}/{target}?{query_text(**given)}", 303
        )

    def _asked(self, request: Request, visitor: Visitor) -> Response:
        return self.acts.ask(request, visitor, self.shell.around(request, visitor))

    def _done(self, request: Request, form: Form) -> Response:
        visitor = self.door.visitor(request)
        return self.acts.do(request, visitor, self.shell.around(request, visitor), form)

    def asset(self, request: Request) -> Response:
        """A file whose name says what is in it, so that it never changes."""
        found = self._by_name.get(request.path_params["name"])
        if found is None:
            return Response("not found", 404, headers=HEADERS)
        forever = HEADERS | {"cache-control": "public, max-age=31536000, immutable"}
        if "gzip" in request.headers.get("accept-encoding", ""):
            forever |= {"content-encoding": "gzip", "vary": "accept-encoding"}
            return Response(found.small, media_type=found.type, headers=forever)
        return Response(found.content, media_type=found.type, headers=forever)

    # -- errors --

    def _guarded(
        self, answer: Callable[[Request, Visitor], Response], hands: CapacityLimiter | None = None
    ) -> Endpoint:
        return self._open(lambda request: answer(request, self.door.visitor(request)), hands)

    def _open(self, answer: Answer, hands: CapacityLimiter | None = None) -> Endpoint:
        def safely(request: Request) -> Response:
            try:
                return _guarded_by_headers(answer(request))
            except Elsewhere as other:
                return RedirectResponse(own_path(other.path), 303, headers=HEADERS)
            except StanchionError as error:
                return self._error(request, error)
            except Exception:
                log.error("http.request_failed", path=request.url.path, exc_info=True)
                return self._error(request, InvariantViolated("E-BUG-01", "this page could not be made"))

        async def answered(request: Request) -> Response:
            return await run_sync(safely, request, limiter=hands or self._reading)

        return answered

    def _form(self, answer: Callable[[Request, Form], Response]) -> Endpoint:
        async def read(request: Request) -> Response:
            try:
                form = await self.acts.form(request)
            except StanchionError as error:
                return self._error(request, error)
            return await self._open(lambda r: answer(r, form), self._acting)(request)

        return read

    def _lost(self, request: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", 404)
        found = NotFound("E-HTTP-01", "there is no such page" if status == 404 else "this page is only read: use GET")
        response = self._error(request, found)
        response.status_code = status
        return response

    def _error(self, request: Request, error: StanchionError) -> Response:
        if isinstance(error, InvariantViolated):
            log.error("http.request_failed", path=request.url.path, code=error.code, what=error.what)
            error = InvariantViolated(error.code, "this page could not be made")
        headers = dict(HEADERS)
        if isinstance(error, Unauthenticated):
            headers["www-authenticate"] = "Bearer"
            if "text/html" in request.headers.get("accept", ""):
                return self.sign_in.asked(request, error, headers)
        if isinstance(error, Unavailable):
            headers["retry-after"] = "2"
        return HTMLResponse(self.painter.error(request, error), error.status, headers=headers)


def _squeezed(request: Request, text: str) -> Response:
    """A page, compressed for whoever takes that. It holds no secret: a token beside what others choose could be guessed."""
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return HTMLResponse(text, headers={"vary": "accept-encoding"})
    headers = {"content-encoding": "gzip", "vary": "accept-encoding"}
    return Response(gzip.compress(text.encode(), 5, mtime=0), media_type="text/html; charset=utf-8", headers=headers)


def _guarded_by_headers(answer: Response) -> Response:
    for name, value in HEADERS.items():
        answer.headers.setdefault(name, value)
    return answer


class Asset:
    """A file of the pages, under a name that has its hash."""

    def __init__(self, path: Path) -> None:
        self.content = path.read_bytes()
        self.small = gzip.compress(self.content, 9, mtime=0)
        self.type = TYPES[path.suffix]
        self.name = f"{path.stem}.{hashlib.sha256(self.content).hexdigest()[:12]}{path.suffix}"
