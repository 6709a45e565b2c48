"""Settings of sign-in: sessions, the dev login, and a provider of OpenID Connect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import NoDecode

from stanchion.authority.keys import ROLES
from stanchion.contracts import limits
from stanchion.errors import Unprocessable
from stanchion.runtime.http import is_loopback
from stanchion.runtime.webhook_settings import WebhookSettings

Role = Literal["viewer", "operator", "approver", "admin", "platform"]
_LISTS = ("oidc_roles", "oidc_teams")


class SignInSettings(WebhookSettings):
    """How people get in."""

    session_hours: float = Field(default=12.0, gt=0, le=24 * 90)  # how long a session lasts at most
    session_idle_hours: float = Field(default=4.0, gt=0, le=24 * 90)  # how long one lasts that is not used
    dev_tenant: str = Field(
        default="dev", min_length=1, max_length=limits.TENANT_CHARACTERS
    )  # dev profile on loopback only: whose people the dev login makes

    oidc_issuer: str | None = None  # the provider; unset: nobody signs in by OpenID Connect
    oidc_client_id: str | None = None  # what the provider knows this installation as
    oidc_client_secret: SecretStr | None = None  # unset: a public client, with PKCE alone
    oidc_redirect_url: str | None = None  # https://.../v1/session/oidc/callback, as it is registered at the provider
    oidc_tenant: str | None = None  # whose people sign in there; made when there is none of this name
    oidc_scopes: str = "openid profile email"  # what is asked of the provider, separated by spaces
    oidc_name_claim: str = "preferred_username"  # which claim names a person; else the e-mail address
    oidc_groups_claim: str = "groups"  # which claim lists a person's groups
    oidc_roles: Annotated[tuple[str, ...], NoDecode] = ()  # group=role, comma-separated; the highest role holds
    oidc_teams: Annotated[tuple[str, ...], NoDecode] = ()  # group=team, comma-separated
    oidc_default_role: Role | None = None  # for people in none of these groups; unset: they may not sign in

    @property
    def dev_login(self) -> bool:
        """Whether anybody at this machine may sign in under any name."""
        return self.profile == "dev" and is_loopback(self.http_host)

    @property
    def secure_cookies(self) -> bool:
        """Whether cookies travel by TLS only."""
        return not self.dev_login

    @property
    def roles_by_group(self) -> Mapping[str, str]:
        """The role that a group gives."""
        return _pairs(self.oidc_roles)

    @property
    def teams_by_group(self) -> Mapping[str, str]:
        """The team that a group stands for."""
        return _pairs(self.oidc_teams)

    @model_validator(mode="before")
    @classmethod
    def _groups(cls, values: dict[str, object]) -> dict[str, object]:
        for name in _LISTS:
            if isinstance(text := values.get(name), str):
                values[name] = tuple(part.strip() for part in text.split(",") if part.strip())
        return values

    @model_validator(mode="after")
    def _oidc_is_whole(self) -> Self:
        if self.oidc_issuer is None:
            return self
        missing = [n for n in ("oidc_client_id", "oidc_redirect_url", "oidc_tenant") if getattr(self, n) is None]
        if missing:
            raise Unprocessable("E-CONF-02", f"oidc_issuer is set, and {missing[0]} is not")
        for name in ("oidc_issuer", "oidc_redirect_url"):
            place = urlsplit(str(getattr(self, name)))
            inside = self.profile == "dev" and place.scheme == "http" and is_loopback(place.hostname or "")
            if not (place.scheme == "https" or inside) or not place.hostname:
                raise Unprocessable("E-CONF-02", f"{name} is no https address")
        if wrong := [role for role in self.roles_by_group.values() if role not in ROLES]:
            raise Unprocessable("E-CONF-02", f"oidc_roles: there is no role {wrong[0][:40]!a}")
        return self


def _pairs(texts: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in texts:
        group, equals, value = text.rpartition("=")
        if not (group and equals and value):
            raise Unprocessable("E-CONF-02", f"{text[:60]!a} has not the form group=name")
        found[group.strip()] = value.strip()
    return found
