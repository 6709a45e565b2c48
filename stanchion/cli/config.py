"""`stanchion config view`."""

from __future__ import annotations

from stanchion.cli.command import verb
from stanchion.cli.connections import SECRET, VARIABLES, Connections
from stanchion.cli.printer import Printer, field
from stanchion.cli.session import Session
from stanchion.runtime.redaction import HIDDEN, redact_text


@verb(
    "view",
    examples=["stanchion config view", "stanchion config view --json", "stanchion config view --profile prod"],
    see_also=["stanchion doctor", "stanchion serve NAME --print-settings"],
)
def view(session: Session) -> None:
    """Show the settings of the command line, and where each is from; secrets stay hidden.

    A flag wins over the environment, that over stanchion.toml, that over the profile file, that over a running stack.
    """
    found = Connections(session).all()
    rows = [
        {
            "setting": name,
            "value": None if name not in found else HIDDEN if name in SECRET else redact_text(found[name].value),
            "origin": found[name].origin if name in found else None,
            "variable": variable,
        }
        for name, variable in VARIABLES.items()
    ]
    columns = [field("setting"), field("value"), field("origin"), field("variable", optional=True)]
    Printer(session).listing(rows, columns, ident="setting")
