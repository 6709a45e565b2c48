"""`stanchion artifact list | get | put | pin | verify | rm`."""

from __future__ import annotations

import mimetypes
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from stanchion.cli import completing
from stanchion.cli.amounts import age
from stanchion.cli.api import LAST, Api
from stanchion.cli.command import verb
from stanchion.cli.confirming import Consent, dangerous
from stanchion.cli.exit_codes import FAILED, USAGE
from stanchion.cli.printer import Column, Printer, field, say
from stanchion.cli.session import Session
from stanchion.contracts import ids
from stanchion.errors import Conflict, Unprocessable

_TASK = click.argument("task", default=LAST, shell_complete=completing.tasks)


@verb(
    "list",
    examples=[
        "stanchion artifact list @last",
        "stanchion artifact list tsk_01JX4 --name report.pdf --jsonl",
    ],
    see_also=["stanchion artifact get", "stanchion artifact put"],
)
@_TASK
@click.option("--name", metavar="NAME", help="Only the versions of this name.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, help="At most so many; default 50.")
def list_versions(session: Session, task: str, name: str | None, limit: int) -> None:
    """List the available versions of a task's artifacts, the newest first."""
    api = Api(session)
    columns = [
        field("version", "version_id"),
        Column("name", lambda row: f"{row['name']} v{row['number']}"),
        field("size", right=True),
        Column("pinned", lambda row: "pinned" if row.get("pinned_at") else ""),
        Column("age", lambda row: age(row["available_at"]), right=True),
        Column("by", lambda row: row.get("actor") or row.get("step_id") or ""),
        field("media type", "media_type"),
        field("sha256", optional=True),
        field("fence", optional=True, right=True),
        field("made from", "made_from", optional=True),
    ]
    found = _versions(api, api.task_id(task), name, limit)
    if not Printer(session).listing(found, columns, ident="version_id"):
        say(session, "there are no artifacts")


@verb(
    "get",
    examples=[
        "stanchion artifact get art_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0",
        "stanchion artifact get art_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0 --output report.pdf",
        "stanchion artifact get art_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0 --output - | less",
    ],
    see_also=["stanchion artifact list", "stanchion artifact verify"],
)
@click.argument("version")
@click.option("--output", "-o", metavar="FILE", help="Write the content there; - is standard output.")
@click.option("--force", is_flag=True, help="Overwrite the file.")
def get(session: Session, version: str, output: str | None, force: bool) -> None:
    """Download the content of a version, verified; without --output say what it is."""
    api = Api(session)
    calls = api.client.artifacts
    if output is None:
        Printer(session).document(calls.get(version), ident="version_id")
        return
    if output == "-":
        with calls.open(version) as chunks:
            for chunk in chunks:
                sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
        return
    path = Path(output)
    if path.exists() and not force:
        raise Conflict("E-CONFLICT-01", f"{output} exists", fix="choose another name, or add --force")
    size = calls.save(version, path)
    said = {"version_id": version, "file": str(path), "size": size}
    Printer(session).document(said, f"{path}: {size:,} bytes", ident="file")


@verb(
    "put",
    examples=[
        "stanchion artifact put @last report.pdf",
        "stanchion artifact put tsk_01JX4 final.md --name report.md --from art_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0",
        "tar c pages | stanchion artifact put @last - --name pages.tar",
    ],
    see_also=["stanchion artifact list"],
)
@click.argument("task", shell_complete=completing.tasks)
@click.argument("file")
@click.option("--name", metavar="NAME", help="Its name in the task; default: that of the file.")
@click.option("--media-type", metavar="TYPE", help="Default: by the name of the file.")
@click.option(
    "--from", "made_from", multiple=True, metavar="ART", help="A version that it is made from; several times."
)
def put(
    session: Session, task: str, file: str, name: str | None, media_type: str | None, made_from: tuple[str, ...]
) -> None:
    """Upload a file (or -, standard input) as a new version of a task's artifact."""
    api = Api(session)
    if file == "-" and name is None:
        raise Unprocessable(USAGE, "what comes from standard input needs a name", fix="--name report.pdf")
    path = None if file == "-" else Path(file)
    if path is not None and not path.is_file():
        raise Unprocessable(USAGE, f"{file[:200]!a} is no file", fix="name a file, or - for standard input")
    called = name or (path.name if path else "")
    kind = media_type or mimetypes.guess_type(called)[0] or "application/octet-stream"
    made = api.client.artifacts.put(
        api.task_id(task), called, path or sys.stdin.buffer, media_type=kind, made_from=made_from
    )
    text = f"{made['version_id']} is {made['name']} v{made['number']}, {made['size']:,} bytes"
    Printer(session).document(made, text, ident="version_id")


@verb(
    "pin",
    examples=[
        "stanchion artifact pin art_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0",
        "stanchion artifact pin art_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0 --off",
    ],
    see_also=["stanchion artifact rm"],
)
@click.argument("version")
@click.option("--off", is_flag=True, help="Let it go again.")
def pin(session: Session, version: str, off: bool) -> None:
    """Keep a version: neither retention nor `rm` takes it until it is let go."""
    answer = Api(session).client.artifacts.pin(version, pinned=not off)
    Printer(session).document(answer, f"{version} is {'not pinned' if off else 'pinned'}", ident="version_id")


@verb(
    "verify",
    examples=["stanchion artifact verify art_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0"],
    see_also=["stanchion artifact get"],
)
@click.argument("version")
@click.pass_context
def verify(context: click.Context, session: Session, version: str) -> None:
    """Have the stored content read again. Exit 1 when it is not what the version says."""
    answer = Api(session).client.artifacts.verify(version)
    text = f"{version} is intact" if answer["intact"] else f"{version} is damaged: {answer.get('why')}"
    Printer(session).document(answer, text, ident="version_id")
    if not answer["intact"]:
        context.exit(FAILED)


@verb(
    "rm",
    examples=[
        "stanchion artifact rm art_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0",
        "stanchion artifact rm art_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0 --yes --reason superseded",
    ],
    see_also=["stanchion artifact pin"],
)
@click.argument("versions", nargs=-1, required=True)
@click.option("--reason", default="", metavar="TEXT", help="Why; it stands in the audit.")
@dangerous
def rm(session: Session, versions: tuple[str, ...], reason: str, consent: Consent) -> None:
    """Delete versions. Their content goes with them unless another version has the same."""
    api = Api(session)
    wanted = list(dict.fromkeys(versions))
    for version in wanted:
        ids.parse(version, ids.ARTIFACT)
    plan = f"delete {len(wanted)} versions" if len(wanted) > 1 else f"delete {wanted[0]}"
    if consent.obtain(session, plan, len(wanted), where=api.connections.api_url):
        printer = Printer(session)
        for version in wanted:
            answer = api.client.artifacts.delete(version, reason=reason)
            printer.event(answer, f"{version} is deleted" if answer["deleted"] else f"{version} was deleted before")


def _versions(api: Api, task_id: str, name: str | None, limit: int) -> Iterator[Mapping[str, Any]]:
    cursor, left = None, limit
    while left > 0:
        page = api.client.artifacts.list(task_id, name=name, limit=min(left, 1_000), cursor=cursor)
        yield from page.items
        cursor, left = page.next, left - len(page.items)
        if cursor is None:
            return
