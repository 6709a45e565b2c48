"""`stanchion workflow list | show | check`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from stanchion.cli import completing, exit_codes
from stanchion.cli.amounts import age, counted
from stanchion.cli.api import Api
from stanchion.cli.command import verb
from stanchion.cli.printer import Column, Printer, field, say
from stanchion.cli.session import Session
from stanchion.errors import StanchionError


@verb(
    "list", examples=["stanchion workflow list", "stanchion workflow list --json"], see_also=["stanchion workflow show"]
)
def list_workflows(session: Session) -> None:
    """List the registered versions of workflows."""
    api = Api(session)

    def found() -> Iterator[Mapping[str, Any]]:
        cursor = None
        while True:
            page = api.client.page("/v1/workflows", {"limit": 1_000, "cursor": cursor})
            yield from page.items
            cursor = page.next
            if cursor is None:
                return

    columns = [
        field("workflow", "name"),
        field("version", right=True),
        Column("registered", lambda row: age(row["registered_at"]), right=True),
    ]
    if not Printer(session).listing(found(), columns, ident="name"):
        say(session, "no workflow is registered; fix: stanchion worker run TARGET")


@verb(
    "show",
    examples=["stanchion workflow show brief", "stanchion workflow show brief --version 7 --json"],
    see_also=["stanchion workflow check", "stanchion task submit"],
)
@click.argument("name", shell_complete=completing.workflows)
@click.option("--version", type=click.IntRange(min=1), help="Default: the newest.")
def show(session: Session, name: str, version: int | None) -> None:
    """Show the graph of a workflow: what each step takes, what follows it, its queue and its attempts."""
    found = Api(session).client.read(f"/v1/workflows/{name}", {"version": version})

    def lines() -> Iterator[str]:
        from stanchion.workflow.describer import describe
        from stanchion.workflow.graph import Graph

        yield describe(Graph.from_json(found["graph"]))

    Printer(session).document(found, lines, ident="name")


@verb(
    "check",
    examples=["stanchion workflow check reports.py", "stanchion workflow check my.package other.package:brief"],
    see_also=["stanchion workflow show", "stanchion worker run"],
)
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
def check(session: Session, targets: tuple[str, ...]) -> int:
    """Check workflows without running them, and without any server: types, wiring, joins, names.

    Exit code 1 when something is wrong. Good for CI.
    """
    from stanchion.cli.errors_text import tell
    from stanchion.workflow.registry import load

    printer, failed = Printer(session), 0
    found = []
    for target in targets:
        try:
            found += load(target)
        except StanchionError as error:
            failed += 1
            tell(error, session)
    if session.machine or session.quiet or session.format:
        printer.listing(
            [{"name": one.name, "version": one.version, "steps": len(one.steps)} for one in found], [], ident="name"
        )
    else:
        for workflow in found:
            printer.document({"name": workflow.name}, workflow.describe() + "\n", ident="name")
    good = f"{counted(len(found), 'workflow')} checked"
    say(session, f"{good}, {counted(failed, 'target')} failed" if failed else f"{good}, nothing to complain about")
    return exit_codes.FAILED if failed else exit_codes.DONE
