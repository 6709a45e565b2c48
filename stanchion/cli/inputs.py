"""The input of a task as words on a command line.

    topic=cats              a text: {"topic": "cats"}
    n:=5                    JSON: {"n": 5}; also x:=true, tags:='["a","b"]', x:=null
    body=@letter.txt        a text out of a file
    urls:=@urls.json        JSON out of a file
    @input.json             an object out of a file, all of it
    '{"topic": "cats"}'     the same, as it stands
    -                       an object from standard input

Later words win over whole objects before them; the same name twice by itself is an error.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from stanchion.contracts import limits
from stanchion.errors import TooLarge, Unprocessable

_NAMED: Final = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<how>:?=)(?P<text>.*)", re.DOTALL)


def parse(words: Iterable[str], read_stdin: Callable[[], str] | None = None) -> dict[str, Any]:
    """The object that the words say; raises Unprocessable E-CLI-01 naming the word."""
    found: dict[str, Any] = {}
    named: set[str] = set()
    for word in words:
        if word == "-":
            found |= _object((read_stdin or _stdin)(), "standard input")
            continue
        if word.startswith("@"):
            found |= _object(_file(word[1:]), word[1:])
            continue
        if word.startswith("{"):
            found |= _object(word, "the object")
            continue
        match = _NAMED.fullmatch(word)
        if match is None:
            raise Unprocessable(
                "E-CLI-01",
                f"{word[:60]!a} is no input",
                fix="topic=cats for a text, n:=5 for JSON, @file.json for all of it",
            )
        name = match["name"]
        if name in named:
            raise Unprocessable("E-CLI-01", f"{name} is given twice")
        named.add(name)
        text = match["text"]
        text = _file(text[1:]) if text.startswith("@") else text
        found[name] = text if match["how"] == "=" else _json(text, name)
    return found


def _object(text: str, where: str) -> dict[str, Any]:
    value = _json(text, where)
    if not isinstance(value, dict):
        raise Unprocessable("E-CLI-01", f"{where} holds no JSON object", fix='e.g. {"topic": "cats"}')
    return value


def _json(text: str, where: str) -> Any:
    from stanchion.contracts import payload

    try:
        return payload.parse(text.encode())
    except UnicodeEncodeError:
        raise Unprocessable("E-CLI-01", f"{where} is no UTF-8", fix="write it in UTF-8") from None
    except Unprocessable as error:
        hint = f"{where}={text} for a text" if len(text) <= 40 and where.isidentifier() else None
        raise Unprocessable(error.code, error.what, where=f"{where} {error.where or ''}".strip(), fix=hint) from None


def _file(path: str) -> str:
    try:
        size = Path(path).stat().st_size
        if size > limits.BLOB_BYTES:
            raise TooLarge(
                "E-SIZE-01", f"the file has {size:,} bytes; an input has at most {limits.BLOB_BYTES:,}", where=path
            )
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Unprocessable(
            "E-CLI-01", f"{path} can't be read: {error}", fix="a text that starts with @: x:='\"@…\"'"
        ) from None


def _stdin() -> str:
    return sys.stdin.read(limits.BLOB_BYTES + 1)
