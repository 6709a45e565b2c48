"""`stanchion completion SHELL`."""

from __future__ import annotations

import sys

import click

from stanchion.cli.command import verb
from stanchion.cli.session import Session


@verb(
    "completion",
    examples=[
        'eval "$(stanchion completion bash)"',
        "stanchion completion zsh > ~/.zfunc/_stanchion",
        "stanchion completion fish > ~/.config/fish/completions/stanchion.fish",
    ],
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(_session: Session, shell: str) -> None:
    """Print the completion script of a shell."""
    from click.shell_completion import get_completion_class

    from stanchion.cli.main import root

    found = get_completion_class(shell)
    assert found is not None, "click has these three"
    sys.stdout.write(found(root(), {}, "stanchion", "_STANCHION_COMPLETE").source() + "\n")
