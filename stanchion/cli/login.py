"""`stanchion login | logout | whoami`."""

from __future__ import annotations

import getpass
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import click

from stanchion.cli.api import Api
from stanchion.cli.command import verb
from stanchion.cli.connections import profile_folder
from stanchion.cli.logins import keep_token, token_for
from stanchion.cli.printer import Printer, say
from stanchion.cli.session import Session
from stanchion.errors import NotFound, Unauthenticated
from stanchion.sdk.client import Client


@verb(
    "login",
    examples=["stanchion login", "stanchion login --as ana", "stanchion login --as vera --role viewer"],
    see_also=["stanchion whoami", "stanchion logout", "stanchion person role"],
)
@click.option("--as", "name", metavar="NAME", help="Under which name; default: that of this machine's user.")
@click.option(
    "--role",
    type=click.Choice(["viewer", "operator", "approver", "admin"]),
    default="admin",
    show_default=True,
    help="For somebody who was not here before.",
)
def login(session: Session, name: str | None, role: str) -> None:
    """Sign in to the stack on this machine, without a password. From then on commands act as this person.

    This works in the dev profile and on a loopback address only. Elsewhere people sign in with a browser, and programs
    have keys; a key from a flag or from the environment goes before a login.
    """
    from stanchion.authority.people import handle_from

    url = Api(session).connections.api_url
    client = Client(url, "", timeout=session.timeout, agent="stanchion-cli")
    try:
        made = client.act("/v1/session/dev", {"name": name or handle_from(getpass.getuser()), "role": role})
    except NotFound as error:
        error.fix = "use a key: stanchion key create, then STANCHION_API_KEY"
        raise
    finally:
        client.close()
    keep_token(profile_folder(), url, str(made["token"]))
    shown = {name: value for name, value in made.items() if name != "token"}
    Printer(session).document(shown, f"signed in as {made['name']} ({made['role']}) of {made['tenant']}", ident="name")


@verb("logout", examples=["stanchion logout"], see_also=["stanchion login"])
def logout(session: Session) -> None:
    """End the session that `login` began, here and in the database."""
    url = Api(session).connections.api_url
    token = token_for(profile_folder(), url)
    if token is None:
        say(session, "nobody is signed in here")
        return
    client = Client(url, token, timeout=session.timeout, agent="stanchion-cli")
    try:
        with suppress(Unauthenticated):  # it has ended already
            client.act("/v1/session/end", {}, repeatable=True)
    finally:
        client.close()
    keep_token(profile_folder(), url, None)
    say(session, "signed out")


@verb("whoami", examples=["stanchion whoami", "stanchion whoami --json"], see_also=["stanchion login"])
def whoami(session: Session) -> None:
    """Say as whom commands act, in which tenant, and with which rights."""
    found = Api(session).client.read("/v1/session")
    printer = Printer(session)
    printer.document(found, lambda: _lines(printer, found), ident="subject")


def _lines(printer: Printer, found: Mapping[str, Any]) -> Iterator[str]:
    role = f" ({found['role']})" if found.get("role") else ""
    yield f"{printer.bold(found['subject'])}{role} of {found['tenant']}"
    if found.get("teams"):
        yield f"  teams   {', '.join(found['teams'])}"
    yield f"  rights  {', '.join(found['rights']) or 'none'}"
    if found.get("expires_at"):
        yield f"  until   {found['expires_at']}"
