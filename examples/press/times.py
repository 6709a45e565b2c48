"""Moments as RFC 3339 texts in UTC."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import Final

_RFC3339: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def now() -> float:
    """Seconds since the epoch: deadlines and retention are told in the time of day, so they are compared in it."""
    return time.time()


def text(seconds: float) -> str:
    """A moment for people and programs, to the microsecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def parse(value: str) -> float:
    """Seconds since the epoch; raises ValueError for what is no RFC 3339 time with its offset."""
    if not _RFC3339.fullmatch(value):
        raise ValueError("not an RFC 3339 time with an offset")
    return datetime.fromisoformat(value.upper()).timestamp()
