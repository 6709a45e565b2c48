"""The few forms of Markdown that the pages consist of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

NOTE: Final = "<!-- Generated from the code by `make generate`. Do not edit: the next run overwrites it. -->"


def page(title: str, intro: str, *blocks: str) -> str:
    """A whole page: the note that it is generated, a title, what it is about, and its blocks."""
    parts = [NOTE, f"# {title}", flow(intro), *(block.strip("\n") for block in blocks if block.strip())]
    return "\n\n".join(parts) + "\n"


def flow(text: str) -> str:
    """Prose that is wrapped in the source: each paragraph becomes one line."""
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))


def cell(value: object) -> str:
    """Text for a table: one line, and no bar that would end the cell."""
    return " ".join(str(value).split()).replace("|", "\\|")


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; empty when there are no rows."""
    lines = ["| " + " | ".join(cell(value) for value in row) + " |" for row in rows]
    if not lines:
        return ""
    return "\n".join(["| " + " | ".join(head) + " |", "|" + " --- |" * len(head), *lines])


def code(value: object) -> str:
    """Inline code; nothing for an empty value."""
    text = str(value)
    return f"`{text}`" if text else ""


def fence(text: str, language: str = "") -> str:
    """A block of code."""
    return f"```{language}\n{text.rstrip()}\n```"


def section(title: str, *blocks: str, level: int = 2) -> str:
    """A heading and what stands below it; empty when nothing does."""
    kept = [block.strip("\n") for block in blocks if block.strip()]
    return "\n\n".join([f"{'#' * level} {title}", *kept]) if kept else ""


def sentence(text: str | None) -> str:
    """The first paragraph of a docstring as one line."""
    return " ".join((text or "").strip().split("\n\n")[0].split())
