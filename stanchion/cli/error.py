"""`stanchion error list | show | mark`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from stanchion.cli import completing
from stanchion.cli.amounts import age
from stanchion.cli.api import Api
from stanchion.cli.command import verb
from stanchion.cli.person import every
from stanchion.cli.printer import Column, Printer, field, say
from stanchion.cli.session import Session
from stanchion.contracts import ids

_PATH: Final = "/v1/errors"
_MEMBERS: Final = 20


@verb(
    "list",
    examples=[
        "stanchion error list",
        "stanchion error list --workflow brief --unknown",
        "stanchion error list --task @last   # of the failed steps of one task",
    ],
    see_also=["stanchion error show", "stanchion job start"],
)
@click.option("--workflow", metavar="NAME", shell_complete=completing.workflows)
@click.option("--unknown", is_flag=True, help="Only those that nobody has marked as known.")
@click.option("--task", metavar="TASK", shell_complete=completing.tasks, help="Of the failed steps of this task's run.")
def list_errors(session: Session, workflow: str | None, *, unknown: bool, task: str | None) -> None:
    """List failures in groups of those that are the same, the last seen first; of one task the largest first."""
    api = Api(session)
    if task is None:
        found = every(api, _PATH, workflow=workflow, known="false" if unknown else None)
    else:
        found = iter(api.client.read(f"/v1/tasks/{api.task_id(task)}/errors")["items"])
    columns = [
        field("error", "error_id"),
        field("count", right=True),
        field("failed", optional=True, right=True),
        Column("where", lambda row: f"{row['workflow']}.{row['node']}"),
        field("code"),
        field("type", optional=True),
        Column("last", lambda row: age(row["last_at"]), right=True),
        Column("first", lambda row: age(row["first_at"]), right=True),
        Column("known", lambda row: "known" if row["known"] else ""),
        Column("message", lambda row: row["message"] or "(hidden by role)"),
    ]
    if not Printer(session).listing(found, columns, ident="error_id"):
        say(session, "nothing has failed")


@verb(
    "show",
    examples=["stanchion error show err_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0", "stanchion error show 01JX4Q2R --json"],
    see_also=["stanchion error mark", "stanchion step show"],
)
@click.argument("error")
def show(session: Session, error: str) -> None:
    """Show a group: an example, what people know of it, and the steps that failed so last."""
    api = Api(session)
    found = api.client.read(f"{_PATH}/{_id(api, error)}", {"limit": _MEMBERS})
    printer = Printer(session)
    printer.document(found, lambda: _lines(printer, found), ident="error_id")


@verb(
    "mark",
    examples=[
        "stanchion error mark err_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0 --known --link https://example.org/issues/7",
        "stanchion error mark 01JX4Q2R --assigned-to person:ana",
    ],
    see_also=["stanchion error show"],
)
@click.argument("error")
@click.option("--known/--unknown", default=None, help="Whether somebody knows of it.")
@click.option("--note", metavar="TEXT", help="What is known of it.")
@click.option("--link", metavar="URL", help="Where more stands.")
@click.option("--assigned-to", metavar="WHO", help="Who looks after it, like person:ana.")
def mark(session: Session, error: str, **given: Any) -> None:
    """Say what is known of a group of errors; an empty text clears what was said."""
    api = Api(session)
    answer = api.client.act(f"{_PATH}/{_id(api, error)}/mark", given, repeatable=True)
    printer = Printer(session)
    printer.document(answer, lambda: _lines(printer, answer), ident="error_id")


def _id(api: Api, text: str) -> str:
    return api.find(text, ids.ERROR, lambda: every(api, _PATH), "error_id")


def _lines(printer: Printer, group: Mapping[str, Any]) -> Iterator[str]:
    yield printer.bold(f"{group['error_id']}  {group['code']}  {group['message'] or '(hidden by role)'}")
    yield f"  {group['workflow']}.{group['node']} v{', '.join(map(str, group['versions']))} {group['place'] or ''}".rstrip()
    counts = f"{group['count']:,} failed attempts, {group['failed']:,} failed steps"
    yield f"  {counts}, first {age(group['first_at'])}, last {age(group['last_at'])}"
    for name in ("note", "link", "assigned_to", "marked_by"):
        if group.get(name):
            yield f"  {name.replace('_', ' ')}: {group[name]}"
    if isinstance(group.get("example"), Mapping):
        yield f"  like {group['example_step_id']}: {group['example'].get('what') or ''}"
    for one in group.get("members", ()):
        child = f"{one['node']}[{one['index']}] {one['state']} on {one['worker'] or 'a worker that is gone'}"
        yield f"  {one['step_id']} {child} of {one['task_id']}"
