"""What helps everywhere: the words, the keys of the keyboard, and the way to whatever has an id."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from stanchion.contracts import filters, limits
from stanchion.contracts.words import WORDS
from stanchion.errors import Unprocessable

from ..finding import place_of
from ..keyboard import KEYS
from ..view import Asked, Elsewhere, Page, Shown, Twin, query_text

_MARKUP: Final = re.compile(r"(`[^`]*`)")


def words(asked: Asked) -> Shown:
    """The glossary, or what fits a text in it."""
    wanted = (asked.text("q") or "").lower()
    found = [(word, parts_of(text)) for word, text in WORDS.items() if wanted in word.lower() or wanted in text.lower()]
    return _still("words", "Words", {"words": found, "wanted": wanted})


def keyboard(asked: Asked) -> Shown:  # noqa: ARG001 - the signature of a view
    """The keys, by where they work."""
    return _still("keyboard", "Keyboard", {"keys": KEYS})


def find(asked: Asked) -> Shown:
    """To the page of an id; any other text is looked for in goals, keys and ids of tasks."""
    text = (asked.text("q", limits.FILTER_CHARACTERS) or "").strip()
    if not text:
        raise Elsewhere("/tasks")
    place = place_of(asked.reads, asked.visitor, text)
    if place is not None:
        raise Elsewhere(place)
    raise Elsewhere(f"/tasks?{query_text(q=as_filter(text))}")


def as_filter(text: str) -> str:
    """A filter as it was typed, or one that looks for the text as it stands."""
    try:
        if any(term.name for term in filters.parse(text).terms):
            return text
    except Unprocessable:
        pass
    return str(filters.Term(filters.WORD, (text,)))


@cache
def parts_of(text: str) -> tuple[tuple[str, bool], ...]:
    """A text in pieces, each with whether it is code."""
    return tuple((part.strip("`"), part.startswith("`")) for part in _MARKUP.split(text) if part)


def _still(folder: str, title: str, context: dict[str, object]) -> Shown:
    return Shown(folder, title, ("list",), context, Twin(""), folder, ended=True, still=True)


PAGES: Final = (
    Page("/words", words, query=("q",)),
    Page("/keyboard", keyboard),
    Page("/find", find, query=("q",)),
)
