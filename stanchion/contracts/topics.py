"""Every Kafka topic, in one place: who reads it, what its key is, and how many partitions it has.

Ordered topics carry events: key = run id, and a consumer drops what its `sequence` says it has seen. Command topics
carry requests and offers: at least once, in any order. Every topic has a twin `.dlq` for what could not be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

from stanchion.contracts import limits
from stanchion.errors import Unprocessable

PARTITIONS: Final = 12
PARTITIONS_EMBEDDED: Final = 4  # one laptop: fewer queues to keep in memory

DEAD_LETTER_SUFFIX: Final = ".dlq"

TASK_SERVICE_COMMANDS: Final = "stanchion.task-service.commands.v1"
TASK_SERVICE_REPLIES: Final = "stanchion.task-service.replies.v1"
ORCHESTRATOR_COMMANDS: Final = "stanchion.orchestrator.commands.v1"
EVENTS: Final = "stanchion.events.v1"

WORKERS_GROUP: Final = "stanchion-workers"
ORCHESTRATORS_GROUP: Final = "stanchion-orchestrator"
TASK_SERVICES_GROUP: Final = "stanchion-task-service"
"""The groups that read them; an installation may name the last one otherwise."""

DEFAULT_QUEUE: Final = "default"

_QUEUE = re.compile(rf"[a-z0-9-]{{1,{limits.QUEUE_CHARACTERS}}}")
_WORKERS = re.compile(rf"stanchion\.workers\.({_QUEUE.pattern})\.commands\.v1(\.dlq)?")

_DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """One topic: its name, who reads it, what its key is, and the settings it is created with."""

    name: str
    reader: str
    key: str
    kind: Literal["commands", "replies", "events", "dead letters"]
    partitions: int = PARTITIONS
    replication: int = -1  # -1: the broker's own default
    retention_ms: int = 7 * _DAY_MS

    @property
    def configs(self) -> dict[str, str]:
        """The topic settings, in Kafka's own names."""
        return {"retention.ms": str(self.retention_ms), "cleanup.policy": "delete"}


def validate_queue(name: str) -> str:
    """The name of a queue, if it is one; raises Unprocessable E-DATA-14 otherwise."""
    if _QUEUE.fullmatch(name):
        return name
    raise Unprocessable(
        "E-DATA-14",
        f"{name[:80]!a} is no queue name",
        why=f"a queue name has 1 to {limits.QUEUE_CHARACTERS} characters of a-z, 0-9 and -",
        fix="rename the queue",
    )


def worker_commands(queue: str) -> str:
    """The topic that carries the offers of a queue."""
    return f"stanchion.workers.{validate_queue(queue)}.commands.v1"


def queue_of(topic: str) -> str | None:
    """The queue whose offers (or dead letters) a topic carries; None for every other topic."""
    match = _WORKERS.fullmatch(topic)
    return match.group(1) if match else None


def dead_letter(topic: str) -> str:
    """The topic for messages of `topic` that can't be read; ValueError when it is one already."""
    if topic.endswith(DEAD_LETTER_SUFFIX):
        raise ValueError(f"{topic} is a dead letter topic: what can't be read there stays there")
    return topic + DEAD_LETTER_SUFFIX


def _with_dead_letters(spec: TopicSpec) -> tuple[TopicSpec, TopicSpec]:
    twin = TopicSpec(
        dead_letter(spec.name),
        reader="people, by stanchion dead",
        key="as received",
        kind="dead letters",
        retention_ms=30 * _DAY_MS,
    )
    return spec, twin


def worker_specs(queue: str) -> tuple[TopicSpec, TopicSpec]:
    """The topic of a queue and its dead letters."""
    return _with_dead_letters(
        TopicSpec(worker_commands(queue), "workers of the queue", "first step offered", "commands")
    )


ALL: Final[tuple[TopicSpec, ...]] = tuple(
    twin
    for spec in (
        TopicSpec(TASK_SERVICE_COMMANDS, "task service", "free: any", "commands"),
        TopicSpec(TASK_SERVICE_REPLIES, "the submitter, by correlation id", "key of the command", "replies"),
        TopicSpec(ORCHESTRATOR_COMMANDS, "orchestrator", "run id", "commands"),
        TopicSpec(EVENTS, "anybody", "run id", "events"),
    )
    for twin in _with_dead_letters(spec)
)
"""The topics that every installation has; queues add theirs (`worker_specs`)."""


def specs(
    queues: Iterable[str] = (DEFAULT_QUEUE,), *, partitions: int = PARTITIONS, replication: int = -1
) -> list[TopicSpec]:
    """What to create for these queues: `ALL` and theirs, with this many partitions and replicas."""
    wanted = [*ALL, *(spec for queue in queues for spec in worker_specs(queue))]
    return [replace(spec, partitions=partitions, replication=replication) for spec in wanted]
