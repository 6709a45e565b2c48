"""The edge: what every request passes before any route does. Deny first: without a good key nothing but health answers.

A pure ASGI wrapper: it never buffers, so event streams and disconnects go through it untouched.
"""

from __future__ import annotations

import re
import time
from typing import Any, Final

from anyio.to_thread import run_sync
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stanchion.authority.keyring import KeyRing, check_not_forged
from stanchion.contracts.ids import new_id
from stanchion.errors import StanchionError, Unavailable, register_code
from stanchion.runtime.logging import bind
from stanchion.telemetry import metrics

from . import problems

OPEN_PATHS: Final = frozenset({"/healthz", "/readyz"})
METRICS_PATH: Final = "/metrics"

BUSY: Final = register_code(
    "E-BUSY-01",
    "too much at once",
    status=503,
    meaning="This process works on as many requests, bodies or streams as it is allowed to.",
    fix="Ask again in a moment; add replicas if it lasts.",
)

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Edge:
    """Request ids, keys and sessions, and a bound on what is under way; turns what nobody caught into a problem."""

    def __init__(
        self, app: ASGIApp, *, ring: KeyRing, most: int, metrics_open: bool, doors: frozenset[str] = frozenset()
    ) -> None:
        self.app = app
        self.ring = ring
        self.most = most
        self.open_paths = OPEN_PATHS | doors | ({METRICS_PATH} if metrics_open else set())
        self.under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request in, or answer it here."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request_id = headers.get("x-request-id", "")
        if not _REQUEST_ID.fullmatch(request_id):
            request_id = str(new_id())
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        exchange = _Exchange(scope, send, request_id)
        with bind(request_id=request_id):
            self.under_way += 1
            try:
                await self._admit(scope, receive, headers, exchange)
            except ClientDisconnect:
                pass  # nobody is there to be answered
            except StanchionError as error:
                await exchange.answer(problems.response(error, request_id), receive)
            except Exception as error:  # noqa: BLE001 - the last place: the caller gets a problem, the log the traceback
                await exchange.answer(problems.unexpected(error, request_id), receive)
            finally:
                self.under_way -= 1
                exchange.note()

    async def _admit(self, scope: Scope, receive: Receive, headers: Headers, exchange: _Exchange) -> None:
        if scope["path"] not in self.open_paths:
            if self.under_way > self.most:
                raise Unavailable(BUSY, f"{self.most:,} requests are under way here")
            credential = self.ring.credential(headers)
            principal = self.ring.remembered(credential)
            if principal is None:
                principal = await run_sync(self.ring.authenticate, credential)
            check_not_forged(principal, scope["method"], headers)
            scope["state"]["principal"] = principal
        await self.app(scope, receive, exchange.send)


class _Exchange:
    """One request and what was sent for it."""

    def __init__(self, scope: Scope, send: Send, request_id: str) -> None:
        self.scope = scope
        self.request_id = request_id
        self.status = 0
        self._send = send
        self._started = time.perf_counter()

    async def send(self, message: Message) -> None:
        """Pass a message on, with the request's id in its headers."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [
                *message.get("headers", []),
                (b"x-request-id", self.request_id.encode()),
                (b"x-content-type-options", b"nosniff"),
            ]
        await self._send(message)

    async def answer(self, response: Any, receive: Receive) -> None:
        """Send a response, unless one has begun: then the connection ends without its end."""
        if self.status == 0:
            await response(self.scope, receive, self.send)

    def note(self) -> None:
        """Count the request under its route's template: a path with an id in it would be a metric of its own."""
        route = getattr(self.scope.get("route"), "path", None) or (
            self.scope["path"] if self.scope["path"] in OPEN_PATHS | {METRICS_PATH} else "none"
        )
        method = self.scope["method"] if self.scope["method"] in _METHODS else "other"
        metrics.http_requests.labels(route, method, str(self.status or 499)).inc()
        metrics.http_seconds.labels(route).observe(time.perf_counter() - self._started)


_METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
