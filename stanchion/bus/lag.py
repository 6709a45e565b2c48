"""How far a group is behind, from the high watermarks of fetch answers: right on every broker we know.

The offset API can't be asked: the embedded broker counts batches there, not records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from stanchion.bus.admin import as_settings, with_admin
from stanchion.bus.client import build_consumer, translate
from stanchion.bus.library import TopicPartition
from stanchion.bus.local_queue import Place
from stanchion.runtime.clock import Deadline
from stanchion.runtime.kafka_settings import KafkaSettings


def true_end_offsets(
    bootstrap: str | KafkaSettings, topics: Iterable[str], *, timeout: float = 5.0
) -> dict[Place, int]:
    """The offset after the last record of each partition of `topics`; a topic that does not exist is left out."""
    settings = replace(as_settings(bootstrap), fetch_max_wait_ms=50)
    consumer = None
    try:
        consumer = build_consumer(settings, None)
        existing = consumer.topics()
        partitions = [
            TopicPartition(topic, partition)
            for topic in topics
            if topic in existing
            for partition in consumer.partitions_for_topic(topic)
        ]
        return watermarks(consumer, partitions, Deadline(timeout)) if partitions else {}
    except Exception as error:
        raise translate(error, settings.bootstrap) from error
    finally:
        if consumer is not None:
            with suppress(Exception):
                consumer.close(autocommit=False, timeout_ms=1_000)


def watermarks(consumer: Any, partitions: Sequence[TopicPartition], deadline: Deadline) -> dict[Place, int]:
    """The same for partitions that exist, by a consumer that reads nothing else; what it was assigned is forgotten."""
    consumer.unsubscribe()
    consumer.assign(partitions)
    ends = consumer.end_offsets(partitions)
    for partition, offset in ends.items():
        consumer.seek(partition, offset)
    found: dict[Any, int] = {}
    while len(found) < len(ends) and not deadline.passed:
        consumer.poll(50)
        for partition, offset in ends.items():
            if partition not in found and (watermark := consumer.highwater(partition)) is not None:
                found[partition] = max(watermark, offset)
                consumer.pause(partition)
    return {(partition.topic, partition.partition): found.get(partition, ends[partition]) for partition in ends}


def committed_offsets(bootstrap: str | KafkaSettings, group: str, *, timeout: float = 5.0) -> dict[Place, int]:
    """What a group has committed; empty for an unknown one."""
    answer = with_admin(bootstrap, lambda admin: admin.list_group_offsets(group), timeout=timeout)
    return {(partition.topic, partition.partition): found.offset for partition, found in answer.get(group, {}).items()}


def group_lag(
    bootstrap: str | KafkaSettings, group: str, topics: Sequence[str], *, timeout: float = 5.0
) -> dict[Place, int]:
    """Records of each partition of `topics` that the group has not committed."""
    ends = true_end_offsets(bootstrap, topics, timeout=timeout)
    committed = committed_offsets(bootstrap, group, timeout=timeout)
    return {place: max(0, end - max(0, committed.get(place, 0))) for place, end in ends.items()}
