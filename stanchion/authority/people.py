"""People: their sessions, their roles, their teams.

A session is opened by `sts_` and 32 random bytes; the database keeps the SHA-256 alone, as it does of keys. A browser's
session lives in a cookie that no script reads, and needs a token beside it for whatever changes something: an HMAC of
the session's own secret, so that knowing one of the two is not enough. A session of the command line is sent as a bearer
token. Neither opens the other's door.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal
from uuid import UUID

from stanchion.db.engine import Database
from stanchion.errors import NotAllowed, NotFound, Unauthenticated, Unprocessable, register_code

from .keys import ROLES, Principal, SignedIn, hash_of, new_secret

TOKEN_PREFIX: Final = "sts_"  # noqa: S105 - how a token begins, which is no secret
OWN_RIGHTS: Final = ("payload.read",)
"""Rights that a person may have beside those of their role."""

Kind = Literal["browser", "cli"]

DISABLED: Final = register_code(
    "E-PERSON-01",
    "person is disabled",
    status=403,
    meaning="An admin has disabled this person: they can't sign in, and their sessions have ended.",
    fix="Ask an admin: stanchion person enable.",
)
NAME_ELSEWHERE: Final = register_code(
    "E-PERSON-02",
    "name belongs to somebody else",
    status=409,
    meaning="The dev login was asked for a name whose person signs in with a provider.",
    fix="Sign in with the provider, or take another name.",
)
BAD_CSRF: Final = register_code(
    "E-AUTH-07",
    "request may be forged",
    status=403,
    meaning="A browser's session changes something only with the token that stands beside it, from the same site.",
    fix="Send the header X-CSRF-Token with the csrf_token of GET /v1/session.",
)

_HANDLE = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Identity:
    """Who signs in, as the dev login or a provider says it."""

    name: str
    display_name: str
    role: str
    email: str | None = None
    issuer: str | None = None
    subject: str | None = None
    teams: tuple[str, ...] = ()
    governed: tuple[str, ...] = ()  # teams that the provider decides on


@dataclass(frozen=True, slots=True)
class Opened:
    """A session that was just opened: its token is shown once."""

    session_id: UUID
    person_id: UUID
    name: str
    role: str
    token: str
    csrf_token: str


class People:
    """Under the login of the task service; `authenticate` under the orchestrator's too."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def authenticate(self, token: str, kind: Kind) -> Principal:
        """Whose session this is; raises Unauthenticated E-AUTH-02 for one that is unknown or over."""
        found = hash_of(token, TOKEN_PREFIX)
        rows = (
            self.database.read("SELECT * FROM stanchion.authenticate_session(%s, %s)", (found, kind)) if found else []
        )
        if not rows:
            raise Unauthenticated("E-AUTH-02", "the session is unknown or over", fix="sign in again")
        tenant_id, tenant, name, role, rights, teams, person_id, session_id, csrf_secret, expires_at = rows[0]
        scopes = frozenset(ROLES[role]) | frozenset(rights)
        signed_in = SignedIn(session_id, person_id, role, kind, expires_at, bytes(csrf_secret))
        return Principal(tenant_id, tenant, name, scopes, "person", frozenset(teams), signed_in)

    def sign_in(
        self, tenant_id: UUID, who: Identity, kind: Kind, *, seconds: float, idle_seconds: float, by: str
    ) -> Opened:
        """Open a session for somebody who has shown who they are; the person is made when they come the first time.

        Raises NotAllowed E-PERSON-01 for somebody who is disabled, and Conflict E-PERSON-02.
        """
        rows = self.database.read(
            "SELECT * FROM stanchion.ensure_person(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (
                tenant_id,
                who.name,
                who.display_name,
                who.email,
                who.issuer,
                who.subject,
                who.role,
                list(who.teams),
                list(who.governed),
                by,
            ),
        )
        person_id, name, role, disabled = rows[0]
        token, csrf_secret = new_secret(TOKEN_PREFIX), secrets.token_bytes(32)
        session_id = None
        if not disabled:
            session_id = self.database.read(
                "SELECT stanchion.open_session(%s, %s, %s, %s, %s, %s, %s, %s)",
                (
                    tenant_id,
                    person_id,
                    kind,
                    hash_of(token, TOKEN_PREFIX),
                    csrf_secret,
                    int(seconds),
                    int(idle_seconds),
                    by,
                ),
            )[0][0]
        if session_id is None:
            raise NotAllowed(DISABLED, f"{name} is disabled")
        return Opened(session_id, person_id, name, role, token, csrf_token_of(session_id, csrf_secret))

    def end_session(
        self, tenant_id: UUID, session_id: UUID, *, of: UUID | None, actor: str, signs_out: bool = False
    ) -> None:
        """End a session: of the person `of`, or (None) of anybody in the tenant; raises NotFound."""
        action = "session.close" if signs_out else "session.revoke"
        rows = self.database.read(
            "SELECT stanchion.end_session(%s, %s, %s, %s, %s)", (tenant_id, session_id, of, actor, action)
        )
        if not rows[0][0]:
            raise NotFound("E-FIND-01", "there is no such session in this tenant")

    def sessions(
        self, tenant_id: UUID, *, of: UUID | None, limit: int, before: UUID | None = None
    ) -> list[dict[str, Any]]:
        """Sessions, the newest first, without what opens them."""
        rows = self.database.read(
            "SELECT * FROM stanchion.list_sessions(%s, %s, %s, %s)", (tenant_id, of, before, limit)
        )
        names = ("session_id", "name", "kind", "created_at", "used_at", "expires_at", "revoked_at")
        return [dict(zip(names, row, strict=True)) for row in rows]

    def page(self, tenant_id: UUID, *, limit: int, after: str | None = None) -> list[dict[str, Any]]:
        """The people of a tenant by name, with their teams."""
        rows = self.database.read("SELECT * FROM stanchion.list_people(%s, %s, %s)", (tenant_id, after, limit))
        names = (
            "person_id",
            "name",
            "display_name",
            "email",
            "issuer",
            "role",
            "rights",
            "teams",
            "created_at",
            "disabled_at",
        )
        return [dict(zip(names, row, strict=True)) for row in rows]

    def set_role(self, caller: Principal, name: str, role: str, rights: Sequence[str]) -> None:
        """Give a person a role, and rights beside it.

        Raises NotFound, and NotAllowed E-AUTH-03 for a role, or a person, with rights that the caller lacks.
        """
        if role not in ROLES:
            raise Unprocessable(
                "E-DATA-15", f"there is no role {role[:40]!a}", where="$.role", fix=f"use one of {', '.join(ROLES)}"
            )
        if beyond := [right for right in rights if right not in OWN_RIGHTS]:
            raise Unprocessable(
                "E-DATA-15",
                f"{beyond[0][:40]!a} is no right that somebody has beside a role",
                where="$.rights",
                fix=f"use {', '.join(OWN_RIGHTS)}, or another role",
            )
        self._touched(
            "SELECT stanchion.set_role(%s, %s, %s, %s, %s, %s)",
            (caller.tenant_id, name, role, sorted(set(rights)), roles_within(caller.scopes), caller.actor),
        )

    def disable(self, caller: Principal, name: str, *, disabled: bool) -> None:
        """Keep a person out, and end their sessions, or let them in again; raises what `set_role` raises."""
        self._touched(
            "SELECT stanchion.disable_person(%s, %s, %s, %s, %s)",
            (caller.tenant_id, name, disabled, roles_within(caller.scopes), caller.actor),
        )

    def teams(self, tenant_id: UUID, *, limit: int, after: str | None = None) -> list[dict[str, Any]]:
        """The teams of a tenant by name, with their members."""
        rows = self.database.read("SELECT * FROM stanchion.list_teams(%s, %s, %s)", (tenant_id, after, limit))
        return [{"team": team, "members": members} for team, members in rows]

    def put_in_team(self, caller: Principal, team: str, name: str, *, member: bool) -> None:
        """Put a person into a team, or take them out; raises NotFound, and Unprocessable for a bad name of a team."""
        rows = self.database.read(
            "SELECT stanchion.put_in_team(%s, %s, %s, %s, %s)",
            (caller.tenant_id, handle_of(team, "$.team"), name, member, caller.actor),
        )
        if not rows[0][0]:
            raise missing_person()

    def begin_sign_in(
        self, tenant_id: UUID, *, state: bytes, binder: bytes, nonce: str, verifier: str, return_to: str, seconds: int
    ) -> None:
        """Remember a sign-in that goes to a provider, by hashes of what must come back."""
        self.database.read(
            "SELECT stanchion.begin_sign_in(%s, %s, %s, %s, %s, %s, %s)",
            (tenant_id, state, binder, nonce, verifier, return_to, seconds),
        )

    def take_sign_in(self, tenant_id: UUID, *, state: bytes, binder: bytes) -> tuple[str, str, str] | None:
        """Nonce, verifier and place to return to of a sign-in that comes back, once; None for any other."""
        rows = self.database.read("SELECT * FROM stanchion.take_sign_in(%s, %s, %s)", (tenant_id, state, binder))
        return tuple(rows[0]) if rows else None

    def _touched(self, statement: Any, parameters: tuple[Any, ...]) -> None:
        outcome = self.database.read(statement, parameters)[0][0]
        if outcome == "missing":
            raise missing_person()
        if outcome == "beyond":
            raise NotAllowed(
                "E-AUTH-03",
                "this role has rights that you lack",
                why="nobody gives or takes more than they have",
                fix="ask somebody who has them",
            )


def missing_person() -> NotFound:
    """The answer to a name that nobody in the tenant has."""
    return NotFound("E-FIND-01", "there is no such person in this tenant", fix="stanchion person list")


def roles_within(scopes: frozenset[str]) -> list[str]:
    """The roles that hold no right beyond these."""
    return [role for role, held in ROLES.items() if scopes.issuperset(held)]


def handle_of(text: str, where: str) -> str:
    """A name of a person or a team as it is kept; raises Unprocessable E-DATA-15 for what can't be one."""
    if not _HANDLE.fullmatch(text):
        raise Unprocessable(
            "E-DATA-15",
            f"{text[:40]!a} is no name of a person or a team",
            where=where,
            why="a name has 1 to 64 characters of a-z, 0-9, and '.', '_', '-' inside",
        )
    return text


def handle_from(*texts: str | None) -> str:
    """A name made of the first text that has letters: for people whose provider knows them by other rules."""
    for text in texts:
        plain = unicodedata.normalize("NFKD", (text or "").partition("@")[0]).encode("ascii", "ignore").decode().lower()
        if found := re.sub(r"[^a-z0-9._-]+", "-", plain).strip("._-")[:60].strip("._-"):
            return found
    return "person"


def csrf_token_of(session_id: UUID, csrf_secret: bytes) -> str:
    """The token that a browser sends beside its cookie."""
    made = hmac.digest(csrf_secret, b"stanchion csrf" + session_id.bytes, hashlib.sha256)
    return base64.urlsafe_b64encode(made).rstrip(b"=").decode()


def check_csrf(signed_in: SignedIn, token: str | None) -> None:
    """Raise NotAllowed E-AUTH-07 unless the token is that of the session; compared in constant time."""
    expected = csrf_token_of(signed_in.session_id, signed_in.csrf_secret)
    if not hmac.compare_digest(expected.encode(), (token or "").encode("utf-8", "replace")):
        raise NotAllowed(BAD_CSRF, "the token beside the cookie is missing or wrong", where="header X-CSRF-Token")
