"""How people get in: the dev login, a provider of OpenID Connect, and the cookies that browsers carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal
from uuid import UUID

from starlette.responses import Response

from stanchion.authority.keyring import cookie_name
from stanchion.authority.keys import Keys
from stanchion.authority.people import Identity, Kind, Opened, People
from stanchion.errors import NotFound
from stanchion.runtime.logging import get_logger

from .oidc import SIGN_IN_SECONDS, Oidc
from .sign_in_settings import SignInSettings

BINDER: Final = "stanchion_sign_in"
"""The cookie that ties a sign-in to the browser that began it. It comes back from another site, so it is lax."""

log = get_logger()


@dataclass(frozen=True, slots=True)
class SignIn:
    """Under the task service's login."""

    settings: SignInSettings
    keys: Keys
    people: People
    oidc: Oidc | None

    @property
    def dev_login(self) -> bool:
        """Whether anybody at this machine may sign in under any name."""
        return self.settings.dev_login

    @property
    def dev_tenant(self) -> str:
        """Whose people the dev login makes."""
        return self.settings.dev_tenant

    def provider(self) -> Oidc:
        """The provider; raises NotFound when there is none."""
        if self.oidc is None:
            raise NotFound("E-HTTP-01", "nobody signs in with a provider here", fix="set STANCHION_OIDC_ISSUER")
        return self.oidc

    def as_neighbour(self, name: str, role: str, kind: Kind) -> Opened:
        """A session of the dev login."""
        tenant_id = self.keys.create_tenant(self.dev_tenant)
        return self._open(tenant_id, Identity(name, name, role), kind, "dev login")

    def come_back(self, given: Mapping[str, str], binder: str | None) -> tuple[Opened, str]:
        """A session of somebody whom the provider vouches for, and where they were going."""
        who, return_to, tenant_id = self.provider().finish(given, binder)
        return self._open(tenant_id, who, "browser", f"oidc {who.issuer}"), return_to

    def _open(self, tenant_id: UUID, who: Identity, kind: Kind, by: str) -> Opened:
        opened = self.people.sign_in(
            tenant_id,
            who,
            kind,
            seconds=self.settings.session_hours * 3_600,
            idle_seconds=self.settings.session_idle_hours * 3_600,
            by=by,
        )
        log.info("person.signed_in", person=opened.name, kind=kind)
        return opened

    # -- cookies --

    def give_cookie(self, answer: Response, token: str) -> None:
        """The session, for browsers: no script reads it, no other site sends it."""
        self._set(answer, cookie_name(secure=self.settings.secure_cookies), token, "strict")

    def take_cookie(self, answer: Response) -> None:
        """Make the browser forget its session."""
        self._set(answer, cookie_name(secure=self.settings.secure_cookies), "", "strict", seconds=0)

    def give_binder(self, answer: Response, binder: str) -> None:
        """What shows that the browser that comes back is the one that went."""
        self._set(answer, self._binder, binder, "lax", seconds=SIGN_IN_SECONDS)

    def take_binder(self, answer: Response) -> None:
        """It was used."""
        self._set(answer, self._binder, "", "lax", seconds=0)

    def binder_of(self, cookies: Mapping[str, str]) -> str | None:
        """What the browser that comes back has."""
        return cookies.get(self._binder)

    @property
    def _binder(self) -> str:
        return f"__Host-{BINDER}" if self.settings.secure_cookies else BINDER

    def _set(
        self,
        answer: Response,
        name: str,
        value: str,
        same_site: Literal["strict", "lax"],
        *,
        seconds: int | None = None,
    ) -> None:
        secure = self.settings.secure_cookies
        answer.set_cookie(name, value, max_age=seconds, path="/", secure=secure, httponly=True, samesite=same_site)
        answer.headers["cache-control"] = "no-store"
