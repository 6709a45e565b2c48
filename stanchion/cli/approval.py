"""`stanchion approval list | show | approve | reject | edit | ask-back | answer | delegate | revoke`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
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
from stanchion.errors import Conflict

_SHOWN = 2_000
_EXAMPLE = "apr_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0"
_HASH = click.option(
    "--hash", "shown", metavar="HEX", help="Only if it covers what has this hash (its beginning), as `show` told it."
)
_SAID = Consent(yes=True, dry_run=False, expect_count=None)  # what decides nothing is not asked twice
_COMMENT = click.option("--comment", default="", metavar="TEXT", help="Kept with it.")


@verb(
    "list",
    examples=[
        "stanchion approval list --mine",
        "stanchion approval list --state requested",
        "stanchion approval list --json",
    ],
    see_also=["stanchion approval show"],
)
@click.option("--mine", is_flag=True, help="Only what waits for your decision now.")
@click.option("--state", metavar="NAMES", help="Only those in these states, separated by commas.")
@click.option("--task", metavar="TASK", help="Only those of this task.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, help="At most so many; default 50.")
def list_approvals(session: Session, *, mine: bool, state: str | None, task: str | None, limit: int) -> None:
    """List approvals, the newest first; your own inbox, the least time left first."""
    api = Api(session)
    query = {} if mine else {"state": state, "task": api.task_ids([task])[0] if task else None}
    columns = [
        field("approval", "approval_id"),
        field("state"),
        Column("of", _asked),
        field("needs", right=True),
        Column("for", lambda row: row.get("operation_kind") or "a decision"),
        Column("age", lambda row: age(row["created_at"]), right=True),
        field("workflow"),
        field("task", "task_id", optional=True),
    ]
    found = _approvals(api, query, "/v1/approvals/inbox" if mine else "/v1/approvals")
    shown = [one for one, _ in zip(found, range(limit), strict=False)]
    if not Printer(session).listing(shown, columns, ident="approval_id"):
        say(session, "nothing waits for you" if mine else "no approval fits")


@verb("show", examples=[f"stanchion approval show {_EXAMPLE}", "stanchion approval show 01JX4Q2R --json"])
@click.argument("approval")
def show(session: Session, approval: str) -> None:
    """Show an approval: what is asked and shown, whom, and what they said."""
    api = Api(session)
    found = api.client.read(f"/v1/approvals/{_approval_id(api, approval)}", {})
    printer = Printer(session)
    printer.document(found, lambda: _lines(printer, found), ident="approval_id")


@verb(
    "approve",
    examples=[
        f"stanchion approval approve {_EXAMPLE} --comment 'read it'",
        f"stanchion approval approve {_EXAMPLE} --yes",
    ],
    see_also=["stanchion approval show", "stanchion approval reject"],
)
@click.argument("approval")
@_COMMENT
@_HASH
@dangerous
def approve(session: Session, approval: str, *, comment: str, shown: str | None, consent: Consent) -> None:
    """Approve what is shown: that and nothing else, once, until it expires."""
    _vote(session, approval, "approve", {"comment": comment}, shown, consent)


@verb(
    "reject",
    examples=[f"stanchion approval reject {_EXAMPLE} --comment 'the title is wrong'"],
    see_also=["stanchion approval show", "stanchion approval approve"],
)
@click.argument("approval")
@_COMMENT
@_HASH
@dangerous
def reject(session: Session, approval: str, *, comment: str, shown: str | None, consent: Consent) -> None:
    """Say no; one no is enough."""
    _vote(session, approval, "reject", {"comment": comment}, shown, consent)


@verb(
    "ask-back",
    examples=[f"stanchion approval ask-back {_EXAMPLE} --comment 'which channel?'"],
    see_also=["stanchion approval show"],
)
@click.argument("approval")
@click.option("--comment", required=True, metavar="TEXT", help="What you want to know.")
@_HASH
def ask_back(session: Session, approval: str, *, comment: str, shown: str | None) -> None:
    """Say what you want to know first. It stands with the approval, and decides nothing."""
    _vote(session, approval, "ask-back", {"comment": comment}, shown, _SAID)


@verb(
    "answer",
    examples=[f"stanchion approval answer {_EXAMPLE} --comment 'the one for partners'"],
    see_also=["stanchion approval show"],
)
@click.argument("approval")
@click.option("--comment", required=True, metavar="TEXT", help="What they wanted to know.")
@_HASH
def answer(session: Session, approval: str, *, comment: str, shown: str | None) -> None:
    """Answer what somebody wants to know. It stands with the approval, and decides nothing."""
    _vote(session, approval, "answer", {"comment": comment}, shown, _SAID)


@verb(
    "edit",
    examples=[
        f"stanchion approval edit {_EXAMPLE} title='On stars' --comment 'shorter'",
        f"stanchion approval edit {_EXAMPLE} @payload.json",
    ],
    see_also=["stanchion approval show", "stanchion approval approve"],
)
@click.argument("approval")
@click.argument("changes", nargs=-1, required=True)
@_COMMENT
@_HASH
@dangerous
def edit(
    session: Session, approval: str, changes: Sequence[str], *, comment: str, shown: str | None, consent: Consent
) -> None:
    """Change fields of the payload. That is asked anew, and under four eyes somebody else has to approve it."""
    api = Api(session)
    approval_id, found = _look(api, approval, shown)
    if not isinstance(found.get("payload"), dict):
        raise Conflict("E-APR-10", "its payload is no object with fields, or is withheld from you")
    payload = {**found["payload"], **inputs.parse(changes)}
    names = [name for name, value in payload.items() if found["payload"].get(name) != value]
    plan = f"change {', '.join(names) or 'nothing'} of {_what(found)}, hash {found['payload_hash'][:12]}…"
    if not consent.obtain(session, plan, 1, where=api.connections.api_url):
        return
    told = api.client.act(
        f"/v1/approvals/{approval_id}/edit",
        {"comment": comment, "payload": payload, "payload_hash": found["payload_hash"]},
        repeatable=True,
    )
    Printer(session).document(told, f"{approval_id} replaced by {told['replaced_by']}", ident="replaced_by")


@verb(
    "delegate",
    examples=[f"stanchion approval delegate {_EXAMPLE} ana --comment 'I am away'"],
    see_also=["stanchion approval show", "stanchion person list"],
)
@click.argument("approval")
@click.argument("name")
@_COMMENT
@_HASH
@dangerous
def delegate(session: Session, approval: str, name: str, *, comment: str, shown: str | None, consent: Consent) -> None:
    """Pass your vote on to another approver; you keep none."""
    _vote(session, approval, "delegate", {"comment": comment, "to": name}, shown, consent)


@verb(
    "revoke",
    examples=[f"stanchion approval revoke {_EXAMPLE} --reason 'a newer version is under way'"],
    see_also=["stanchion approval show"],
)
@click.argument("approval")
@click.option("--reason", required=True, metavar="TEXT", help="Why; it is kept.")
@dangerous
def revoke(session: Session, approval: str, *, reason: str, consent: Consent) -> None:
    """Take an approval back, as long as what it allows has not happened."""
    api = Api(session)
    approval_id = _approval_id(api, approval)
    found = api.client.read(f"/v1/approvals/{approval_id}", {})
    if not consent.obtain(session, f"revoke {_what(found)}, {found['state']}", 1, where=api.connections.api_url):
        return
    answer = api.client.act(f"/v1/approvals/{approval_id}/revoke", {"reason": reason})
    Printer(session).document(answer, f"{answer['approval_id']} {answer['state']}", ident="approval_id")


def _vote(
    session: Session, approval: str, what: str, body: Mapping[str, str], shown: str | None, consent: Consent
) -> None:
    """Decide on what stands there now, or on what had the hash that `shown` begins; the server compares it once more."""
    api = Api(session)
    approval_id, found = _look(api, approval, shown)
    edited = f" (its payload was changed by {found['edited_by']} since)" if found.get("edited_by") else ""
    asked = f"{found.get('question') or 'its text is withheld'}{edited}"
    plan = f"{what} {_what(found)}, hash {found['payload_hash'][:12]}…: {asked}"
    if not consent.obtain(session, plan, 1, where=api.connections.api_url):
        return
    answer = api.client.act(
        f"/v1/approvals/{approval_id}/{what}", {**body, "payload_hash": found["payload_hash"]}, repeatable=True
    )
    Printer(session).document(answer, f"{answer['approval_id']} {answer['state']}", ident="approval_id")


def _look(api: Api, approval: str, shown: str | None) -> tuple[str, Mapping[str, Any]]:
    approval_id = _approval_id(api, approval)
    found = api.client.read(f"/v1/approvals/{approval_id}", {})
    if shown is not None and not found["payload_hash"].startswith(shown.lower()):
        raise Conflict(
            "E-APR-04",
            f"the approval covers {found['payload_hash'][:12]}…, not {shown[:12]}…",
            fix=f"look at it again: stanchion approval show {approval_id}",
        )
    return approval_id, found


def _approvals(api: Api, query: Mapping[str, Any], path: str = "/v1/approvals") -> Iterator[Mapping[str, Any]]:
    cursor = None
    while True:
        page = api.client.page(path, {**query, "limit": 1_000, "cursor": cursor})
        yield from page.items
        cursor = page.next
        if cursor is None:
            return


def _approval_id(api: Api, text: str) -> str:
    return api.find(text, ids.APPROVAL, lambda: _approvals(api, {}), "approval_id")


def _what(found: Mapping[str, Any]) -> str:
    kind = found.get("operation_kind")
    key = f" {found['operation_key']!r}" if found.get("operation_key") else ""
    return f"{kind}{key} of {found['workflow']}" if kind else f"{found['node']} of {found['workflow']}"


def _asked(row: Mapping[str, Any]) -> str:
    return ", ".join([*row["teams"], *(f"person:{name}" for name in row["people"])]) or "any approver"


def _lines(printer: Printer, found: Mapping[str, Any]) -> Iterator[str]:
    yield f"{printer.bold(found['approval_id'])}  {_what(found)}  {found['state']}"
    for name in ("question", "summary"):
        if found.get(name):
            yield f"  {found[name]}"
    yield f"  {found['needs']} of {_asked(found)}" + ("; not by whoever asked for it" if found["four_eyes"] else "")
    yield f"  asked {age(found['created_at'])} by {found['requested_by']}; expires {found['expires_at']}"
    yield f"  hash {found['payload_hash']}"
    if found.get("resource_id"):
        yield f"  about {found['resource_id']}, sha256 {found['resource_sha256']}"
    if found.get("payload") is not None:
        text = json.dumps(found["payload"], ensure_ascii=False)
        yield f"  payload: {text[:_SHOWN]}" + (f"… ({len(text):,} characters: --json)" if len(text) > _SHOWN else "")
    if found.get("replaces"):
        yield f"  edited by {found['edited_by']}; it replaces {found['replaces']}"
    if found.get("spent_by"):
        yield f"  used for {found['spent_by']}"
    for vote in found["votes"]:
        to = f" to {vote['delegate_to']}" if vote.get("delegate_to") else ""
        comment = f": {vote['comment']}" if vote.get("comment") else ""
        yield f"  {vote['number']}. {age(vote['at'])} {vote['subject']}: {vote['vote'].replace('_', ' ')}{to}{comment}"
