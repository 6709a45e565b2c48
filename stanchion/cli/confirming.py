"""Before something that can't be undone: the plan with its count, then a question; scripts say --yes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from stanchion.cli.exit_codes import USAGE
from stanchion.cli.ink import visible
from stanchion.cli.printer import say
from stanchion.cli.session import Session
from stanchion.errors import Conflict, Unprocessable

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Consent:
    """What the person said beforehand."""

    yes: bool
    dry_run: bool
    expect_count: int | None

    def obtain(self, session: Session, plan: str, count: int, *, where: str = "") -> bool:
        """Whether to go on. False after --dry-run; raises Abort for a no, Unprocessable where nobody can answer."""
        place = f" ({where})" if where else ""
        if self.expect_count is not None and count != self.expect_count:
            raise Conflict(
                "E-CONFLICT-01", f"{count} found, {self.expect_count} expected: nothing was done", fix="look again"
            )
        if self.dry_run:
            say(session, f"{plan}{place}: not done (--dry-run)")
            return False
        if self.yes:
            return True
        if not sys.stdin.isatty():
            raise Unprocessable(USAGE, f"{plan}{place} needs a yes, and there is nobody to ask", fix="add --yes")
        click.confirm(visible(f"{plan}{place}. Continue?"), abort=True, err=True)
        return True


def dangerous(command: F) -> F:
    """Give a command the options --yes, --dry-run and --expect-count, as the argument `consent`."""

    def wrapped(*args: Any, yes: bool, dry_run: bool, expect_count: int | None, **kwargs: Any) -> Any:
        return command(*args, consent=Consent(yes, dry_run, expect_count), **kwargs)

    wrapped.__name__, wrapped.__doc__ = command.__name__, command.__doc__
    options = getattr(command, "__click_params__", [])
    wrapped.__click_params__ = list(options)  # type: ignore[attr-defined]  # where click's decorators leave options
    for option in (
        click.option("--expect-count", type=click.IntRange(min=0), metavar="N", help="Refuse if there are not N."),
        click.option("--dry-run", is_flag=True, help="Say what would be done."),
        click.option("--yes", "-y", is_flag=True, help="Do not ask."),
    ):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]  # the same command with more options
