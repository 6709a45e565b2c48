"""`stanchion version`."""

from __future__ import annotations

import platform

from stanchion.cli.command import verb
from stanchion.cli.printer import Printer
from stanchion.cli.session import Session


@verb("version", examples=["stanchion version", "stanchion version --json"])
def version(session: Session) -> None:
    """Print the versions of Stanchion and of the Python that it runs on."""
    from importlib.metadata import version as version_of

    data = {"stanchion": version_of("stanchion"), "python": platform.python_version(), "platform": platform.platform()}
    text = f"stanchion {data['stanchion']} (Python {data['python']}, {data['platform']})"
    Printer(session).document(data, text, ident="stanchion")
