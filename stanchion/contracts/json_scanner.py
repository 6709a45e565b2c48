"""A strict JSON reader that knows where it is: slow, iterative, and used only once a fast reader has a doubt.

It is the reference for what `payload` accepts (I-JSON, RFC 7493, and our depth): it either returns the value or raises
`Unprocessable` with the JSON path of the first thing that is wrong. It holds its own stack, so that no depth of nesting
can exhaust the interpreter's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from stanchion.contracts import limits
from stanchion.errors import Unprocessable

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_BLANK = re.compile(r"[ \t\n\r]*+")
_STRING = re.compile(r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?([eE][+-]?[0-9]++)?")
_WORD = re.compile(r"-?[A-Za-z]++")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_LITERALS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_INTEGER_DIGITS = len(str(limits.INTEGER_MAX)) + 1  # with a sign; longer ones are not even converted


def path_text(where: str, steps: Sequence[str | int]) -> str:
    """The JSON path of `steps` below `where`: `$.a[3]["odd key"]`; long keys and long paths are cut in the middle."""
    parts = [where]
    shown: Sequence[str | int | None] = steps if len(steps) <= 24 else (*steps[:12], None, *steps[-4:])
    for step in shown:
        if step is None:
            parts.append("...")
            continue
        if isinstance(step, int):
            parts.append(f"[{step}]")
        elif _PLAIN_KEY.fullmatch(step):
            parts.append(f".{step}")
        else:
            parts.append(f"[{json.dumps(step if len(step) <= 40 else step[:37] + '...')}]")
    return "".join(parts)


def refusal(code: str, what: str, where: str, *, fix: str | None = None) -> Unprocessable:
    """The error that names a place in a payload."""
    return Unprocessable(code, what, where=where, fix=fix)


def scan(text: str, where: str) -> Any:
    """Read one JSON value; raises Unprocessable E-DATA-01 to E-DATA-08 with the path of the fault."""
    return _Scanner(text, where).read()


class _Scanner:
    def __init__(self, text: str, where: str) -> None:
        self.text = text
        self.where = where
        self.position = 0
        self.open: list[Any] = []  # the containers that are open
        self.steps: list[str | int] = []  # the key or index at which each of them is filled now

    def read(self) -> Any:
        while True:
            value = self._value()
            if value is _OPENED:
                continue
            while True:  # hand the value to its container; a container that closes is a value itself
                if not self.open:
                    if self._peek():
                        raise self._syntax("something follows the value")
                    return value
                self._put(value)
                if self._goes_on():
                    break
                value = self.open.pop()
                self.steps.pop()

    def _value(self) -> Any:
        """One scalar or empty container, or `_OPENED` when a container was opened that has content."""
        first = self._peek()
        if first == '"':
            return self._string()
        if first in ("{", "["):
            return self._open(first)
        if match := _NUMBER.match(self.text, self.position):
            self.position = match.end()
            if (word := _WORD.match(self.text, self.position)) or first == "":
                raise self._syntax(f"unexpected {word.group()[:20]!r}" if word else "unexpected end")
            return self._number(match)
        if word := _WORD.match(self.text, self.position):
            return self._literal(word.group())
        raise self._syntax("unexpected end" if not first else f"unexpected character {first!r}")

    def _open(self, first: str) -> Any:
        if len(self.open) >= limits.PAYLOAD_DEPTH:
            raise refusal(
                "E-DATA-08",
                f"nested deeper than {limits.PAYLOAD_DEPTH} levels",
                self._here(),
                fix="flatten the value, or pass the inner part as a text",
            )
        self.position += 1
        if self._peek() == ("}" if first == "{" else "]"):
            self.position += 1
            return {} if first == "{" else []
        if first == "{":
            self.open.append({})
            self.steps.append("(key)")
            self._key()
        else:
            self.open.append([])
            self.steps.append(0)
        return _OPENED

    def _put(self, value: Any) -> None:
        container, step = self.open[-1], self.steps[-1]
        if isinstance(step, int):
            container.append(value)
        else:
            container[step] = value

    def _goes_on(self) -> bool:
        """After an element: past a comma to the next one (True), or past the closing bracket (False)."""
        is_object = isinstance(self.open[-1], dict)
        found = self._peek()
        if found == ",":
            self.position += 1
            if is_object:
                self._key()
            else:
                self.steps[-1] = len(self.open[-1])
            return True
        if found == ("}" if is_object else "]"):
            self.position += 1
            return False
        raise self._syntax(f"expected , or {'}' if is_object else ']'}")

    def _key(self) -> None:
        if self._peek() != '"':
            raise self._syntax("expected a key in quotes")
        self.steps[-1] = "(key)"
        key = self._string()
        self.steps[-1] = key
        if key in self.open[-1]:
            raise refusal("E-DATA-07", "duplicate key", self._here(), fix="send each key once")
        if self._peek() != ":":
            raise self._syntax("expected :")
        self.position += 1

    def _string(self) -> str:
        match = _STRING.match(self.text, self.position)
        if not match:
            raise self._syntax("a text does not end, or holds a bad escape or a bare control character")
        self.position = match.end()
        value: str = json.loads(match.group())
        if "\x00" in value:
            raise refusal(
                "E-DATA-03", "NUL character (U+0000)", self._here(), fix="remove it, or send the bytes as base64"
            )
        if _SURROGATE.search(value):
            raise refusal("E-DATA-04", "lone surrogate", self._here(), fix="decode the source with its real encoding")
        return value

    def _number(self, match: re.Match[str]) -> int | float:
        if match.group(1) is None and match.group(2) is None:
            digits = match.group()
            if len(digits) > _INTEGER_DIGITS or abs(int(digits)) > limits.INTEGER_MAX:
                raise refusal("E-DATA-06", "integer outside ±(2^53-1)", self._here(), fix="send it as a text")
            return int(digits)
        value = float(match.group())
        if value in (float("inf"), float("-inf")):
            raise refusal("E-DATA-05", "number too large for a double", self._here(), fix="send it as a text")
        return value

    def _literal(self, word: str) -> bool | None:
        if word in _LITERALS:
            self.position += len(word)
            return _LITERALS[word]
        if word.lstrip("-") in ("NaN", "Infinity"):
            raise refusal("E-DATA-05", f"{word} is no JSON number", self._here(), fix="send null or a text")
        raise self._syntax(f"unexpected {word[:20]!r}")

    def _peek(self) -> str:
        match = _BLANK.match(self.text, self.position)
        self.position = match.end() if match else self.position
        return self.text[self.position : self.position + 1]

    def _here(self) -> str:
        return path_text(self.where, self.steps)

    def _syntax(self, what: str) -> Unprocessable:
        line = self.text.count("\n", 0, self.position) + 1
        column = self.position - (self.text.rfind("\n", 0, self.position) + 1) + 1
        return refusal("E-DATA-01", f"not JSON: {what} (line {line}, column {column})", self._here())


_OPENED = object()
