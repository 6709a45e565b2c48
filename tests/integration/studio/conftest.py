"""A stack with the studio and the press beside it, and a person who decides on the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kit.world import PATIENCE, World

from examples.studio.press_process import PressProcess
from examples.studio.publishing import PRESS_VARIABLE
from stanchion.sdk.client import Client

STUDIO = "examples.studio.workflow:studio"
CACHE = Path(__file__).parents[3] / ".stanchion" / "cache"
COMMAND = str(Path(sys.executable).parent / "stanchion")


@pytest.fixture
def sources(tmp_path: Path) -> str:
    """A folder with two documents."""
    folder = tmp_path / "sources"
    folder.mkdir()
    for name, text in {
        "leases.md": "# Leases\n\nA lease expires after three seconds, and another worker takes the step over.",
        "fences.txt": "A fence rises by one with each lease of a step.\n\nAn old fence is refused.",
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
    return str(folder)


@pytest.fixture(scope="session")
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One of each service and two workers."""
    data = tmp_path_factory.mktemp("press") / "press.db"
    with World(
        tmp_path_factory.mktemp("studio"),
        workers=2,
        targets=[STUDIO],
        replicas={"maintenance": 0},
        kafka=request.config.getoption("--kafka"),
        cache=CACHE,
        beside={PRESS_VARIABLE: lambda workspace: PressProcess(workspace, data)},
    ) as world:
        yield world


@pytest.fixture
def press(world: World) -> PressProcess:
    """The press of the stack."""
    found = world.stack.beside[PRESS_VARIABLE]
    assert isinstance(found, PressProcess)
    return found


@pytest.fixture
def http(world: World) -> Iterator[Client]:
    """The HTTP door, with the key that submits."""
    with Client(world.stack.api_url, world.stack.api_key, timeout=60) as client:
        yield client


@pytest.fixture
def editor(world: World, tmp_path: Path) -> Callable[..., str]:
    """`editor("approval", "approve", id)`: a command line as a person who may decide; what it printed."""

    def run(*words: str) -> str:
        done = subprocess.run(
            [COMMAND, *words, "--api-url", world.stack.api_url],
            env={**os.environ, "STANCHION_HOME": str(tmp_path / "home")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("login", "--as", "editor", "--role", "approver")
    return run
