"""Who is asking: keys from the Authorization header, remembered for a moment, and the right that each route needs."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Annotated, Any, Final

from fastapi import Depends, Request

from stanchion.authority.keys import SCOPES, Keys, Principal
from stanchion.errors import Unauthenticated
from stanchion.runtime.clock import monotonic

REMEMBERED: Final = 10_000


class KeyRing:
    """Authenticates keys; a good one is remembered for `seconds`, a bad one never (there is no end of bad ones)."""

    def __init__(self, keys: Keys, seconds: float) -> None:
        self.keys = keys
        self.seconds = seconds
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, tuple[float, Principal]] = OrderedDict()

    def remembered(self, header: str | None) -> Principal | None:
        """The principal of a header that was seen a moment ago; no I/O."""
        if header is None:
            return None
        with self._lock:
            found = self._known.get(_mark(header))
        return found[1] if found is not None and found[0] > monotonic() else None

    def authenticate(self, header: str | None) -> Principal:
        """The principal of an Authorization header; asks the database. Raises Unauthenticated E-AUTH-01 or 02."""
        principal = self.keys.authenticate(_secret(header))
        assert header is not None, "a missing header has no secret"
        with self._lock:
            self._known[_mark(header)] = (monotonic() + self.seconds, principal)
            self._known.move_to_end(_mark(header))
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return principal

    def forget(self) -> None:
        """Ask the database about every key again: one was revoked here."""
        with self._lock:
            self._known.clear()


def _mark(header: str) -> bytes:
    return hashlib.sha256(header.encode("latin-1", "replace")).digest()  # keeps no secrets in memory


def _secret(header: str | None) -> str:
    if header is None:
        raise Unauthenticated(
            "E-AUTH-01",
            "no key came with the request",
            where="header Authorization",
            fix="send Authorization: Bearer stn_...",
        )
    scheme, _, secret = header.partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise Unauthenticated(
            "E-AUTH-01",
            "the Authorization header holds no key",
            where="header Authorization",
            fix="send Authorization: Bearer stn_...",
        )
    return secret.strip()


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


def _requires(scope: str, or_own: str | None) -> Callable[..., Any]:
    async def require(principal: Caller) -> None:
        if or_own is None or or_own not in principal.scopes:
            principal.require(scope)

    return require
