"""The tree of commands: complete, lazy, with examples that parse."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from stanchion.cli.command import Branch, Group, Leaf, Verb
from stanchion.cli.main import root, run
from stanchion.cli.session import Session
from stanchion.cli.tree import TREE

HEAVY = ("sqlalchemy", "pydantic", "kafka", "fastapi", "psycopg", "redis", "structlog", "asyncio", "http.client")


def leaves(branch: Branch = TREE, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Leaf]]:
    for name, node in branch.commands.items():
        if isinstance(node, Branch):
            yield from leaves(node, (*path, name))
        else:
            yield (*path, name), node


def verb_of(path: tuple[str, ...]) -> Verb:
    node: click.Command = root()
    for name in path:
        assert isinstance(node, Group)
        found = node.get_command(click.Context(node), name)
        assert found is not None
        node = found
    assert isinstance(node, Verb)
    return node


ALIASES = {("task", "why"): ("why",)}
EXAMPLES = [(path, example) for path, _ in leaves() if path not in ALIASES for example in verb_of(path).examples]


@pytest.mark.parametrize("path", [path for path, _ in leaves()], ids=" ".join)
def test_every_command_can_be_loaded_and_explains_itself(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each has a help with examples first, its options, and the options that all have."""
    assert run([*path, "--help"]) == 0
    text = capsys.readouterr().out
    assert text.index("Examples:") < text.index("Output:") < text.index("Connection:")


@pytest.mark.parametrize(("path", "example"), EXAMPLES, ids=[example for _, example in EXAMPLES])
def test_every_example_parses(path: tuple[str, ...], example: str) -> None:
    """An example with a misspelt option would be the first thing that somebody copies."""
    words = words_of(example)
    assert tuple(words[: len(path)]) == path, "an example shows its own command"
    command = verb_of(path)
    context = command.make_context(" ".join(path), words[len(path) :], obj=Session(), resilient_parsing=False)
    assert context.params is not None


def words_of(example: str) -> list[str]:
    """The words of the first `stanchion` in a line of shell."""
    line = example.split("#")[0].split("eval ")[-1].strip('"').removeprefix("$(").removesuffix(")")
    words = shlex.split(line)
    words = words[words.index("stanchion") + 1 :]
    ends = [place for place, word in enumerate(words) if word in ("|", "&&", ">")]
    return words[: min(ends, default=len(words))]


def test_help_imports_nothing_heavy() -> None:
    """`stanchion --help` must not wait for a database driver; neither does a group's."""
    code = (
        "import sys\nfrom stanchion.cli.main import run\n"
        "run(['--help'])\nrun(['task', '--help'])\nrun(['task', 'cancle'])\n"
        f"sys.exit(' '.join(name for name in {HEAVY!r} if name in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, f"imported: {done.stderr}"


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        (["taks"], "'task'"),
        (["submit"], "'task submit'"),
        (["task", "cancle"], "'cancel'"),
        (["task", "list", "--stat"], "--state"),
    ],
)
def test_a_typo_gets_a_suggestion(words: list[str], suggestion: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The nearest command or option is named, and the exit code is that of bad usage."""
    assert run(words) == 2
    told = capsys.readouterr()
    assert suggestion in told.err
    assert "error[E-CLI-01]" in told.err
    assert not told.out


def test_common_options_stand_before_or_behind(capsys: pytest.CaptureFixture[str]) -> None:
    """`stanchion --json version` is `stanchion version --json`."""
    assert run(["--json", "version"]) == run(["version", "--json"]) == 0
    before, behind = capsys.readouterr().out.split("}\n")[:2]
    assert before == behind


def test_no_arguments_are_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """A group alone shows its help on stderr: nobody asked for data."""
    assert run(["task"]) == 2
    told = capsys.readouterr()
    assert "Commands:" in told.err
    assert not told.out


def test_completion_scripts_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """For the three shells."""
    for shell in ("bash", "zsh", "fish"):
        assert run(["completion", shell]) == 0
        assert "_STANCHION_COMPLETE" in capsys.readouterr().out
