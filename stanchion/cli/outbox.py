"""`stanchion outbox status | republish`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from stanchion.cli import completing
from stanchion.cli.amounts import age, counted, duration
from stanchion.cli.api import Api
from stanchion.cli.command import verb
from stanchion.cli.printer import Printer
from stanchion.cli.queue import rate
from stanchion.cli.session import Session

Outbox = Mapping[str, Any]


@verb(
    "status",
    examples=["stanchion outbox status", "stanchion outbox status --json"],
    see_also=["stanchion lag", "stanchion top"],
)
def status(session: Session) -> None:
    """Show what waits to be published, how old it is, and which relays publish it."""
    found = Api(session).client.read("/v1/outbox")
    printer = Printer(session)
    printer.document(found, lambda: _lines(printer, found))


@verb(
    "republish",
    examples=["stanchion outbox republish @last"],
    see_also=["stanchion why", "stanchion lag"],
)
@click.argument("task", shell_complete=completing.tasks)
def republish(session: Session, task: str) -> None:
    """Offer all ready steps of a task again, when the broker lost the first offers. A step is leased once all the same."""
    api = Api(session)
    task_id = api.task_id(task)
    answer = api.client.act(f"/v1/tasks/{task_id}/republish", {}, repeatable=True)
    text = f"{counted(answer['steps'], 'ready step')} of {task_id} to be offered again"
    Printer(session).document(answer, text, ident="task_id")


def _lines(printer: Printer, outbox: Outbox) -> Iterator[str]:
    held = f"{outbox['held']} of {len(outbox['partitions'])} partitions held"
    old = "" if outbox["oldest_seconds"] is None else f", the oldest for {duration(outbox['oldest_seconds'])}"
    waiting = counted(outbox["waiting"], "message")
    yield f"{printer.bold(waiting)} to be published{old}; {outbox['own']:,} of this tenant"
    yield f"  {held}; {rate(outbox['published_rate'])} published a second"
    if outbox["waiting"]:
        yield "  by age: " + ", ".join(_age(row, outbox["ages"]) for row in outbox["ages"] if row["waiting"])
    for topic in outbox["topics"] or ():
        yield f"  {topic['waiting']:>9,}  {topic['topic']}, the oldest {age(topic['oldest_at'])}"
    for part in outbox["partitions"]:
        who = part["relay"] or ("a relay" if part["held"] else "nobody")
        seen = f", fence {part['fence']}" if part["held"] else ""
        yield f"  partition {part['part']}: {part['waiting']:,} waiting; {who} holds it{seen}"


def _age(row: Mapping[str, Any], ages: list[Mapping[str, Any]]) -> str:
    top = row["below_seconds"]
    if top is None:
        return f"{row['waiting']:,} older than {ages[-2]['below_seconds']} s"
    return f"{row['waiting']:,} below {top} s"
