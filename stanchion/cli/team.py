"""`stanchion team list | add | remove`."""

from __future__ import annotations

import click

from stanchion.cli.api import Api
from stanchion.cli.command import verb
from stanchion.cli.person import every
from stanchion.cli.printer import Column, Printer, field, say
from stanchion.cli.session import Session


@verb("list", examples=["stanchion team list", "stanchion team list --json"], see_also=["stanchion team add"])
def list_teams(session: Session) -> None:
    """List teams with their members. A team is there while somebody is in it."""
    columns = [field("team"), Column("members", lambda row: ", ".join(row["members"]))]
    if not Printer(session).listing(every(Api(session), "/v1/teams"), columns, ident="team"):
        say(session, "there are no teams")


@verb("add", examples=["stanchion team add editors ana"], see_also=["stanchion team list", "stanchion person list"])
@click.argument("team")
@click.argument("name")
def add(session: Session, team: str, name: str) -> None:
    """Put a person into a team."""
    answer = Api(session).client.act(f"/v1/teams/{team}/add", {"name": name}, repeatable=True)
    Printer(session).document(answer, f"{name} is in {team}", ident="name")


@verb("remove", examples=["stanchion team remove editors ana"], see_also=["stanchion team list"])
@click.argument("team")
@click.argument("name")
def remove(session: Session, team: str, name: str) -> None:
    """Take a person out of a team."""
    answer = Api(session).client.act(f"/v1/teams/{team}/remove", {"name": name}, repeatable=True)
    Printer(session).document(answer, f"{name} is not in {team}", ident="name")
