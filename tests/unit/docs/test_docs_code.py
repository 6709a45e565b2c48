"""What pages show as code is code: it compiles, its commands, variables and codes exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from docs_kit import CHECKOUT, Block, blocks, inline_code, name_of, pages

from stanchion.cli.command import Group
from stanchion.cli.main import root
from stanchion.workflow import Workflow

PYTHON = [block for page in pages() for block in blocks(page, "python", "py")]
SHELL = [block for page in pages() for block in blocks(page, "sh", "bash", "shell", "console")]
WORKFLOWS = [block for block in PYTHON if "Workflow(" in block.text and "docs/reference" not in str(block)]
MAKE_TARGETS = set(re.findall(r"^([a-z-]+):", (CHECKOUT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python_compiles(block: Block) -> None:
    """A reader may copy a block into a file; signatures of the reference are read as stubs."""
    text = block.text
    if name_of(block.page) == "docs/reference/python.md":
        text = f"def {text.removeprefix('class ').strip()}: ..." if "(" in text else "class X: ..."
        text = re.sub(r"<[^>]*>", "...", text)
    compile(text, str(block), "exec", dont_inherit=True)


@pytest.mark.parametrize("block", WORKFLOWS, ids=str)
def test_workflows_are_sound(block: Block) -> None:
    """Every workflow that a page shows passes the checks that users' own workflows pass."""
    names: dict[str, object] = {"__name__": "docs_example"}
    exec(compile(block.text, str(block), "exec", dont_inherit=True), names)
    found = [value for value in names.values() if isinstance(value, Workflow)]
    assert found
    for workflow in found:
        assert workflow.graph().nodes


def commands_in(text: str) -> list[list[str]]:
    """The command lines of `stanchion` in a shell block: variables in front are left out."""
    joined = text.replace("\\\n", " ")
    found = []
    for line in joined.splitlines():
        bare = line.removeprefix("$ ").partition(" #")[0].strip()
        words = shlex.split(bare) if bare.count("'") % 2 == 0 and bare.count('"') % 2 == 0 else bare.split()
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            words = words[1:]
        if words[:1] == ["stanchion"]:
            found.append(words[1:])
    return found


def check_command(words: list[str], where: str) -> None:
    """The command exists, and so do its options."""
    command: click.Command = root()
    context = click.Context(command, info_name="stanchion")
    while isinstance(command, Group):
        while words and words[0].startswith("-"):
            words = words[1:]
        if not words or words[0] in ("…", "..."):
            return
        inner = command.get_command(context, words[0])
        assert inner is not None, f"{where}: there is no command stanchion ... {words[0]}"
        context = click.Context(inner, parent=context, info_name=words[0])
        command, words = inner, words[1:]
    if command.name == "serve":
        return  # passes a service's own flags on
    known = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
    given = {word.partition("=")[0] for word in words if word.startswith("-") and word != "-"}
    assert given <= known, f"{where}: stanchion {context.info_name} has no {sorted(given - known)}"


@pytest.mark.parametrize("block", [b for b in SHELL if commands_in(b.text)], ids=str)
def test_commands_exist(block: Block) -> None:
    """A reader may paste a block into a shell."""
    for words in commands_in(block.text):
        check_command(words, str(block))


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_commands_in_prose_exist(page: Path) -> None:
    """What a sentence names as a command is one."""
    for line, text in inline_code(page):
        where = f"{name_of(page)}:{line}"
        if text.startswith("stanchion ") and not re.search(r"[A-Z|]{2,}|\.\.\.|…", text):
            check_command(text.split()[1:], where)
        if text.startswith("make "):
            assert text.split()[1] in MAKE_TARGETS, f"{where}: {text}"
    for block in blocks(page, "sh", "bash", "console"):
        for target in re.findall(r"^\s*(?:\$ )?make ([a-z-]+)", block.text, re.MULTILINE):
            assert target in MAKE_TARGETS, f"{block}: make {target}"


@pytest.mark.parametrize("page", [p for p in pages() if "docs/reference" not in name_of(p)], ids=name_of)
def test_names_exist(page: Path) -> None:
    """Variables and error codes that a page names stand in the reference; what only tests read, where they read it."""
    text = page.read_text(encoding="utf-8")
    settings = (CHECKOUT / "docs/reference/settings.md").read_text(encoding="utf-8")
    errors = (CHECKOUT / "docs/reference/errors.md").read_text(encoding="utf-8")
    of_tests = (CHECKOUT / "tests/browser/install-chromium").read_text(encoding="utf-8")
    names = re.findall(r"\bSTANCHION_[A-Z][A-Z_]*[A-Z]\b", text)
    variables = {name for name in names if f"`{name}`" not in settings and f"${{{name}" not in of_tests}
    codes = {code for code in re.findall(r"\bE-[A-Z]+-[0-9]{2}\b", text) if f"`{code}`" not in errors}
    assert not variables | codes
