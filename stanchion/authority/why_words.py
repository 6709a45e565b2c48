"""Numbers and times in the words of a sentence, and ids as people see them."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from stanchion.contracts import ids
from stanchion.contracts.actions import Way

from .queries import BARRIER
from .rows import Row

DOCTOR: Final = Way("stanchion doctor")
NOBODY: Final = "no orchestrator is at work, or it fails on this"


def span(seconds: float) -> str:
    """`0.4 s`, `48 s`, `2 m 11 s`, `3 h 05 m`, `2 d 04 h`."""
    seconds = max(0.0, seconds)
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, size, smaller, part in (("d", 86_400, "h", 3_600), ("h", 3_600, "m", 60), ("m", 60, "s", 1)):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // part:02d} {smaller}"
    return f"{whole} s"


def many(number: int, thing: str, plural: str | None = None) -> str:
    """`1 step`, `12,300 steps`."""
    return f"{number:,} {thing if number == 1 else plural or thing + 's'}"


def verb(number: int, one: str, more: str) -> str:
    """`waits` of one, `wait` of many."""
    return one if number == 1 else more


def a_second(rate: float) -> str:
    """`198/s`, `1.4/s`, `12/min`."""
    if rate >= 10:
        return f"{rate:,.0f}/s"
    return f"{rate:.1f}/s" if rate >= 1 else f"{rate * 60:.0f}/min"


def tsk(run: Row) -> str:
    """The task of a run."""
    return ids.public(ids.TASK, run["task_id"])


def stp(step_id: UUID) -> str:
    """A step."""
    return ids.public(ids.STEP, step_id)


def bar(barrier_id: UUID) -> str:
    """A barrier."""
    return ids.public(BARRIER, barrier_id)
