"""Which errors are the same: by what they are, where they come from, and what they say without what differs each time.

Numbers, ids, hashes, addresses, times and quoted texts differ from one failure to the next; a message without them is
what the author wrote. The line of the author's own code belongs to it: two `KeyError`s of one step are two faults.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

MESSAGE_CHARACTERS: Final = 300

# In this order: what is quoted first, since it may hold anything; then what has digits in it, the longest forms first.
_VARYING: Final = (
    (re.compile(r"\"(?:[^\"\\]|\\.)*\"|(?<![A-Za-z])'(?:[^'\\]|\\.)*'|`[^`]*`"), "…"),
    (re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s,;)\]]+"), "<url>"),
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\b[a-z]{2,4}_[0-9A-HJKMNP-TV-Z]{26}\b"), "<id>"),
    (re.compile(r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9:.]+(?:Z|[+-][0-9:]+)?)?"), "<time>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<hex>"),
    (re.compile(r"\b(?=[0-9a-fA-F]*[0-9])(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{8,}\b"), "<hex>"),
    (re.compile(r"(?<![A-Za-z0-9_])[+-]?[0-9]+(?:[.,:][0-9]+)*"), "<n>"),
    (re.compile(r"\s+"), " "),
)
_FRAME = re.compile(r'File "([^"]+)", line ([0-9]+), in (\S+)')
_BEFORE_NAME = re.compile(r".*[/\\]")
_NOT_THEIRS = re.compile(r"[/\\](?:site-packages|dist-packages|lib[/\\]python3[^/\\]*)[/\\]")


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What an error is recognised by, and its id: the same for the same in each tenant."""

    workflow: str
    node: str
    code: str
    type: str | None
    place: str | None
    message: str

    @property
    def group_id(self) -> UUID:
        """The hash of it, in the form of an id."""
        parts = (self.workflow, self.node, self.code, self.type or "", self.place or "", self.message)
        return UUID(bytes=hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).digest()[:16])


def fingerprint(workflow: str, node: str, error: Mapping[str, Any]) -> Fingerprint:
    """What the error of an attempt of this node is recognised by."""
    code, what = _text(error.get("code")) or "E-BUG-01", _text(error.get("what")) or ""
    kind = _text(error.get("type"))
    message = what.removeprefix(f"{kind}: ") if kind else what
    return Fingerprint(workflow, node, code, kind, place_of(_text(error.get("traceback"))), normalised(message))


def normalised(message: str) -> str:
    """A message without what differs from one failure to the next; its first lines, shortened."""
    for pattern, stands_for in _VARYING:
        message = pattern.sub(stands_for, message[: 8 * MESSAGE_CHARACTERS])
    return message.strip()[:MESSAGE_CHARACTERS]


def place_of(traceback: str | None) -> str | None:
    """The innermost line of a traceback that is the author's own, or else the innermost, as `file:line in function`."""
    frames = _FRAME.findall(traceback or "")
    if not frames:
        return None
    own = [frame for frame in frames if not _NOT_THEIRS.search(frame[0])]
    file, line, function = (own or frames)[-1]
    return f"{_BEFORE_NAME.sub('', file)}:{line} in {function}"[:MESSAGE_CHARACTERS]


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
