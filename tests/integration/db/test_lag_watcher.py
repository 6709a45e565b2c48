"""The orchestrator's loop that asks a real broker: one of several at a time, and what keeps it from answering."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from kit.engine import Engine

from services.orchestrator.lag_watcher import LagWatcher
from stanchion.authority.pipeline import Pipeline
from stanchion.bus.admin import ensure_topics
from stanchion.bus.lag_reader import LagReader, readers
from stanchion.contracts.topics import ORCHESTRATORS_GROUP, TASK_SERVICES_GROUP, WORKERS_GROUP, specs
from stanchion.embedded import Endpoints
from stanchion.embedded.ports import free_port
from stanchion.runtime.kafka_settings import KafkaSettings

Make = Callable[[str, str], LagWatcher]


@pytest.fixture
def make(engine: Engine) -> Iterator[Make]:
    """`make(bootstrap, name)`: an orchestrator's watcher."""
    made: list[LagWatcher] = []

    def watcher(bootstrap: str, name: str) -> LagWatcher:
        settings = KafkaSettings.dev(bootstrap, name)
        made.append(LagWatcher(Pipeline(engine.orchestrator), LagReader(settings, readers()), name))
        return made[-1]

    yield watcher
    for one in made:
        assert one.stop()


def test_one_of_two_asks_and_all_see_what_it_found(engine: Engine, make: Make, endpoints: Endpoints) -> None:
    """The second has nothing to do until it is time again; each group of the installation is there."""
    ensure_topics(endpoints.kafka_bootstrap, specs(["crawl"], partitions=2))
    first, second = (make(endpoints.kafka_bootstrap, name) for name in ("first", "second"))
    first.run_once()
    second.run_once()
    assert engine.all("SELECT taken_by FROM stanchion.lag_look") == ["first"]
    found = Pipeline(engine.service).lag(engine.tenant, of_all=True)
    assert found["state"] == "known"
    groups = {group["name"]: group for group in found["groups"]}
    assert set(groups) == {WORKERS_GROUP, ORCHESTRATORS_GROUP, TASK_SERVICES_GROUP}
    assert "crawl" in {topic["queue"] for topic in groups[WORKERS_GROUP]["topics"]}
    engine.forward(5)
    second.run_once()
    first.run_once()
    assert engine.all("SELECT taken_by FROM stanchion.lag_look") == ["second"]


def test_a_broker_that_does_not_answer_is_said_to_be_unreachable(
    engine: Engine, make: Make, endpoints: Endpoints
) -> None:
    """The loop goes on, what was known stays, and the first answer ends it."""
    good, bad = make(endpoints.kafka_bootstrap, "good"), make(f"127.0.0.1:{free_port()}", "bad")
    reading = Pipeline(engine.service)
    good.run_once()
    before = engine.all("SELECT name, seen_at FROM stanchion.consumer_group ORDER BY 1")
    engine.forward(5)
    bad.run_once()
    away = reading.lag(engine.tenant, of_all=True)
    assert (away["state"], away["fault"]["code"]) == ("unreachable", "E-NET-01")
    assert engine.all("SELECT name, seen_at FROM stanchion.consumer_group ORDER BY 1") == before
    engine.forward(5)
    good.run_once()
    assert reading.lag(engine.tenant, of_all=True)["state"] == "known"
