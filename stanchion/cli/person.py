"""`stanchion person list | role | disable | enable` and `stanchion session list | revoke`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from stanchion.cli.amounts import age
from stanchion.cli.api import Api
from stanchion.cli.command import verb
from stanchion.cli.confirming import Consent, dangerous
from stanchion.cli.printer import Column, Printer, field, say
from stanchion.cli.session import Session
from stanchion.contracts import ids

ROLES = ["viewer", "operator", "approver", "admin", "platform"]


@verb("list", examples=["stanchion person list", "stanchion person list --json"], see_also=["stanchion person role"])
def list_people(session: Session) -> None:
    """List the people of this tenant, with their roles and teams."""
    columns = [
        field("name"),
        Column("role", _role),
        Column("teams", lambda row: ", ".join(row.get("teams") or ())),
        Column("state", lambda row: "disabled" if row.get("disabled_at") else "active"),
        Column("since", lambda row: age(row.get("created_at")), right=True),
        field("email", optional=True),
        field("signs in at", "issuer", optional=True),
        field("person", "person_id", optional=True),
    ]
    if not Printer(session).listing(every(Api(session), "/v1/people"), columns, ident="name"):
        say(session, "nobody has signed in yet")


@verb(
    "role",
    examples=["stanchion person role ana operator", "stanchion person role vera viewer --with payload.read"],
    see_also=["stanchion person list", "stanchion whoami"],
)
@click.argument("name")
@click.argument("role", type=click.Choice(ROLES))
@click.option("--with", "rights", multiple=True, metavar="RIGHT", help="A right beside the role: payload.read.")
def role(session: Session, name: str, role: str, *, rights: tuple[str, ...]) -> None:
    """Give a person a role. It holds from their next request on; a provider's word at their next sign-in goes before it."""
    answer = Api(session).client.act(f"/v1/people/{name}/role", {"role": role, "rights": list(rights)}, repeatable=True)
    more = f", with {', '.join(answer['rights'])}" if answer.get("rights") else ""
    Printer(session).document(answer, f"{name} is {role}{more}", ident="name")


@verb(
    "disable",
    examples=["stanchion person disable ana", "stanchion person disable ana --yes"],
    see_also=["stanchion person enable"],
)
@click.argument("name")
@dangerous
def disable(session: Session, name: str, consent: Consent) -> None:
    """Keep a person out: their sessions end at once, and they can't sign in."""
    api = Api(session)
    if consent.obtain(session, f"disable {name}", 1, where=api.connections.api_url):
        answer = api.client.act(f"/v1/people/{name}/disable", {}, repeatable=True)
        Printer(session).document(answer, f"{name} is disabled", ident="name")


@verb("enable", examples=["stanchion person enable ana"], see_also=["stanchion person disable"])
@click.argument("name")
def enable(session: Session, name: str) -> None:
    """Let a person in again who was disabled."""
    answer = Api(session).client.act(f"/v1/people/{name}/enable", {}, repeatable=True)
    Printer(session).document(answer, f"{name} may sign in", ident="name")


@verb(
    "list",
    examples=["stanchion session list", "stanchion session list --everybody --json"],
    see_also=["stanchion session revoke"],
)
@click.option("--everybody", is_flag=True, help="Of all people of the tenant (admins only).")
def list_sessions(session: Session, everybody: bool) -> None:
    """List one's own sessions, the newest first."""
    columns = [
        field("session", "session_id"),
        field("name"),
        field("kind"),
        Column("begun", lambda row: age(row["created_at"]), right=True),
        Column("used", lambda row: age(row["used_at"]), right=True),
        Column("state", lambda row: "revoked" if row.get("revoked_at") else "open"),
        field("expires", "expires_at", optional=True),
    ]
    found = every(Api(session), "/v1/sessions", everybody=everybody or None)
    if not Printer(session).listing(found, columns, ident="session_id"):
        say(session, "there are no sessions; a key has none")


@verb("revoke", examples=["stanchion session revoke ses_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0 --yes"])
@click.argument("session_id", metavar="SESSION")
@dangerous
def revoke_session(session: Session, session_id: str, consent: Consent) -> None:
    """End a session: one's own, or as an admin anybody's."""
    api = Api(session)
    whole = api.find(session_id, ids.SESSION, lambda: every(api, "/v1/sessions"), "session_id")
    if consent.obtain(session, f"revoke {whole}", 1, where=api.connections.api_url):
        answer = api.client.act(f"/v1/sessions/{whole}/revoke", {}, repeatable=True)
        Printer(session).document(answer, f"{whole} is revoked", ident="session_id")


def every(api: Api, path: str, **query: Any) -> Iterator[Mapping[str, Any]]:
    """All items of a list of the API, page after page."""
    cursor = None
    while True:
        page = api.client.page(path, {"limit": 1_000, "cursor": cursor, **query})
        yield from page.items
        cursor = page.next
        if cursor is None:
            return


def _role(row: Mapping[str, Any]) -> str:
    return " + ".join([str(row["role"]), *(row.get("rights") or ())])
