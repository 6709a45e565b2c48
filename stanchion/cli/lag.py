"""`stanchion lag`: how far readers of Kafka are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from stanchion.cli.amounts import age, counted, duration
from stanchion.cli.api import Api
from stanchion.cli.command import verb
from stanchion.cli.printer import Printer
from stanchion.cli.session import Session

Found = Mapping[str, Any]

_UNKNOWN: Final = {
    "unknown": "not known: no orchestrator looks",
    "unreachable": "not known: the broker does not answer; tasks are accepted and kept, and delivery resumes by itself",
    "not_allowed": "not known: the broker does not let the orchestrator ask",
}


@verb(
    "lag",
    examples=["stanchion lag", "stanchion lag stanchion-workers", "stanchion lag --json"],
    see_also=["stanchion outbox status", "stanchion why"],
)
@click.argument("group", required=False, metavar="[GROUP]")
def lag(session: Session, group: str | None) -> None:
    """Show how far readers of Kafka are behind, in messages and in time, as the last look at the broker found it."""
    found = Api(session).client.read("/v1/lag", {"group": group} if group else {})
    printer = Printer(session)
    printer.document(found, lambda: _lines(printer, found))


def _lines(printer: Printer, found: Found) -> Iterator[str]:
    if found["state"] != "known":
        since = f" since {age(found['failing_since'])}" if found["failing_since"] else ""
        yield printer.bold(_UNKNOWN[found["state"]] + since)
        if fault := found["fault"]:
            yield f"  {fault['code']} {fault['what']}"
        if not found["answered_at"]:
            return
        yield f"  what follows was so {age(found['answered_at'])}"
    for group in found["groups"]:
        again = f", {counted(group['rebalances_lately'], 'rebalance')} in 5 m" if group["rebalances_lately"] else ""
        state = f"{group['state']} with {counted(group['members'], 'member')}{again}"
        yield f"{printer.bold(group['name'])}  {group['lag']:,} behind; {state}"
        for topic in group["topics"]:
            yield f"  {topic['topic']}  {_behind(topic)}"
            yield from (f"    {_partition(part)}" for part in topic["partitions"] if part["lag"])


def _behind(one: Found) -> str:
    if not one["lag"]:
        return "nothing behind"
    seconds = one["drain_seconds"]
    return f"{one['lag']:,} behind, {'and it does not come on' if seconds is None else f'about {duration(seconds)}'}"


def _partition(part: Found) -> str:
    who = f", {part['owner']}" if part["owner"] else ""
    stuck = f"; STUCK since {age(part['moved_at'])}" if part["stuck"] else ""
    return f"partition {part['partition']}: {_behind(part)}{who}{stuck}"
