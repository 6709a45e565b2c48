"""Errors as RFC 9457 problems: what leaves this process says what, why and how to go on, and nothing of its inside."""

from __future__ import annotations

from typing import Final

import orjson
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from stanchion.errors import (
    InvariantViolated,
    NotFound,
    Rejected,
    StanchionError,
    Unauthenticated,
    Unavailable,
    Unprocessable,
    register_code,
)
from stanchion.runtime.logging import get_logger

MEDIA_TYPE: Final = "application/problem+json"
RETRY_AFTER_SECONDS: Final = "1"

# Details that clients steer by; others stay inside.
_SHOWN: Final = ("state", "limit", "value")

log = get_logger()


NO_PATH: Final = register_code(
    "E-HTTP-01", "no such path", status=404, meaning="There is nothing at this path.", fix="See /openapi.json."
)
NO_METHOD: Final = register_code(
    "E-HTTP-02",
    "method not possible",
    status=405,
    meaning="The path exists and does not take this method.",
    fix="See /openapi.json.",
)


class MethodNotAllowed(Rejected):
    """The path exists, and takes other methods."""

    status = 405


def response(error: StanchionError, request_id: str | None) -> Response:
    """The problem of an error, with the headers that belong to its status."""
    body = error.problem(request_id) | {name: error.details[name] for name in _SHOWN if name in error.details}
    headers = {}
    if isinstance(error, Unavailable):
        headers["retry-after"] = RETRY_AFTER_SECONDS
    if isinstance(error, Unauthenticated):
        headers["www-authenticate"] = "Bearer"
    if error.status >= 500 and not isinstance(error, Unavailable):
        # Texts of the database name columns and constraints: for the log, not for callers.
        log.error("http.request_failed", code=error.code, what=error.what, why=error.why, exc_info=error)
        body = InvariantViolated(error.code, "an unexpected error happened").problem(request_id)
    elif error.code.startswith("E-DB-"):
        log.warning("http.request_failed", code=error.code, what=error.what)
        body = Unavailable(error.code, "the database is away or busy: try again").problem(request_id)
    return Response(orjson.dumps(body), error.status, headers, MEDIA_TYPE)


def unexpected(error: BaseException, request_id: str | None) -> Response:
    """The problem of an error that nobody foresaw."""
    log.error("http.request_failed", error=type(error).__name__, exc_info=error)
    problem = InvariantViolated("E-BUG-01", "an unexpected error happened").problem(request_id)
    return Response(orjson.dumps(problem), 500, media_type=MEDIA_TYPE)


async def on_stanchion_error(request: Request, error: Exception) -> Response:
    """Handler for errors of ours."""
    assert isinstance(error, StanchionError)
    return response(error, request_id_of(request))


async def on_http_exception(request: Request, error: Exception) -> Response:
    """Handler for what the framework finds: no such path, no such method."""
    assert isinstance(error, HTTPException)
    ours: StanchionError
    if error.status_code == 405:
        ours = MethodNotAllowed(NO_METHOD, f"{request.method} is not possible here")
    elif error.status_code == 404:
        ours = NotFound(NO_PATH, "there is nothing at this path")
    else:
        ours = Unprocessable("E-DATA-15", "the request can't be read")
    answer = response(ours, request_id_of(request))
    for name, value in (error.headers or {}).items():
        answer.headers[name] = value
    return answer


async def on_invalid(request: Request, error: Exception) -> Response:
    """Handler for parameters of the wrong form; the value itself is not repeated."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(step) for step in first["loc"])
    ours = Unprocessable("E-DATA-15", str(first["msg"]).removeprefix("Value error, "), where=where[:200])
    return response(ours, request_id_of(request))


def request_id_of(request: Request) -> str | None:
    """The id under which this request is logged."""
    found = request.scope.get("state", {}).get("request_id")
    return str(found) if found else None


def no_such_code() -> NotFound:
    """The answer to an error code that does not exist."""
    return NotFound(NO_PATH, "there is no such error code")
