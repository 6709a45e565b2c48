"""`stanchion task list | show | steps | result`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import click

from stanchion.cli import budgets, completing
from stanchion.cli.amounts import age, between, duration, since
from stanchion.cli.api import LAST, Api
from stanchion.cli.command import verb
from stanchion.cli.printer import Column, Printer, field, say
from stanchion.cli.selecting import every_task
from stanchion.cli.session import Session
from stanchion.contracts.failures import told

_TASK = click.argument("task", default=LAST, shell_complete=completing.tasks)
_LIMIT = click.option("--limit", type=click.IntRange(1, 100_000), default=50, help="At most so many; default 50.")


@verb(
    "list",
    examples=[
        "stanchion task list",
        "stanchion task list --state running,failed --workflow brief",
        "stanchion task list --tag nightly --limit 1000 --jsonl",
        "stanchion task list --filter 'state:failed started:<2h -workflow:healthcheck error:timeout'",
        "stanchion task list --order still   # what has not moved for longest",
        "stanchion task list --state failed --quiet | xargs stanchion task retry",
    ],
    see_also=["stanchion task show", "stanchion task watch"],
)
@click.option(
    "--state",
    metavar="A,B",
    help="accepted, running, awaiting_approval, cancelling, completed, failed, cancelled, rejected.",
)
@click.option("--workflow", metavar="NAME", shell_complete=completing.workflows)
@click.option("--tag", metavar="TEXT")
@click.option("--submitted-after", metavar="TIME", help="RFC 3339.")
@click.option("--filter", "q", metavar="TEXT", help="All that fit, e.g. 'is:open tag:x created:>2h'.")
@click.option("--order", type=click.Choice(["newest", "oldest", "still"]), help="still: longest without a change.")
@click.option("--scope", metavar="AGE", help="How far back what no index serves is looked for: 30d, all; default 7d.")
@_LIMIT
def list_tasks(session: Session, limit: int, **query: str | None) -> None:
    """List tasks, newest first. What a filter may say stands in docs/reference/filters.md."""
    api = Api(session)
    columns = [
        field("task", "task_id"),
        Column("workflow", lambda row: f"{row['workflow']} v{row['version']}"),
        Column("state", lambda row: "paused" if row.get("paused_at") and not row.get("ended_at") else row["state"]),
        Column("age", lambda row: age(row["created_at"]), right=True),
        Column("took", _took, right=True),
        field("tags"),
        field("key", "idempotency_key", optional=True),
        field("priority", optional=True, right=True),
        field("goal", optional=True),
        field("via", "submitted_via", optional=True),
        field("by", "submitted_by", optional=True),
    ]
    count = Printer(session).listing(every_task(api, query, limit), columns, ident="task_id")
    if not count:
        say(session, "no tasks fit" if any(query.values()) else "there are no tasks yet")


@verb(
    "show",
    examples=["stanchion task show @last", "stanchion task show tsk_01JX4 --json"],
    see_also=["stanchion task steps", "stanchion why", "stanchion task result"],
)
@_TASK
def show(session: Session, task: str) -> None:
    """Show a task: how it stands, each step with its counts, what joins wait for, its runs."""
    from stanchion.cli.task_lines import Painter

    api = Api(session)
    found = api.client.read(f"/v1/tasks/{api.task_id(task)}")
    printer = Printer(session)
    painter = Painter(color=session.colored(sys.stdout), ascii_only=session.ascii)

    def lines() -> Iterator[str]:
        yield painter.head(found)
        yield from painter.nodes(found)
        yield from _facts(found)

    printer.document(found, lines, ident="task_id")


@verb(
    "steps",
    examples=["stanchion task steps @last --state failed", "stanchion task steps @last --node fetch --jsonl"],
    see_also=["stanchion step show", "stanchion task reopen"],
)
@_TASK
@click.option("--node", metavar="NAME")
@click.option("--state", metavar="STATE", help="ready, running, failed and so on.")
@_LIMIT
def steps(session: Session, task: str, node: str | None, state: str | None, limit: int) -> None:
    """List the steps of a task, in order of birth."""
    api = Api(session)
    task_id = api.task_id(task)

    def found() -> Iterator[Mapping[str, Any]]:
        cursor, left = None, limit
        while left > 0:
            page = api.client.steps(task_id, node=node, state=state, limit=min(left, 1_000), cursor=cursor)
            yield from page.items
            cursor, left = page.next, left - len(page.items)
            if cursor is None:
                return

    columns = [
        field("step", "step_id"),
        Column("node", lambda row: row["node"] + (f"[{row['index']}]" if row.get("fan_id") else "")),
        field("state"),
        Column("attempts", lambda row: f"{row['attempts']}/{row['max_attempts']}", right=True),
        field("fence", right=True),
        field("queue"),
        field("losses", optional=True, right=True),
        field("round", optional=True, right=True),
        field("kind", optional=True),
    ]
    if not Printer(session).listing(found(), columns, ident="step_id"):
        say(session, "no steps fit")


@verb(
    "result",
    examples=[
        "stanchion task result @last",
        "stanchion task result @last > report.md",
        "stanchion task result @last --json",
    ],
    see_also=["stanchion task wait"],
)
@_TASK
@click.option("--wait", is_flag=True, help="Wait until the task has ended.")
def result(session: Session, task: str, wait: bool) -> int:
    """Print the result of a task: a text as it is, anything else as JSON.

    Exit code 10 when the task has failed, 11 when it was cancelled, 14 when it was rejected, 5 while it goes on; with
    --wait 12 when nothing but a person can move it on.
    """
    from stanchion.cli.waiting import Follower, code_of, line_of, report
    from stanchion.sdk.models import ENDED

    api = Api(session)
    task_id = api.task_id(task)
    if wait:
        seen = Follower(api, stop_for_people=True).follow([task_id], None)[task_id]
        if seen["state"] not in ENDED:  # it waits for a person, who was told what for
            return report(api, [seen])
    outcome = api.client.read(f"/v1/tasks/{task_id}/result")
    printer = Printer(session)
    if outcome["state"] != "completed":
        say(session, line_of(printer, outcome))
        if session.machine:
            printer.document(outcome)
        return code_of(outcome)
    value = outcome.get("result")
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    printer.result(outcome, text.rstrip("\n"), ident="task_id")
    return 0


def _took(row: Mapping[str, Any]) -> str:
    seconds = between(row["created_at"], row.get("ended_at"))
    return duration(seconds if seconds is not None else since(row["created_at"]) or 0.0)


def _facts(task: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    for name in ("goal", "tags", "priority", "idempotency_key", "deadline_at", "submitted_via", "submitted_by"):
        if task.get(name):
            value = ", ".join(task[name]) if isinstance(task[name], list) else task[name]
            yield f"  {name.replace('_', ' ')}: {value}"
    if task.get("input") is not None:
        text = json.dumps(task["input"], ensure_ascii=False)
        yield f"  input: {text if len(text) <= 200 else text[:199] + '…'}"
    yield from budgets.lines(task.get("budget", ()))
    reason = task.get("reason")
    if isinstance(reason, Mapping):
        yield f"  reason: {told(reason, 'by')}"
    if len(task.get("runs", ())) > 1:
        for run in task["runs"]:
            yield f"  run {run['number']} {run['run_id']} {run['state']}"
