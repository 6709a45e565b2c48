"""Topics and queue names, in one place."""

from __future__ import annotations

import pytest

from stanchion.contracts import topics
from stanchion.errors import Unprocessable


def test_every_topic_has_a_twin_for_dead_letters() -> None:
    """What can't be read always has somewhere to go."""
    names = {spec.name for spec in topics.specs(["default", "crawl"])}
    living = {name for name in names if not name.endswith(".dlq")}
    assert {topics.dead_letter(name) for name in living} | living == names
    assert living == {
        "stanchion.task-service.commands.v1",
        "stanchion.task-service.replies.v1",
        "stanchion.orchestrator.commands.v1",
        "stanchion.events.v1",
        "stanchion.workers.default.commands.v1",
        "stanchion.workers.crawl.commands.v1",
    }


def test_a_dead_letter_topic_has_none_of_its_own() -> None:
    """A letter that can't be read there stays there, or it would go round for ever."""
    with pytest.raises(ValueError, match="dead letter"):
        topics.dead_letter(topics.dead_letter(topics.EVENTS))


def test_partitions_and_replicas_are_the_callers() -> None:
    """The embedded stack and a cluster differ in counts alone."""
    small = topics.specs(partitions=topics.PARTITIONS_EMBEDDED, replication=1)
    assert {(spec.partitions, spec.replication) for spec in small} == {(4, 1)}
    assert {spec.partitions for spec in topics.ALL} == {12}
    assert [spec.name for spec in small] == [spec.name for spec in topics.specs()]


@pytest.mark.parametrize("name", ["default", "a", "gpu-1", "0", "-", "a" * 64])
def test_queue_names(name: str) -> None:
    """The queue can be read back from its topic and from its dead letters."""
    topic = topics.worker_commands(name)
    assert topics.queue_of(topic) == name
    assert topics.queue_of(topics.dead_letter(topic)) == name
    assert len(topics.dead_letter(topic)) <= 249


@pytest.mark.parametrize("name", ["", "A", "a_b", "a.b", "a b", "ä", "a" * 65, "a\n", "../x", "a" * 100_000, "٣"])
def test_other_names_are_refused(name: str) -> None:
    """A queue name is part of a topic name, so it must be harmless there."""
    with pytest.raises(Unprocessable) as caught:
        topics.worker_commands(name)
    assert caught.value.code == "E-DATA-14"
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "topic", [topics.EVENTS, "stanchion.workers..commands.v1", "stanchion.workers.A.commands.v1", "x"]
)
def test_other_topics_have_no_queue(topic: str) -> None:
    """Only offers belong to a queue."""
    assert topics.queue_of(topic) is None
