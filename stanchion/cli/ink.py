"""What a person reads: colour where the terminal has it, and nothing out of somebody's data that acts on a terminal.

Styles are put in as marks that no data can hold, since they are new in each process. At the edge every control
character is made visible first, and only then do marks become escape sequences.
"""

from __future__ import annotations

import re
import secrets
from typing import Any, Final

import click

_ESCAPE: Final = "\x1b["
_MARK: Final = f"\ue000{secrets.token_hex(8)}\ue000"

# Control characters but line feed and tab, what turns the direction of writing or breaks lines, what nobody can see.
_ACTING: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """A text whose control and direction characters are written out, as JSON writes them: `\\u001b`, `\\u202e`."""
    return _ACTING.sub(_written, text)


def styled(text: str, **style: Any) -> str:
    """A text with a style, for `for_people`."""
    return click.style(visible(text), **style).replace(_ESCAPE, _MARK)


def for_people(text: str) -> str:
    """What goes to a person: foreign control characters made visible, our own styles put in."""
    return visible(text).replace(_MARK, _ESCAPE)


def _written(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[place] << 8 | units[place + 1]:04x}" for place in range(0, len(units), 2))
