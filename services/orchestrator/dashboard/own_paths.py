"""Where a page may send somebody on to: a path of this site, and nowhere else."""

from __future__ import annotations


def own_path(text: str | None) -> str:
    """A path of this site; `/` for whatever a browser might read as another place."""
    text = text or "/"
    printable = all(33 <= ord(character) < 127 for character in text)
    if not (printable and text.startswith("/")) or text.startswith("//") or "\\" in text:
        return "/"
    return text
