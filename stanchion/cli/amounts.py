"""Numbers, durations and moments as people read them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def duration(seconds: float) -> str:
    """`1.2 s`, `48 s`, `2 m 11 s`, `3 h 05 m`, `2 d 04 h`."""
    seconds = max(0.0, seconds)
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} m {whole % 60:02d} s"
    if whole < 86_400:
        return f"{whole // 3_600} h {whole % 3_600 // 60:02d} m"
    return f"{whole // 86_400} d {whole % 86_400 // 3_600:02d} h"


def counted(number: int, thing: str) -> str:
    """`1 task`, `2,000 tasks`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def moment(text: Any) -> datetime | None:
    """A time out of JSON; None for what is none."""
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def since(text: Any, now: datetime | None = None) -> float | None:
    """Seconds from a time out of JSON until now."""
    found = moment(text)
    return None if found is None else ((now or datetime.now(UTC)) - found).total_seconds()


def between(first: Any, last: Any) -> float | None:
    """Seconds between two times out of JSON."""
    start, end = moment(first), moment(last)
    return None if start is None or end is None else (end - start).total_seconds()


def age(text: Any) -> str:
    """`2 m 11 s ago`; `-` for no time."""
    seconds = since(text)
    return "-" if seconds is None else f"{duration(seconds)} ago"
