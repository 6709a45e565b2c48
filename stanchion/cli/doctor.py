"""`stanchion doctor`: is everything there, and does it fit together?"""

from __future__ import annotations

import click

from stanchion.cli import exit_codes
from stanchion.cli.command import verb
from stanchion.cli.printer import Printer
from stanchion.cli.session import Session


@verb(
    "doctor",
    examples=["stanchion doctor", "stanchion doctor --mend", "stanchion doctor --json"],
    see_also=["stanchion config view", "stanchion why"],
)
@click.option("--mend", is_flag=True, help="Create topics that are missing.")
def doctor(session: Session, mend: bool) -> int:
    """Check the API, the key, the workers, the database, the clocks, the broker and Valkey; each fault with a fix.

    Exit code 1 when something fails; a warning alone is no failure.
    """
    from stanchion.cli.checkup import FAILING, SKIPPED, Checkup

    findings = list(Checkup(session, mend=mend).findings())
    printer = Printer(session)
    if session.machine or session.quiet or session.format:
        printer.listing([one.row() for one in findings], [], ident="check")
    else:
        width = max(len(one.check) for one in findings)
        for one in findings:
            mark = printer.dim(one.state) if one.state == SKIPPED else printer.state(one.state)
            line = f"{one.check.ljust(width)}  {mark}{' ' * (8 - len(one.state))} {one.what}"
            printer.document(one.row(), line + (f"\n{' ' * (width + 11)}fix: {one.fix}" if one.fix else ""))
    return exit_codes.FAILED if any(one.state == FAILING for one in findings) else exit_codes.DONE
