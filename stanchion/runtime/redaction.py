"""Secrets out of what is written down: marked keys, passwords in connection strings. Never raises, reads no stream.

What it is given may be anything: deep, endless, huge, or an object whose repr fails. It walks plain containers only, to
a bounded depth and width, and cuts long texts in the middle.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

HIDDEN: Final = "[hidden]"

DEPTH: Final = 6
ITEMS: Final = 100
CHARACTERS: Final = 8_000

_MARKED = re.compile(
    r"passw|passphrase|secret|(?:^|[_-])token$|api[_-]?key|private[_-]?key|authorization|cookie|credential|signature"
    r"|(?:^|[_-])pwd$",
    re.IGNORECASE,
)
_URL = re.compile(r"([a-z][a-z0-9+.-]{1,30}://[^\s:/@]{0,200}):[^\s\"'<>]{1,500}@", re.IGNORECASE)
_ASSIGNED = re.compile(
    r"\b([a-z_]*(?:password|passwd|pwd|secret|api_?key|(?<![a-z])token))(['\"]?\s?[:=]\s?)"
    r"('(?:[^'\\]|\\.){0,500}'|\"(?:[^\"\\]|\\.){0,500}\"|[^\s&;,'\"]{1,500})",
    re.IGNORECASE,
)
_BEARER = re.compile(r"\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)


def is_marked(key: str) -> bool:
    """Whether a field of this name is a secret by its name."""
    return _MARKED.search(key) is not None


def redact_text(text: str) -> str:
    """A text without passwords that stand in it, and cut to `CHARACTERS`."""
    if len(text) > CHARACTERS:
        tail = CHARACTERS // 4  # of a traceback the end says most
        text = f"{text[: CHARACTERS - tail]} ... ({len(text):,} characters) ... {text[-tail:]}"
    if "://" in text:
        text = _URL.sub(rf"\1:{HIDDEN}@", text)
    text = _ASSIGNED.sub(rf"\1\2{HIDDEN}", text)
    return _BEARER.sub(rf"\1 {HIDDEN}", text)


def redact(value: Any, depth: int = 0) -> Any:
    """A copy of a value that is fit for a log: plain types, bounded, marked keys hidden."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return redact_text(value)
    if depth >= DEPTH:
        return f"... ({type(value).__name__})"
    if isinstance(value, Mapping):
        return _mapping(value, depth)
    if isinstance(value, (list, tuple, set, frozenset)):
        items = [redact(item, depth + 1) for item, _ in zip(value, range(ITEMS), strict=False)]
        return items if len(value) <= ITEMS else [*items, f"... ({len(value):,} items)"]
    return _foreign(value)


def _mapping(value: Mapping[Any, Any], depth: int) -> Any:
    if not isinstance(value, dict):
        return f"<{type(value).__name__}>"  # a lazy mapping may do work, or fail, when it is read
    shown: dict[str, Any] = {}
    for key, item in list(value.items())[:ITEMS]:
        name = key if isinstance(key, str) else f"<{type(key).__name__}>"
        shown[redact_text(name)[:200]] = HIDDEN if is_marked(name) else redact(item, depth + 1)
    if len(value) > ITEMS:
        shown["..."] = f"{len(value):,} keys"
    return shown


def _foreign(value: Any) -> str:
    """Anything else by its own text if that is short and safe to ask for, else by its type."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"<{len(value):,} bytes>"
    if hasattr(value, "read") or hasattr(value, "__next__"):
        return f"<{type(value).__name__}>"
    try:
        return redact_text(str(value))
    except Exception as error:  # noqa: BLE001 - a repr that fails must not take the log line with it
        return f"<{type(value).__name__}: {type(error).__name__} in its text>"
