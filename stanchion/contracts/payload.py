"""Payloads: what may travel as a value. I-JSON (RFC 7493), nested at most `limits.PAYLOAD_DEPTH` deep.

UTF-8 (a leading byte order mark is skipped), no NUL, no lone surrogates, no NaN or Infinity, integers within ±(2^53-1),
no duplicate keys. Refused at the edge, with the JSON path; inside, nobody has to ask again. Hashes are SHA-256 over
RFC 8785 canonical JSON, so 1 and 1.0 are one payload, and the order of keys makes no difference.

Reading is fast where there is no doubt: orjson parses, and three cheap facts about the raw text (no escaped NUL, no
long integer, as many keys as colons) settle what orjson lets pass. On a doubt `json_scanner` reads again and names it.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import Any, TypeAlias

import orjson
import rfc8785

from stanchion.contracts import limits
from stanchion.contracts.json_scanner import path_text, refusal, scan
from stanchion.errors import TooLarge, Unprocessable

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

_BOM = b"\xef\xbb\xbf"
_TEXTS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_LONG_INTEGER = re.compile(rb"(?<![.0-9])[0-9]{16,}+(?![.eE])")
_NOT_CANONICAL = re.compile(rb"[0-9][.e]|null")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def parse(data: bytes | str, *, where: str = "$") -> JsonValue:
    """The value of a JSON text; raises Unprocessable E-DATA-01 to E-DATA-08 naming the path below `where`."""
    if isinstance(data, str):
        try:
            raw = data.removeprefix("\ufeff").encode()
        except UnicodeEncodeError:
            scan(data, where)  # raises, and names the place
            raise refusal("E-DATA-04", "lone surrogate", where) from None
    else:
        raw = data.removeprefix(_BOM)
    try:
        value: JsonValue = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return _scan(raw, where)
    bare = _TEXTS.sub(b"", raw)
    if b"\\u0000" in raw or _LONG_INTEGER.search(bare) or _keys(value, 1) != bare.count(b":"):
        return _scan(raw, where)
    return value


def _scan(raw: bytes, where: str) -> JsonValue:
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        what = f"not UTF-8: byte {error.start} is 0x{raw[error.start]:02x}"
        raise refusal("E-DATA-02", what, where, fix="encode as UTF-8") from None
    value: JsonValue = scan(text, where)
    return value


def _keys(value: JsonValue, depth: int) -> int:
    """How many keys `value` holds in all, or -1 as soon as it is nested too deep."""
    if value.__class__ is dict:
        count, children = len(value), value.values()
    elif value.__class__ is list:
        count, children = 0, value  # type: ignore[assignment]  # a value of any JSON type
    else:
        return 0
    if depth > limits.PAYLOAD_DEPTH:
        return -1
    for child in children:
        if child.__class__ is dict or child.__class__ is list:
            inner = _keys(child, depth + 1)
            if inner < 0:
                return -1
            count += inner
    return count


def check(value: object, where: str = "$") -> JsonValue:
    """A copy of a Python value as plain JSON types, tuples as lists; raises Unprocessable with the path of the fault.

    Types are taken exactly: a numpy scalar, an enum or a date is refused by name, since guessing its JSON form would
    make two programs disagree on it. Values that contain themselves are refused as too deep.
    """
    try:
        return _Checker().copy(value, 1)
    except _RefusedError as refused:
        place = path_text(where, refused.steps[::-1])
        raise Unprocessable(refused.code, refused.what, where=place, fix=refused.fix) from None


class _RefusedError(Exception):
    def __init__(self, code: str, what: str, fix: str) -> None:
        super().__init__(code)
        self.code, self.what, self.fix = code, what, fix
        self.steps: list[str | int] = []  # from the inside out, filled while the exception leaves the containers


class _Checker:
    def __init__(self) -> None:
        self.left = limits.PAYLOAD_VALUES

    def copy(self, value: Any, depth: int) -> JsonValue:
        kind = value.__class__
        if kind is str:
            return _checked_text(value)
        if value is None or kind is bool:
            return value  # type: ignore[no-any-return]  # its type was looked at above
        if kind is int:
            if -limits.INTEGER_MAX <= value <= limits.INTEGER_MAX:
                return value  # type: ignore[no-any-return]  # the same
            raise _RefusedError("E-DATA-06", "integer outside ±(2^53-1)", "send it as a text")
        if kind is float:
            if value - value == 0.0:
                return value  # type: ignore[no-any-return]  # the same
            raise _RefusedError("E-DATA-05", f"{value} is no JSON number", "send null or a text")
        if kind is dict or kind is list or kind is tuple:
            return self._container(value, depth)
        raise _RefusedError("E-DATA-09", f"{_named(kind)} is not a JSON type", "convert it: int(), str(), list()")

    def _container(self, value: Any, depth: int) -> JsonValue:
        if depth > limits.PAYLOAD_DEPTH:
            raise _RefusedError("E-DATA-08", f"nested deeper than {limits.PAYLOAD_DEPTH} levels", "flatten the value")
        self.left -= len(value)
        if self.left < 0:  # a short list of itself, 60 levels deep, unfolds into 2^60 values
            raise _RefusedError("E-DATA-16", f"more than {limits.PAYLOAD_VALUES:,} values", "store it as an artifact")
        step: str | int = 0
        try:
            if value.__class__ is dict:
                copied: dict[str, JsonValue] = {}
                for key, child in value.items():
                    step = key if isinstance(key, str) else "(key)"
                    copied[_checked_key(key)] = self.copy(child, depth + 1)
                return copied
            items: list[JsonValue] = []
            for step, child in enumerate(value):  # noqa: B007 - the handler below reads it
                items.append(self.copy(child, depth + 1))
        except _RefusedError as refused:
            refused.steps.append(step)
            raise
        return items


def _checked_text(value: str) -> str:
    if not value.isascii() and _SURROGATE.search(value):
        raise _RefusedError("E-DATA-04", "lone surrogate", "decode the source with its real encoding")
    if "\x00" in value:
        raise _RefusedError("E-DATA-03", "NUL character (U+0000)", "remove it, or send the bytes as base64")
    return value


def _checked_key(key: object) -> str:
    if key.__class__ is not str:
        raise _RefusedError("E-DATA-10", f"a key is of type {_named(key.__class__)}", "use text keys")
    return _checked_text(key)


def _named(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def canonical(value: JsonValue) -> bytes:
    """RFC 8785 canonical JSON of a checked value.

    A float such as 1e16 comes back from PostgreSQL's jsonb as an integer; both have one canonical form here.
    """
    # Without floats and beyond-ASCII keys orjson's sorted form is the canonical one, at a quarter of the time.
    # It writes NaN as null, so a null is no proof of anything and takes the long way too.
    try:
        raw = orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER)
    except TypeError:
        raw = b""
    if raw.isascii() and raw and not _NOT_CANONICAL.search(_TEXTS.sub(b"", raw)):
        return raw
    try:
        return rfc8785.dumps(value)
    except rfc8785.IntegerDomainError:
        return rfc8785.dumps(_as_doubles(value))


def _as_doubles(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _as_doubles(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_as_doubles(child) for child in value]
    if isinstance(value, int) and abs(value) > limits.INTEGER_MAX:
        try:
            return float(value)
        except OverflowError:
            raise refusal("E-DATA-06", "integer beyond any double", "$", fix="send it as a text") from None
    return value


def digest(value: JsonValue) -> bytes:
    """SHA-256 (32 bytes) over the canonical form: equal for payloads that mean the same."""
    return hashlib.sha256(canonical(value)).digest()


def dumps(value: JsonValue) -> bytes:
    """The compact JSON text of a checked value, in UTF-8."""
    try:
        return orjson.dumps(value)
    except TypeError:
        check(value)  # names what is wrong with it
        raise


def size(value: JsonValue) -> int:
    """The bytes of `dumps(value)`."""
    return len(dumps(value))


def check_size(count: int, limit: int, what: str) -> None:
    """Raise TooLarge E-SIZE-01 that names the limit and the value when `count` bytes pass `limit`."""
    if count > limit:
        raise TooLarge(
            "E-SIZE-01",
            f"{what} has {count:,} bytes; the limit is {limit:,}",
            fix="make it smaller, or store it as an artifact and pass the reference",
            limit=limit,
            value=count,
        )


def check_key(text: str, where: str = "idempotency_key") -> str:
    """The key to store for an idempotency key: 1 to 200 characters, not blank, no control characters.

    Two keys are one when their Unicode NFC forms are equal; everything else is exact: case, inner and outer spaces.
    Raises Unprocessable E-DATA-12.
    """
    key = unicodedata.normalize("NFC", text)
    if not key or key.isspace():
        fault = "is empty" if not key else "is blank"
    elif len(text) > limits.KEY_CHARACTERS or len(key) > limits.KEY_CHARACTERS:
        fault = f"has {len(text):,} characters; the limit is {limits.KEY_CHARACTERS}"
    elif any(unicodedata.category(character) in ("Cc", "Cs") for character in key):
        fault = "holds a control character or half a surrogate pair"
    else:
        return key
    raise Unprocessable("E-DATA-12", f"the idempotency key {fault}", where=where, fix="use a key such as order-42")
