"""`stanchion audit list | verify`."""

from __future__ import annotations

from typing import Any

import click

from stanchion.cli import exit_codes
from stanchion.cli.amounts import age
from stanchion.cli.api import Api
from stanchion.cli.command import verb
from stanchion.cli.person import every
from stanchion.cli.printer import Column, Printer, field, say
from stanchion.cli.session import Session


@verb(
    "list",
    examples=[
        "stanchion audit list",
        "stanchion audit list --actor person:ana --action task.cancel",
        "stanchion audit list --limit 1000 --jsonl",
    ],
    see_also=["stanchion audit verify"],
)
@click.option("--actor", metavar="WHO", help="Only acts of key:NAME, person:NAME, ...")
@click.option("--action", metavar="WHAT", help="Only these acts, e.g. key.create.")
@click.option("--target", metavar="TEXT", help="Only acts on this.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, help="At most so many; default 50.")
def list_audit(session: Session, *, actor: str | None, action: str | None, target: str | None, limit: int) -> None:
    """List what people and keys did, the newest first."""
    columns = [
        field("entry", right=True),
        Column("age", lambda row: age(row["at"]), right=True),
        field("actor"),
        field("action"),
        field("target"),
        field("detail", optional=True),
        field("hash", optional=True),
    ]
    found = every(Api(session), "/v1/audit", actor=actor, action=action, target=target)
    shown = [entry for entry, _ in zip(found, range(limit), strict=False)]
    if not Printer(session).listing(shown, columns, ident="entry"):
        say(session, "there are no such entries")


@verb(
    "verify",
    examples=[
        "stanchion audit verify",
        "stanchion audit verify --quiet > anchor.txt",
        "stanchion audit verify --anchor 0:12:9f86d081884c7d65...",
    ],
    see_also=["stanchion audit list"],
)
@click.option("--anchor", metavar="HEADS", help="What an earlier verify printed: finds an end that was cut off.")
def verify(session: Session, anchor: str | None) -> int:
    """Walk the chains of the audit log and name the first entry that was changed, removed or put there.

    It prints the heads of the chains. Kept elsewhere, they are the anchor that shows the next time whether the end was
    cut off, or all of it written anew: a chain alone can't show that. Exit code 1 when an entry does not fit.
    """
    client, cursor = Api(session).client, None
    while True:
        part: dict[str, Any] = dict(client.read("/v1/audit/verify", {"anchor": anchor, "cursor": cursor}))
        cursor = part.pop("next", None)
        if cursor is None:
            break
        say(session, f"{part['checked']:,} entries so far")
    fault = part.get("fault")
    text = f"{part['checked']:,} entries, intact; heads {part['heads'] or 'none'}"
    if fault:
        text = f"entry {fault['entry']} does not fit: {fault['why']}"
    Printer(session).document(part, text, ident="heads")
    return exit_codes.FAILED if fault else exit_codes.DONE
