"""The way from a command to the replay of events: a database of one connection, and differences as rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def differences(url: str, run_id: str | None) -> Iterator[dict[str, Any]]:
    """What differs between the stored rows and those derived from the events."""
    raise NotImplementedError


def rebuilt(url: str, run_id: str | None) -> int:
    """Store what the events say; how many runs."""
    raise NotImplementedError
