"""`stanchion task submit`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from stanchion.cli import budgets, completing, exit_codes, inputs
from stanchion.cli.api import Api
from stanchion.cli.command import verb
from stanchion.cli.printer import Printer, say
from stanchion.cli.session import Session
from stanchion.cli.spans import Span, span_of
from stanchion.errors import Unprocessable
from stanchion.sdk.models import Receipt


@verb(
    "submit",
    examples=[
        "stanchion task submit brief topic=cats n:=5",
        "stanchion task submit brief @input.json --key order-42 --watch",
        "stanchion task submit brief topic=cats --wait --timeout 600 && echo done",
        "stanchion task submit brief topic=cats --via kafka",
        "stanchion task submit brief topic=cats --budget usd=5 --budget tokens=100000",
        "jq -n '{topic: \"cats\"}' | stanchion task submit brief -",
    ],
    see_also=["stanchion task watch", "stanchion task wait", "stanchion workflow show"],
)
@click.argument("workflow", shell_complete=completing.workflows)
@click.argument("words", nargs=-1, metavar="[NAME=TEXT|NAME:=JSON|NAME=@FILE|@FILE|-]...")
@click.option("--key", metavar="TEXT", help="Idempotency key: the same key is the same task. Default: a random one.")
@click.option("--tag", "tags", multiple=True, metavar="TEXT", help="A tag; may be given several times.")
@click.option("--priority", type=click.IntRange(-100, 100), default=0, help="Higher goes first; default 0.")
@click.option("--deadline", metavar="TIME", help="When it must have ended: RFC 3339, or 90s, 30m, 4h, 2d from now.")
@click.option("--version", "workflow_version", type=click.IntRange(min=1), help="Of the workflow; default: the newest.")
@click.option("--goal", metavar="TEXT", help="What it is for, in words.")
@budgets.BUDGET
@click.option("--via", type=click.Choice(["http", "kafka"]), default="http", help="The door; default http.")
@click.option("--wait", is_flag=True, help="Wait until it has ended; the exit code says how.")
@click.option("--watch", is_flag=True, help="The same, and show how it goes.")
@click.option("--timeout", type=Span(), metavar="TIME", help="Stop waiting after this: seconds, or 90s, 30m, 4h.")
def submit(
    session: Session,
    workflow: str,
    words: tuple[str, ...],
    *,
    via: str,
    wait: bool,
    watch: bool,
    timeout: float | None,
    **options: Any,
) -> int:
    """Submit a task of WORKFLOW. NAME=TEXT gives a text, NAME:=JSON anything else, @FILE a whole JSON object.

    Prints the task's id. With the same --key and the same input it is the same task as before, with another input it is
    a conflict (exit code 5).
    """
    api = Api(session)
    values = inputs.parse(words)
    given = _given(options)
    receipt = _by_kafka(api, workflow, values, given) if via == "kafka" else _by_http(api, workflow, values, given)
    api.remember(receipt.task_id)
    data = {
        "task_id": receipt.task_id,
        "run_id": receipt.run_id,
        "state": receipt.state,
        "duplicate": receipt.duplicate,
        "via": via,
    }
    if not (wait or watch):
        Printer(session).document(data, receipt.task_id, ident="task_id")
        if receipt.duplicate:
            say(session, f"it exists already, and is {receipt.state}")
        return exit_codes.DONE
    say(session, f"submitted {receipt.task_id}" + (" (it existed already)" if receipt.duplicate else ""))
    return _follow(api, receipt, data, timeout, watch=watch)


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    given = {
        "key": options["key"],
        "tags": options["tags"],
        "priority": options["priority"],
        "deadline": _moment(options["deadline"]),
        "version": options["workflow_version"],
        "goal": options["goal"],
        "budget": budgets.given(options["budget"]),
    }
    return {name: value for name, value in given.items() if value is not None}


def _by_http(api: Api, workflow: str, values: Mapping[str, Any], given: Mapping[str, Any]) -> Receipt:
    handle = api.client.submit(workflow, values, **given)
    return Receipt(handle.id, handle.run_id, handle.state, handle.duplicate)


def _by_kafka(api: Api, workflow: str, values: Mapping[str, Any], given: Mapping[str, Any]) -> Receipt:
    from stanchion.cli.stack_setup import quieten
    from stanchion.sdk.kafka_client import KafkaClient

    quieten()
    found = api.connections
    with KafkaClient(
        found.value("kafka_bootstrap"),
        tenant=found.value("tenant") or "dev",
        key_id=found.value("signing_key_id"),
        signing_key=found.value("signing_key"),
        timeout=api.session.timeout,
    ) as client:
        return client.submit(workflow, values, **given)


def _follow(api: Api, receipt: Receipt, data: Mapping[str, Any], timeout: float | None, *, watch: bool) -> int:
    from stanchion.cli.waiting import Follower, leave_picture, report, summary

    follower = Follower(api, stop_for_people=not watch)
    try:
        seen = follower.follow([receipt.task_id], timeout)[receipt.task_id]
    except KeyboardInterrupt:
        say(api.session, f"detached: {receipt.task_id} goes on; stanchion task watch @last")
        return exit_codes.INTERRUPTED
    leave_picture(api.session, seen)
    return report(api, [seen], lambda task: {**data, **summary(task)})


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    ahead = span_of(text)
    if ahead is not None:
        with suppress(OverflowError):
            return datetime.now(UTC) + timedelta(seconds=ahead)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise Unprocessable(
            "E-DATA-13", f"{text[:60]!a} is no deadline", fix="2030-01-31T12:00:00Z, or 90s, 30m, 4h, 2d from now"
        )
    return found
