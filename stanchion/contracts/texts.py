"""Texts and numbers from code that nobody checked, made fit for PostgreSQL and JSON."""

from __future__ import annotations

import math
from typing import Any

from stanchion.contracts import limits


def clean(text: str, most: int = limits.ERROR_CHARACTERS) -> str:
    """Text that PostgreSQL and JSON take: no NUL, no lone surrogates, not longer than `most`."""
    short = text if len(text) <= most else text[: most - 1] + "…"
    return short.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")


def number(value: Any) -> float | int | None:
    """A number as JSON has it: Decimal, Fraction and numpy's become floats; None for what is no finite number."""
    if value.__class__ is int and abs(value) <= limits.INTEGER_MAX:
        return int(value)
    try:
        found = float(value)
    except Exception:  # noqa: BLE001 - whatever a foreign type raises here, it is no number
        return None
    return found if math.isfinite(found) else None
