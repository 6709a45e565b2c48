"""Who may see the pages: on a laptop whoever sits at it, elsewhere a key with task.read."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from uuid import UUID

from starlette.requests import Request

from stanchion.authority.keys import Keys, Principal
from stanchion.authority.people import TOKEN_PREFIX, People
from stanchion.errors import NotAllowed, NotFound, Unauthenticated


@dataclass(frozen=True, slots=True)
class Visitor:
    """Whose tasks are shown."""

    tenant_id: UUID
    tenant: str
    sees_payloads: bool = True


class PageDoor:
    """`open_to` names the tenant that is shown without a key; None: a key is always needed."""

    def __init__(self, keys: Keys, people: People, open_to: str | None) -> None:
        self.keys = keys
        self.people = people
        self.open_to = open_to

    def visitor(self, request: Request) -> Visitor:
        """Who is asking; raises Unauthenticated, NotAllowed E-AUTH-03, or NotFound for a tenant that is not there."""
        header = request.headers.get("authorization")
        if header is None and self.open_to is not None:
            return self._neighbour(request, self.open_to)
        scheme, _, secret = (header or "").partition(" ")
        if scheme.lower() != "bearer" or not secret.strip():
            raise Unauthenticated(
                "E-AUTH-01",
                "this page needs a key",
                where="header Authorization",
                fix='curl -H "Authorization: Bearer stn_..." with a key that has the right task.read',
            )
        principal = self._authenticated(secret.strip())
        principal.require("task.read")
        return Visitor(principal.tenant_id, principal.tenant, principal.sees_payloads)

    def _authenticated(self, secret: str) -> Principal:
        if secret.startswith(TOKEN_PREFIX):
            return self.people.authenticate(secret, "cli")
        return self.keys.authenticate(secret)

    def _neighbour(self, request: Request, tenant: str) -> Visitor:
        # A foreign page can make a browser ask 127.0.0.1 under a name of its own, and then read the answer.
        if not _is_here(request.url.hostname or ""):
            raise NotAllowed(
                "E-AUTH-03",
                "without a key these pages answer to this machine's own names only",
                where="header Host",
                fix="open them at http://127.0.0.1 or http://localhost",
            )
        tenant_id = self.keys.tenant_id(tenant)
        if tenant_id is None:
            raise NotFound(
                "E-FIND-01",
                f"there is no tenant {tenant!a} yet",
                fix="submit a task, or set STANCHION_PAGE_TENANT to the tenant whose tasks you want to see",
            )
        return Visitor(tenant_id, tenant)


def _is_here(name: str) -> bool:
    """Whether a host name can mean this machine only: 127.0.0.1.example.org is anybody's."""
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
