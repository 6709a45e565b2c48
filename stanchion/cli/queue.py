"""`stanchion queue list | show | pause | resume`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from stanchion.cli.amounts import age, counted, duration
from stanchion.cli.api import Api
from stanchion.cli.command import verb
from stanchion.cli.printer import Column, Printer, field, say
from stanchion.cli.session import Session

Queue = Mapping[str, Any]

_PATH = "/v1/queues"


@verb(
    "list",
    examples=["stanchion queue list", "stanchion queue list --json"],
    see_also=["stanchion top", "stanchion queue show"],
)
def list_queues(session: Session) -> None:
    """List the queues of the tenant: what waits and runs, who serves them, and what to do about them."""
    columns = [
        field("queue"),
        Column("ready", lambda row: f"{row['ready']:,}", right=True),
        Column("oldest", oldest, right=True),
        field("running", right=True),
        field("workers", right=True),
        field("slots", right=True),
        Column("in/s", lambda row: rate(row["rate_in"]), right=True),
        Column("out/s", lambda row: rate(row["rate_out"]), right=True),
        field("advice"),
    ]
    if not Printer(session).listing(Api(session).client.page(_PATH, {}).items, columns, ident="queue"):
        say(session, "there are no queues: nothing was submitted, and no worker serves this tenant")


@verb("show", examples=["stanchion queue show crawl"], see_also=["stanchion queue list", "stanchion lag"])
@click.argument("queue")
def show(session: Session, queue: str) -> None:
    """Show a queue, with the versions that live workers serve of it."""
    found = Api(session).client.read(f"{_PATH}/{queue}")
    printer = Printer(session)
    printer.document(found, lambda: _lines(printer, found), ident="queue")


@verb(
    "pause",
    examples=["stanchion queue pause crawl --reason 'vendor outage'"],
    see_also=["stanchion queue resume", "stanchion task pause"],
)
@click.argument("queue")
@click.option("--reason", required=True, help="Why; all who wait are shown it, and it stands in the audit log.")
def pause(session: Session, queue: str, reason: str) -> None:
    """Start nothing new of a queue for this tenant; what runs goes on."""
    answer = Api(session).client.act(f"{_PATH}/{queue}/pause", {"reason": reason}, repeatable=True)
    who = answer["paused"]
    text = f"{queue} is paused: {answer['ready']:,} ready, {counted(answer['running'], 'step')} still running"
    if not answer["changed"]:
        text = f"{queue} was paused before, by {who['paused_by']} {age(who['since'])}: {who['reason']}"
    Printer(session).document(answer, text, ident="queue")


@verb("resume", examples=["stanchion queue resume crawl"], see_also=["stanchion queue pause"])
@click.argument("queue")
def resume(session: Session, queue: str) -> None:
    """Let a paused queue go on: what waits is offered again at once."""
    answer = Api(session).client.act(f"{_PATH}/{queue}/resume", {}, repeatable=True)
    text = f"{queue} goes on: {answer['ready']:,} ready" if answer["changed"] else f"{queue} was not paused"
    Printer(session).document(answer, text, ident="queue")


def oldest(queue: Queue) -> str:
    """How long the oldest ready step of a queue has waited."""
    seconds = queue["ready_age_seconds"]
    return "-" if seconds is None else duration(seconds)


def rate(value: float | None) -> str:
    """A number a second; `?` when nobody measured it."""
    return "?" if value is None else f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.1f}"


def _lines(printer: Printer, queue: Queue) -> Iterator[str]:
    yield f"{printer.bold(queue['queue'])}  {queue['advice']}"
    if paused := queue["paused"]:
        yield f"  paused by {paused['paused_by']} {age(paused['since'])}: {paused['reason']}"
    yield f"  ready    {queue['ready']:,}, the oldest for {oldest(queue)}"
    yield f"  running  {queue['running']:,}"
    yield f"  rates    {rate(queue['rate_in'])} in and {rate(queue['rate_out'])} out a second"
    yield f"  served   by {counted(queue['workers'], 'worker')} with {counted(queue['slots'], 'slot')}"
    for version in queue["versions"]:
        yield f"           {version['workflow']}: {counted(version['workers'], 'worker')}, {counted(version['slots'], 'slot')}"
