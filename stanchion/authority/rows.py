"""What reads give back, whatever makes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from stanchion.errors import NotFound

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows, and where the next page begins; a page may be short, or empty, and yet not the last."""

    items: list[Row]
    next: UUID | None


def missing(kind: str) -> NotFound:
    """The one answer for what is unknown and for what is somebody else's."""
    return NotFound("E-FIND-01", f"there is no such {kind} in this tenant")
