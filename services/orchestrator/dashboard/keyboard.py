"""The keys of the keyboard, in one table: the page that lists them shows it, and a test holds the scripts against it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .shell import SECTIONS


@dataclass(frozen=True, slots=True)
class Key:
    """What is typed, what it does, and on which page (empty: on all)."""

    keys: tuple[str, ...]
    does: str
    where: str = ""


KEYS: Final[tuple[Key, ...]] = (
    Key(("/",), "find an id or a text"),
    *(Key((f"g {section.key}",), f"go to {section.title}") for section in SECTIONS),
    Key(("j", "k"), "next or previous row, or card"),
    Key(("Enter",), "open what has the focus"),
    Key(("x",), "choose the row that has the focus"),
    Key(("f",), "filter"),
    Key(("n", "N"), "next or previous problem"),
    Key(("y",), "why is this not moving?"),
    Key(("v",), "the table beside a picture"),
    Key(("r",), "retry, or send again: asks first"),
    Key(("c",), "cancel: asks first"),
    Key(("p",), "pause what moves on the page, or go on"),
    Key(("t",), "UTC or the time of where you are"),
    Key(("[", "]"), "previous or next of the list that you came from"),
    Key(("Escape",), "close a dialog, leave a field"),
    Key(("?",), "this list"),
    Key(("a",), "approve: asks first", "an approval"),
    Key(("x",), "reject: asks first", "an approval"),
    Key(("m",), "ask back", "an approval"),
    Key(("ArrowLeft", "ArrowRight"), "along the edges, or to the neighbour", "a graph, a fan-out"),
    Key(("ArrowUp", "ArrowDown"), "in the column, or a line up or down", "a graph, a fan-out"),
    Key(("Home", "End"), "the first or the last child", "a fan-out"),
    Key(("n", "N"), "next or previous child that failed", "a fan-out"),
    Key(("Enter",), "open the child", "a fan-out"),
    Key(("+", "-"), "closer, or further away", "a fan-out"),
    Key(("Escape",), "all children", "a fan-out"),
)
"""Single keys can be switched off in the menu; none does harm without a dialog."""
