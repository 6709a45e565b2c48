"""One look at how far the groups of this installation are: where their topics end, what is committed, who reads what.

Its connections stay open between looks, and are made anew after any failure. What a broker does not tell (the embedded
one keeps no assignments) is None, never zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from stanchion.bus.client import build_admin, build_consumer, translate
from stanchion.bus.lag import watermarks
from stanchion.bus.library import ConsumerProtocolAssignment, DescribeGroupsRequest, TopicPartition, kafka_errors
from stanchion.bus.local_queue import Place
from stanchion.contracts.topics import (
    DEAD_LETTER_SUFFIX,
    ORCHESTRATOR_COMMANDS,
    ORCHESTRATORS_GROUP,
    TASK_SERVICE_COMMANDS,
    TASK_SERVICES_GROUP,
    WORKERS_GROUP,
    queue_of,
)
from stanchion.runtime.clock import Deadline
from stanchion.runtime.kafka_settings import KafkaSettings

STEADY: Final = "steady"
REBALANCING: Final = "rebalancing"
EMPTY: Final = "empty"
UNKNOWN: Final = "unknown"

LOOK_SECONDS: Final = 5.0

_STATES: Final = {
    "Stable": STEADY,
    "Empty": EMPTY,
    "Dead": EMPTY,
    "PreparingRebalance": REBALANCING,
    "CompletingRebalance": REBALANCING,
    "Assigning": REBALANCING,
    "Reconciling": REBALANCING,
    "Unknown": REBALANCING,  # what the embedded broker says while members join
}


@dataclass(frozen=True, slots=True)
class Group:
    """A group: its state, its members' ids, and who reads a partition, where the broker says so."""

    name: str
    state: str = UNKNOWN
    members: tuple[str, ...] = ()
    owners: Mapping[Place, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a group stands in a partition; `committed` is None when it has committed nothing there."""

    group: str
    topic: str
    partition: int
    end: int
    committed: int | None
    owner: str | None


@dataclass(frozen=True, slots=True)
class Look:
    """What there is to see at one moment."""

    groups: list[Group]
    standings: list[Standing]


def is_queue(topic: str) -> bool:
    """Whether workers read it."""
    return queue_of(topic) is not None and not topic.endswith(DEAD_LETTER_SUFFIX)


def readers(task_services: str = TASK_SERVICES_GROUP) -> dict[str, Callable[[str], bool]]:
    """The groups of an installation, with what each reads."""
    return {
        WORKERS_GROUP: is_queue,
        ORCHESTRATORS_GROUP: lambda topic: topic == ORCHESTRATOR_COMMANDS,
        task_services: lambda topic: topic == TASK_SERVICE_COMMANDS,
    }


class LagReader:
    """For one thread."""

    def __init__(self, settings: KafkaSettings, groups: Mapping[str, Callable[[str], bool]]) -> None:
        self.settings = settings
        self.groups = groups
        self._consumer: Any = None
        self._admin: Any = None

    def look(self, seconds: float = LOOK_SECONDS) -> Look:
        """Ask the broker; raises Unavailable, and NotAllowed when it does not answer this client."""
        try:
            return self._look(Deadline(seconds))
        except Exception as error:
            self.close()
            raise translate(error, self.settings.bootstrap) from error

    def close(self) -> None:
        """Give the connections up."""
        consumer, self._consumer = self._consumer, None
        admin, self._admin = self._admin, None
        with suppress(Exception):
            if consumer is not None:
                consumer.close(autocommit=False, timeout_ms=1_000)
        with suppress(Exception):
            if admin is not None:
                admin.close()

    def _look(self, deadline: Deadline) -> Look:
        if self._consumer is None:
            self._consumer = build_consumer(self.settings, None)
        if self._admin is None:
            self._admin = build_admin(self.settings)
        consumer = self._consumer
        topics = [topic for topic in consumer.topics() if any(reads(topic) for reads in self.groups.values())]
        places = [
            TopicPartition(topic, number) for topic in topics for number in consumer.partitions_for_topic(topic) or ()
        ]
        ends = watermarks(consumer, places, deadline) if places else {}
        groups = [self._group(name) for name in self.groups]
        standings = [one for group in groups for one in self._standings(group, ends)]
        return Look(groups, standings)

    def _standings(self, group: Group, ends: Mapping[Place, int]) -> list[Standing]:
        reads = self.groups[group.name]
        answer = self._admin.list_group_offsets(group.name).get(group.name, {})
        committed = {(place.topic, place.partition): found.offset for place, found in answer.items()}
        return [
            Standing(group.name, *place, end, _known(committed.get(place)), group.owners.get(place))
            for place, end in sorted(ends.items())
            if reads(place[0])
        ]

    def _group(self, name: str) -> Group:
        try:
            found = self._admin._manager.run(self._describe, name)
        except (kafka_errors.GroupAuthorizationFailedError, AttributeError, TypeError, ValueError):
            return Group(name)  # how far it is may be known all the same
        if found.error_code:
            return Group(name)
        members = tuple(sorted(member.member_id for member in found.members))
        state = _STATES.get(found.group_state, UNKNOWN)
        if state == REBALANCING and not members:
            state = EMPTY
        return Group(name, state, members, dict(_owned(found.members)))

    async def _describe(self, name: str) -> Any:
        # the library's own call asks for the rights of each group as well, and fails on a broker that knows none
        coordinators = await self._admin._find_coordinator_ids([name])
        request = DescribeGroupsRequest(groups=[name], include_authorized_operations=False)
        answer = await self._admin._manager.send(request, node_id=coordinators[name])
        return answer.groups[0]


def _known(offset: int | None) -> int | None:
    return offset if offset is not None and offset >= 0 else None


def _owned(members: list[Any]) -> list[tuple[Place, str]]:
    found = []
    for member in members:
        if member.member_assignment:
            assigned = ConsumerProtocolAssignment.decode(member.member_assignment).to_dict()
            for topic in assigned.get("assigned_partitions", ()):
                name = topic.get("topic") or topic.get("name")
                found += [((name, number), member.client_id or member.member_id) for number in topic["partitions"]]
    return found
