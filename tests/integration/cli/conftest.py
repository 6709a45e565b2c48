"""One running stack for all tests of the command line, in a project folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli_kit import FLOWS, PATIENCE, Answer

from stanchion.cli.main import run
from stanchion.cli.stack import Stack

# Tests that run in the background of a shell ignore Ctrl-C, and would hand that down.
MAIN = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from stanchion.cli.main import main
main()
"""


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project folder, where the stack runs and commands find it."""
    return tmp_path_factory.mktemp("project")


@pytest.fixture(scope="session")
def stack(project: Path, request: pytest.FixtureRequest) -> Iterator[Stack]:
    """All services as processes, with the flows of this folder."""
    with Stack(
        project / ".stanchion" / "dev",
        targets=[str(FLOWS)],
        kafka=request.config.getoption("--kafka"),
        fsync=False,
        lease_seconds=4.0,
        drain_seconds=5.0,
        cwd=project,
        ephemeral=True,
    ) as running:
        yield running


@pytest.fixture
def shell(
    stack: Stack, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Answer]:
    """`shell("task", "list")` runs one command line in the project folder."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("STANCHION_HOME", str(project / "home"))
    for name in ("STANCHION_API_URL", "STANCHION_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    def call(*words: str) -> Answer:
        capsys.readouterr()
        code = run(list(words))
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return call


@pytest.fixture
def start(stack: Stack, project: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """`start("task", "watch", id)` runs a command line as a process of its own; it is ended with the test."""
    started: list[subprocess.Popen[str]] = []

    def begin(*words: str, cwd: Path | None = None) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", MAIN, *words],
            cwd=cwd or project,
            env={**os.environ, "STANCHION_HOME": str(project / "home")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=PATIENCE)
