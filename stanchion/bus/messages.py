"""What goes to a topic and what comes from one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stanchion.contracts.envelope import Headers

if TYPE_CHECKING:
    from stanchion.bus.local_queue import PartitionQueue

RECORD_OVERHEAD_BYTES = 500  # what a record costs in this process beyond its bytes


@dataclass(frozen=True, slots=True)
class Message:
    """One message to send; key and value are bytes as they go over the wire."""

    topic: str
    key: bytes | None
    headers: Headers
    value: bytes | None

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return _size(self.key, self.value, self.headers)


@dataclass(slots=True)
class Record:
    """One message as it came, with its place. Header names that are no UTF-8 hold U+FFFD where they are broken."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    headers: list[tuple[str, bytes | None]]
    value: bytes | None
    unreadable: str | None = None  # why even the client library could not decode it; `value` is then its raw bytes
    source: PartitionQueue | None = field(default=None, repr=False, compare=False)

    @property
    def size(self) -> int:
        """About how many bytes it takes in this process."""
        return RECORD_OVERHEAD_BYTES + _size(self.key, self.value, self.headers)

    @property
    def place(self) -> str:
        """Topic, partition and offset, for people."""
        return f"{self.topic}[{self.partition}]@{self.offset}"


def _size(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]] | list[tuple[str, bytes | None]]
) -> int:
    named = sum(len(name) + len(content or b"") for name, content in headers)
    return len(key or b"") + len(value or b"") + named
