"""A cluster of three brokers whose leaders are killed in the middle: replicas take over, and nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest
from fault_topics import EVENTS, OFFERS, settings
from kit.world import PATIENCE, World, until
from test_fault_broker import events_of, in_the_middle, sums_up

from stanchion.bus.admin import with_admin
from stanchion.embedded.apache import ApacheKafka, ApacheNode
from stanchion.runtime.kafka_settings import KafkaSettings
from stanchion.sdk.kafka_client import KafkaClient

pytestmark = pytest.mark.kafka


@pytest.fixture
def cluster(world: World) -> ApacheKafka:
    """The three brokers."""
    kafka = world.stack.servers.kafka if world.stack.servers else None
    if not isinstance(kafka, ApacheKafka) or len(kafka.nodes) < 3:
        pytest.skip("needs --kafka apache-3")
    return kafka


def leader_of(world: World, cluster: ApacheKafka, topic: str, partition: int) -> ApacheNode:
    """The node that leads a partition now."""

    def ask(admin: Any) -> int:
        (found,) = admin.describe_topics([topic])
        return int(next(p["leader_id"] for p in found["partitions"] if p["partition_index"] == partition))

    return next(n for n in cluster.nodes if n.node == with_admin(settings(world), ask, timeout=PATIENCE))


def test_leaders_die_in_the_middle(world: World, cluster: ApacheKafka) -> None:
    """The leader of the offers, then that of the events, each killed while 2,000 children run: every child once."""
    task = in_the_middle(world)
    for topic in (OFFERS, EVENTS):
        victim = leader_of(world, cluster, topic, 0)
        victim.kill()
        until(lambda n=victim: n.is_running() and n.answers(), 3 * PATIENCE, "the broker that was killed")
    sums_up(world, task)
    numbers = sorted(events_of(world, task))
    assert numbers == list(range(1, len(numbers) + 1))


def test_commands_get_their_answers_while_leaders_die(world: World, cluster: ApacheKafka) -> None:
    """A submission over Kafka is answered although the leader of its partition dies: once, however often it is sent."""
    with KafkaClient(
        KafkaSettings.dev(world.stack.endpoints.kafka_bootstrap), tenant=world.stack.tenant, timeout=3 * PATIENCE
    ) as client:
        made = set()
        for number in range(4):
            leader_of(world, cluster, "stanchion.task-service.commands.v1", number).kill()
            made.add(client.submit("fault_simple", number=number, key=f"leader-{number}").task_id)
    assert len(made) == 4
    found = world.sql("SELECT count(*) FROM stanchion.task WHERE idempotency_key LIKE 'leader-%%'")
    assert found == [4]
