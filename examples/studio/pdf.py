"""PDF into blocks, page by page, with pypdf."""

from __future__ import annotations

import io
import logging
import re
from collections import Counter
from itertools import islice

from pypdf import PdfReader

from .blocks import Outline, Unreadable

MAX_PAGES = 500
_HEADING = re.compile(r"^(\d+(\.\d+)*\.?\s+)?[A-Z][^.!?;]{2,70}$")
_PAGE_NUMBER = re.compile(r"^\W*(page\s+)?\d{1,4}(\s*(/|of)\s*\d{1,4})?\W*$", re.IGNORECASE)

logging.getLogger("pypdf").setLevel(logging.ERROR)  # it logs a line for each oddity of a file; the reason says enough


def parse_pdf(data: bytes, outline: Outline) -> None:
    """Reads a PDF's text under one heading a page; raises `Unreadable` when it is encrypted, broken or only images."""
    pages = _page_lines(data)
    repeated = _running_lines(pages)
    for number, lines in enumerate(pages, 1):
        outline.heading(1, f"page {number}")
        _page(([line for line in lines if line not in repeated and not _PAGE_NUMBER.match(line)]), outline)
    if not any(block.kind != "heading" for block in outline.blocks):
        raise Unreadable("a PDF without text (scanned pages need character recognition first)")


def _page_lines(data: bytes) -> list[list[str]]:
    try:
        reader = PdfReader(io.BytesIO(data), strict=False)
        locked = reader.is_encrypted and not reader.decrypt("")
        pages = [] if locked else [page.extract_text().split("\n") for page in islice(reader.pages, MAX_PAGES)]
    except Exception as error:
        raise Unreadable(f"a broken PDF ({type(error).__name__})") from error
    if locked:
        raise Unreadable("an encrypted PDF: its password is needed")
    if not pages:
        raise Unreadable("a PDF without pages")
    return [[line.strip() for line in lines] for lines in pages]


def _running_lines(pages: list[list[str]]) -> set[str]:
    """Running heads and feet: lines that stand on more than half of at least four pages."""
    if len(pages) < 4:
        return set()
    counts = Counter(line for lines in pages for line in set(lines[:3] + lines[-3:]) if line)
    return {line for line, count in counts.items() if count > len(pages) / 2}


def _page(lines: list[str], outline: Outline) -> None:
    width = max((len(line) for line in lines), default=0)
    paragraph: list[str] = []
    for line in lines:
        if not line:
            _flush(paragraph, outline)
        elif not paragraph and _HEADING.match(line) and len(line) < 0.8 * width:
            outline.heading(2, line)
        else:
            paragraph.append(line)
            if line.endswith((".", "!", "?", ":")) and len(line) < 0.7 * width:
                _flush(paragraph, outline)
    _flush(paragraph, outline)


def _flush(paragraph: list[str], outline: Outline) -> None:
    text = ""
    for line in paragraph:
        hyphenated = re.search(r"[a-z]-$", text) and re.match(r"[a-z]", line)
        text = text[:-1] + line if hyphenated else f"{text} {line}".strip()
    paragraph.clear()
    outline.add("text", text)
