"""The two kinds of nodes in the command tree: groups that import nothing, and verbs that share their output options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

import click

from stanchion.cli.session import Session

_OUTPUT: Final = "Output"
_CONNECTION: Final = "Connection"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A command that is imported when it is run: `module:attribute`, and what the list of commands says about it."""

    target: str
    summary: str


@dataclass(frozen=True, slots=True)
class Branch:
    """A group of commands about one noun."""

    summary: str
    commands: Mapping[str, Leaf | Branch] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()


class Group(click.Group):
    """A group out of a table. Its help needs none of its commands, and a typo gets a suggestion."""

    def __init__(self, name: str, branch: Branch, *, epilog: str | None = None) -> None:
        super().__init__(name, help=branch.summary, epilog=epilog, params=common_options(hidden=True))
        self.branch = branch

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the signature is click's
        """The commands in the order of the table, which is the order of use."""
        return list(self.branch.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - the same
        """Import the command; None if there is none of this name."""
        node = self.branch.commands.get(cmd_name)
        if isinstance(node, Branch):
            return Group(cmd_name, node)
        if node is None:
            return None
        module, _, attribute = node.target.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with suggestions from the table (click would look at what is already imported)."""
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.exceptions.NoSuchCommand(args[0], possibilities=self._near(args[0]), ctx=ctx)
        return super().resolve_command(ctx, args)

    def _near(self, wrong: str) -> list[str]:
        own = list(self.branch.commands)
        nested = {
            verb: f"{noun} {verb}"
            for noun, node in self.branch.commands.items()
            if isinstance(node, Branch)
            for verb in node.commands
        }
        return [*own, nested[wrong]] if wrong in nested else own

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands from the table alone."""
        rows = []
        for name, node in self.branch.commands.items():
            verbs = f" {' | '.join(node.commands)}" if isinstance(node, Branch) and ctx.parent is None else ""
            rows.append((name, node.summary + (f":{verbs}" if verbs else "")))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class Verb(click.Command):
    """A command with the common options; its help shows examples first."""

    def __init__(
        self, name: str | None = None, *, examples: Sequence[str] = (), see_also: Sequence[str] = (), **attrs: Any
    ) -> None:
        own = [param.name for param in attrs.get("params") or []]
        attrs["params"] = [*(attrs.get("params") or []), *(one for one in common_options() if one.name not in own)]
        super().__init__(name, **attrs)
        self.examples = tuple(examples)
        self.see_also = tuple(see_also)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """What it does, examples, its own options, then those that every command has."""
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write_text(example)
        self._format_options(ctx, formatter)
        if self.see_also:
            with formatter.section("See also"):
                formatter.write_text(", ".join(self.see_also))

    def _format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                sections.setdefault(getattr(param, "section", "Options"), []).append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def verb(
    name: str, *, examples: Sequence[str] = (), see_also: Sequence[str] = ()
) -> Callable[[Callable[..., Any]], Verb]:
    """Make a function a command; its first argument is the `Session`."""

    def declare(function: Callable[..., Any]) -> Verb:
        return click.command(name, cls=Verb, examples=examples, see_also=see_also)(click.pass_obj(function))

    return declare


class _Common(click.Option):
    """An option of every command, with the section of the help that it stands in."""

    def __init__(self, *args: Any, section: str, **attrs: Any) -> None:
        super().__init__(*args, expose_value=False, callback=_kept, **attrs)
        self.section = section


def _kept(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    session = ctx.ensure_object(Session)
    source = ctx.get_parameter_source(param.name or "")
    if source is click.core.ParameterSource.COMMANDLINE:  # a default must not undo what stood before the command
        setattr(session, str(param.name), value)
    return value


def common_options(*, hidden: bool = False) -> list[click.Option]:
    """New instances of the options that every command has."""
    flag: dict[str, Any] = {"is_flag": True, "hidden": hidden, "section": _OUTPUT}
    shown: dict[str, Any] = {"hidden": hidden, "section": _OUTPUT}
    link: dict[str, Any] = {"hidden": hidden, "section": _CONNECTION}
    choices = click.Choice(["auto", "always", "never"])
    return [
        _Common(["--json"], help="Print one JSON document.", **flag),
        _Common(["--jsonl"], help="Print one JSON document a line.", **flag),
        _Common(["--quiet", "-q"], help="Print ids only, and no progress.", **flag),
        _Common(["--format"], metavar="TEXT", help="Print each as this text, e.g. '{id} {state}'.", **shown),
        _Common(["--columns"], metavar="A,B", help="Print these columns.", **shown),
        _Common(["--no-headers"], help="Leave the heads of columns out.", **flag),
        _Common(["--no-trunc"], help="Print long values in full.", **flag),
        _Common(["--color"], type=choices, help="Colour, or none; NO_COLOR is honoured.", **shown),
        _Common(["--ascii"], help="No symbols beyond ASCII.", **flag),
        _Common(["--debug"], help="Show the traceback of an unexpected error.", **flag),
        _Common(["--api-url"], metavar="URL", help="Where the API is (STANCHION_API_URL).", **link),
        _Common(["--api-key"], metavar="KEY", help="The key for it (STANCHION_API_KEY).", **link),
        _Common(["--profile"], metavar="NAME", help="A table of the profile file.", **link),
    ]
