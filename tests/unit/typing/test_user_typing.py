"""A strict type checker over user code: what must pass does, and each mistake is found in its line."""

import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
EXPECTED = re.compile(r"# E: (.*?)(?:  # noqa.*)?$")
REPORTED = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+): error: (?P<text>.*)$")


def check(cache: Path, *files: str) -> dict[str, dict[int, list[str]]]:
    """The errors of `mypy --strict`, by file and line; the user's settings, not ours."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent"),
            *("--no-error-summary", "--hide-error-context", f"--cache-dir={cache}", *files),
        ],
        cwd=HERE,
        env={**os.environ, "MYPYPATH": str(ROOT), "COLUMNS": "400"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: dict[str, dict[int, list[str]]] = {file: defaultdict(list) for file in files}
    for line in done.stdout.splitlines():
        if match := REPORTED.match(line):
            found[match["file"]][int(match["line"])].append(match["text"])
    return found


@pytest.fixture(scope="module")
def errors(request: pytest.FixtureRequest) -> dict[str, dict[int, list[str]]]:
    """Both samples in one run; the cache is kept between runs."""
    cache = request.config.cache
    assert cache is not None
    return check(cache.mkdir("user_typing"), "sample_good.py", "sample_bad.py")


def test_correct_user_code_passes_strict_checking(errors: dict[str, dict[int, list[str]]]) -> None:
    """Steps, joins, outcomes and direct calls need no cast, no ignore and no Any."""
    assert dict(errors["sample_good.py"]) == {}


def test_each_mistake_is_found_in_its_line(errors: dict[str, dict[int, list[str]]]) -> None:
    """Exactly the expected errors: one more would be noise for users, one less a hole."""
    found = errors["sample_bad.py"]
    expected = {
        number: match[1]
        for number, line in enumerate((HERE / "sample_bad.py").read_text().splitlines(), 1)
        if (match := EXPECTED.search(line))
    }
    told = {number: [text for text in texts if "Untyped decorator" not in text] for number, texts in found.items()}
    missing = {
        number: text for number, text in expected.items() if not any(text in one for one in told.get(number, []))
    }
    surplus = {number: texts for number, texts in told.items() if texts and (number not in expected or len(texts) > 1)}
    assert (missing, surplus) == ({}, {})


def test_the_correct_sample_also_runs() -> None:
    """What type-checks is defined without complaint too, and its graph is whole."""
    from sample_good import wf

    graph = wf.graph()
    assert len(graph.nodes) == 11
    assert graph.node("publish").on_demand
