"""`stanchion op list | show | reconcile | mark-done | mark-not-done | compensate`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from stanchion.cli import inputs
from stanchion.cli.amounts import age
from stanchion.cli.api import Api
from stanchion.cli.command import verb
from stanchion.cli.confirming import Consent, dangerous
from stanchion.cli.printer import Column, Printer, field, say
from stanchion.cli.session import Session
from stanchion.contracts import ids

_EXAMPLE = "op_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0"
_REASON = click.option("--reason", required=True, metavar="TEXT", help="Why you think so; it is kept.")
_PROOF = click.option("--proof", required=True, metavar="TEXT", help="What proves it: a receipt, a page, a person.")


@verb(
    "list",
    examples=["stanchion op list", "stanchion op list --state unknown", "stanchion op list --task @last --json"],
    see_also=["stanchion op show", "stanchion op reconcile"],
)
@click.option("--state", metavar="NAMES", help="Only those in these states, separated by commas.")
@click.option("--kind", metavar="NAME", help="Only those of this kind.")
@click.option("--task", metavar="TASK", help="Only those of this task.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, help="At most so many; default 50.")
def list_operations(session: Session, *, state: str | None, kind: str | None, task: str | None, limit: int) -> None:
    """List operations, the newest first."""
    api = Api(session)
    query = {"state": state, "kind": kind, "task": api.task_ids([task])[0] if task else None}
    columns = [
        field("operation", "operation_id"),
        field("state"),
        field("kind"),
        field("key"),
        field("sends", right=True),
        field("probes", right=True),
        Column("age", lambda row: age(row["created_at"]), right=True),
        field("task", "task_id", optional=True),
    ]
    shown = [one for one, _ in zip(_operations(api, query), range(limit), strict=False)]
    if not Printer(session).listing(shown, columns, ident="operation_id"):
        say(session, "no operation fits")


@verb("show", examples=[f"stanchion op show {_EXAMPLE}", "stanchion op show 01JX4Q2R --json"])
@click.argument("operation")
def show(session: Session, operation: str) -> None:
    """Show an operation: what was sent, how often, what was learned about it and by whom."""
    api = Api(session)
    found = api.client.read(f"/v1/operations/{_operation_id(api, operation)}", {})
    printer = Printer(session)
    printer.document(found, lambda: _lines(printer, found), ident="operation_id")


@verb("reconcile", examples=[f"stanchion op reconcile {_EXAMPLE}"], see_also=["stanchion op show"])
@click.argument("operation")
def reconcile(session: Session, operation: str) -> None:
    """Have the outside system asked now what became of an operation; a worker does that."""
    api = Api(session)
    answer = api.client.act(f"/v1/operations/{_operation_id(api, operation)}/reconcile", {})
    Printer(session).document(answer, f"{answer['operation_id']} {answer['state']}", ident="operation_id")


@verb(
    "mark-done",
    examples=[f"stanchion op mark-done {_EXAMPLE} --reason 'it is on the page' --proof 'https://press/17'"],
    see_also=["stanchion op mark-not-done", "stanchion op reconcile"],
)
@click.argument("operation")
@_REASON
@_PROOF
@click.option("--receipt", metavar="JSON", help="What the outside system answered, if you have it: the step gets it.")
@dangerous
def mark_done(
    session: Session, operation: str, *, reason: str, proof: str, receipt: str | None, consent: Consent
) -> None:
    """Say that an operation of unknown fate was done. Its step goes on, and it is never sent again."""
    answer = inputs.parse([f"receipt:={receipt}"]) if receipt is not None else {}
    _tell(session, operation, "mark-done", {"reason": reason, "proof": proof} | answer, consent)


@verb(
    "mark-not-done",
    examples=[f"stanchion op mark-not-done {_EXAMPLE} --reason 'no such order' --proof 'call with their support'"],
    see_also=["stanchion op mark-done", "stanchion op reconcile"],
)
@click.argument("operation")
@_REASON
@_PROOF
@dangerous
def mark_not_done(session: Session, operation: str, *, reason: str, proof: str, consent: Consent) -> None:
    """Say that an operation of unknown fate was not done. Its step sends it again, with the same key."""
    _tell(session, operation, "mark-not-done", {"reason": reason, "proof": proof}, consent)


@verb(
    "compensate",
    examples=[f"stanchion op compensate {_EXAMPLE} --reason 'a misprint'"],
    see_also=["stanchion op show"],
)
@click.argument("operation")
@_REASON
@dangerous
def compensate(session: Session, operation: str, *, reason: str, consent: Consent) -> None:
    """Have an effect undone, as its operation declares; a worker does that."""
    api = Api(session)
    operation_id = _operation_id(api, operation)
    found = api.client.read(f"/v1/operations/{operation_id}", {})
    if not consent.obtain(session, f"undo {found['kind']} {found['key']!r}", 1, where=api.connections.api_url):
        return
    answer = api.client.act(f"/v1/operations/{operation_id}/compensate", {"reason": reason})
    Printer(session).document(answer, f"{answer['operation_id']} -> {answer['step_id']}", ident="operation_id")


def _tell(session: Session, operation: str, what: str, body: Mapping[str, Any], consent: Consent) -> None:
    api = Api(session)
    operation_id = _operation_id(api, operation)
    found = api.client.read(f"/v1/operations/{operation_id}", {})
    plan = f"{what.replace('-', ' ', 1)}: {found['kind']} {found['key']!r}, sent {found['sends']} times"
    if not consent.obtain(session, plan, 1, where=api.connections.api_url):
        return
    answer = api.client.act(f"/v1/operations/{operation_id}/{what}", body)
    Printer(session).document(answer, f"{answer['operation_id']} {answer['state']}", ident="operation_id")


def _operations(api: Api, query: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    cursor = None
    while True:
        page = api.client.page("/v1/operations", {**query, "limit": 1_000, "cursor": cursor})
        yield from page.items
        cursor = page.next
        if cursor is None:
            return


def _operation_id(api: Api, text: str) -> str:
    return api.find(text, ids.OPERATION, lambda: _operations(api, {}), "operation_id")


def _lines(printer: Printer, found: Mapping[str, Any]) -> Iterator[str]:
    yield f"{printer.bold(found['operation_id'])}  {found['kind']}  {found['state']}"
    yield f"  key {found['key']}, sent as {found['request_key']}"
    yield f"  {found['reach']}; sent {found['sends']} times, asked after {found['probes']} times"
    if found.get("cost"):
        yield f"  costs {', '.join(f'{amount} {unit}' for unit, amount in found['cost'].items())}"
    for name in ("created", "dispatched", "confirmed"):
        if found.get(f"{name}_at"):
            yield f"  {name} {age(found[f'{name}_at'])}"
    if found.get("unknown_since"):
        yield f"  unknown for {age(found['unknown_since'])}"
    for name in ("payload", "receipt", "error"):
        if found.get(name) is not None:
            yield f"  {name}: {_plain(found[name])}"
    for probe in found["probed"]:
        settled = "" if probe["conclusive"] else ", which settles nothing"
        yield f"  {probe['number']}. {age(probe['at'])} {probe['by']}: {probe['verdict'].replace('_', ' ')}{settled}"
        if probe.get("detail"):
            yield f"     {_plain(probe['detail'])}"


def _plain(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)[:2_000]
