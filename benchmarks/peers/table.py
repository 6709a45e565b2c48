"""One table: a row a measurement, a column a contestant, and for each peer what ours is of its value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_UNITS = {"per_second": "a second", "cpu_ms_total": "CPU ms", "hop_ms_p50": "ms a hop", "p50_ms": "ms, p50"}
_NAMES = {
    "one_step_tasks": "one-step tasks",
    "chain": "chain of 50",
    "chain_queued": "chain of 50, each queued",
    "latency": "submit to start",
    "latency_kafka": "submit (Kafka) to start",
}


def rendered(results: dict[str, dict[str, Any]], ours: str) -> str:
    """The table as text; in brackets ours divided by the peer's: above 1 is good for rates, below 1 for costs."""
    names = list(results)
    rows = [["", *names]]
    for what, unit in _rows(results):
        cells = [_number(results[name], what, unit) for name in names]
        base = _number(results.get(ours, {}), what, unit)
        rows.append(
            [f"{_title(what)}, {_UNITS[unit]}", *(_cell(c, base, n != ours) for n, c in zip(names, cells, strict=True))]
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    ]
    failures = [f"{name} failed: {found['failed']}" for name, found in results.items() if "failed" in found]
    return "\n".join((*lines, "", f"in brackets: {ours} divided by the peer", *failures))


def _rows(results: dict[str, dict[str, Any]]) -> Iterator[tuple[str, str]]:
    seen: dict[str, None] = {}
    for found in results.values():
        seen.update(dict.fromkeys(what for what, value in found.items() if isinstance(value, dict)))
    for what in seen:
        for unit in _UNITS:
            if any(_number(found, what, unit) is not None for found in results.values()):
                yield what, unit


def _title(what: str) -> str:
    return _NAMES.get(what) or f"fan-out {int(what.removeprefix('fan_out_')):,}"


def _number(found: dict[str, Any], what: str, unit: str) -> float | None:
    value = found.get(what, {}).get(unit)
    return None if value is None else float(value)


def _cell(value: float | None, base: float | None, is_peer: bool) -> str:
    if value is None:
        return "-"
    text = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{text} ({base / value:.2f})" if is_peer and base is not None and value else text
