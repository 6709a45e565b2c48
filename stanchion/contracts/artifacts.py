"""What an artifact may be called, and what kind of content it may say it has."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from stanchion.contracts import limits
from stanchion.errors import Unprocessable, register_code

BAD_NAME: Final = register_code(
    "E-ART-01",
    "bad name of an artifact",
    status=422,
    meaning="A name has 1 to 200 visible characters; between slashes it has parts, none of them '.' or '..'.",
    fix="Use a name such as report.pdf or pages/0001.json.",
)
BAD_MEDIA_TYPE: Final = register_code(
    "E-ART-02",
    "bad media type",
    status=422,
    meaning="A media type is type/subtype, with parameters behind it or none.",
    fix="Use one such as application/pdf or text/plain; charset=utf-8.",
)

DEFAULT_MEDIA_TYPE: Final = "application/octet-stream"

_WORD: Final = r"[A-Za-z0-9!#$&^_.+-]+"
_MEDIA_TYPE: Final = re.compile(rf'{_WORD}/{_WORD}(; ?{_WORD}=({_WORD}|"[A-Za-z0-9 !#$&^_.+-]*"))*')


def check_name(name: object, where: str = "name") -> str:
    """The name itself; raises Unprocessable E-ART-01. It is no path, but people save files under it."""
    fault = _fault(name)
    if fault is None:
        return str(name)
    raise Unprocessable(BAD_NAME, f"{_shown(name)} is no name of an artifact", where=where, why=fault)


def check_media_type(text: object, where: str = "media_type") -> str:
    """The media type itself; raises Unprocessable E-ART-02."""
    if isinstance(text, str) and len(text) <= limits.MEDIA_TYPE_CHARACTERS and _MEDIA_TYPE.fullmatch(text):
        return text
    raise Unprocessable(BAD_MEDIA_TYPE, f"{_shown(text)} is no media type", where=where)


def _fault(name: object) -> str | None:
    if not isinstance(name, str):
        return "a name is a text"
    if not 1 <= len(name) <= limits.NAME_CHARACTERS:
        return f"it has {len(name):,} characters, and 1 to {limits.NAME_CHARACTERS} are allowed"
    # Control and format characters (bidirectional ones among them) and foreign blanks make a name look like another.
    if hidden := next((c for c in name if not c.isprintable()), None):
        return f"it holds U+{ord(hidden):04X}, which nobody sees or can tell from a blank"
    if "\\" in name or name != unicodedata.normalize("NFC", name):
        return "it holds a backslash, or letters that look the same and are others"
    parts = name.split("/")
    if any(part in ("", ".", "..") or part != part.strip() for part in parts):
        return "a part between slashes is empty, '.' or '..', or begins or ends with a blank"
    return None


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."
