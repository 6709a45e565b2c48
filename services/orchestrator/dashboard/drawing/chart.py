"""Small charts of samples over time: one line each, gaps where nobody sampled, and the same values as rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from .. import look

HEIGHT: Final = 40
ROWS: Final = 24

Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Line:
    """One series: its name, its path in a picture as wide as it has values, and its newest value in words."""

    name: str
    path: str
    newest: str
    shape: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Several lines over one time axis, with one scale."""

    title: str
    lines: tuple[Line, ...]
    width: int
    most: str
    begins: datetime | None
    ends: datetime | None
    rows: tuple[tuple[datetime, tuple[str, ...]], ...]

    @property
    def said(self) -> str:
        """The chart in a sentence."""
        newest = ", ".join(f"{line.name} {line.newest}" for line in self.lines)
        return f"{self.title}: {newest}; at most {self.most}"


def chart(
    title: str, at: Sequence[datetime], series: Sequence[tuple[str, str, Values]], *, unit: str = "", scale: float = 1.0
) -> Chart:
    """A chart of (name, shape, values); values are multiplied by `scale`, and shown in `unit` ("s": as durations)."""
    scaled = [(name, shape, [None if v is None else v * scale for v in values]) for name, shape, values in series]
    most = max((v for _, _, values in scaled for v in values if v is not None), default=0.0)
    lines = tuple(Line(name, path(values, most), _newest(values, unit), shape) for name, shape, values in scaled)
    step = max(1, len(at) // ROWS)
    rows = tuple(
        (at[n], tuple(said(values[n], unit) for _, _, values in scaled)) for n in range(len(at) - 1, -1, -step)
    )
    return Chart(
        title, lines, max(1, len(at)), said(most, unit), at[0] if at else None, at[-1] if at else None, rows[:ROWS]
    )


def path(values: Values, most: float) -> str:
    """Values as a line HEIGHT high; a value alone between gaps is a dot."""
    drawn, pen_down = "", False
    for x, value in enumerate(values):
        if value is None:
            pen_down = False
            continue
        y = round(HEIGHT - 1 - (HEIGHT - 2) * value / most, 1) if most else HEIGHT - 1
        drawn += f"{'L' if pen_down else 'M'}{x + 0.5:g} {y:g}" if pen_down else f"M{x:g} {y:g}H{x + 0.5:g}"
        pen_down = True
    return drawn


def said(value: float | None, unit: str) -> str:
    """A value in words; nothing is a dash."""
    if value is None:
        return "–"
    if unit == "s":
        return look.duration(value)
    shown = f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.2f}"
    return f"{shown}{unit}"


def _newest(values: Values, unit: str) -> str:
    return said(next((value for value in reversed(values) if value is not None), None), unit)
