"""The limits of the house style, held by a test: what no linter knows."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = ("stanchion", "services", "examples", "benchmarks")
FILE_LINES = 500
FUNCTION_LINES = 70

PYTHON = sorted(p for folder in CODE for p in (ROOT / folder).rglob("*.py") if "__pycache__" not in p.parts)
SQL = sorted((ROOT / "stanchion/db/functions").glob("*.sql"))
TRACKED = [
    ROOT / line
    for line in subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split(
        "\n"
    )
    if line
]


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", PYTHON, ids=named)
def test_files_and_functions_are_short(path: Path) -> None:
    """A file has one role and at most 500 lines; a function fits on two screens."""
    text = path.read_text()
    assert text.count("\n") <= FILE_LINES, f"{named(path)} has {text.count(chr(10))} lines"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= FUNCTION_LINES, f"{named(path)}:{node.lineno} {node.name} has {length} lines"


@pytest.mark.parametrize("path", PYTHON, ids=named)
def test_every_module_says_what_it_is(path: Path) -> None:
    """A module that holds code opens with a docstring."""
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree) or not tree.body, f"{named(path)} has no docstring"


BANNED = {
    r"\bdatetime\.now\(\)": "a local time without zone",
    r"\bdatetime\.utcnow\(": "a naive time",
    r"(?<![\w.])print\(": "output goes through click or the log",
    r"(?<!asyncio)\btime\.sleep\((?!.*# )": "a bare sleep: wait for the event itself, or say why not",
    r"\bpickle\.loads?\(": "what others wrote is never unpickled",
    r"shell=True": "no shell",
}
MAY_PRINT = ("benchmarks/", "examples/")


@pytest.mark.parametrize("path", PYTHON, ids=named)
def test_nothing_banned_is_used(path: Path) -> None:
    """Local clocks, prints, bare sleeps, pickles and shells stay out."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        for pattern, why in BANNED.items():
            if "print" in pattern and named(path).startswith(MAY_PRINT):
                continue
            if "sleep" in pattern and named(path).startswith("benchmarks/peers/"):
                continue  # a driver that paces its submissions runs without our clock
            assert not re.search(pattern, line), f"{named(path)}:{number}: {why}"


@pytest.mark.parametrize("path", PYTHON, ids=named)
def test_every_ignore_has_a_reason(path: Path) -> None:
    """An exception to a rule carries its reason on the same line."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        for match in re.finditer(r"#\s*(type: ignore\[[\w,-]+\]|noqa: ?[\w, ]+?)(?P<rest>$|\s.*)", line):
            assert re.search(r"[-–#]\s*\w+", match["rest"]) or "  # " in match["rest"], (
                f"{named(path)}:{number}: say why"
            )


@pytest.mark.parametrize("path", SQL, ids=named)
def test_functions_open_with_their_four_lines(path: Path) -> None:
    """Each database function says its purpose, its transition, what it is fenced by and which locks it takes."""
    heads = [line.split(":")[0] for line in path.read_text().splitlines()[:4]]
    assert heads == ["-- purpose", "-- transition", "-- fenced by", "-- locks"], named(path)


def test_the_project_speaks_of_itself_alone() -> None:
    """No file names a machine's paths, a package index's host, or the notes that the project was planned with."""
    foreign = re.compile(
        r"(?<![\w}])/root/|/work/(main|shared|notes)|pypi\.org|files\.pythonhosted|repo\.maven|deb\.debian|\.\./shared"
    )
    hits = []
    for path in TRACKED:
        if path == Path(__file__) or not path.is_file() or path.suffix in (".png", ".pdf"):
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if foreign.search(line):
                hits.append(f"{named(path)}:{number}: {line.strip()[:80]}")
    assert not hits, "\n".join(hits)
