"""How far readers are, asked of a real broker: in records, by group, and again after the broker was away."""

from __future__ import annotations

import pytest
from bus_kit import LEFT_SOCKETS, eventually, messages, own_server, reading, settings, swept

from stanchion.bus.admin import ensure_topics
from stanchion.bus.lag_reader import EMPTY, STEADY, LagReader, is_queue, readers
from stanchion.bus.producer import Producer
from stanchion.contracts.topics import (
    ORCHESTRATOR_COMMANDS,
    ORCHESTRATORS_GROUP,
    TASK_SERVICES_GROUP,
    WORKERS_GROUP,
    specs,
    worker_commands,
)
from stanchion.embedded.tansu import Tansu
from stanchion.errors import Unavailable

__all__ = ["swept"]

pytestmark = LEFT_SOCKETS

CRAWL = worker_commands("crawl")


def test_a_group_is_as_far_as_it_has_committed() -> None:
    """Nothing committed is not zero committed; other groups' topics are theirs; a member makes the group steady."""
    with own_server(Tansu) as broker:
        config = settings(broker.url)
        ensure_topics(config, specs(["crawl"], partitions=2))
        producer, reader = Producer(config), LagReader(config, readers())
        producer.send_all(messages(CRAWL, 20))
        look = reader.look()
        assert {group.name: group.state for group in look.groups} == dict.fromkeys(
            (WORKERS_GROUP, ORCHESTRATORS_GROUP, TASK_SERVICES_GROUP), EMPTY
        )
        mine = [one for one in look.standings if one.group == WORKERS_GROUP]
        assert {one.topic for one in mine} == {CRAWL}
        assert sum(one.end for one in mine) == 20
        assert {one.committed for one in mine} == {None}
        assert {one.topic for one in look.standings if one.group == ORCHESTRATORS_GROUP} == {ORCHESTRATOR_COMMANDS}
        with reading(config, WORKERS_GROUP, CRAWL) as member:
            eventually(lambda: len(member.values()) == 20)
            eventually(lambda: sum(one.committed or 0 for one in reader.look().standings) == 20)
            eventually(lambda: reader.look().groups[0].state == STEADY)
            assert len(reader.look().groups[0].members) == 1
        producer.send_all(messages(CRAWL, 5))
        behind = [one for one in reader.look().standings if one.group == WORKERS_GROUP]
        assert sum(one.end - (one.committed or 0) for one in behind) == 5
        producer.stop()
        reader.close()


def test_a_broker_that_was_away_is_asked_again() -> None:
    """While it is away the look says so, and nothing is made up; afterwards it answers on new connections."""
    with own_server(Tansu) as broker:
        config = settings(broker.url, bootstrap_timeout_ms=500)
        ensure_topics(config, specs(["crawl"], partitions=2))
        reader = LagReader(config, readers())
        assert reader.look().standings
        broker.kill()
        with pytest.raises(Unavailable) as away:
            reader.look()
        assert away.value.code == "E-NET-01"
        broker.restart()

        def answers() -> bool:
            try:
                return len(reader.look().groups) == 3
            except Unavailable:
                return False

        eventually(answers)
        reader.close()


def test_dead_letters_are_no_queue() -> None:
    """Nobody reads them in turn."""
    assert is_queue(CRAWL)
    assert not is_queue(CRAWL + ".dlq")
    assert not is_queue(ORCHESTRATOR_COMMANDS)
