"""The page: what was published, as text. Every value goes through `_cell`, which escapes it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any, Final

STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .4rem .8rem; border-bottom: 1px solid #ddd; vertical-align: top }
td { overflow-wrap: anywhere }
.retracted { color: #666; text-decoration: line-through }
"""
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
}


def render(publications: Iterable[Mapping[str, Any]]) -> str:
    """The whole page."""
    rows = "\n".join(_row(one) for one in publications)
    body = f"<table>\n{_HEAD}\n{rows}\n</table>" if rows else "<p>Nothing was published yet.</p>"
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>The press</title>'
        f"<style>{STYLE}</style></head>\n<body>\n<h1>The press</h1>\n{body}\n</body>\n</html>\n"
    )


_HEAD: Final = "<tr><th>At</th><th>Channel</th><th>Title</th><th>Artifact</th><th>Publication</th><th>Key</th></tr>"


def _row(one: Mapping[str, Any]) -> str:
    artifact = one["artifact"]
    content = f"version {artifact['version']}, {artifact['sha256'][:12]}"
    cells = [one["at"], one["channel"], one["title"], content, one["id"], one["key"] or "none"]
    mark = ' class="retracted"' if one["retraction"] else ""
    return f"<tr{mark}>{''.join(_cell(cell) for cell in cells)}</tr>"


def _cell(value: object) -> str:
    return f"<td><bdi>{escape(str(value))}</bdi></td>"  # bdi: a title that writes from right to left turns only itself
