"""A cluster of three brokers whose leaders are killed in the middle: replicas take over, and nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest
from fault_topics import COMMANDS, EVENTS, OFFERS, settings
from kit.world import PATIENCE, World
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
        leader_of(world, cluster, topic, 0).kill()
        cluster.wait_ready(3 * PATIENCE)  # two dead ones of three would be an outage
    sums_up(world, task)
    numbers = sorted(events_of(world, task))
    assert numbers == list(range(1, len(numbers) + 1))


def test_commands_get_their_answers_while_a_leader_is_dead(world: World, cluster: ApacheKafka) -> None:
    """Submissions over Kafka are answered although the leader of a partition of theirs dies: each makes one task."""
    cluster.wait_ready(3 * PATIENCE)
    kafka = KafkaSettings.dev(world.stack.endpoints.kafka_bootstrap)
    with KafkaClient(kafka, tenant=world.stack.tenant, timeout=3 * PATIENCE) as client:
        leader_of(world, cluster, COMMANDS, 0).kill()
        made = {client.submit("fault_simple", number=n, key=f"leader-{n}").task_id for n in range(4)}
    assert len(made) == 4
    found = world.sql("SELECT count(*) FROM stanchion.task WHERE idempotency_key LIKE 'leader-%%'")
    assert found == [4]
    cluster.wait_ready(3 * PATIENCE)
