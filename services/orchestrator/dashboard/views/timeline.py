"""A task on its time axis: how much was under way, step by step, worker by worker, or its longest attempts one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from stanchion.authority.rows import Row

from .. import look
from ..view import Asked
from . import timeline_reads
from .timeline_reads import BINS, Lane, Window

MODES: Final = ("step", "worker", "child")
TICKS: Final = 6


@dataclass(frozen=True, slots=True)
class Bar:
    """A part of an attempt: what it did, from where to where, of 1,000."""

    kind: str
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Critical:
    """A step on the longest way to the end, and its share of the whole time."""

    name: str
    share: float
    seconds: float


def part(asked: Asked, task: Row) -> dict[str, Any]:
    """What the timeline of a task shows."""
    mode = asked.one_of("by", MODES) or "step"
    now = datetime.now(UTC)
    whole = Window(task["created_at"], max(task["ended_at"] or now, task["created_at"] + timedelta(milliseconds=10)))
    window = _zoomed(asked, whole)
    with asked.reads.database.tenant(asked.visitor.tenant_id) as connection:
        rows = timeline_reads.longest(connection, task["run_id"], now) if mode == "child" else []
        by = "worker" if mode == "worker" else "step"
        lanes = timeline_reads.lanes(connection, task["run_id"], by, window, now)  # type: ignore[arg-type]  # one of two
    return {
        "mode": mode,
        "modes": MODES,
        "window": window,
        "whole": whole,
        "is_zoomed": window != whole,
        "lanes": [(lane, area(lane.counts, lane.most)) for lane in lanes],
        "total": _total(lanes),
        "bars": [(row, bars(row, whole, now)) for row in rows],
        "ticks": ticks(whole if mode == "child" else window),
        "critical": critical(_after(asked, task), lanes, whole) if task["ended_at"] and by == "step" else [],
        "bins": BINS,
        "tick_at": now if not task["ended_at"] else None,
    }


def area(counts: Sequence[int], most: int) -> str:
    """Counts as the outline of an area, BINS wide and 20 high, in steps."""
    if not most:
        return ""
    path, before = "M0 20", 20.0
    for place, count in enumerate(counts):
        height = 20.0 if not count else round(20 - max(1.5, 20 * count / most), 2)
        if height != before:
            path += f"H{place}V{height:g}"
            before = height
    return f"{path}H{len(counts)}V20z"


def bars(row: Row, whole: Window, now: datetime) -> list[Bar]:
    """One attempt: what it waited for its lease, what its lease waited for its start, and its run."""
    parts: list[Bar] = []
    begun = row["started_at"] or row["granted_at"]
    waited_from = row["free_at"] if row["number"] == 1 else row["granted_at"]
    for kind, start, end in (
        ("queue", waited_from, row["granted_at"]),
        ("lease", row["granted_at"], begun),
        ("run", begun, row["ended_at"] or now),
    ):
        left, right = _place(start, whole), _place(end, whole)
        if right > left or kind == "run":
            parts.append(Bar(kind, round(left, 2), round(max(right - left, 1.5), 2)))
    return parts


def ticks(window: Window) -> list[dict[str, Any]]:
    """Times along the axis: from the start, and by the clock."""
    steps = [window.seconds * n / TICKS for n in range(TICKS + 1)]
    return [{"after": look.duration(s), "at": window.start + timedelta(seconds=s)} for s in steps]


def critical(after: Mapping[str, Sequence[str]], lanes: Sequence[Lane], whole: Window) -> list[Critical]:
    """The way that decided when it ended: from the last step back to what it waited for last."""
    ended = {lane.name: lane.last_at for lane in lanes}
    name = max(ended, key=lambda one: ended[one], default=None)
    found: list[Critical] = []
    while name is not None and len(found) < len(ended):
        before = [one for one in after.get(name, ()) if one in ended]
        earlier = max(before, key=lambda one: ended[one], default=None)
        start = ended[earlier] if earlier is not None else whole.start
        seconds = max(0.0, (ended[name] - start).total_seconds())
        found.append(Critical(name, seconds / whole.seconds, seconds))
        name = earlier
    return found[::-1]


def _after(asked: Asked, task: Row) -> dict[str, tuple[str, ...]]:
    graph = asked.reads.workflows.get(task["workflow"], task["version"])
    return {node.name: node.after for node in graph}


def _total(lanes: Sequence[Lane]) -> dict[str, Any]:
    counts = tuple(sum(column) for column in zip(*(lane.counts for lane in lanes), strict=True)) if lanes else ()
    most = max(counts, default=0)
    return {"counts": counts, "most": most, "area": area(counts, most)}


def _zoomed(asked: Asked, whole: Window) -> Window:
    """The window of `from` and `to`, milliseconds after the start."""
    longest = 10 * 365 * 86_400_000
    start, end = asked.number("from", 0, longest), asked.number("to", 1, longest)
    if start is None and end is None:
        return whole
    first = whole.start + timedelta(milliseconds=start or 0)
    last = whole.start + timedelta(milliseconds=end) if end is not None else whole.end
    return Window(first, last) if last > first else whole


def _place(at: datetime, window: Window) -> float:
    return min(1_000.0, max(0.0, (at - window.start).total_seconds() * 1_000 / window.seconds))
