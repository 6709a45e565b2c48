"""Content to look at: text, JSON, tables and images; nothing of it is ever run.

What something is, its bytes say, and never its name or the media type alone: those only choose how a text is laid out.
"""

from __future__ import annotations

import csv
import difflib
import io
import json
import re
from dataclasses import dataclass, field
from typing import Final

KB: Final = 1_000
PREVIEW_BYTES: Final = 256 * KB
IMAGE_BYTES: Final = 5_000 * KB
ROWS: Final = 500
CELLS: Final = 50
CELL_CHARACTERS: Final = 200
LINE_PAIRS: Final = 1_000_000
"""Above so many pairs of lines two texts are not compared: matching thousands of equal ones takes minutes."""
DIFFERING: Final = 2_000
INDENTED: Final = 20
LAID_OUT: Final = 1_000 * KB


_PIECE: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


@dataclass(frozen=True, slots=True)
class Preview:
    """What is shown: `kind` is text, json, markdown, table, image or none."""

    kind: str
    text: str = ""
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """Two texts beside each other: lines with `+`, `-`, `@` or a blank before them; or why there are none."""

    lines: tuple[tuple[str, str], ...] = ()
    why: str = ""
    notes: tuple[str, ...] = field(default=())


def image_type(content: bytes) -> str | None:
    """The media type of an image by its first bytes; None for anything else: SVG is a document, and not shown."""
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        return "image/webp"
    return None


def preview(name: str, media_type: str, content: bytes, size: int) -> Preview:
    """How content is shown, of which `content` is the beginning and `size` the whole length."""
    whole = len(content) >= size
    if image_type(content) is not None:
        return Preview("image") if size <= IMAGE_BYTES else Preview("none", notes=("The image is too large to show.",))
    text = text_of(content, whole=whole)
    if text is None:
        return Preview("none")
    notes = () if whole else (f"The first {len(content) // KB:,} kB; the rest is in the file.",)
    kind = media_type.partition(";")[0].strip().lower()
    ending = name.rpartition(".")[2].lower()
    if kind in ("text/csv", "text/tab-separated-values") or ending in ("csv", "tsv"):
        return _table(text, "\t" if ending == "tsv" or kind.endswith("values") else ",", notes, whole=whole)
    if kind == "application/json" or ending == "json":
        laid_out = _json(text) if whole else None
        return Preview("json", laid_out or text, notes=notes if laid_out or not whole else ("It is no JSON.",))
    if kind == "text/markdown" or ending in ("md", "markdown"):
        return Preview("markdown", text, notes=(*notes, "Markdown, as it was written."))
    return Preview("text", text, notes=notes)


def text_of(content: bytes, *, whole: bool) -> str | None:
    """The text that bytes are, without a character that was cut at the end; None when they are none."""
    if b"\x00" in content:
        return None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if whole or error.reason != "unexpected end of data":
            return None
        return content[: error.start].decode("utf-8-sig")


def difference(old: bytes, new: bytes, sizes: tuple[int, int]) -> Difference:
    """What differs between two texts, of which these are the beginnings."""
    texts = [text_of(content, whole=len(content) >= size) for content, size in ((old, sizes[0]), (new, sizes[1]))]
    if texts[0] is None or texts[1] is None:
        return Difference(why="One of them is no text.")
    before, after = texts[0].splitlines(), texts[1].splitlines()
    cut = len(old) < sizes[0] or len(new) < sizes[1]
    notes = (f"Only the first {PREVIEW_BYTES // KB:,} kB of each are compared.",) if cut else ()
    if before == after:
        return Difference(why="They are the same." if not cut else "Their beginnings are the same.", notes=notes)
    if _unlike(before, after):
        return Difference(why="They differ in too many lines to be compared here: download both.", notes=notes)
    found = list(difflib.unified_diff(before, after, n=3, lineterm=""))[2:]
    if len(found) > DIFFERING:
        notes = (*notes, f"The first {DIFFERING:,} lines of {len(found):,}.")
    return Difference(tuple((line[:1], line[1 : 2 * KB]) for line in found[:DIFFERING]), notes=notes)


def _unlike(before: list[str], after: list[str]) -> bool:
    """Whether so much lies between what both begin and end with that comparing it would take long."""
    shorter, same = min(len(before), len(after)), 0
    while same < shorter and before[same] == after[same]:
        same += 1
    end = 0
    while end < shorter - same and before[-1 - end] == after[-1 - end]:
        end += 1
    return (len(before) - same - end) * (len(after) - same - end) > LINE_PAIRS


def _json(text: str) -> str | None:
    """JSON with its values on lines of their own, each as it was written; None for what is none, or gets too long."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    parts: list[str] = []
    depth = length = 0
    before = ""
    for piece in _PIECE.findall(text):
        closes = piece in ("}", "]")
        depth -= closes
        empty = closes and before in ("{", "[")
        fresh = not empty and (closes or before in ("{", "[", ","))
        part = ("\n" + "  " * min(depth, INDENTED) if fresh else "") + piece + (" " if piece == ":" else "")
        depth += piece in ("{", "[")
        length += len(part)
        if length > LAID_OUT:
            return None
        parts.append(part)
        before = piece
    return "".join(parts)


def _table(text: str, separator: str, notes: tuple[str, ...], *, whole: bool) -> Preview:
    lines = text if whole else text[: text.rfind("\n") + 1]  # the last one may be half a line
    found: list[tuple[str, ...]] = []
    wide = more = False
    try:
        for row in csv.reader(io.StringIO(lines), delimiter=separator, strict=False):
            if len(found) > ROWS:
                more = True
                break
            wide = wide or len(row) > CELLS
            found.append(tuple(cell[:CELL_CHARACTERS] for cell in row[:CELLS]))
    except csv.Error:
        return Preview("text", text, notes=notes)
    if not found:
        return Preview("text", text, notes=notes)
    notes += (f"The first {ROWS} rows.",) if more else ()
    notes += (f"The first {CELLS} columns.",) if wide else ()
    return Preview("table", head=found[0], rows=tuple(found[1:]), notes=notes)
