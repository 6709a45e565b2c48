"""How things look on a page: nine shapes for all states, times and durations in words.

A state is always a shape and a word: neither the colour nor the shape alone has to carry it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from stanchion.contracts import ids
from stanchion.contracts.failures import told

SHAPES: Final[dict[str, str]] = {
    # steps
    "pending": "waiting",
    "waiting": "waiting",
    "ready": "ready",
    "leased": "running",
    "running": "running",
    "retry_wait": "retrying",
    "unknown": "unknown",
    "reconciling": "unknown",
    "succeeded": "succeeded",
    "failed": "dead",
    "cancelled": "cancelled",
    "skipped": "cancelled",
    # tasks and runs
    "accepted": "ready",
    "created": "ready",
    "cancelling": "retrying",
    "completed": "succeeded",
    "paused": "person",
    "awaiting_approval": "person",
    "rejected": "cancelled",
    # operations
    "prepared": "waiting",
    "dispatched": "running",
    "confirmed": "succeeded",
    "not_done": "cancelled",
    "refused": "dead",
    "compensated": "cancelled",
    # approvals
    "requested": "person",
    "approved": "succeeded",
    "expired": "dead",
    "revoked": "cancelled",
    "replaced": "cancelled",
    "withdrawn": "cancelled",
    "spent": "succeeded",
    # workers
    "active": "running",
    "draining": "retrying",
    "silent": "unknown",
    "gone": "dead",
    # records
    "disabled": "cancelled",
    "sent": "succeeded",
    # barriers
    "released": "succeeded",
    # attempts
    "granted": "running",
    "lost": "dead",
    "given back": "cancelled",
    "superseded": "cancelled",
}
"""The shape of each state; what is not named here is a dot."""

ORDER: Final = (
    "failed", "unknown", "reconciling", "retry_wait", "running", "leased", "ready", "waiting", "pending",
    "succeeded", "skipped", "cancelled",
)  # fmt: skip
"""Problems first."""

DAY_SECONDS: Final = 86_400
TEXT_CHARACTERS: Final = 64 * 1024


def shape(state: str | None) -> str:
    """The shape of a state."""
    return SHAPES.get(state or "", "waiting")


def ordered(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Counts by state, problems first, without the zeros."""
    known = {state: place for place, state in enumerate(ORDER)}
    return sorted(((s, n) for s, n in counts.items() if n), key=lambda pair: (known.get(pair[0], 99), pair[0]))


def shares(counts: Mapping[str, int], total: int) -> list[dict[str, Any]]:
    """A stacked bar: shape, left edge and width of each part, of 100; a part that is there is never invisible."""
    parts: list[dict[str, Any]] = []
    done_first = [pair for pair in reversed(ordered(counts)) if total]
    widths = [max(1.0, count * 100 / total) for _, count in done_first]
    scale = 100 / sum(widths) if widths else 0.0
    left = 0.0
    for (state, count), width in zip(done_first, widths, strict=True):
        parts.append(
            {"shape": shape(state), "x": round(left, 3), "width": round(width * scale, 3), "of": (state, count)}
        )
        left += width * scale
    return parts


def duration(seconds: float | None) -> str:
    """Seconds in two units at most: 0.4 s, 12 s, 3 m 04 s, 1 h 04 m, 2 d 03 h."""
    if seconds is None:
        return ""
    seconds = max(0.0, seconds)
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, size, smaller, part in (("d", 86_400, "h", 3_600), ("h", 3_600, "m", 60), ("m", 60, "s", 1)):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // part:02d} {smaller}"
    return f"{whole} s"


def between(start: datetime | None, end: datetime | None) -> str:
    """How long it took, or has taken so far."""
    return "" if start is None else duration(((end or datetime.now(UTC)) - start).total_seconds())


def moment(time: datetime) -> str:
    """A time as it is shown: how long ago within a day, else the date."""
    seconds = (datetime.now(UTC) - time).total_seconds()
    if abs(seconds) >= DAY_SECONDS:
        return absolute(time)
    return f"{duration(seconds)} ago" if seconds >= 0 else f"in {duration(-seconds)}"


def absolute(time: datetime) -> str:
    """A time to the second, in UTC."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def clock(time: datetime) -> str:
    """A time of day to the millisecond, in UTC: rows of one run stand side by side."""
    at = time.astimezone(UTC)
    return f"{at:%H:%M:%S}.{at.microsecond // 1000:03d}"


def public(value: Any, prefix: str) -> str:
    """The public form of an id."""
    return ids.public(prefix, value)


def error_text(error: Any) -> str:
    """What an error says, bounded: code, what and why, then the same of the error behind it."""
    if not error:
        return ""
    return told(error, joint=" · ") or str(error)[:300]


def number(value: int | None) -> str:
    """A whole number with its thousands apart."""
    return "" if value is None else f"{value:,}"


def about(value: int) -> str:
    """A number where there is little room, cut and never rounded up: what is not all must not look like all."""
    for unit, many in (("M", 1_000_000), ("k", 1_000)):
        if value >= max(many, 10_000):
            return f"{value * 10 // many / 10:g}{unit}"
    return f"{value:,}"


def size(count: int | None) -> str:
    """Bytes in words."""
    if count is None:
        return ""
    if count < 1_000:
        return f"{count} B"
    amount, unit = float(count), "B"
    for unit in ("kB", "MB", "GB"):  # noqa: B007 - the unit that it ended with is what is wanted
        amount /= 1_000
        if amount < 1_000:
            break
    return f"{amount:.1f} {unit}"


def pretty(value: Any) -> str:
    """A JSON value as people read it; what is too long is cut, and says so."""
    text = json.dumps(value, ensure_ascii=False, indent=2, sort_keys=False)
    if len(text) <= TEXT_CHARACTERS:
        return text
    return f"{text[:TEXT_CHARACTERS]}\n… {len(text) - TEXT_CHARACTERS:,} more characters"


def short(text: str | None, most: int = 80) -> str:
    """The beginning of a text."""
    text = text or ""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def from_iso(text: str) -> datetime:
    """A time that came as JSON."""
    return datetime.fromisoformat(text)
