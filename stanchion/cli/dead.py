"""`stanchion dead list | show | redrive`."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from stanchion.cli import exit_codes
from stanchion.cli.amounts import age, counted
from stanchion.cli.api import Api
from stanchion.cli.command import verb
from stanchion.cli.confirming import Consent, dangerous
from stanchion.cli.printer import Column, Printer, field, say
from stanchion.cli.session import Session
from stanchion.contracts import ids
from stanchion.errors import StanchionError, Unprocessable
from stanchion.runtime.clock import pause

_UNOWNED = click.option("--unowned", is_flag=True, help="Those that belong to no tenant (platform keys only).")
_CODE = click.option("--code", metavar="CODE", help="Only those with this error code.")
_TOPIC = click.option("--topic", metavar="NAME", help="Only those of this topic.")
_WAITING = "waiting"


@verb(
    "list",
    examples=["stanchion dead list", "stanchion dead list --code E-MSG-01 --json", "stanchion dead list --all"],
    see_also=["stanchion dead show", "stanchion dead redrive"],
)
@_CODE
@_TOPIC
@click.option("--all", "everything", is_flag=True, help="Also those that were sent again.")
@_UNOWNED
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, help="At most so many; default 50.")
def list_letters(
    session: Session, *, code: str | None, topic: str | None, everything: bool, unowned: bool, limit: int
) -> None:
    """List messages that could not be handled and were parked, the newest first."""
    found = _letters(Api(session), code, topic, everything=everything, unowned=unowned)
    columns = [
        field("letter", "dead_letter_id"),
        field("code"),
        field("topic"),
        Column("place", lambda row: f"{row['partition']}@{row['offset']}"),
        Column("age", lambda row: age(row["at"]), right=True),
        Column("state", lambda row: "sent again" if row.get("redriven_at") else _WAITING),
        field("reason"),
        field("bytes", optional=True, right=True),
    ]
    shown = [letter for letter, _ in zip(found, range(limit), strict=False)]
    if not Printer(session).listing(shown, columns, ident="dead_letter_id"):
        say(session, "no message is parked")


@verb(
    "show",
    examples=["stanchion dead show ded_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0", "stanchion dead show 01JX4Q2R --json"],
    see_also=["stanchion dead redrive"],
)
@click.argument("letter")
@_UNOWNED
def show(session: Session, letter: str, unowned: bool) -> None:
    """Show a parked message: where it was, why it was parked, its headers and its content."""
    api = Api(session)
    letter_id = _letter_id(api, letter, unowned=unowned)
    found = api.client.read(f"/v1/dead-letters/{letter_id}", {"unowned": unowned or None})
    printer = Printer(session)
    printer.document(found, lambda: _lines(printer, found), ident="dead_letter_id")


@verb(
    "redrive",
    examples=[
        "stanchion dead redrive ded_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0",
        "stanchion dead redrive --code E-TASK-01 --rate 20",
        "stanchion dead redrive --topic stanchion.task-service.commands.v1 --dry-run",
    ],
    see_also=["stanchion dead list"],
)
@click.argument("letters", nargs=-1, metavar="[LETTER]...")
@_CODE
@_TOPIC
@click.option("--again", is_flag=True, help="Also those that were sent again before.")
@click.option("--rate", type=click.FloatRange(min=0.1), default=50.0, help="At most so many a second; default 50.")
@_UNOWNED
@dangerous
def redrive(
    session: Session,
    letters: tuple[str, ...],
    *,
    code: str | None,
    topic: str | None,
    again: bool,
    rate: float,
    unowned: bool,
    consent: Consent,
) -> int:
    """Send parked messages to their topics again, as they came. If the first is refused, no other goes."""
    api = Api(session)
    if bool(letters) == bool(code or topic):
        raise Unprocessable(exit_codes.USAGE, "name letters, or --code or --topic", fix="stanchion dead list")
    if letters:
        found = [_letter_id(api, one, unowned=unowned) for one in letters]
    else:
        found = [str(one["dead_letter_id"]) for one in _letters(api, code, topic, everything=again, unowned=unowned)]
    if not found:
        say(session, "no message is parked")
        return exit_codes.DONE
    if not consent.obtain(
        session, f"send {counted(len(found), 'message')} again", len(found), where=api.connections.api_url
    ):
        return exit_codes.DONE
    return _redriven(api, found, again=again, unowned=unowned, wait=1 / rate)


def _redriven(api: Api, found: Sequence[str], *, again: bool, unowned: bool, wait: float) -> int:
    from stanchion.cli.errors_text import tell

    printer, failures, sent = Printer(api.session), list[StanchionError](), 0
    for number, letter_id in enumerate(found):
        query = {"unowned": unowned or None}
        try:
            answer = api.client.act(f"/v1/dead-letters/{letter_id}/redrive", {"again": again or None}, query=query)
        except StanchionError as error:
            failures.append(error)
            tell(error, api.session)
            if number == 0 and len(found) > 1:
                say(api.session, "the first was refused, so the others were not sent")
                break
            continue
        sent += 1
        printer.document(answer, f"{answer['dead_letter_id']} -> {answer['topic']}", ident="dead_letter_id")
        if number + 1 < len(found):
            pause(wait)
    if not failures:
        return exit_codes.DONE
    return exit_codes.PARTLY_DONE if sent else exit_codes.of_error(failures[0])


def _letters(
    api: Api, code: str | None, topic: str | None, *, everything: bool, unowned: bool
) -> Iterator[Mapping[str, Any]]:
    cursor = None
    while True:
        page = api.client.page("/v1/dead-letters", {"limit": 1_000, "cursor": cursor, "unowned": unowned or None})
        for letter in page.items:
            fits = (code is None or letter["code"] == code) and (topic is None or letter["topic"] == topic)
            if fits and (everything or not letter.get("redriven_at")):
                yield letter
        cursor = page.next
        if cursor is None:
            return


def _letter_id(api: Api, text: str, *, unowned: bool) -> str:
    return api.find(
        text, ids.DEAD_LETTER, lambda: _letters(api, None, None, everything=True, unowned=unowned), "dead_letter_id"
    )


def _lines(printer: Printer, letter: Mapping[str, Any]) -> Iterator[str]:
    yield f"{printer.bold(letter['dead_letter_id'])}  {letter['code']}  {letter['reason']}"
    place = f"{letter['topic']}[{letter['partition']}]@{letter['offset']}"
    yield f"  {place}, {letter.get('bytes') or 0:,} bytes, {age(letter['at'])}"
    if letter.get("redriven_at"):
        yield f"  sent again {age(letter['redriven_at'])}"
    for header in letter.get("headers", ()):
        yield f"  {header[0]}: {_plain(header[1])}"
    for part in ("key", "value"):
        if letter.get(part) is not None:
            yield f"  {part}: {_plain(base64.b64decode(letter[part]).decode('utf-8', 'replace'))}"


def _plain(text: str | None) -> str:
    # What was parked may be hostile: it must not look like lines of ours. The printer makes the rest harmless.
    return (text or "")[:4_000].replace("\n", "\\n")
