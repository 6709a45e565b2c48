"""Fixtures of the end-to-end tests: one long-lived stack of real processes, asked through its real doors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.world import World

from stanchion.runtime.kafka_settings import KafkaSettings
from stanchion.sdk.client import Client
from stanchion.sdk.kafka_client import KafkaClient

CACHE = Path(__file__).parents[2] / ".stanchion" / "cache"
FLOWS = Path(__file__).with_name("e2e_flows.py")
STUDIO = "examples.studio.workflow:studio"


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


@pytest.fixture(scope="session")
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Two of each service and three workers, supervised by the stack itself."""
    with World(
        tmp_path_factory.mktemp("e2e"),
        workers=3,
        slots=4,
        lease_seconds=3.0,
        targets=[str(FLOWS), STUDIO],
        replicas={"task-service": 2, "orchestrator": 2, "outbox-relay": 2, "maintenance": 0},
        env={"STANCHION_CANCEL_GRACE_SECONDS": "5"},
        kafka=request.config.getoption("--kafka"),
        cache=CACHE,
    ) as world:
        OPEN.append(world)
        yield world
        end(request.session)


@pytest.fixture
def http(world: World) -> Iterator[Client]:
    """The HTTP door."""
    with Client(world.stack.api_url, world.stack.api_key, timeout=60) as client:
        yield client


@pytest.fixture(scope="session")
def kafka(world: World) -> Iterator[KafkaClient]:
    """The Kafka door."""
    bootstrap = KafkaSettings.dev(world.stack.endpoints.kafka_bootstrap)
    with KafkaClient(bootstrap, tenant=world.stack.tenant, timeout=60) as client:
        yield client
