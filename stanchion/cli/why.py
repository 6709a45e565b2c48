"""`stanchion why`: why something does not move, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from stanchion.cli import completing
from stanchion.cli.amounts import age, duration, since
from stanchion.cli.api import LAST, Api
from stanchion.cli.command import verb
from stanchion.cli.printer import Printer
from stanchion.cli.session import Session


@verb(
    "why",
    examples=["stanchion why @last", "stanchion why stp_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0", "stanchion why @last --json"],
    see_also=["stanchion task show", "stanchion doctor"],
)
@click.argument("anything", default=LAST, metavar="[ID]", shell_complete=completing.tasks)
def why(session: Session, anything: str) -> None:
    """Say why a task, run, step or join does not move: every reason that holds now, and what to type against it."""
    api = Api(session)
    found = api.client.why(api.any_id(anything))
    printer = Printer(session)
    printer.document(found, lambda: _lines(printer, found))


def _lines(printer: Printer, found: Mapping[str, Any]) -> Iterator[str]:
    yield f"{printer.bold(found['id'])}  {printer.state(found['state'])}"
    width = max((len(reason["code"]) for reason in found["reasons"]), default=0)
    for number, reason in enumerate(found["reasons"], 1):
        yield ""
        code = printer.bold(reason["code"]) + " " * (width - len(reason["code"]))
        yield f"{number:2}  {code}  {reason['text']}"
        margin = " " * (width + 6)
        facts = [f"since {age(reason['since'])}" if reason.get("since") else "", _until(reason.get("until"))]
        facts.append("passes by itself" if reason["by_itself"] else "will not change by itself")
        yield margin + "; ".join(filter(None, facts))
        yield f"{margin}next: {reason['next']}"
        for position, fix in enumerate(reason["fix"]):
            yield f"{margin}{' or' if position else 'fix'}: {fix}"
    if found["unchecked"]:
        yield ""
        for what in found["unchecked"]:
            yield f"not checked: {what}"


def _until(text: Any) -> str:
    seconds = since(text)
    if seconds is None:
        return ""
    return f"until {duration(-seconds)} from now" if seconds < 0 else f"was due {duration(seconds)} ago"
