"""Keys of people and programs, keys that sign Kafka commands, and tenants."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from uuid import UUID

from fastapi import APIRouter

from stanchion.authority.keys import ROLES, Principal, scopes_of
from stanchion.authority.rows import Row
from stanchion.contracts import ids, limits
from stanchion.errors import Conflict, NotAllowed, Unprocessable

from ..access import Caller, needs
from ..bodies import KeyBody, SigningKeyBody, TenantBody, body_schema
from ..deps import Deps, Has
from ..params import Body, Cursor, Limit, StrictRoute, cursor_of, message, plain
from ..views import Paged
from ..views_inventory import KeyRevoked, KeyView, NewKey, SigningKeyView, TenantCreated

router = APIRouter(route_class=StrictRoute, tags=["keys"])

PUBLIC_KEY_BYTES = 32


@router.post("/v1/keys", status_code=201, response_model=NewKey, **body_schema(needs("keys.manage"), KeyBody))
def create_key(deps: Has, caller: Caller, body: Body) -> Row:
    """Make a key. Its secret stands in this answer and nowhere else."""
    wanted = message(KeyBody, body)
    scopes = _granted(caller, scopes_of(wanted.scopes, wanted.role))
    return _new_key(deps, caller.tenant_id, wanted, scopes, caller.actor)


@router.get("/v1/keys", response_model=Paged[KeyView], **needs("keys.manage"))
def list_keys(deps: Has, caller: Caller, limit: Limit = limits.PAGE_ROWS, cursor: Cursor = None) -> Row:
    """The tenant's keys, without secrets, the newest first."""
    rows = deps.keys.page(caller.tenant_id, limit=limit + 1, before=cursor_of(cursor, ids.KEY))
    more = ids.public(ids.KEY, rows[limit - 1]["key_id"]) if len(rows) > limit else None
    return {"items": rows[:limit], "next": more}


@router.post("/v1/keys/{key_id}/revoke", response_model=KeyRevoked, **needs("keys.manage"))
def revoke_key(deps: Has, caller: Caller, key_id: str) -> Row:
    """End a key, here at once, in other processes within the time that they remember keys."""
    parsed = ids.parse(key_id, ids.KEY)
    deps.keys.revoke(caller.tenant_id, parsed, actor=caller.actor)
    deps.ring.forget()
    return {"key_id": parsed}


@router.post(
    "/v1/signing-keys",
    status_code=201,
    response_model=SigningKeyView,
    **body_schema(needs("keys.manage"), SigningKeyBody),
)
def create_signing_key(deps: Has, caller: Caller, body: Body) -> Row:
    """Register the public half of a key that signs Kafka commands."""
    wanted = message(SigningKeyBody, body)
    scopes = _granted(caller, scopes_of(wanted.scopes))
    public_key = _public_key(wanted.public_key)
    deps.keys.create_signing(caller.tenant_id, wanted.key_id, public_key, scopes, actor=caller.actor)
    return {"key_id": wanted.key_id, "public_key": wanted.public_key, "scopes": list(scopes)}


@router.get("/v1/signing-keys", response_model=Paged[SigningKeyView], **needs("keys.manage"))
def list_signing_keys(deps: Has, caller: Caller, limit: Limit = limits.PAGE_ROWS, cursor: Cursor = None) -> Row:
    """The keys by which the tenant's Kafka commands are verified."""
    rows = deps.keys.signing_page(caller.tenant_id, limit=limit + 1, after=plain(cursor, "cursor"))
    for row in rows:
        row["public_key"] = base64.b64encode(row["public_key"]).decode()
    return {"items": rows[:limit], "next": rows[limit - 1]["key_id"] if len(rows) > limit else None}


@router.post("/v1/signing-keys/{name}/revoke", **needs("keys.manage"))
def revoke_signing_key(deps: Has, caller: Caller, name: str) -> dict[str, bool]:
    """End a signing key: what it signs is parked from now on."""
    deps.keys.revoke_signing(caller.tenant_id, plain(name, "name") or "", actor=caller.actor)
    return {"revoked": True}


@router.post(
    "/v1/tenants", status_code=201, response_model=TenantCreated, **body_schema(needs("tenant.manage"), TenantBody)
)
def create_tenant(deps: Has, caller: Caller, body: Body) -> Row:
    """Make a tenant, and the first key of its admin."""
    name = message(TenantBody, body).name
    if deps.keys.tenant_id(name.replace("\x00", "")) is not None:
        raise Conflict("E-KEY-01", "there is a tenant of this name already", where="$.name")
    tenant_id = deps.keys.create_tenant(name, actor=caller.actor, by=caller.tenant_id)
    key = _new_key(deps, tenant_id, KeyBody(name="admin"), ROLES["admin"], caller.actor)
    return {"tenant_id": tenant_id, "name": name, "key": key}


def _new_key(deps: Deps, tenant_id: UUID, wanted: KeyBody, scopes: Iterable[str], actor: str) -> Row:
    key_id, secret = deps.keys.create(tenant_id, wanted.name, scopes, expires_at=wanted.expires_at, actor=actor)
    return {
        "key_id": key_id,
        "name": wanted.name,
        "scopes": list(scopes),
        "expires_at": wanted.expires_at,
        "secret": secret,
    }


def _granted(caller: Principal, scopes: tuple[str, ...]) -> tuple[str, ...]:
    """Nobody gives more than they have, or a key could make itself a better one."""
    if not scopes:
        raise Unprocessable("E-DATA-15", "a key without rights opens nothing", where="$.scopes", fix="name a role")
    if beyond := [scope for scope in scopes if scope not in caller.scopes]:
        raise NotAllowed(
            "E-AUTH-03",
            f"your key lacks the right {beyond[0]}, so it can't give it",
            where="$.scopes",
            fix="leave it out, or ask somebody who has it",
        )
    return scopes


def _public_key(text: str) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != PUBLIC_KEY_BYTES:
        raise Unprocessable(
            "E-DATA-15",
            f"a public key is {PUBLIC_KEY_BYTES} bytes in base64",
            where="$.public_key",
            fix="send the raw public key of an Ed25519 pair",
        )
    return raw
