"""why.md: every reason that `stanchion why` gives."""

from __future__ import annotations

from stanchion.authority.why_codes import WHY

from .markdown import code, page, table

_INTRO = """
`stanchion why ID` and `GET /v1/why/{any_id}` say what keeps a task, run, step or barrier from moving: every reason that
holds now, with what to type against it. They come in the order of this table, the ones that need somebody first.
"""


def why_page() -> str:
    """The page of all reasons."""
    rows = ((code(name), info.meaning, "yes" if info.by_itself else "no") for name, info in WHY.items())
    return page("Reasons", _INTRO, table(("code", "what it means", "passes by itself"), rows))
