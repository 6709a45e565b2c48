"""limits.md: every number that somebody can run into."""

from __future__ import annotations

from itertools import groupby

from stanchion.contracts import limits

from . import comments
from .markdown import code, page, section, table

_INTRO = """
All limits stand in one file, `stanchion/contracts/limits.py`. Running into one is an error that names the limit, the
value and the way out; nothing is half-written. The unit is the last word of the name.
"""


def limits_page() -> str:
    """The page of `stanchion/contracts/limits.py`."""
    entries = [entry for entry in comments.constants(limits) if entry.section]
    blocks = []
    for heading, group in groupby(entries, key=lambda entry: entry.section):
        title, _, rest = heading.partition(":")
        rows = ((code(entry.name), shown(getattr(limits, entry.name)), entry.comment) for entry in group)
        about = rest.strip().capitalize() + "." if rest else ""
        blocks.append(section(title.capitalize(), about, table(("limit", "value", "what it bounds"), rows)))
    return page("Limits", _INTRO, *blocks)


def shown(value: float) -> str:
    """A number as people read it; sizes with their unit."""
    if isinstance(value, int) and limits.KIB <= value < 2**40 and value % limits.KIB == 0:
        whole, unit = (value // limits.MIB, "MiB") if value % limits.MIB == 0 else (value // limits.KIB, "KiB")
        return f"{value:,} ({whole:,} {unit})"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.10g}"
