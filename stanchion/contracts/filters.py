"""The filter language of task lists: one for the page, the API, the command line, saved views and jobs in bulk.

    state:failed,cancelled workflow:brief tag:nightly started:>2h -workflow:healthcheck error:"rate limit"

Terms stand beside each other and all have to hold; values between commas are alternatives; a minus turns a term around.
A word without a name is looked for in goals, keys and ids. `parse` reads and `str(filter)` writes: reading what was
written gives the same filter. What a term means for a row is decided where it is looked up, not here.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NoReturn

from stanchion.errors import Unprocessable, register_code

from . import limits
from .filter_values import CHECKS, moment_of

WORD: Final = ""
"""The name of a term that has none."""
INPUT: Final = "input."

NAMES: Final[dict[str, str]] = {
    "state": "the task's state: accepted, running, awaiting_approval, cancelling, completed, failed, cancelled, rejected",
    "is": "open, ended, paused, or doubtful (an operation of unknown fate)",
    "workflow": "the workflow, as a name or as name@version",
    "tag": "one of these tags; a second tag: is needed as well",
    "priority": "the priority, like 5 or >0",
    "created": "when it was submitted: >2h (longer ago), <7d (since then), >2026-11-01, 2026-11-01",
    "started": "when its current run began, in the same way",
    "ended": "when it ended, in the same way",
    "changed": "when its state last changed, in the same way",
    "by": "who submitted it, like key:web, person:ana or me",
    "via": "how it came: http or kafka",
    "id": "the task, or a run or step of it",
    "key": "the idempotency key",
    "worker": "a worker that has had a step of it",
    "op": "the kind of an operation of it, like mail.send",
    "error": "words of an error of it",
    "input.": "a field of its input, like input.customer.id:42 or input.amount:>100",
}
"""Every name and what it looks at."""

ORDERED: Final = frozenset({"priority", "created", "started", "ended", "changed", INPUT})
"""Names that take > >= < <=."""
TIMES: Final = frozenset({"created", "started", "ended", "changed"})
NEEDS_PAYLOAD: Final = frozenset({"error", INPUT})
"""Names that tell something of payloads: for those alone who may see them."""
_MEANT: Final = {"status": "state", "name": "workflow", "submitted": "created", "submitted_after": "created"}

UNKNOWN = register_code(
    "E-FILTER-01",
    "no such filter",
    status=422,
    meaning="A filter names something that tasks can't be filtered by.",
    fix="Use one of the names that the message lists; put quotes around a word that has a colon in it.",
)
BAD_VALUE = register_code(
    "E-FILTER-02",
    "bad value in a filter",
    status=422,
    meaning="The value behind a name of a filter is not one that it takes.",
    fix="See the message; it says what is known there.",
)
UNREADABLE = register_code(
    "E-FILTER-03",
    "filter can't be read",
    status=422,
    meaning="A quote is not closed, something is empty, or the filter is too long.",
    fix='Write terms like state:failed tag:nightly error:"rate limit", with spaces between them.',
)
EMPTY = register_code(
    "E-FILTER-04",
    "empty filter",
    status=422,
    meaning="An act on many tasks needs a filter: an empty one would mean all of them.",
    fix="Say which: state:running tag:nightly.",
)

_NAME = re.compile(r"([a-zA-Z_][a-zA-Z0-9_]*(?:\.[^\s:\"]+)?):")
_OPERATOR = re.compile(r"[<>]=?")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPED = re.compile(r'\\(["\\])')
_PLAIN = re.compile(r'[^\s",]+')
_SAFE = re.compile(r'[^\s",<>:-][^\s",]*')


@dataclass(frozen=True, slots=True)
class Term:
    """One condition: `name` (empty for a word) has one of `values`, compared by `operator`; `negated` turns it around."""

    name: str
    values: tuple[str, ...]
    operator: str = ""
    negated: bool = False

    @property
    def kind(self) -> str:
        """Its entry in `NAMES`: all fields of an input share one."""
        return INPUT if self.name.startswith(INPUT) else self.name

    def __str__(self) -> str:
        values = ",".join(_quoted(value, word=not self.name) for value in self.values)
        return f"{'-' if self.negated else ''}{self.name}{':' if self.name else ''}{self.operator}{values}"


@dataclass(frozen=True, slots=True)
class Filter:
    """Terms that all have to hold; none: everything fits."""

    terms: tuple[Term, ...] = ()

    def __str__(self) -> str:
        return " ".join(map(str, self.terms))

    def of(self, name: str) -> tuple[Term, ...]:
        """The terms of one kind."""
        return tuple(term for term in self.terms if term.kind == name)

    @property
    def needs_payload(self) -> bool:
        """Whether it tells something of payloads."""
        return any(term.kind in NEEDS_PAYLOAD for term in self.terms)

    def settled(self, subject: str, now: datetime) -> Filter:
        """The same for whoever reads it later: `me` is `subject`, and `2h` counts from `now`."""
        return Filter(tuple(_settled(term, subject, now) for term in self.terms))


def parse(text: str, where: str = "filter") -> Filter:
    """The filter that a text says; raises Unprocessable E-FILTER-01 to -03, with the column that is wrong."""
    if len(text) > limits.FILTER_CHARACTERS:
        _refuse(UNREADABLE, f"it has more than {limits.FILTER_CHARACTERS:,} characters", where, 1, "make it shorter")
    terms = tuple(_Reader(text, where).terms())
    if len(terms) > limits.FILTER_TERMS:
        _refuse(UNREADABLE, f"it has more than {limits.FILTER_TERMS} terms", where, 1, "use fewer of them")
    return Filter(terms)


def needed(text: str, where: str = "filter") -> Filter:
    """The same, for acts: raises Unprocessable E-FILTER-04 too, when it says nothing."""
    found = parse(text, where)
    if not found.terms:
        raise Unprocessable(EMPTY, "the filter is empty", where=where, fix="say which: state:running tag:nightly")
    return found


def with_terms(text: str, **more: str | None) -> str:
    """A filter's text with further terms: what options and parameters beside it say."""
    given = [f"{name}:{value}" for name, value in more.items() if value]
    return " ".join([*given, text]).strip()


class _Reader:
    """Reads one text from left to right."""

    def __init__(self, text: str, where: str) -> None:
        self.text = text
        self.where = where
        self.at = 0

    def terms(self) -> Iterator[Term]:
        while self._skip_blanks():
            yield self._term()

    def _skip_blanks(self) -> bool:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        return self.at < len(self.text)

    def _term(self) -> Term:
        begin = self.at
        negated = self.text[self.at] == "-"
        self.at += negated
        name, kind = self._name()
        operator = self._operator(name, kind)
        column = self.at
        values = tuple(self._values(name, one=bool(operator) or not name))
        term = Term(name, values, operator, negated)
        if self.at < len(self.text) and not self.text[self.at].isspace():
            self._fail(UNREADABLE, f"{self.text[begin : self.at]!a} goes on where a space was expected", self.at)
        for value in values:
            if (fault := CHECKS[kind](value, operator)) is not None:
                self._fail(BAD_VALUE, f"{name}:{operator}{value[:40]}: {fault[0]}", column, fault[1])
        return term

    def _name(self) -> tuple[str, str]:
        found = _NAME.match(self.text, self.at)
        if found is None:
            return WORD, WORD
        name = found[1]
        kind = INPUT if name.startswith(INPUT) else name
        if kind not in NAMES:
            self._unknown(name)
        self.at = found.end()
        return name, kind

    def _operator(self, name: str, kind: str) -> str:
        found = _OPERATOR.match(self.text, self.at)
        if found is None or not name:
            return ""
        if kind not in ORDERED:
            takes = ", ".join(sorted(one + ("…" if one == INPUT else "") for one in ORDERED))
            self._fail(BAD_VALUE, f"{name} has no order, so {found[0]} says nothing", self.at, f"{takes} have one")
        self.at = found.end()
        return found[0]

    def _values(self, name: str, *, one: bool) -> Iterator[str]:
        while True:
            yield self._value(name)
            if one or self.at >= len(self.text) or self.text[self.at] != ",":
                return
            self.at += 1

    def _value(self, name: str) -> str:
        if self.at < len(self.text) and self.text[self.at] == '"':
            return self._quoted()
        found = _PLAIN.match(self.text, self.at)
        if found is None:
            what = f"nothing stands behind {name}:" if name else "there is nothing"
            self._fail(UNREADABLE, what, self.at, "write a value, or leave the name out")
        self.at = found.end()
        return found[0]

    def _quoted(self) -> str:
        found = _QUOTED.match(self.text, self.at)
        if found is None:
            self._fail(UNREADABLE, "a quote is not closed", self.at, 'close it: error:"rate limit"')
        if not found[1]:
            self._fail(UNREADABLE, "there is nothing between the quotes", self.at, "write a value")
        self.at = found.end()
        return _ESCAPED.sub(r"\1", found[1])

    def _unknown(self, name: str) -> NoReturn:
        meant = _MEANT.get(name) or next(iter(difflib.get_close_matches(name, NAMES, n=1)), None)
        hint = f"did you mean {meant}:? " if meant else ""
        known = ", ".join(one + ("…" if one == INPUT else "") for one in NAMES)
        self._fail(UNKNOWN, f"tasks have no {name[:40]!a}", self.at, f"{hint}names are {known}")

    def _fail(self, code: str, what: str, at: int, fix: str = 'put quotes around it: "…"') -> NoReturn:
        _refuse(code, what, self.where, at + 1, fix)


def _refuse(code: str, what: str, where: str, column: int, fix: str) -> NoReturn:
    raise Unprocessable(code, what, where=f"{where}, column {column}", fix=fix, column=column)


def _quoted(value: str, *, word: bool) -> str:
    if _SAFE.fullmatch(value) and not (word and _NAME.match(value)):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _settled(term: Term, subject: str, now: datetime) -> Term:
    if term.name == "by":
        return Term(term.name, tuple(subject if one == "me" else one for one in term.values), "", term.negated)
    if term.name in TIMES:
        operator, value = moment_of(term.operator, term.values[0], now)
        return Term(term.name, (value, *term.values[1:]), operator, term.negated)
    return term
