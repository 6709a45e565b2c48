"""The edge of the application: a bound on bodies, headers that every answer has, errors as problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from .answers import Answer, Refusal, problem
from .orders import Order, new_request_id
from .routes import desk_of, response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BODY_BYTES: Final = 1_048_576
MOST_PROBLEMS: Final = 10
NOTED: Final = ("/publications", "/channels")
"""Requests to these are listed, those too that can't be read."""
CODES: Final = {400: "bad_input", 404: "unknown_address", 405: "method_not_allowed", 413: "too_large"}
ALWAYS: Final = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))


class Edge:
    """In front of the application."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request with a bound on its body."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        read = 0

        async def bounded() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > MOST_BODY_BYTES:
                raise HTTPException(413, f"a body has at most {MOST_BODY_BYTES} bytes")
            return message

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *ALWAYS]
            await send(message)

        await self.app(scope, bounded, marked)


def guard(app: FastAPI) -> None:
    """Put the edge in front of `app`."""
    app.add_middleware(cast(Any, Edge))  # the type of the framework knows only its own middleware
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(Refusal, _on_refusal)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(Exception, _on_error)


async def _on_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = [
        {"where": ".".join(str(part) for part in one["loc"]), "what": one["msg"]}
        for one in error.errors()[:MOST_PROBLEMS]
    ]
    what = "; ".join(f"{one['where']}: {one['what']}" for one in found)
    return await _turned_away(request, problem(400, "bad_input", what, errors=found))


async def _on_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return await _turned_away(request, error.answer)


async def _on_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = CODES.get(error.status_code, "bad_request")
    return await _turned_away(request, problem(error.status_code, code, error.detail, headers=error.headers))


async def _on_error(_request: Request, _error: Exception) -> Response:
    return response(problem(500, "internal", "the press failed; its standard error says why"))


async def _turned_away(request: Request, answer: Answer) -> Response:
    path = request.scope["path"]
    if not path.startswith(NOTED):
        return response(answer)
    key = request.headers.get("Idempotency-Key")
    order = Order(new_request_id(), request.method, path[:300], key=key and key[:255])
    await desk_of(request).turn_away(order, answer)
    return response(answer, order.request_id)
