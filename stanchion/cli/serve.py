"""`stanchion serve NAME`: one service in the foreground, in this very process."""

from __future__ import annotations

import os
import sys

import click

from stanchion.cli.command import verb
from stanchion.cli.session import Session


@verb(
    "serve",
    examples=[
        "stanchion serve task-service --http-port 8080",
        "stanchion serve worker --targets reports:report --slots 16",
        "stanchion serve orchestrator --print-settings",
    ],
    see_also=["stanchion dev", "stanchion worker run"],
)
@click.argument("name")
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
def serve(_session: Session, name: str, flags: tuple[str, ...]) -> None:
    """Run one service: task-service, orchestrator, outbox-relay, worker or maintenance.

    Settings come from STANCHION_* variables, a file (STANCHION_CONFIG) and the service's own flags, which
    --print-settings shows. SIGTERM drains it; a second one skips the drain.
    """
    from stanchion.cli.launches import import_path, launch_command

    command = launch_command(name, *flags)
    sys.stdout.flush()
    sys.stderr.flush()
    # In place of this process: who watches the service must see its own signals and exit code.
    os.execve(command[0], command, {**os.environ, **import_path(os.environ)})  # noqa: S606 - no shell is wanted


serve.ignore_unknown_options = True
serve.allow_interspersed_args = False
