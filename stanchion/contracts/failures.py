"""A stored error in one line for people: code, what and why, then the same of the error behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

LINE_CHARACTERS: Final = 400
_PART_CHARACTERS: Final = 200  # so that a long outer text leaves room for the cause
_DEEPEST: Final = 4  # a join failed, since a step failed, since its code raised


def told(error: Any, *names: str, joint: str = "; ") -> str:
    """An error (or the reason of a task) with all that caused it, shortened; of the outermost also the fields `names`."""
    parts = list(_parts(error, ("code", "what", "why", *names)))
    return _cut(joint.join(parts), LINE_CHARACTERS)


def cause_of(error: Any) -> str:
    """The same without the outermost: what lies behind it, or nothing."""
    return told(error["error"]) if isinstance(error, Mapping) and isinstance(error.get("error"), Mapping) else ""


def _parts(error: Any, names: tuple[str, ...]) -> Iterator[str]:
    for _ in range(_DEEPEST):
        if not isinstance(error, Mapping):
            break
        for name in names:
            if error.get(name):
                yield _cut(" ".join(str(error[name]).split()), _PART_CHARACTERS)
        error, names = error.get("error"), ("code", "what", "why")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
