"""Lengths of time on a command line: a number of seconds, or as workflows write them: `250ms`, `30s`, `2m`, `4h`, `1d`."""

from __future__ import annotations

import re
from typing import Any, Final

import click

UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_TEXT: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?(ms|s|m|h|d)?")


def span_of(text: str, unit: str = "s") -> float | None:
    """Seconds; `unit` is that of a bare number. None for what is no length of time."""
    match = _TEXT.fullmatch(text.strip())
    return None if match is None else float(match[1]) * UNITS[match[2] or unit]


class Span(click.ParamType[float]):
    """A length of time as an option's value: seconds, from `least` to `most`."""

    name = "span"

    def __init__(self, least: float = 0.0, most: float | None = None, unit: str = "s") -> None:
        self.least = least
        self.most = most
        self.unit = unit

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Click's way to read a value."""
        if isinstance(value, int | float):
            return float(value)
        found = span_of(value, self.unit)
        if found is None:
            self.fail(f"{value!r} is no length of time; e.g. 90, 90s, 250ms, 2m, 4h, 1d", param, ctx)
        if found < self.least or (self.most is not None and found > self.most):
            most = "" if self.most is None else f" and at most {self.most:g}"
            self.fail(f"{value!r} is out of range: at least {self.least:g}{most} seconds", param, ctx)
        return found
