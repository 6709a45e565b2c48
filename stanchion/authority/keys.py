"""API keys: who is asking, what they may do, and how keys are made and ended.

A key is `stn_` and 32 random bytes in base64url. The database keeps its SHA-256 alone: a key that is lost can't be
shown again, and a copy of the table opens nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from stanchion.contracts import limits
from stanchion.db.engine import Database
from stanchion.errors import Conflict, NotAllowed, NotFound, Unauthenticated, Unprocessable, register_code

PREFIX: Final = "stn_"
SECRET_BYTES: Final = 32

NAME_TAKEN: Final = register_code(
    "E-KEY-01",
    "name is taken",
    status=409,
    meaning="Another key, or another tenant, has this name.",
    fix="Choose another name.",
)

SCOPES: Final[dict[str, str]] = {
    "task.submit": "submit tasks",
    "task.read": "see tasks, steps, events, names and sizes of artifacts, and why they wait; no payloads",
    "payload.read": "see inputs, results, what operations sent and got back, and the bytes of dead letters",
    "artifact.read": "read the content of artifacts, and verify it",
    "artifact.write": "upload versions of artifacts",
    "artifact.manage": "pin, unpin and delete versions of artifacts",
    "task.cancel": "cancel tasks",
    "task.operate": "pause and resume tasks and queues, retry, reopen steps, offer them again, open barriers, redrive dead letters",
    "operation.settle": "say what became of an operation of unknown fate, and have the outside system asked",
    "approval.decide": "decide what waits for a decision of one's teams",
    "worker.read": "see queues, workers that serve one's own tenant (without host and pid), and counts of outbox and lag",
    "worker.operate": "ask any worker to drain, and see all of them; they serve other tenants too",
    "metrics.read": "read metrics and samples that count for all tenants, and all topics of outbox and lag",
    "keys.manage": "create, list and revoke keys of one's own tenant, with at most one's own rights",
    "people.manage": "see the people of one's own tenant, their teams and sessions, and change what they may",
    "webhook.manage": "see, make and remove webhooks of one's own tenant, and send again what they missed",
    "audit.read": "read and verify the audit log of one's own tenant",
    "tenant.manage": "create tenants, and see what belongs to none",
}
"""Every right there is, with what it allows."""

ABOVE_TENANTS: Final = frozenset({"worker.operate", "metrics.read", "tenant.manage"})
"""Rights that reach beyond the tenant of their key: only `platform` has them."""

ROLES: Final[dict[str, tuple[str, ...]]] = {
    "viewer": ("task.read", "worker.read"),
    "operator": (
        "task.submit",
        "task.read",
        "payload.read",
        "artifact.read",
        "artifact.write",
        "task.cancel",
        "task.operate",
        "operation.settle",
        "worker.read",
    ),
    "approver": ("task.read", "payload.read", "approval.decide", "worker.read"),
    "admin": tuple(scope for scope in SCOPES if scope not in ABOVE_TENANTS),
    "platform": tuple(SCOPES),
}
"""Bundles of rights by name. A key stores the rights, not the role, so a changed bundle changes no key; a person has
the role, and what it holds at the moment."""

_TENANT = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class SignedIn:
    """What is known of a person's session beside their rights."""

    session_id: UUID
    person_id: UUID
    role: str
    kind: str  # browser or cli
    expires_at: datetime
    csrf_secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is asking: a key of a tenant, a person by a session, or by `kind` something else that has rights in it."""

    tenant_id: UUID
    tenant: str
    name: str
    scopes: frozenset[str]
    kind: str = "key"
    teams: frozenset[str] = frozenset()
    signed_in: SignedIn | None = None

    @property
    def subject(self) -> str:
        """Who it is within its tenant: `key:<name>` or `person:<name>`."""
        return f"{self.kind}:{self.name}"

    @property
    def actor(self) -> str:
        """The name under which its acts are recorded."""
        return self.subject

    @property
    def sees_payloads(self) -> bool:
        """Whether inputs, results and the texts of errors are shown to it."""
        return "payload.read" in self.scopes

    def require(self, scope: str) -> None:
        """Raise NotAllowed E-AUTH-03 without this right."""
        if scope not in self.scopes:
            raise NotAllowed(
                "E-AUTH-03",
                f'{self.kind} "{self.name}" lacks the right {scope}',
                why=f"{scope} allows to {SCOPES[scope]}",
                fix="ask an admin: stanchion person role"
                if self.signed_in
                else f"stanchion key create --scope {scope}, or ask an admin for a key that has it",
            )


def new_secret(prefix: str = PREFIX) -> str:
    """A new key's text, or with another prefix that of something else that opens a door."""
    return prefix + base64.urlsafe_b64encode(secrets.token_bytes(SECRET_BYTES)).rstrip(b"=").decode()


def hash_of(secret: str, prefix: str = PREFIX) -> bytes | None:
    """The SHA-256 under which a key is kept; None for what can't be a key."""
    body = secret.removeprefix(prefix)
    if body == secret or len(body) != 43 or not body.isascii():
        return None
    try:
        raw = base64.b64decode(body + "=", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    # The last character has two bits too many: without this, four spellings of a key would work.
    return hashlib.sha256(raw).digest() if base64.urlsafe_b64encode(raw).rstrip(b"=").decode() == body else None


def scopes_of(scopes: Iterable[str], role: str | None = None) -> tuple[str, ...]:
    """The rights that scopes and a role name, in the order of `SCOPES`; raises Unprocessable for an unknown one."""
    wanted = set(scopes)
    if role is not None:
        if role not in ROLES:
            raise Unprocessable(
                "E-DATA-15", f"there is no role {role[:40]!a}", where="$.role", fix=f"use one of {', '.join(ROLES)}"
            )
        wanted |= set(ROLES[role])
    if unknown := sorted(wanted - set(SCOPES)):
        raise Unprocessable(
            "E-DATA-15",
            f"there is no right {unknown[0][:40]!a}",
            where="$.scopes",
            fix=f"use some of {', '.join(SCOPES)}",
        )
    return tuple(scope for scope in SCOPES if scope in wanted)


class Keys:
    """Keys and tenants, under the task service's login."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def authenticate(self, secret: str) -> Principal:
        """Whose key this is; raises Unauthenticated E-AUTH-02 for one that is unknown, expired or revoked."""
        found = hash_of(secret)
        rows = self.database.read("SELECT * FROM stanchion.authenticate(%s)", (found,)) if found else []
        if not rows:
            raise Unauthenticated("E-AUTH-02", "the key is unknown, expired or revoked")
        tenant_id, tenant, name, scopes = rows[0]
        return Principal(tenant_id, tenant, name, frozenset(scopes))

    def create(
        self, tenant_id: UUID, name: str, scopes: Iterable[str], *, expires_at: datetime | None = None, actor: str
    ) -> tuple[UUID, str]:
        """A new key: its id and its text, which nobody can see again. Raises Conflict E-KEY-01 for a taken name."""
        secret = new_secret()
        rows = self.database.read(
            "SELECT stanchion.create_key(%s, %s, %s, %s, %s, %s)",
            (tenant_id, name, hash_of(secret), list(scopes), expires_at, actor),
        )
        if rows[0][0] is None:
            raise Conflict(NAME_TAKEN, f"there is a key named {name!a} already", where="$.name")
        return rows[0][0], secret

    def page(self, tenant_id: UUID, *, limit: int, before: UUID | None = None) -> list[dict[str, Any]]:
        """A tenant's keys, newest first, without secrets."""
        rows = self.database.read("SELECT * FROM stanchion.list_keys(%s, %s, %s)", (tenant_id, before, limit))
        names = ("key_id", "name", "scopes", "created_at", "expires_at", "revoked_at")
        return [dict(zip(names, row, strict=True)) for row in rows]

    def revoke(self, tenant_id: UUID, key_id: UUID, *, actor: str) -> None:
        """End a key; raises NotFound E-FIND-01."""
        rows = self.database.read("SELECT stanchion.revoke_key(%s, %s, %s)", (tenant_id, key_id, actor))
        if not rows[0][0]:
            raise NotFound("E-FIND-01", "there is no such key in this tenant")

    def create_signing(
        self, tenant_id: UUID, key_id: str, public_key: bytes, scopes: Iterable[str], *, actor: str
    ) -> None:
        """The public half of a key that signs Kafka commands; raises Conflict E-KEY-01 for a taken id."""
        rows = self.database.read(
            "SELECT stanchion.create_signing_key(%s, %s, %s, %s, %s)",
            (tenant_id, key_id, public_key, list(scopes), actor),
        )
        if not rows[0][0]:
            raise Conflict(NAME_TAKEN, f"there is a signing key named {key_id!a} already", where="$.key_id")

    def signing_page(self, tenant_id: UUID, *, limit: int, after: str | None = None) -> list[dict[str, Any]]:
        """A tenant's signing keys, by their ids."""
        rows = self.database.read("SELECT * FROM stanchion.list_signing_keys(%s, %s, %s)", (tenant_id, after, limit))
        names = ("key_id", "public_key", "scopes", "created_at", "revoked_at")
        return [dict(zip(names, row, strict=True)) for row in rows]

    def revoke_signing(self, tenant_id: UUID, key_id: str, *, actor: str) -> None:
        """End a signing key; raises NotFound E-FIND-01."""
        rows = self.database.read("SELECT stanchion.revoke_signing_key(%s, %s, %s)", (tenant_id, key_id, actor))
        if not rows[0][0]:
            raise NotFound("E-FIND-01", "there is no such signing key in this tenant")

    def signing_key(self, tenant_id: UUID, key_id: str) -> tuple[bytes, frozenset[str]] | None:
        """The public key and the rights of a signing key; None when it is unknown or revoked."""
        rows = self.database.read("SELECT * FROM stanchion.signing_key_of(%s, %s)", (tenant_id, key_id))
        return (bytes(rows[0][0]), frozenset(rows[0][1])) if rows else None

    def tenant_id(self, name: str) -> UUID | None:
        """A tenant by its name."""
        found: UUID | None = self.database.read("SELECT stanchion.tenant_by_name(%s)", (name,))[0][0]
        return found

    def create_tenant(self, name: str, *, actor: str | None = None, by: UUID | None = None) -> UUID:
        """The tenant of this name, made when there is none; raises Unprocessable E-DATA-15 for a bad name.

        With an `actor` of the tenant `by`, both tenants' audit logs say so.
        """
        if not _TENANT.fullmatch(name) or len(name) > limits.TENANT_CHARACTERS:
            raise Unprocessable(
                "E-DATA-15",
                "this is no name for a tenant",
                where="$.name",
                why=f"a name has 1 to {limits.TENANT_CHARACTERS} characters of A-Z, a-z, 0-9, '.', '_' and '-' inside",
            )
        found: UUID = self.database.read("SELECT stanchion.create_tenant(%s, %s, %s)", (name, actor, by))[0][0]
        return found


def ensure_dev_key(
    database: Database, tenant: str = "dev", known: str | None = None, *, keep_in: Path | None = None
) -> str:
    """A key of `tenant` with every right, for the dev profile: `known` (or the one in `keep_in`) if it still works.

    `database` is under the task service's login. A new key is written to the file `keep_in`, for its owner alone.
    """
    keys = Keys(database)
    if known is None and keep_in is not None and keep_in.is_file():
        known = keep_in.read_text(encoding="ascii", errors="replace").strip()
    if known and _works(keys, known, tenant):
        return known
    name = f"dev-{secrets.token_hex(4)}"  # the one before may be lost, and its name stays taken
    _, secret = keys.create(keys.create_tenant(tenant), name, ROLES["platform"], actor="dev")
    if keep_in is not None:
        _write_private(keep_in, secret + "\n")
    return secret


def _works(keys: Keys, secret: str, tenant: str) -> bool:
    try:
        return keys.authenticate(secret).tenant == tenant
    except Unauthenticated:
        return False


def _write_private(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(text)
    draft.replace(path)  # a reader never sees half a key
