"""What the client calls when partitions come and go. It runs on the client's IO thread: only asynchronous calls there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from stanchion.bus.library import AsyncConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
from stanchion.bus.local_queue import Place


class Owner(Protocol):
    """Who owns the partitions; called on the IO thread, and must not block."""

    def on_assigned(self, places: Sequence[Place]) -> None:
        """Partitions came."""

    def on_revoked(self, places: Sequence[Place]) -> dict[Place, int]:
        """Partitions go to somebody else; the offsets that this member may still commit."""

    def on_lost(self, places: Sequence[Place]) -> None:
        """The group dropped this member: nothing may be committed; positions start from the committed offsets."""


def as_commit(offsets: Mapping[Place, int]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets in the form that the client takes."""
    return {TopicPartition(*place): OffsetAndMetadata(offset) for place, offset in offsets.items()}


class GroupListener(AsyncConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
    """Tells the owner, and commits what is done of partitions that are given up."""

    def __init__(self, owner: Owner, consumer: Any) -> None:
        self.owner = owner
        self.consumer = consumer

    async def on_partitions_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """They are ours from now on."""
        self.owner.on_assigned(_places(partitions))

    async def on_partitions_revoked(self, partitions: Iterable[TopicPartition]) -> None:
        """They are ours until this returns."""
        if offsets := self.owner.on_revoked(_places(partitions)):
            # Refused or late, it costs a repetition and nothing else; it must not stop the rebalance.
            with suppress(Exception):
                await self.consumer.commit_async(as_commit(offsets))

    async def on_partitions_lost(self, partitions: Iterable[TopicPartition]) -> None:
        """They are somebody else's already."""
        self.owner.on_lost(_places(partitions))


def _places(partitions: Iterable[TopicPartition]) -> list[Place]:
    return [(one.topic, one.partition) for one in partitions]
