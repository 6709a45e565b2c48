"""Blocks into numbered passages, passages into sentences.

Numbers follow the order of the document and depend on nothing but its content, so that a citation (document, number,
digest) made by one process is found again by another.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace

from .blocks import Block
from .shapes import Passage

LONGEST = 900
"""A passage ends at the last sentence that fits; only a single longer sentence makes a longer passage."""
LONGEST_CODE = 1_600
LONGEST_LIST = 600
MAX_PASSAGES = 4_000
_SHORT_ITEM = 40


def split(blocks: list[Block]) -> list[Passage]:
    """Cuts a document's blocks into passages, numbered from 1.

    A paragraph or list item makes one passage, longer ones several at sentence ends; short neighbouring items share
    one. Code and tables are passages of their own kinds, never mixed with prose. At most 4,000 are returned.
    """
    passages: list[Passage] = []
    seen: set[str] = set()
    opened: tuple[str, ...] | None = None
    for kind, text, block in _pieces(blocks):
        if len(passages) == MAX_PASSAGES:
            break
        value = digest(text)
        repeated = value in seen  # methods that inherit their text repeat it word by word
        seen.add(value)
        heading = " › ".join(block.path[-3:])[:200]
        lead = kind == "text" and block.path != opened
        opened = block.path
        passages.append(Passage(len(passages) + 1, text, heading, kind, value, block.noise or repeated, lead))
    return passages


def digest(text: str) -> str:
    """SHA-256 of a passage's text, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def _pieces(blocks: list[Block]) -> list[tuple[str, str, Block]]:
    pieces: list[tuple[str, str, Block]] = []
    short: list[Block] = []

    def close_list() -> None:
        if short:
            pieces.extend(("list", part, short[0]) for part in _cut([block.text for block in short], "; "))
            short.clear()

    for block in _with_lists(blocks):
        if block.kind == "item" and len(block.text) < _SHORT_ITEM:
            if short and short[0].path != block.path:
                close_list()
            short.append(block)
            continue
        close_list()
        if block.kind == "code":
            pieces.append(("code", block.text[:LONGEST_CODE], block))
        elif block.kind == "table":
            pieces.append(("table", block.text[:LONGEST_CODE], block))
        elif block.kind in ("text", "item"):
            pieces.extend((block.kind, part, block) for part in _cut(sentences(block.text), " "))
    close_list()
    return pieces


def _with_lists(blocks: list[Block]) -> list[Block]:
    """Puts a list behind the sentence that announces it with a colon, where both fit into one passage."""
    result: list[Block] = []
    at = 0
    while at < len(blocks):
        block = blocks[at]
        at += 1
        if block.kind == "text" and block.text.endswith(":"):
            end = at
            while end < len(blocks) and blocks[end].kind == "item" and blocks[end].path == block.path:
                end += 1
            items = [item.text.rstrip(".;,") for item in blocks[at:end]]
            joined = f"{block.text} {'; '.join(items)}."
            if items and len(joined) <= LONGEST_LIST:
                result.append(replace(block, text=joined))
                at = end
                continue
        result.append(block)
    return result


def _cut(parts: list[str], glue: str) -> list[str]:
    """Joins parts into pieces of at most `LONGEST` characters (a longer part is cut at a word, twice that at most)."""
    pieces: list[str] = []
    for part in (chunk for whole in parts for chunk in _chunks(whole)):
        if pieces and len(pieces[-1]) + len(glue) + len(part) <= LONGEST:
            pieces[-1] += glue + part
        else:
            pieces.append(part)
    return pieces


def _chunks(text: str) -> list[str]:
    """Text without a single sentence end (tables pasted as prose, base64) must not make passages of megabytes."""
    chunks = []
    while len(text) > 2 * LONGEST:
        at = text.rfind(" ", LONGEST, 2 * LONGEST)
        at = at if at > 0 else 2 * LONGEST
        chunks.append(text[:at])
        text = text[at:].lstrip()
    return [*chunks, text] if text else chunks


_END = re.compile(r"""[.!?…]["'”’)\]`*_]*\s+(?=["'“‘(\[`*_]*[A-Z0-9`*_])""")
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|al|resp|approx|incl|esp|fig|no|vol|sec|eq|ref|dr|mr|mrs|ms|prof|st|inc|ltd|co|jr"
    r"|a\.k\.a|w\.r\.t|viz|ca)|\b[A-Z])\.$|^\(?\d+\.$",
    re.IGNORECASE,
)
_SHORT_WORD = re.compile(r"\b(it|is|so|on|in|no|me|us)\.$")


def sentences(text: str) -> list[str]:
    """Splits a paragraph at sentence ends; not behind abbreviations, and not inside brackets or code spans."""
    found: list[str] = []
    start = 0
    for match in _END.finditer(text):
        candidate = text[start : match.end()].rstrip()
        if len(candidate) < LONGEST and _goes_on(candidate):
            continue
        found.append(candidate)
        start = match.end()
    if rest := text[start:].strip():
        found.append(rest)
    return found


def _goes_on(candidate: str) -> bool:
    """Whether what looks like a sentence's end is an abbreviation's, or lies within brackets or a code span."""
    bare = candidate.rstrip("\"'”’)]`*_")
    if _ABBREVIATION.search(bare[-24:]) and not _SHORT_WORD.search(bare[-24:]):
        return True
    return bool(candidate.count("`") % 2) or candidate.count("(") > candidate.count(")")
