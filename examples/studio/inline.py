"""Inline reStructuredText: roles, links, literals and emphasis as the plain text that a reader would see."""

from __future__ import annotations

import re

_ROLE = re.compile(r":[a-zA-Z][\w:+.-]{0,40}:`([^`]+)`")
_LINK = re.compile(r"`([^`<]{0,300})<[^>`]{0,500}>`__?")
_LITERAL = re.compile(r"``(.+?)``")
_REFERENCE = re.compile(r"`([^`]+)`__?(?!\w)|(?<![\w`])(\w+)__?(?=[\s.,;:)]|$)")
_SUBSTITUTION = re.compile(r"\|([\w .-]+)\|_{0,2}")
_FOOTNOTE = re.compile(r"\s?\[(?:\d{1,2}|#\w*|\*)\]_?(?=[\s.,;:)]|$)")
_URL = re.compile(r"<?https?://[^\s>)\]]+[>)\]]?")


def inline(text: str) -> str:
    """Inline reStructuredText as plain text with code spans in single back-ticks."""
    text = _ROLE.sub(_role, text)
    text = _LITERAL.sub(lambda m: f"`{m[1].strip()}`", text)
    text = _LINK.sub(lambda m: m[1].rstrip(), text)
    text = re.sub(r"`!(?=[^`\s])", "`", text)
    text = _REFERENCE.sub(lambda m: m[1] or (m[0] if "_" in (m[2] or "")[:-1] else m[2]), text)
    text = _SUBSTITUTION.sub(r"\1", text)
    text = _FOOTNOTE.sub("", text)
    text = re.sub(r"\*\*([^*\s][^*]*)\*\*", r"\1", text)
    text = re.sub(r"(?<![\w*`])\*([^*\s`][^*`]*)\*(?![\w*])", r"\1", text)
    return re.sub(r"(?<=`)\\(?=\w)", "", text).replace("\\ ", "").replace("\\*", "*").replace("\\_", "_")


def _role(match: re.Match[str]) -> str:
    target = match[1]
    if named := re.match(r"^(.*?)\s*<[^>]*>$", target):
        return named[1]
    target = re.sub(r"^([~!]?)_\w+\.", r"\1", target)  # SQLAlchemy marks the package of a name like this
    return f"`{target.rsplit('.', 1)[-1] if target.startswith('~') else target.lstrip('!.~')}`"
