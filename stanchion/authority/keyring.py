"""Credentials of requests: keys and sessions, remembered for a moment, and requests that another site made a browser send.

A program sends `Authorization: Bearer`, with a key (`stn_`) or a session of the command line (`sts_`). A browser sends a
cookie that no script can read; whatever it changes needs a token beside it, and a request from the same site.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from stanchion.errors import NotAllowed, Unauthenticated
from stanchion.runtime.clock import monotonic

from .keys import Keys, Principal
from .people import BAD_CSRF, TOKEN_PREFIX, People, check_csrf

REMEMBERED: Final = 10_000
CSRF_HEADER: Final = "x-csrf-token"
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
OWN_SITE: Final = frozenset({"same-origin", "none"})
COOKIE: Final = "stanchion_session"


def cookie_name(*, secure: bool) -> str:
    """The name of the cookie: with TLS one that no neighbour under the same domain can set."""
    return f"__Host-{COOKIE}" if secure else COOKIE


@dataclass(frozen=True, slots=True)
class Credential:
    """What came with a request: a key, or the token of a session."""

    kind: Literal["key", "cli", "browser"]
    secret: str = field(repr=False)

    @property
    def mark(self) -> bytes:
        """What it is remembered under: no secrets stay in memory."""
        return hashlib.sha256(f"{self.kind} {self.secret}".encode("latin-1", "replace")).digest()


class KeyRing:
    """Authenticates; a good credential is remembered for `seconds`, a bad one never (there is no end of bad ones)."""

    def __init__(self, keys: Keys, people: People, seconds: float, *, cookie: str = COOKIE) -> None:
        self.keys = keys
        self.people = people
        self.seconds = seconds
        self.cookie = cookie
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, tuple[float, Principal]] = OrderedDict()

    def credential(self, headers: Mapping[str, str]) -> Credential:
        """What a request shows; raises Unauthenticated E-AUTH-01 when it shows nothing."""
        header = headers.get("authorization")
        if header is not None:
            scheme, _, secret = header.partition(" ")
            if scheme.lower() == "bearer" and (secret := secret.strip()):
                return Credential("cli" if secret.startswith(TOKEN_PREFIX) else "key", secret)
            raise _nobody("the Authorization header holds no key")
        if (token := _cookie_of(headers.get("cookie"), self.cookie)) is not None:
            return Credential("browser", token)
        raise _nobody("no key and no session came with the request")

    def remembered(self, credential: Credential) -> Principal | None:
        """The principal of a credential that was seen a moment ago; no I/O."""
        with self._lock:
            found = self._known.get(credential.mark)
        return found[1] if found is not None and found[0] > monotonic() else None

    def authenticate(self, credential: Credential) -> Principal:
        """Whose credential this is; asks the database. Raises Unauthenticated E-AUTH-02."""
        if credential.kind == "key":
            principal = self.keys.authenticate(credential.secret)
        else:
            principal = self.people.authenticate(credential.secret, credential.kind)
        with self._lock:
            self._known[credential.mark] = (monotonic() + self.seconds, principal)
            self._known.move_to_end(credential.mark)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return principal

    def forget(self) -> None:
        """Ask the database about everybody again: something was revoked here, or somebody may do less."""
        with self._lock:
            self._known.clear()


def check_not_forged(principal: Principal, method: str, headers: Mapping[str, str]) -> None:
    """Raise NotAllowed E-AUTH-07 for a change by a browser's session that another site may have made it send."""
    signed_in = principal.signed_in
    if method in SAFE_METHODS or signed_in is None or signed_in.kind != "browser":
        return
    check_own_site(headers)
    check_csrf(signed_in, headers.get(CSRF_HEADER))


def check_own_site(headers: Mapping[str, str]) -> None:
    """Raise NotAllowed E-AUTH-07 when the browser itself says that another site asked."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    foreign = origin is not None and origin.partition("://")[2] != headers.get("host", "")
    if foreign or (site is not None and site not in OWN_SITE):
        raise NotAllowed(BAD_CSRF, "the request comes from another site", where="header Origin")


def _nobody(what: str) -> Unauthenticated:
    return Unauthenticated(
        "E-AUTH-01", what, where="header Authorization", fix="send Authorization: Bearer stn_..., or sign in"
    )


def _cookie_of(header: str | None, name: str) -> str | None:
    """The last of this name. Read part by part: one of somebody else that is no cookie must not hide ours."""
    parts = (part.strip().partition("=") for part in (header or "").split(";"))
    found = [value.strip('"') for key, _, value in parts if key == name]
    return (found[-1] or None) if found else None
