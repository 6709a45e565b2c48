"""What stands behind a name of a filter: the values that it takes, and times as people write them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from stanchion.errors import StanchionError

from . import ids, limits
from .envelope import parse_time

STATES: Final = (
    "accepted", "running", "awaiting_approval", "cancelling", "completed", "failed", "cancelled", "rejected",
)  # fmt: skip
"""Of a task; a test holds them against its state machine."""
FLAGS: Final = ("open", "ended", "paused", "doubtful")
_MEANT: Final = {"dead": "failed", "succeeded": "completed", "done": "completed", "waiting": "awaiting_approval"}
_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_AGE = re.compile(r"([0-9]{1,6})([smhdw])")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,9})?")
_TURNED: Final = {">": "<", ">=": "<=", "<": ">", "<=": ">="}

Fault = tuple[str, str] | None
"""What is wrong with a value, and what would be right."""


def age_of(value: str) -> timedelta | None:
    """The length of time that `2h` stands for; None for what is none."""
    found = _AGE.fullmatch(value)
    return timedelta(seconds=int(found[1]) * _UNITS[found[2]]) if found else None


def moment_of(operator: str, value: str, now: datetime) -> tuple[str, str]:
    """A comparison with a time as one with a moment: longer ago than `2h` is before it. Days are UTC's."""
    age = age_of(value)
    if age is None:
        return operator, value
    return _TURNED[operator], (now - age).astimezone(UTC).isoformat()


def span_of(operator: str, value: str) -> tuple[datetime | None, datetime | None]:
    """From when (inclusive) to when (exclusive) a settled time holds; None: without an end."""
    day = _DATE.fullmatch(value) is not None
    begin = parse_time(f"{value}T00:00:00Z" if day else value, "filter")
    end = begin + (timedelta(days=1) if day else timedelta(microseconds=1))
    return {">": (end, None), ">=": (begin, None), "<": (None, begin), "<=": (None, end)}.get(operator, (begin, end))


def _one_of(known: Iterable[str], what: str) -> Callable[[str, str], Fault]:
    names = tuple(known)

    def check(value: str, _operator: str) -> Fault:
        if value in names:
            return None
        meant = _MEANT.get(value) or next(iter(difflib.get_close_matches(value, names, n=1)), None)
        hint = f"did you mean {meant}? " if meant in names else ""
        return f"there is no such {what}", f"{hint}it is one of {', '.join(names)}"

    return check


def _time(value: str, operator: str) -> Fault:
    if age_of(value) is not None:
        return (
            None if operator else ("a length of time needs > (longer ago) or < (since then)", f">{value} or <{value}")
        )
    try:
        span_of("", value)
    except (StanchionError, OverflowError):
        return "this is no time", ">2h, <7d, >2026-11-01 or >=2026-11-01T10:00:00Z"
    return None


def _priority(value: str, _operator: str) -> Fault:
    if re.fullmatch(r"-?[0-9]{1,3}", value) and limits.PRIORITY_MIN <= int(value) <= limits.PRIORITY_MAX:
        return None
    return "this is no priority", f"a whole number from {limits.PRIORITY_MIN} to {limits.PRIORITY_MAX}"


def _workflow(value: str, _operator: str) -> Fault:
    _, at, version = value.partition("@")
    if not at or re.fullmatch(r"[0-9]{1,9}", version):
        return _text(value, "")
    return "this is no version", "brief or brief@3"


def _id(value: str, _operator: str) -> Fault:
    for prefix in (ids.TASK, ids.RUN, ids.STEP):
        try:
            ids.parse(value, prefix)
        except StanchionError:
            continue
        return None
    return "this is no id of a task, a run or a step", "copy the id as it was shown"


def _ordered_input(value: str, operator: str) -> Fault:
    if operator and not _NUMBER.fullmatch(value):
        return f"{operator} compares numbers", "input.amount:>100"
    return _text(value, "")


def _text(value: str, _operator: str) -> Fault:
    if any(
        ord(character) < 32 or 127 <= ord(character) < 160 or 0xD800 <= ord(character) < 0xE000 for character in value
    ):
        return "it has a control character", "write plain text"
    return None


CHECKS: Final[dict[str, Callable[[str, str], Fault]]] = {
    "state": _one_of(STATES, "state"),
    "is": _one_of(FLAGS, "property"),
    "via": _one_of(("http", "kafka"), "way"),
    "workflow": _workflow,
    "priority": _priority,
    "created": _time,
    "started": _time,
    "ended": _time,
    "changed": _time,
    "id": _id,
    "input.": _ordered_input,
    **dict.fromkeys(("tag", "by", "key", "worker", "op", "error", ""), _text),
}
"""By the kind of a term: what is wrong with a value behind it."""
