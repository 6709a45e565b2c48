"""The right that each route needs, and who is asking."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

from fastapi import Depends, Request

from stanchion.authority.keys import SCOPES, Principal

NOBODYS: Final = "none"
"""What routes say instead of a right that everybody has who signed in, or that have to be open before that."""


async def principal_of(request: Request) -> Principal:
    """Who is asking; the edge has found out before any route is reached."""
    found: Principal = request.state.principal
    return found


Caller = Annotated[Principal, Depends(principal_of)]


def needs(scope: str, *, or_own: str | None = None) -> dict[str, Any]:
    """What a route is declared with so that only keys with this right reach it, and its documentation says so.

    With the right `or_own` a key reaches it too, and the route sees to it that it touches what is its tenant's alone.
    """
    assert {scope, or_own} <= {*SCOPES, None}, f"there is no right {scope} or {or_own}"
    return {"dependencies": [Depends(_requires(scope, or_own))], "openapi_extra": {"x-right": scope}}


def needs_nothing() -> dict[str, Any]:
    """What a route about oneself is declared with, or one by which people get in; it looks after itself."""
    return {"openapi_extra": {"x-right": NOBODYS}}


def _requires(scope: str, or_own: str | None) -> Callable[..., Any]:
    async def require(principal: Caller) -> None:
        if or_own is None or or_own not in principal.scopes:
            principal.require(scope)

    return require
