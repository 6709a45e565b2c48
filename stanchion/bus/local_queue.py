"""Records between the thread that fetches them and the thread that handles them; and which offsets may be committed.

A partition's offset moves only past records that are done, in order: with record 1 still in hand and 2 to 20 done, a
crash must bring 1 back. Both bounds, records of one partition and bytes of all, count what is not done yet, so that a
slow handler stops the fetching and not the memory.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence

from stanchion.bus.messages import Record
from stanchion.runtime.clock import Deadline

Place = tuple[str, int]
"""Topic and partition."""


class PartitionQueue:
    """One partition, from its assignment to its revocation. Guarded by the lock of its `LocalQueues`."""

    __slots__ = ("closed", "committed", "finished", "next_offset", "open", "open_bytes", "place", "queued")

    def __init__(self, place: Place) -> None:
        self.place = place
        self.queued: deque[Record] = deque()
        self.open: deque[tuple[int, int]] = deque()  # (offset, bytes) of what is not contiguously done, in order
        self.finished: set[int] = set()  # done, but something before them is not
        self.next_offset: int | None = None  # what may be committed
        self.committed: int | None = None
        self.open_bytes = 0
        self.closed = False

    def put(self, records: Sequence[Record]) -> int:
        """Append records in offset order; the bytes they take."""
        added = 0
        for record in records:
            record.source = self
            size = record.size
            self.queued.append(record)
            self.open.append((record.offset, size))
            added += size
        self.open_bytes += added
        return added

    def done(self, offset: int) -> int:
        """Mark one record as handled; the bytes that this frees."""
        if self.closed or not self.open or offset < self.open[0][0]:
            return 0
        self.finished.add(offset)
        freed = 0
        while self.open and self.open[0][0] in self.finished:
            first, size = self.open.popleft()
            self.finished.discard(first)
            self.next_offset = first + 1
            freed += size
        self.open_bytes -= freed
        return freed

    @property
    def uncommitted(self) -> int | None:
        """The offset to commit, None when there is nothing new."""
        return self.next_offset if self.next_offset != self.committed else None

    @property
    def taken(self) -> int:
        """Records that are in the handler's hands."""
        return len(self.open) - len(self.queued) - len(self.finished)


class LocalQueues:
    """The queues of one consumer. `take` and `done` are for the handler's thread, the rest is the consumer's."""

    def __init__(self, high: int, low: int, most_bytes: int, wake: threading.Event | None = None) -> None:
        self.high, self.low, self.most_bytes = high, low, most_bytes
        self._wake = wake
        self._changed = threading.Condition()
        self._partitions: dict[Place, PartitionQueue] = {}
        self._paused: set[Place] = set()
        self._bytes = 0
        self._full = False
        self._shut = False

    # --- the handler's side ---

    def take(self, most: int, timeout: float) -> list[Record]:
        """Up to `most` records, in order within a partition and fair between partitions; waits for the first one."""
        deadline = Deadline(timeout)
        with self._changed:
            while True:
                if self._shut:
                    return []
                if taken := self._take(most):
                    return taken
                if not self._changed.wait(deadline.left) or deadline.passed:
                    return self._take(most) if not self._shut else []

    def _take(self, most: int) -> list[Record]:
        filled = [partition for partition in self._partitions.values() if partition.queued]
        taken: list[Record] = []
        while filled and len(taken) < most:
            share = max(1, (most - len(taken)) // len(filled))
            for partition in filled:
                count = min(share, len(partition.queued), most - len(taken))
                taken.extend(partition.queued.popleft() for _ in range(count))
            filled = [partition for partition in filled if partition.queued]
        if taken and len(self._partitions) > 1:
            place = next(iter(self._partitions))  # next time another partition comes first
            self._partitions[place] = self._partitions.pop(place)
        return taken

    def done(self, records: Iterable[Record]) -> None:
        """Mark records as handled; those of a partition that was given up meanwhile are nobody's business any more."""
        with self._changed:
            for record in records:
                if record.source is not None:
                    self._bytes -= record.source.done(record.offset)

    def close(self) -> None:
        """`take` returns nothing from now on, and at once."""
        with self._changed:
            self._shut = True
            self._changed.notify_all()

    # --- the consumer's side ---

    def assign(self, places: Iterable[Place]) -> None:
        """Begin with partitions, empty; one that was there already goes on."""
        with self._changed:
            for place in places:
                self._partitions.setdefault(place, PartitionQueue(place))

    def drop(self, places: Iterable[Place] | None = None) -> dict[Place, int]:
        """Forget partitions (all, without an argument), and say which offsets they could still commit."""
        with self._changed:
            offsets: dict[Place, int] = {}
            for place in list(self._partitions) if places is None else places:
                partition = self._partitions.pop(place, None)
                self._paused.discard(place)
                if partition is None:
                    continue
                if partition.uncommitted is not None:
                    offsets[place] = partition.uncommitted
                partition.closed = True
                self._bytes -= partition.open_bytes
            return offsets

    def put(self, place: Place, records: Sequence[Record]) -> None:
        """Add what was fetched; records of a partition that is not assigned are dropped: its next owner gets them."""
        with self._changed:
            partition = self._partitions.get(place)
            if partition is None:
                return
            self._bytes += partition.put(records)
            self._changed.notify_all()
        if self._wake is not None:
            self._wake.set()

    def pauses(self) -> tuple[set[Place], set[Place]]:
        """Which partitions to stop fetching and which to fetch again."""
        with self._changed:
            if self._full:
                self._full = self._bytes > self.most_bytes // 2
            else:
                self._full = self._bytes > self.most_bytes
            stop: set[Place] = set()
            go: set[Place] = set()
            for place, partition in self._partitions.items():
                count = len(partition.open)
                if place not in self._paused and (self._full or count > self.high):
                    stop.add(place)
                elif place in self._paused and not self._full and count <= self.low:
                    go.add(place)
            self._paused = (self._paused | stop) - go
            return stop, go

    def uncommitted(self) -> dict[Place, int]:
        """The offsets to commit: only what moved since the last time."""
        with self._changed:
            return {
                place: partition.uncommitted
                for place, partition in self._partitions.items()
                if partition.uncommitted is not None
            }

    def committed(self, offsets: dict[Place, int]) -> None:
        """What the broker has acknowledged."""
        with self._changed:
            for place, offset in offsets.items():
                if (partition := self._partitions.get(place)) is not None:
                    partition.committed = offset

    @property
    def places(self) -> frozenset[Place]:
        """The partitions that are assigned."""
        with self._changed:
            return frozenset(self._partitions)

    @property
    def empty(self) -> bool:
        """Whether nothing is queued, in hand or to be committed."""
        with self._changed:
            return all(not one.open and one.uncommitted is None for one in self._partitions.values())

    @property
    def queued(self) -> int:
        """Records that wait for the handler."""
        with self._changed:
            return sum(len(partition.queued) for partition in self._partitions.values())

    @property
    def taken(self) -> int:
        """Records that the handler has taken and not marked as done."""
        with self._changed:
            return sum(partition.taken for partition in self._partitions.values())
