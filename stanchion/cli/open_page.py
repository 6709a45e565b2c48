"""`stanchion open`: the page of a thing, in the browser."""

from __future__ import annotations

import webbrowser

import click

from stanchion.cli import completing
from stanchion.cli.api import LAST, Api
from stanchion.cli.command import verb
from stanchion.cli.exit_codes import NO_SERVER
from stanchion.cli.printer import Printer, say
from stanchion.cli.session import Session
from stanchion.contracts import ids
from stanchion.contracts.pages import PLACES
from stanchion.errors import Unavailable


@verb(
    "open",
    examples=["stanchion open", "stanchion open @last", "stanchion open stp_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0 --print"],
    see_also=["stanchion why", "stanchion task show"],
)
@click.argument("anything", default=LAST, metavar="[ID]", shell_complete=completing.tasks)
@click.option("--print", "only_print", is_flag=True, help="Print the address, and open nothing.")
def open_page(session: Session, anything: str, only_print: bool) -> None:
    """Open the dashboard at the page of a task, step, operation, approval, artifact, worker or dead letter; of a run or a
    join, at its task. Prints the address as well."""
    api = Api(session)
    address = base_of(api) + path_of(api, anything)
    Printer(session).document({"url": address}, address, ident="url")
    if not only_print and not webbrowser.open(address):
        say(session, "there is no browser here; open the address elsewhere")


def base_of(api: Api) -> str:
    """Where the dashboard is; raises Unavailable E-CLI-03 when nothing names it."""
    base = api.connections.value("page_url")
    if base is None:
        raise Unavailable(
            NO_SERVER,
            "nothing says where the dashboard is",
            why="no STANCHION_PAGE_URL, no page_url in a file, no running stack around this folder",
            fix="export STANCHION_PAGE_URL=https://...",
        )
    return base.rstrip("/")


def path_of(api: Api, text: str) -> str:
    """The path of a thing's page; only what is not told by the id itself is asked of the API."""
    whole = api.any_id(text)
    prefix = whole.partition("_")[0].lower()
    if prefix in PLACES and "_" in whole:
        return PLACES[prefix] + ids.public(prefix, ids.parse(whole, prefix))
    return PLACES[ids.TASK] + str(api.client.why(whole)["task_id"])
