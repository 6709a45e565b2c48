"""A reader for plain YAML: block mappings and lists, flow lists, scalars, anchors and merge keys; all else is refused.

The deployment files keep to that subset, which leaves no doubt about what a line means.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_KEY = re.compile(r"""(?P<key>[\w.$/<-][\w .$/<-]*|"[^"]*"):(?: +(?P<rest>.*))?""")
_ANCHOR = re.compile(r"&(\w+)\s*(.*)")
_REFUSED = re.compile(r"[|>][+-]?\s*$|^[!{%@`]|\t")


@dataclass
class _Line:
    number: int
    indent: int
    text: str


class PlainYamlError(ValueError):
    """What is no plain YAML, with its line."""


def load(text: str) -> Any:
    """The document; PlainYamlError names the line that is not plain."""
    lines = [
        _Line(number, len(raw) - len(raw.lstrip(" ")), _without_comment(raw).strip())
        for number, raw in enumerate(text.splitlines(), 1)
        if _without_comment(raw).strip()
    ]
    reader = _Reader(lines)
    value = reader.block(0)
    if reader.lines:
        raise PlainYamlError(f"line {reader.lines[0].number}: unexpected indentation")
    return value


def _without_comment(raw: str) -> str:
    return re.sub(r"(^|\s)#.*$", "", raw) if '"' not in raw else raw


class _Reader:
    def __init__(self, lines: list[_Line]) -> None:
        self.lines = lines
        self.anchors: dict[str, Any] = {}

    def block(self, indent: int) -> Any:
        if not self.lines or self.lines[0].indent < indent:
            return None
        own = self.lines[0].indent
        return self.sequence(own) if self.lines[0].text.startswith("- ") else self.mapping(own)

    def mapping(self, indent: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self.lines and self.lines[0].indent == indent and not self.lines[0].text.startswith("- "):
            line = self.lines.pop(0)
            match = _KEY.fullmatch(line.text)
            if match is None:
                raise PlainYamlError(f"line {line.number}: neither a key nor a list: {line.text}")
            key, rest = match["key"].strip('"'), match["rest"] or ""
            if key in found:
                raise PlainYamlError(f"line {line.number}: {key} stands twice")
            anchor = _ANCHOR.fullmatch(rest)
            rest = anchor[2] if anchor else rest
            value = self.scalar(line, rest) if rest else self.block(indent + 1)
            if anchor:
                self.anchors[anchor[1]] = value
            if key == "<<":
                found = {**value, **found}
            else:
                found[key] = value
        return found

    def sequence(self, indent: int) -> list[Any]:
        found = []
        while self.lines and self.lines[0].indent == indent and self.lines[0].text.startswith("- "):
            line = self.lines.pop(0)
            found.append(self.scalar(line, line.text[2:].strip()))
        return found

    def scalar(self, line: _Line, text: str) -> Any:
        if _REFUSED.search(text):
            raise PlainYamlError(f"line {line.number}: not plain: {text}")
        if text.startswith("*"):
            return self.anchors[text[1:]]
        if text.startswith("["):
            if not text.endswith("]"):
                raise PlainYamlError(f"line {line.number}: a list that goes on in the next line")
            return [self.scalar(line, part) for part in re.findall(r'"[^"]*"|[^,\s][^,]*', text[1:-1])]
        if text.startswith(('"', "'")):
            if len(text) < 2 or text[-1] != text[0]:
                raise PlainYamlError(f"line {line.number}: a quote that does not end")
            return text[1:-1]
        if ": " in text or text.endswith(":"):
            raise PlainYamlError(f"line {line.number}: a colon inside a plain text: {text}")
        return {"true": True, "false": False}.get(text, int(text) if text.isdigit() else text)
