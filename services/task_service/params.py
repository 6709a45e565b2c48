"""What comes in: bodies within bounds, ids, pages; a parameter that a route does not know is refused, not ignored.

A misspelt filter that is ignored shows somebody all tasks as if they had passed it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Depends, Query, Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from stanchion.contracts import ids, limits, payload
from stanchion.contracts.message import M, read
from stanchion.errors import Rejected, TooLarge, Unavailable, Unprocessable, register_code

from .edge import BUSY

BODY_SECONDS: Final = 30.0  # a body that does not arrive in this time does not arrive

SLOW_BODY: Final = register_code(
    "E-HTTP-03",
    "body did not arrive",
    status=408,
    meaning=f"The body was not complete within {BODY_SECONDS:g} s.",
    fix="Send it at once, or make it smaller.",
)


ENCODED_BODY: Final = register_code(
    "E-HTTP-04",
    "body is encoded",
    status=415,
    meaning="The body has a Content-Encoding; it is read as it comes, within the same limits for everybody.",
    fix="Send it plain.",
)


class Encoded(Rejected):
    """The body is compressed, or encoded in another way."""

    status = 415


class TooSlow(Rejected):
    """The body did not arrive in time."""

    status = 408


class StrictRoute(APIRoute):
    """A route that refuses query parameters it does not have, and those that come twice."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The framework's handler behind the check."""
        handle = super().get_route_handler()
        known = {field.alias for field in self.dependant.query_params}
        takes_key = any(field.alias == "idempotency-key" for field in self.dependant.header_params)

        async def strict(request: Request) -> Response:
            for name in request.query_params:
                if name not in known:
                    raise _unknown(name, known)
                if len(request.query_params.getlist(name)) > 1:
                    raise Unprocessable("E-DATA-15", f"the parameter {name} comes twice", where=f"query.{name}")
            keys = request.headers.getlist("idempotency-key")
            if len(keys) > 1 or (keys and not takes_key):
                raise Unprocessable(
                    "E-DATA-12",
                    "the header Idempotency-Key comes twice" if takes_key else "there is no Idempotency-Key here",
                    where="header Idempotency-Key",
                    fix="send one key with POST /v1/tasks; the other calls may be repeated as they are",
                )
            return await handle(request)

        return strict


def _unknown(name: str, known: set[str]) -> Unprocessable:
    return Unprocessable(
        "E-DATA-15",
        f"there is no query parameter {name[:40]!a} here",
        where="query",
        fix=f"use some of {', '.join(sorted(known))}" if known else "remove it",
    )


class BodyBudget:
    """How many bytes of bodies may be in memory at once, of all requests together."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0


def refuse_encoded(request: Request) -> None:
    """Raises Encoded E-HTTP-04 for a body with a Content-Encoding: nothing here decodes."""
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise Encoded(ENCODED_BODY, f"the body is encoded as {encoding[:40]!a}", where="header Content-Encoding")


async def body_of(request: Request) -> AsyncIterator[bytes]:
    """The body's bytes, at most `limits.HTTP_BODY_BYTES`; they leave the budget when the request is answered."""
    refuse_encoded(request)
    held = _Held(request.app.state.body_budget)
    try:
        yield await _read_in_time(request, held)
    finally:
        held.budget.used -= held.size


class _Held:
    def __init__(self, budget: BodyBudget) -> None:
        self.budget = budget
        self.size = 0

    def take(self, count: int) -> None:
        self.size += count
        self.budget.used += count
        if self.size > limits.HTTP_BODY_BYTES:
            raise TooLarge(
                "E-SIZE-01",
                f"the body has more than {limits.HTTP_BODY_BYTES:,} bytes",
                fix="send less at once, or store it and pass the reference",
                limit=limits.HTTP_BODY_BYTES,
            )
        if self.budget.used > self.budget.most:
            raise Unavailable(BUSY, "the bodies that are under way fill the memory set aside for them")


async def _read_in_time(request: Request, held: _Held) -> bytes:
    chunks: list[bytes] = []
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                held.take(len(chunk))
                chunks.append(chunk)
    except TimeoutError:
        raise TooSlow(SLOW_BODY, f"the body was not complete within {BODY_SECONDS:g} s") from None
    return b"".join(chunks)


Body = Annotated[bytes, Depends(body_of)]


def json_object(body: bytes) -> dict[str, Any]:
    """The object that a body is; an empty body is an empty object. Raises Unprocessable."""
    value = payload.parse(body) if body.strip() else {}
    if not isinstance(value, dict):
        raise Unprocessable("E-DATA-15", "the body is not a JSON object", where="$", fix='send {"...": ...}')
    return value


def message(model: type[M], body: bytes) -> M:
    """A model from a body; raises Unprocessable with the path of the fault."""
    return read(model, json_object(body))


Limit = Annotated[int, Query(ge=1, le=limits.PAGE_ROWS_MAX, description="rows in one page")]
Cursor = Annotated[str | None, Query(max_length=64, description="`next` of the page before")]


def cursor_of(text: str | None, prefix: str) -> UUID | None:
    """The id behind a cursor; raises Unprocessable E-DATA-11."""
    return None if text is None else ids.parse(text, prefix)


def plain(text: str | None, name: str, most: int = limits.NAME_CHARACTERS) -> str | None:
    """A text from the query, fit to be bound; raises Unprocessable E-DATA-15."""
    if text is None:
        return None
    if not text or len(text) > most or any(ord(character) < 32 or ord(character) == 127 for character in text):
        raise Unprocessable(
            "E-DATA-15", f"{name} has 1 to {most} characters, and no control characters", where=f"query.{name}"
        )
    return text


def one_of(text: str | None, name: str, allowed: tuple[str, ...]) -> str | None:
    """A text from a closed list; raises Unprocessable E-DATA-15."""
    if text is not None and text not in allowed:
        raise Unprocessable(
            "E-DATA-15", f"{text[:40]!a} is no {name}", where=f"query.{name}", fix=f"use one of {', '.join(allowed)}"
        )
    return text


def some_of(text: str | None, name: str, allowed: tuple[str, ...]) -> tuple[str, ...] | None:
    """Texts from a closed list, separated by commas; raises Unprocessable E-DATA-15."""
    if text is None:
        return None
    return tuple(one_of(part, name, allowed) or "" for part in text.split(","))
