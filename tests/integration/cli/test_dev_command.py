"""`stanchion dev` as a person runs it: started, killed without warning, started again, stopped by Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_kit import PATIENCE, Shell, Start

from stanchion.cli.main import run
from stanchion.embedded.processes import birth_of

Eventually = Callable[..., Any]

FLOW = """
from stanchion import Ctx, Workflow

hello = Workflow("hello", version={version})

@hello.step()
def greet(ctx: Ctx, name: str) -> str:
    print("greeting", name)
    return f"{greeting} {{name}}"
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "hello.py").write_text(FLOW.format(version=1, greeting="hello"))
    return tmp_path


def announced(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.stderr.read() if process.stderr else ""
    found: dict[str, Any] = json.loads(line)
    return found


def pids_of(root: Path) -> set[int]:
    found = {one["pid"] for one in json.loads((root / "endpoints.json").read_text())["services"]}
    for file in ("servers.json", "run/servers.json"):
        found |= {one["pid"] for one in json.loads((root / file).read_text())["processes"]}
    return found


def test_a_development_stack_from_start_to_end(
    start: Start,
    place: Path,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Found from the folder, reloaded on change, nothing left after SIGKILL, data kept, nothing left after Ctrl-C."""
    monkeypatch.chdir(place)
    monkeypatch.setenv("STANCHION_HOME", str(place / "home"))
    root = place / ".stanchion" / "dev"

    first = start("dev", "hello.py", "--json", "--submit", "hello name=zoe", cwd=place)
    told = announced(first)
    address = told["api_url"]
    assert run(["task", "wait", told["task_id"]]) == 0
    assert run(["task", "submit", "hello", "name=ana", "--wait", "--key", "kept"]) == 0
    task = run(["task", "result", "@last"])
    assert (task, "hello ana" in capsys.readouterr().out) == (0, True)

    (place / "hello.py").write_text(FLOW.format(version=2, greeting="good day"))

    def reloaded() -> bool:
        capsys.readouterr()
        return run(["workflow", "show", "hello", "--version", "2"]) == 0

    eventually(reloaded, PATIENCE)
    assert run(["task", "submit", "hello", "name=ben", "--wait"]) == 0

    left = pids_of(root)
    assert len(left) >= 8
    first.kill()
    first.communicate(timeout=PATIENCE)
    eventually(lambda: not [pid for pid in left if birth_of(pid) is not None], PATIENCE)
    assert run(["task", "list"]) == 6, "the file of a dead stack counts for nothing"

    second = start("dev", "hello.py", "--json", cwd=place)
    assert announced(second)["api_url"] == address, "bookmarks stay right"
    capsys.readouterr()
    assert run(["task", "submit", "hello", "name=ana", "--key", "kept", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["duplicate"] is True
    left = pids_of(root)
    second.send_signal(signal.SIGINT)
    out, err = second.communicate(timeout=PATIENCE)
    assert (second.returncode, out) == (0, "")
    assert "nothing is left running" in err
    assert not [pid for pid in left if birth_of(pid) is not None]
    assert not (root / "endpoints.json").exists()
    assert os.access(root / "logs" / "worker-1.log", os.R_OK)


def test_broken_code_is_told_at_once(start: Start, tmp_path: Path) -> None:
    """The start fails with what the worker said, and nothing is left."""
    (tmp_path / "broken.py").write_text("raise RuntimeError('this code is broken')\n")
    process = start("dev", "broken.py", cwd=tmp_path)
    _, err = process.communicate(timeout=2 * PATIENCE)
    assert process.returncode == 6
    assert "this code is broken" in err
    assert "nothing is left running" in err


def test_the_key_is_for_its_owner(shell: Shell, project: Path) -> None:
    """Whoever reads the key can do everything here."""
    for name in ("dev-key", "endpoints.json"):
        assert (project / ".stanchion" / "dev" / name).stat().st_mode & 0o077 == 0
