"""`stanchion webhook list | add | remove | pause | resume | deliveries | resend`."""

from __future__ import annotations

import click

from stanchion.cli.amounts import age, counted
from stanchion.cli.api import Api
from stanchion.cli.command import verb
from stanchion.cli.confirming import Consent, dangerous
from stanchion.cli.person import every
from stanchion.cli.printer import Column, Printer, field, say
from stanchion.cli.session import Session
from stanchion.contracts import ids

_PATH = "/v1/webhooks"
_CALLS = "/v1/webhook-deliveries"


@verb("list", examples=["stanchion webhook list", "stanchion webhook list --json"], see_also=["stanchion webhook add"])
def list_webhooks(session: Session) -> None:
    """List whom we call when something happens, with what waits and what was given up."""
    columns = [
        field("webhook", "webhook_id"),
        field("state"),
        field("url"),
        Column("events", lambda row: ", ".join(row["events"])),
        field("waiting", right=True),
        field("failed", right=True),
        Column("made", lambda row: age(row["created_at"]), right=True),
    ]
    if not Printer(session).listing(every(Api(session), _PATH), columns, ident="webhook_id"):
        say(session, "there are no webhooks")


@verb(
    "add",
    examples=[
        "stanchion webhook add https://example.org/hooks --event task.failed",
        "stanchion webhook add https://example.org/hooks --event approval.requested --event approval.decided",
    ],
    see_also=["stanchion webhook list", "stanchion webhook deliveries"],
)
@click.argument("url")
@click.option(
    "--event", "events", multiple=True, metavar="EVENT", help="E.g. task.failed; several times; default: all."
)
def add(session: Session, url: str, *, events: tuple[str, ...]) -> None:
    """Call an address when something happens, and print the secret that signs the calls; nobody can see it again."""
    made = Api(session).client.act(_PATH, {"url": url, "events": list(events) or ["*"]})
    say(session, f"{made['webhook_id']} for {', '.join(made['events'])}; keep its secret: it is shown only now")
    Printer(session).document(made, str(made["secret"]), ident="secret")


@verb("remove", examples=["stanchion webhook remove whk_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0 --yes"])
@click.argument("webhook")
@dangerous
def remove(session: Session, webhook: str, consent: Consent) -> None:
    """Remove a webhook, with the calls that still wait for it."""
    api = Api(session)
    webhook_id = _found(api, webhook)
    if consent.obtain(session, f"remove {webhook_id}", 1, where=api.connections.api_url):
        answer = api.client.act(f"{_PATH}/{webhook_id}/remove", {})
        Printer(session).document(answer, f"{webhook_id} is removed", ident="webhook_id")


@verb("pause", examples=["stanchion webhook pause 01JX4Q2R"], see_also=["stanchion webhook resume"])
@click.argument("webhook")
def pause(session: Session, webhook: str) -> None:
    """Hold the calls of a webhook; what is held for three days is given up."""
    api = Api(session)
    answer = api.client.act(f"{_PATH}/{_found(api, webhook)}/pause", {}, repeatable=True)
    Printer(session).document(answer, f"{answer['webhook_id']} is paused", ident="webhook_id")


@verb("resume", examples=["stanchion webhook resume 01JX4Q2R"], see_also=["stanchion webhook pause"])
@click.argument("webhook")
def resume(session: Session, webhook: str) -> None:
    """Let the calls of a webhook go that was paused, or has failed."""
    api = Api(session)
    answer = api.client.act(f"{_PATH}/{_found(api, webhook)}/resume", {}, repeatable=True)
    Printer(session).document(answer, f"{answer['webhook_id']} is active", ident="webhook_id")


@verb(
    "deliveries",
    examples=["stanchion webhook deliveries", "stanchion webhook deliveries --state failed --json"],
    see_also=["stanchion webhook resend"],
)
@click.option("--webhook", metavar="ID", help="Only those of one webhook.")
@click.option("--state", type=click.Choice(["due", "sent", "failed"]), help="Only those in this state.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, help="At most so many; default 50.")
def deliveries(session: Session, *, webhook: str | None, state: str | None, limit: int) -> None:
    """List the calls that are due, were made, or were given up, the newest first."""
    api = Api(session)
    columns = [
        field("delivery", "delivery_id"),
        field("state"),
        field("event", "type"),
        field("subject"),
        Column("age", lambda row: age(row["created_at"]), right=True),
        field("tries", right=True),
        field("status", right=True),
        field("error"),
        field("next", "due_at", optional=True),
        field("webhook", "webhook_id", optional=True),
    ]
    found = every(api, _CALLS, webhook=_found(api, webhook) if webhook else None, state=state)
    shown = [one for one, _ in zip(found, range(limit), strict=False)]
    if not Printer(session).listing(shown, columns, ident="delivery_id"):
        say(session, "there are no such calls")


@verb(
    "resend",
    examples=["stanchion webhook resend dlv_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0"],
    see_also=["stanchion webhook deliveries"],
)
@click.argument("calls", nargs=-1, required=True, metavar="DELIVERY...")
def resend(session: Session, calls: tuple[str, ...]) -> None:
    """Make calls again, whatever became of them. Their events keep their ids, so that a receiver can tell."""
    api = Api(session)
    for call in calls:
        whole = api.find(call, ids.DELIVERY, lambda: every(api, _CALLS), "delivery_id")
        answer = api.client.act(f"{_CALLS}/{whole}/resend", {})
        Printer(session).document(answer, f"{whole} is sent again", ident="delivery_id")
    say(session, f"{counted(len(calls), 'call')} to be made again")


def _found(api: Api, text: str) -> str:
    return api.find(text, ids.WEBHOOK, lambda: every(api, _PATH), "webhook_id")
