"""An empty Redis database and maintenance workers for each test."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis
import structlog
from maintenance_kit import Hand, Process, own_redis

from stanchion.runtime.logging import configure_logging

if TYPE_CHECKING:
    from stanchion.embedded import Endpoints


@pytest.fixture(autouse=True)
def logged() -> Iterator[io.StringIO]:
    """What is logged in this process, as JSON lines; a terminal's rendering of long tracebacks takes minutes."""
    stream = io.StringIO()
    configure_logging(format="json", stream=stream)
    yield stream
    structlog.reset_defaults()


@pytest.fixture
def redis_url(endpoints: Endpoints) -> str:
    """A Redis database that only these tests use, empty."""
    url = own_redis(endpoints.redis_url, 11)
    with redis.Redis.from_url(url) as client:
        client.flushdb()
    return url


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    """A client of that database, for looking and for damaging."""
    with redis.Redis.from_url(redis_url) as made:
        yield made


@pytest.fixture
def make_hand(database_url: str, redis_url: str) -> Iterator[Callable[..., Hand]]:
    """`make_hand(name)`: a maintenance worker to be worked by hand."""
    made: list[Hand] = []

    def make(name: str = "hand", **options: Any) -> Hand:
        made.append(Hand(database_url, redis_url, name, **options))
        return made[-1]

    yield make
    for hand in made:
        hand.close()


@pytest.fixture
def hand(make_hand: Callable[..., Hand]) -> Hand:
    """One such worker."""
    return make_hand()


@pytest.fixture
def start(database_url: str, redis_url: str, tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """`start(**settings)`: a maintenance worker as a process; killed at the end."""
    made: list[Process] = []

    def begin(**settings: str) -> Process:
        made.append(
            Process(
                tmp_path, settings.pop("database_url", database_url), settings.pop("redis_url", redis_url), **settings
            )
        )
        return made[-1]

    yield begin
    for process in made:
        process.kill()
