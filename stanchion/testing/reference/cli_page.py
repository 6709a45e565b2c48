"""cli.md: the help of every command, and the exit codes."""

from __future__ import annotations

from collections.abc import Iterator

import click

from stanchion.cli.command import Group, common_options
from stanchion.cli.exit_codes import EXIT_CODES
from stanchion.cli.main import root

from .markdown import code, fence, page, section, table

_WIDTH = 100
_INTRO = """
`stanchion` prints data on standard output and everything else (progress, notes, questions) on standard error. An id may
be cut short where it stays unique; `@last` is the task that you submitted last.
"""


def cli_page() -> str:
    """The page of the command line."""
    rows = [(code(text), command.get_short_help_str(200)) for text, command, _ in commands()]
    blocks = [section(text, fence(_help(command, context)), level=3) for text, command, context in commands()]
    exits = table(("code", "meaning"), ((str(number), meaning) for number, meaning in EXIT_CODES.items()))
    return page(
        "Command line",
        _INTRO,
        section("Commands", table(("command", "what it does"), rows)),
        section("Options of every command", fence(_options())),
        section("Exit codes", exits),
        section("Help", *blocks),
    )


def commands() -> Iterator[tuple[str, click.Command, click.Context]]:
    """Every command that does something, with its full name, in the order of the tree."""
    top = root()
    yield from _below(top, _context(top, None, "stanchion"), "stanchion")


def _below(group: Group, context: click.Context, path: str) -> Iterator[tuple[str, click.Command, click.Context]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, f"{path} lists {name} and does not have it"
        inner = _context(command, context, name)
        if isinstance(command, Group):
            yield from _below(command, inner, f"{path} {name}")
        else:
            yield f"{path} {name}", command, inner


def _context(command: click.Command, parent: click.Context | None, name: str) -> click.Context:
    return click.Context(command, parent=parent, info_name=name, terminal_width=_WIDTH, max_content_width=_WIDTH)


def _help(command: click.Command, context: click.Context) -> str:
    """The help without the options that every command has."""
    common = {option.name for option in common_options()}
    own = [param for param in command.params if param.name not in common]
    kept, command.params = command.params, own
    try:
        return command.get_help(context)
    finally:
        command.params = kept


def _options() -> str:
    top = root()
    formatter = click.HelpFormatter(width=_WIDTH, max_width=_WIDTH)
    context = _context(top, None, "stanchion")
    records = [record for option in common_options() if (record := option.get_help_record(context))]
    formatter.write_dl(records)
    return formatter.getvalue()
