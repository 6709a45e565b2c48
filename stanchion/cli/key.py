"""`stanchion key create | list | revoke`."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from stanchion.cli.amounts import age
from stanchion.cli.api import Api
from stanchion.cli.command import verb
from stanchion.cli.confirming import Consent, dangerous
from stanchion.cli.exit_codes import USAGE
from stanchion.cli.printer import Column, Printer, field, say
from stanchion.cli.session import Session
from stanchion.cli.spans import Span
from stanchion.contracts import ids
from stanchion.contracts.envelope import parse_time
from stanchion.errors import Unprocessable


@verb(
    "create",
    examples=[
        "stanchion key create web --scope task.submit --scope task.read",
        "stanchion key create ana --role operator --expires-days 90",
        "stanchion key create loader --signing",
        "stanchion key create first --role admin --tenant acme --database postgresql://postgres@db/stanchion",
    ],
    see_also=["stanchion key list", "stanchion key revoke"],
)
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, metavar="RIGHT", help="A right, e.g. task.submit; several times.")
@click.option(
    "--role", type=click.Choice(["viewer", "operator", "approver", "admin", "platform"]), help="A bundle of rights."
)
@click.option(
    "--expires-days",
    "expires_in",
    type=Span(1, 3_650 * 86_400, unit="d"),
    metavar="DAYS",
    help="Ends after so many days, or 12h, 90d.",
)
@click.option("--expires-at", metavar="TIME", help="Ends at this time, like 2027-06-30T00:00:00Z.")
@click.option("--signing", is_flag=True, help="A key that signs Kafka commands; its private half never leaves here.")
@click.option("--database", metavar="URL", help="Make it in the database: the first key of an installation.")
@click.option("--tenant", metavar="NAME", help="With --database: whose key; made when there is none of this name.")
def create(
    session: Session,
    name: str,
    *,
    scopes: tuple[str, ...],
    role: str | None,
    expires_in: float | None,
    expires_at: str | None,
    signing: bool,
    database: str | None,
    tenant: str | None,
) -> None:
    """Make a key and print its secret, which nobody can see again."""
    if (database is None) != (tenant is None):
        raise Unprocessable(USAGE, "--database and --tenant belong together")
    expires = _ends(expires_in, expires_at)
    if signing:
        if role or database or expires:
            raise Unprocessable(USAGE, "--signing goes with --scope alone")
        _create_signing(Api(session), name, scopes)
        return
    if database is not None and tenant is not None:
        made: Mapping[str, Any] = _create_in_database(database, tenant, name, scopes, role or "admin", expires)
    else:
        body = {"name": name, "scopes": list(scopes), "role": role, "expires_at": expires and expires.isoformat()}
        made = Api(session).client.act("/v1/keys", body)
    say(session, f"key {made['name']} with {', '.join(made['scopes'])}; keep it: it is shown only now")
    Printer(session).document(made, str(made["secret"]), ident="secret")


@verb("list", examples=["stanchion key list", "stanchion key list --json"], see_also=["stanchion key create"])
def list_keys(session: Session) -> None:
    """List the keys of this tenant, without their secrets, the newest first."""
    columns = [
        field("key", "key_id"),
        field("name"),
        Column("state", _state),
        Column("made", lambda row: age(row.get("created_at")), right=True),
        field("expires", "expires_at"),
        field("scopes"),
    ]
    Printer(session).listing(_keys(Api(session)), columns, ident="key_id")


@verb("revoke", examples=["stanchion key revoke web", "stanchion key revoke key_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0 --yes"])
@click.argument("key")
@dangerous
def revoke(session: Session, key: str, consent: Consent) -> None:
    """End a key, by its id or its name. It opens nothing from then on."""
    api = Api(session)
    named = [str(one["key_id"]) for one in _keys(api) if one["name"] == key and not one.get("revoked_at")]
    key_id = named[0] if named else api.find(key, ids.KEY, lambda: _keys(api), "key_id")
    if consent.obtain(session, f"revoke {key}", 1, where=api.connections.api_url):
        answer = api.client.act(f"/v1/keys/{key_id}/revoke", {}, repeatable=True)
        Printer(session).document(answer, f"{key_id} is revoked", ident="key_id")


def _ends(seconds: float | None, time: str | None) -> datetime | None:
    if time is not None:
        if seconds is not None:
            raise Unprocessable(USAGE, "--expires-days and --expires-at say the same", fix="leave one of them out")
        return parse_time(time, "--expires-at")
    return None if seconds is None else datetime.now(UTC) + timedelta(seconds=seconds)


def _create_signing(api: Api, name: str, scopes: tuple[str, ...]) -> None:
    from stanchion.contracts.signing import new_key

    private, public = new_key()
    body = {"key_id": name, "public_key": base64.b64encode(public).decode(), "scopes": list(scopes) or None}
    made = {**api.client.act("/v1/signing-keys", body), "private_key": base64.b64encode(private).decode()}
    say(api.session, f"signing key {name}; set STANCHION_SIGNING_KEY_ID={name} and STANCHION_SIGNING_KEY to:")
    Printer(api.session).document(made, str(made["private_key"]), ident="private_key")


def _create_in_database(
    url: str, tenant: str, name: str, scopes: tuple[str, ...], role: str, expires: datetime | None
) -> dict[str, Any]:
    from stanchion.authority.keys import Keys, scopes_of
    from stanchion.db.engine import Database

    database = Database(url, name="command line", pool_size=1, overflow=0)
    try:
        keys = Keys(database)
        granted = scopes_of(scopes, None if scopes else role)
        key_id, secret = keys.create(
            keys.create_tenant(tenant), name, granted, expires_at=expires, actor="command line"
        )
    finally:
        database.close()
    return {"key_id": ids.public(ids.KEY, key_id), "name": name, "scopes": list(granted), "secret": secret}


def _keys(api: Api) -> Iterator[Mapping[str, Any]]:
    cursor = None
    while True:
        page = api.client.page("/v1/keys", {"limit": 1_000, "cursor": cursor})
        yield from page.items
        cursor = page.next
        if cursor is None:
            return


def _state(row: Mapping[str, Any]) -> str:
    return "revoked" if row.get("revoked_at") else "active"
