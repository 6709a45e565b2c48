"""`stanchion db`: where the schema stands, and bringing it to this release."""

from __future__ import annotations

import os

import click

from stanchion.cli import exit_codes
from stanchion.cli.amounts import counted
from stanchion.cli.command import verb
from stanchion.cli.confirming import Consent, dangerous
from stanchion.cli.connections import Connections
from stanchion.cli.printer import Printer, field, say
from stanchion.cli.session import Session
from stanchion.errors import Unprocessable

_DATABASE = click.option(
    "--database", metavar="URL", help="The database, as administrator (STANCHION_ADMIN_DATABASE_URL)."
)


def admin_url(session: Session, given: str | None) -> str:
    """The administrator's address of the database; raises Unprocessable E-CONF-01 when nothing names it."""
    url = given or Connections(session).value("admin_database_url")
    if url is None:
        raise Unprocessable(
            "E-CONF-01",
            "nothing says where the database is",
            fix="--database URL, STANCHION_ADMIN_DATABASE_URL, or a running `stanchion dev`",
        )
    return url


@verb(
    "status",
    examples=["stanchion db status", "stanchion db status --json"],
    see_also=["stanchion db migrate", "stanchion doctor"],
)
@_DATABASE
def status(session: Session, database: str | None) -> int:
    """Say which version the schema has and which one this release needs.

    Exit code 1 when they differ.
    """
    from stanchion.db import migrate as migrations

    found = migrations.status(admin_url(session, database))
    data = {"current": found.current, "newest": found.newest, "up_to_date": found.up_to_date}
    hint = "" if found.up_to_date else "; fix: stanchion db migrate"
    Printer(session).document(
        data, f"schema {found.current or 'none'}, this release needs {found.newest}{hint}", ident="current"
    )
    return exit_codes.DONE if found.up_to_date else exit_codes.FAILED


@verb(
    "migrate",
    examples=[
        "stanchion db migrate",
        "stanchion db migrate --database postgresql://postgres@db/stanchion",
        "stanchion db migrate --dry-run",
    ],
    see_also=["stanchion db status"],
)
@_DATABASE
@click.option("--renew-passwords", is_flag=True, help="Set the passwords also of logins that have one.")
@click.option("--dry-run", is_flag=True, help="Say what would be done.")
def migrate(session: Session, database: str | None, renew_passwords: bool, dry_run: bool) -> None:
    """Bring the schema to this release's version.

    Safe to run from several places at once: one does it, the others wait for it. It only ever goes forward.
    Logins of services that have no password get the one of their variable, as STANCHION_WORKER_PASSWORD.
    """
    from stanchion.db import grants
    from stanchion.db import migrate as migrations

    url = admin_url(session, database)
    before = migrations.status(url)
    if not dry_run:
        given = {login: os.environ.get(grants.password_variable(login)) for login in grants.LOGINS}
        passwords = {login: password for login, password in given.items() if password}
        after = migrations.migrate(url, passwords=passwords, renew_passwords=renew_passwords)
        data = {"from": before.current, "to": after.current, "changed": before.current != after.current}
    else:
        data = {"from": before.current, "to": before.newest, "changed": False}
        say(session, "nothing was done (--dry-run)")
    Printer(session).document(data, f"schema {data['from'] or 'none'} -> {data['to']}", ident="to")


@verb(
    "check",
    examples=["stanchion db check", "stanchion db check --run run_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0 --jsonl"],
    see_also=["stanchion db rebuild"],
)
@_DATABASE
@click.option("--run", "run_id", metavar="ID", help="Only this run.")
def check(session: Session, database: str | None, run_id: str | None) -> int:
    """Derive every run from its events alone, and compare that with what is stored. Changes nothing, calls nothing.

    Exit code 1 when something differs.
    """
    from stanchion.cli.replays import differences

    names = ("run_id", "what", "which", "field", "stored", "told")
    found = Printer(session).listing(
        differences(admin_url(session, database), run_id), [field(name) for name in names], ident="which"
    )
    say(session, f"{counted(found, 'difference')} found" if found else "rows and events agree")
    return exit_codes.FAILED if found else exit_codes.DONE


@verb(
    "rebuild",
    examples=["stanchion db rebuild --dry-run", "stanchion db rebuild --run run_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0 --yes"],
    see_also=["stanchion db check"],
)
@_DATABASE
@click.option("--run", "run_id", metavar="ID", help="Only this run.")
@dangerous
def rebuild(session: Session, database: str | None, run_id: str | None, consent: Consent) -> int:
    """Put derived rows right (what is ready, what is due, what joins have counted) and print what was wrong."""
    from stanchion.cli.replays import repairs
    from stanchion.runtime.redaction import redact_text

    url = admin_url(session, database)
    wrong = list(repairs(url, run_id, apply=False))
    columns = [field(name) for name in ("run_id", "what", "which", "detail")]
    if not wrong:
        Printer(session).listing([], columns if session.machine else [], ident="which")
        say(session, "nothing is wrong")
        return exit_codes.DONE
    agreed = consent.obtain(session, f"put {counted(len(wrong), 'row')} right", len(wrong), where=redact_text(url))
    # What is printed is what was done: between the look and the act the engine may have moved on.
    done = list(repairs(url, run_id, apply=True)) if agreed else wrong
    Printer(session).listing(done, columns, ident="which")
    say(session, f"{counted(len(done), 'row')} put right" if agreed else "nothing was changed")
    return exit_codes.DONE
