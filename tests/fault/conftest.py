"""Fixtures of the fault tests: one long-lived stack for all of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fault_lanes import FROZEN_SECONDS, LEASE_SECONDS
from fault_press import PRESS_VARIABLE
from kit.press import Press
from kit.world import World

from stanchion.embedded.ports import free_port

CACHE = Path(__file__).parents[2] / ".stanchion" / "cache"
FLOWS = Path(__file__).with_name("fault_flows.py")
KINDS = ("task-service", "orchestrator", "outbox-relay", "worker", "maintenance")
OFTEN = {
    "STANCHION_PLAN_SECONDS": "0.2",
    "STANCHION_TIDY_EVERY_SECONDS": "1",
    "STANCHION_JOB_LEASE_SECONDS": str(LEASE_SECONDS),
}
"""Maintenance jobs come all the time, and are taken over as soon as steps are."""


OPEN: list[World] = []


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """The stack ends with the last test of this folder: those that come next need the machine for themselves."""
    if OPEN and (nextitem is None or nextitem.path.parent != item.path.parent):
        end(item.session)


def end(session: pytest.Session) -> None:
    """End the stack; when a test has failed, its logs are kept."""
    kept = CACHE.parent / "failed" / f"{Path(__file__).parent.name}-{os.getpid()}"
    while OPEN:
        OPEN.pop().close(keep=kept if session.testsfailed else None)


SWEEPS = ("test_fault_sweep", "test_fault_nemesis")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The part of the full campaign that belongs to every change leaves out what `make test` has run already."""
    if (config.getoption("--campaign"), config.getoption("--subset")) != ("full", "ci"):
        return
    here = Path(__file__).parent
    for item in items:
        if item.path.parent == here and item.path.stem not in SWEEPS:
            item.add_marker(pytest.mark.skip(reason="runs with --campaign once"))


@pytest.fixture(scope="session")
def say(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Writes a line to the terminal at once: a campaign of minutes that says nothing looks like a hang."""
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    capture = request.config.pluginmanager.get_plugin("capturemanager")

    def write(line: str) -> None:
        if reporter is None or capture is None:
            return
        with capture.global_and_fixture_disabled():
            reporter.write_line(line)

    return write


@pytest.fixture(scope="session")
def press_port() -> int:
    """Where the press listens, if a test starts it."""
    return free_port()


@pytest.fixture
def press(press_port: int, tmp_path: Path) -> Iterator[Press]:
    """An outside system of its own for the test."""
    made = Press(tmp_path / "press").start("--port", str(press_port))
    yield made
    made.close()


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of this run: the given one, or a new one."""
    given: int | None = request.config.getoption("--seed")
    return int.from_bytes(os.urandom(4)) if given is None else given


@pytest.fixture(scope="session")
def world(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    say: Callable[[str], None],
    press_port: int,
) -> Iterator[World]:
    """Two of each service and three workers, started again at once whenever they die."""
    say("starting two of each service and three workers ...")
    with World(
        tmp_path_factory.mktemp("fault"),
        revive=True,
        thaw_seconds=FROZEN_SECONDS,
        workers=3,
        slots=4,
        targets=[str(FLOWS)],
        lease_seconds=LEASE_SECONDS,
        drain_seconds=1.0,
        replicas=dict.fromkeys(KINDS, 2),
        service_env={"worker-2": {"STANCHION_DRAIN_SECONDS": "0.5"}, "maintenance": OFTEN},
        env={"STANCHION_CANCEL_GRACE_SECONDS": "5", PRESS_VARIABLE: f"http://127.0.0.1:{press_port}"},
        kafka=request.config.getoption("--kafka"),
        cache=CACHE,
    ) as world:
        OPEN.append(world)
        yield world
        end(request.session)


@pytest.fixture(autouse=True)
def _whole(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test nothing stands still any more, whatever became of it."""
    yield
    if "world" in request.fixturenames:
        world: World = request.getfixturevalue("world")
        for service in world.stack.services:
            service.thaw()
