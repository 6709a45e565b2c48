"""Reading the pages as a reader's tool would: links, anchors, blocks of code."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

CHECKOUT = Path(__file__).resolve().parents[3]
FOLDERS = ("docs", "deploy", "services", "examples")


@dataclass(frozen=True)
class Block:
    """A fenced block: where it stands, its language and its text."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(CHECKOUT)}:{self.line}"


def pages() -> list[Path]:
    """All Markdown files of the project."""
    found = [path for folder in FOLDERS for path in (CHECKOUT / folder).rglob("*.md")]
    return sorted([*CHECKOUT.glob("*.md"), *found])


def name_of(page: Path) -> str:
    """A page as tests name it."""
    return str(page.relative_to(CHECKOUT))


@cache
def tokens(page: Path) -> tuple[Token, ...]:
    """The page as the parser sees it."""
    return tuple(MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8")))


def links(page: Path) -> Iterator[tuple[int, str]]:
    """(line, target) of every link and image."""
    for token in tokens(page):
        line = (token.map or [0])[0] + 1
        for inner in token.children or ():
            target = inner.attrGet("href") if inner.type == "link_open" else inner.attrGet("src")
            if isinstance(target, str) and inner.type in ("link_open", "image"):
                yield line, target


def anchors(page: Path) -> set[str]:
    """What a link may name behind `#`: headings as they are shown, and `<a id>`."""
    found: set[str] = set()
    parsed = tokens(page)
    for before, token in itertools.pairwise(parsed):
        if before.type == "heading_open":
            name = anchor = _slug("".join(one.content for one in token.children or ()))
            number = 0
            while anchor in found:
                number += 1
                anchor = f"{name}-{number}"
            found.add(anchor)
    return found | set(re.findall(r'<a id="([^"]+)">', page.read_text(encoding="utf-8")))


def _slug(text: str) -> str:
    return "".join(one for one in text.lower() if one.isalnum() or one in " -_").replace(" ", "-")


def blocks(page: Path, *languages: str) -> list[Block]:
    """The fenced blocks of a page in these languages."""
    return [
        Block(page, (token.map or [0])[0] + 1, token.info.strip(), token.content)
        for token in tokens(page)
        if token.type == "fence" and token.info.strip() in languages
    ]


def inline_code(page: Path) -> list[tuple[int, str]]:
    """(line, text) of everything in backticks."""
    return [
        ((token.map or [0])[0] + 1, inner.content)
        for token in tokens(page)
        for inner in token.children or ()
        if inner.type == "code_inline"
    ]


def sources(*suffixes: str) -> list[Path]:
    """The program's own files, without tests."""
    found = [
        path
        for folder in ("stanchion", "services", "examples")
        for suffix in suffixes
        for path in (CHECKOUT / folder).rglob(f"*{suffix}")
    ]
    return sorted(path for path in found if "__pycache__" not in path.parts)
