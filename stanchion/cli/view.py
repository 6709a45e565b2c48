"""`stanchion view list | save | rm`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from stanchion.cli.api import Api
from stanchion.cli.command import verb
from stanchion.cli.printer import Column, Printer, field
from stanchion.cli.session import Session
from stanchion.errors import NotFound

_PATH: Final = "/v1/views"


@verb("list", examples=["stanchion view list", "stanchion view list --json"], see_also=["stanchion task list"])
def list_views(session: Session) -> None:
    """List views of the task list: those that everybody has, your own, and those that others share."""
    columns = [
        Column("view", lambda row: row["view_id"] or "built in"),
        field("name"),
        field("query"),
        field("order"),
        Column("shared", lambda row: "shared" if row["shared"] else ""),
        Column("owner", lambda row: row["owner"] or ""),
    ]
    Printer(session).listing(_views(Api(session)), columns, ident="name")


@verb(
    "save",
    examples=[
        "stanchion view save 'Night runs' --query 'tag:nightly created:<2d'",
        "stanchion view save Stuck --query 'is:open workflow:brief' --order still --shared",
    ],
    see_also=["stanchion view list"],
)
@click.argument("name")
@click.option("--query", required=True, metavar="FILTER", help="What it shows, e.g. 'is:open tag:nightly'.")
@click.option("--order", type=click.Choice(["newest", "oldest", "still"]), default="newest", help="Default: newest.")
@click.option("--shared", is_flag=True, help="Everybody in the tenant sees it.")
def save(session: Session, name: str, query: str, *, order: str, shared: bool) -> None:
    """Keep a filter under a name; your own view of this name is changed."""
    wanted = {"name": name, "query": query, "order": order, "shared": shared}
    answer = Api(session).client.act(_PATH, wanted, repeatable=True)
    Printer(session).document(answer, f"{answer['view_id']} {name}", ident="view_id")


@verb("rm", examples=["stanchion view rm 'Night runs'"], see_also=["stanchion view list"])
@click.argument("view", metavar="NAME|VIEW")
def remove(session: Session, view: str) -> None:
    """Remove a view of your own, by its name or id."""
    api = Api(session)
    found = [row["view_id"] for row in _views(api) if row["view_id"] and view in (row["name"], row["view_id"])]
    if not found:
        raise NotFound("E-FIND-01", f"there is no view {view[:60]!a}", fix="stanchion view list")
    answer = api.client.transport.call("DELETE", f"{_PATH}/{found[0]}", repeatable=True)
    Printer(session).document(answer, f"{found[0]} is removed", ident="view_id")


def _views(api: Api) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = api.client.read(_PATH)["items"]
    return found
