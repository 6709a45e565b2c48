"""`stanchion top`: how things stand, drawn again every other second; once, where nobody watches."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import click

from stanchion.cli.amounts import counted, duration
from stanchion.cli.api import Api
from stanchion.cli.command import verb
from stanchion.cli.printer import Column, Printer, field
from stanchion.cli.queue import oldest, rate
from stanchion.cli.region import Region
from stanchion.cli.session import Session
from stanchion.cli.spans import Span
from stanchion.errors import Unavailable
from stanchion.runtime.clock import pause, utc_now

Overview = Mapping[str, Any]

BAR: Final = 16
_LETTERS: Final = 100  # that are counted; beyond it is "more"
_LEVELS: Final = ("operations_in_doubt", "approvals_open")


@verb(
    "top",
    examples=["stanchion top", "stanchion top --once", "stanchion top --json"],
    see_also=["stanchion queue list", "stanchion lag", "stanchion doctor"],
)
@click.option("--once", is_flag=True, help="Print it once, as a table.")
@click.option("--every", type=Span(0.5, 3_600), metavar="TIME", default=2.0, help="Between two looks; default 2s.")
def top(session: Session, once: bool, every: float) -> None:
    """Show queues with what waits, runs and is advised, workers, the outbox, and what needs people. Ctrl-C ends it."""
    api = Api(session)
    if once or session.machine or not (sys.stdout.isatty() and session.lively):
        _print(session, look(api))
        return
    _watch(api, every)


def look(api: Api) -> dict[str, Any]:
    """All that is shown, as the API tells it now."""
    client, now = api.client, utc_now()
    workers: dict[str, int] = {}
    for worker in client.page("/v1/workers", {"limit": 1_000}).items:
        workers[worker["state"]] = workers.get(worker["state"], 0) + 1
    since = (now - timedelta(seconds=90)).isoformat()
    ask = {"names": ",".join(_LEVELS), "from": since, "to": now.isoformat()}
    levels = client.read("/v1/metrics/series", ask)["values"]
    letters = client.page("/v1/dead-letters", {"limit": _LETTERS})
    return {
        "at": now.isoformat(),
        "queues": list(client.page("/v1/queues", {}).items),
        "workers": workers,
        "outbox": {name: value for name, value in client.read("/v1/outbox").items() if name != "partitions"},
        **{name: _last(levels[name]) for name in _LEVELS},
        "dead_letters": len(letters.items),
        "more_dead_letters": letters.next is not None,
    }


def _last(values: Sequence[float | None]) -> int | None:
    """The newest that somebody looked at; None when nobody did lately."""
    known = [value for value in values if value is not None]
    return round(known[-1]) if known else None


def _print(session: Session, found: Overview) -> None:
    printer = Printer(session)
    if session.machine or session.format is not None:
        printer.document(found, ident="at")
        return
    most = max((queue["ready"] for queue in found["queues"]), default=0)
    columns = [
        field("queue"),
        Column("ready", lambda row: f"{bar(row['ready'], most, ascii_only=session.ascii)}{row['ready']:,}"),
        Column("oldest", oldest, right=True),
        Column("in/s", lambda row: rate(row["rate_in"]), right=True),
        Column("out/s", lambda row: rate(row["rate_out"]), right=True),
        Column("slots", lambda row: f"{row['running']}/{row['slots']}", right=True),
        field("advice"),
    ]
    printer.listing(found["queues"], columns, ident="queue")
    if not session.quiet:
        printer.line(footer(found))


def _watch(api: Api, every: float) -> None:
    session, region = api.session, Region(lively=True)
    try:
        while True:
            try:
                region.draw(list(lines(look(api), ascii_only=session.ascii)))
            except Unavailable as error:
                region.draw([f"{error.what}; trying again"])
            pause(every)
    except KeyboardInterrupt:
        return  # what was drawn last stays


def lines(found: Overview, *, ascii_only: bool = False) -> Iterator[str]:
    """The overview for a terminal: one line a queue, and what is beside them."""
    queues = found["queues"]
    most = max((queue["ready"] for queue in queues), default=0)
    width = max([5, *(len(queue["queue"]) for queue in queues)])
    yield f"{'queue'.ljust(width)}  {'ready'.ljust(BAR + 10)}  {'oldest':>9}  {'in/s':>7}  {'out/s':>7}  {'slots':>9}  advice"
    for queue in queues:
        ready = f"{bar(queue['ready'], most, ascii_only=ascii_only)}{queue['ready']:,}".ljust(BAR + 10)
        slots = f"{queue['running']}/{queue['slots']}"
        yield (
            f"{queue['queue'].ljust(width)}  {ready}  {oldest(queue):>9}  {rate(queue['rate_in']):>7}  "
            f"{rate(queue['rate_out']):>7}  {slots:>9}  {queue['advice']}"
        )
    yield footer(found)


def bar(value: int, most: int, *, ascii_only: bool = False) -> str:
    """A bar for a value beside the largest one; something is never shown as nothing."""
    if not value:
        return ""
    return ("#" if ascii_only else "█") * max(1, round(BAR * value / most)) + " "


def footer(found: Overview) -> str:
    """Workers, the outbox and what needs people, in one line; `?` is what nobody measured."""
    workers, box = found["workers"], found["outbox"]
    live = workers.get("active", 0) + workers.get("draining", 0)
    silent = f", {workers['silent']} silent" if workers.get("silent") else ""
    old = "" if box["oldest_seconds"] is None else f", {duration(box['oldest_seconds'])}"
    doubts, asked = ("?" if found[name] is None else found[name] for name in _LEVELS)
    letters = counted(found["dead_letters"], "dead letter").replace(" ", "+ " if found["more_dead_letters"] else " ", 1)
    return f"workers {live} live{silent} · outbox {box['waiting']:,}{old} · unknown operations {doubts} · approvals {asked} · {letters}"
