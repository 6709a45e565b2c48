"""Who may see the pages: on a laptop whoever sits at it, elsewhere whoever has signed in or shows a key."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from uuid import UUID

from starlette.datastructures import Headers
from starlette.requests import Request

from stanchion.authority.keyring import KeyRing
from stanchion.authority.keys import ROLES, SCOPES, Keys, Principal
from stanchion.authority.people import People, csrf_token_of
from stanchion.errors import NotAllowed, NotFound, Unauthenticated

READING = frozenset(scope for scope in SCOPES if scope.endswith(".read")) | {
    "keys.manage",
    "people.manage",
    "webhook.manage",
}
"""What somebody at this machine may see without signing in: everything of the tenant, and nothing may be changed."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """Whose pages are shown, and to whom."""

    tenant_id: UUID
    tenant: str
    name: str
    scopes: frozenset[str]
    kind: str = "neighbour"
    person_id: UUID | None = None
    csrf_token: str = ""
    forwarded: dict[str, str] = field(default_factory=dict, repr=False)
    """The headers by which the task service knows them too."""

    @property
    def acts(self) -> bool:
        """Whether they have shown who they are: only then may anything be done in their name."""
        return bool(self.forwarded)

    @property
    def sees_payloads(self) -> bool:
        """Whether inputs, results and the texts of errors are shown."""
        return self.may("payload.read")

    def may(self, right: str) -> bool:
        """Whether they have a right."""
        return right in self.scopes

    def require(self, right: str) -> None:
        """Raise NotAllowed E-AUTH-03 without it."""
        if not self.may(right):
            raise NotAllowed(
                "E-AUTH-03",
                f"{self.name} lacks the right {right}",
                why=f"{right} allows to {SCOPES[right]}; the roles {', '.join(roles_with(right))} have it",
                fix="ask an admin: stanchion person role",
            )


def roles_with(right: str) -> list[str]:
    """The roles that have a right."""
    return [role for role, rights in ROLES.items() if right in rights]


class Door:
    """`open_to` names the tenant that is shown without signing in; None: signing in is always needed."""

    def __init__(self, keys: Keys, people: People, *, open_to: str | None, cookie: str) -> None:
        self.keys = keys
        self.cookie = cookie
        self.open_to = open_to
        self.ring = KeyRing(keys, people, 0, cookie=cookie)  # what was revoked is over with the next page

    def visitor(self, request: Request) -> Visitor:
        """Who is asking; raises Unauthenticated, NotAllowed E-AUTH-03, or NotFound for a tenant that is not there."""
        if self.open_to is not None:
            # a foreign page can make a browser ask 127.0.0.1 under a name of its own, and then read the answer
            _check_neighbour(request)
        try:
            credential = self.ring.credential(request.headers)
            return _visitor(self.ring.authenticate(credential), request.headers)
        except Unauthenticated:
            if self.open_to is None or "authorization" in request.headers:
                raise
        return self._neighbour(self.open_to)

    def _neighbour(self, tenant: str) -> Visitor:
        tenant_id = self.keys.tenant_id(tenant)
        if tenant_id is None:
            raise NotFound(
                "E-FIND-01",
                f"there is no tenant {tenant!a} yet",
                fix="submit a task, or set STANCHION_PAGE_TENANT to the tenant whose tasks you want to see",
            )
        return Visitor(tenant_id, tenant, "this machine", READING)


def _visitor(principal: Principal, headers: Headers) -> Visitor:
    signed_in = principal.signed_in
    browser = signed_in is not None and signed_in.kind == "browser"
    name = "cookie" if browser else "authorization"
    return Visitor(
        principal.tenant_id,
        principal.tenant,
        principal.subject,
        principal.scopes,
        principal.kind,
        signed_in.person_id if signed_in else None,
        csrf_token_of(signed_in.session_id, signed_in.csrf_secret) if browser and signed_in else "",
        {name: headers[name]},
    )


def _check_neighbour(request: Request) -> None:
    if not is_here(request.url.hostname or ""):
        raise NotAllowed(
            "E-AUTH-03",
            "in the dev profile these pages answer to this machine's own names only",
            where="header Host",
            fix="open them at http://127.0.0.1 or http://localhost",
        )


def is_here(name: str) -> bool:
    """Whether a host name can mean this machine only: 127.0.0.1.example.org is anybody's."""
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
