"""Words as the ranking sees them: tokens of prose and identifiers, stop words, stems.

A light suffix stripper is enough here: it must bring `rebalancing`, `rebalanced` and `rebalance` together, in topic
and text alike; it need not produce words.
"""

from __future__ import annotations

import re
from functools import lru_cache

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*|\d+[A-Za-z][A-Za-z0-9]*|[^\W\d_A-Za-z]+")
_CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+[0-9]*")

STOP = frozenset(
    """a about above after again against all also although always am an and any are as at be because been before being
    below between both but by can cannot could did do does doing done down during each either else etc even ever every
    few first for from further get gets give given goes had has have having he her here hers him his how however i if
    in into is it its itself just last let like made make makes many may me might more most much must my need needs
    neither never new no nor not now of off often on once one only or other our out over own per please put rather
    really s same see several shall she should simply since so some still such t take than that the their them then
    there these they thing things this those though through thus to too two under until up upon us use used uses using
    very via want was way we well were what when where whether which while who whom whose why will with within without
    work works would yes yet you your explain describe overview introduction guide understand understanding best
    practice practices""".split()  # noqa: SIM905 - a list of a hundred quoted words would be harder to read
)
_IRREGULAR = {
    "lost": "los", "lose": "los", "loses": "los", "losing": "los", "loss": "los", "losses": "los", "ran": "run",
    "broken": "break", "broke": "break", "written": "writ", "wrote": "writ", "sent": "send", "kept": "keep",
    "held": "hold", "built": "build", "found": "find", "bound": "bind", "thrown": "throw", "threw": "throw",
    "children": "child", "queries": "quer", "query": "quer", "indices": "index", "indexes": "index", "news": "news",
    "formats": "format", "formatted": "format", "formatting": "format", "formatter": "format", "format": "format",
    "asynchronous": "async", "asynchronously": "async", "synchronous": "sync", "synchronously": "sync",
}  # fmt: skip
_INFLECTIONS = (("ings", 3), ("ing", 3), ("ies", 3), ("ied", 3), ("edly", 3), ("ed", 3), ("es", 3), ("s", 3), ("ly", 4))
_DERIVATIONS = (
    ("ization", 4), ("isation", 4), ("ification", 3), ("ifier", 3), ("ific", 3), ("ify", 3), ("ifi", 3), ("if", 3),
    ("atur", 4), ("ation", 4), ("ment", 4), ("ness", 4), ("anc", 4), ("enc", 4), ("ion", 4), ("abl", 4), ("ibl", 4),
    ("ity", 4), ("iv", 4), ("al", 6), ("er", 4), ("or", 4), ("at", 4), ("iz", 4), ("is", 5), ("i", 3),
)  # fmt: skip


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """The stem of a lower-case word; words of up to three letters and words with digits stay as they are."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 3 or not word.isalpha():
        return word
    base = word if word.endswith(("ss", "us", "is")) else _strip(word, _INFLECTIONS)
    for _ in range(3):
        shorter = _strip(_undouble(base), _DERIVATIONS)
        if shorter == base:
            break
        base = shorter
    return base


def _strip(word: str, suffixes: tuple[tuple[str, int], ...]) -> str:
    for suffix, shortest in suffixes:
        if word.endswith(suffix) and len(word) - len(suffix) >= shortest:
            return word[: -len(suffix)]
    return word


def _undouble(base: str) -> str:
    """Brings `logg` to `log` and `close` to `clos`, so that `logging` meets `log` and `closing` meets `close`."""
    if len(base) > 3 and base[-1] in "ey":
        return base[:-1]
    return base[:-1] if len(base) > 3 and base[-1] == base[-2] and base[-1] not in "lsz" else base


@lru_cache(maxsize=100_000)
def _pieces(word: str) -> tuple[str, ...]:
    """The stems of one written word: itself, and its parts when it is written in camel case."""
    lower = word.lower()
    if lower in STOP:
        return ()
    whole = (stem(lower),) if len(lower) > 1 else ()
    if word[1:] == word[1:].lower() or word.isupper():
        return whole
    parts = [part.lower() for part in _CAMEL.findall(word)]
    if len(parts) < 2:
        return whole
    return whole + tuple(stem(part) for part in parts if len(part) > 2 and part not in STOP)


def tokens(text: str) -> list[str]:
    """The stems of a text in order; stop words are left out, `snake_case` and `CamelCase` names are taken apart."""
    found: list[str] = []
    for word in _WORD.findall(text):
        found.extend(_pieces(word))
    return found


def content_words(text: str) -> list[str]:
    """The words of a topic that carry meaning, in order and without repetition (by stem), cut as texts are cut."""
    seen: dict[str, str] = {}
    for word in _WORD.findall(text):
        if word.lower() not in STOP and len(word) > 1:
            seen.setdefault(word_stem(word), word)
    return list(seen.values())


def word_stem(word: str) -> str:
    """The stem by which a topic's word is looked up."""
    return stem("".join(char for char in word.lower() if char.isalnum()))
