"""Durations as people write them: "250ms", "30s", "2m", "4h", "1d", a number of seconds, or a timedelta."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Final, TypeAlias

from stanchion.contracts import limits
from stanchion.workflow.faults import Site, refusal

__all__ = ["Duration", "seconds", "written"]

Duration: TypeAlias = str | int | float | timedelta

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_TEXT = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?(ms|s|m|h|d)")


def seconds(value: object, option: str, where: Site | None, *, least: float | None = None, zero: bool = False) -> float:
    """`value` in seconds; raises Rejected E-STEP-41 naming `option` for what is no duration, or below `least` seconds.

    Zero is refused unless `zero` says that it makes sense for this option.
    """
    found = _read(value)
    fault = None
    if found is None:
        fault = "is no duration"
    elif not math.isfinite(found):
        fault = "is not finite"
    elif found < 0:
        fault = "is negative"
    elif found == 0 and not zero:
        fault = "is zero"
    elif found > limits.DURATION_SECONDS_MAX:
        fault = "is longer than ten years"
    elif least is not None and found < least:
        fault = f"is shorter than {least:g} s"
    if found is None or fault:
        raise refusal("E-STEP-41", f"{option}={value!r} {fault}", where, fix=f'e.g. {option}="30s" (ms, s, m, h, d)')
    return found


def _read(value: object) -> float | None:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool):  # True is an int, and never meant as one second
        return None
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            return math.inf
    if isinstance(value, str) and (match := _TEXT.fullmatch(value.strip())):
        return float(match.group(1)) * _UNITS[match.group(2)]
    if isinstance(value, str) and value.strip().startswith("-") and _read(value.strip()[1:]) is not None:
        return -1.0
    return None


def written(span: float) -> str:
    """Seconds as people write them, in the largest unit that leaves a whole number: 5400 is "90m"."""
    for unit in ("d", "h", "m", "s"):
        if span and span % _UNITS[unit] == 0:
            return f"{span / _UNITS[unit]:.0f}{unit}"
    return f"{span:g}s" if span >= 1 else f"{span * 1000:g}ms"
