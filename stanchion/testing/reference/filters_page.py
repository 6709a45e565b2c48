"""filters.md: the filter language of task lists."""

from __future__ import annotations

from stanchion.authority.saved_views import BUILT_IN
from stanchion.authority.task_terms import DEAR
from stanchion.contracts import limits
from stanchion.contracts.filters import INPUT, NAMES, NEEDS_PAYLOAD, ORDERED

from .markdown import code, page, table

_INTRO = """
One language on the page, in `GET /v1/tasks?q=`, behind `--filter`, in saved views and in jobs:

    state:failed,cancelled workflow:brief tag:nightly started:>2h -workflow:healthcheck error:"rate limit"

Terms stand beside each other and all have to hold; values between commas are alternatives; a minus turns a term around.
What has blanks, commas or quotes in it stands in double quotes, with `\\"` and `\\\\` inside. A word without a name is
looked for in goals, idempotency keys and ids. A length of time (`s`, `m`, `h`, `d`, `w`) is an age: `>2h` is longer ago
than two hours. A date is a day of UTC.
"""
_SCANS = f"""
What an index serves is read from it. For the rest tasks are looked at one by one, newest first: for
{limits.SEARCH_SECONDS:g} seconds, and {limits.SEARCH_DAYS:g} days back unless the filter names a time (or the request a
`scope`). The answer says how many tasks were looked at (`scanned`), since when (`since`), and whether the time was over
before the page was full (`partial`); its `next` goes on from there. Inputs above 64 KiB are not looked into. A job in
bulk looks at everything, however long it takes.
"""


def filters_page() -> str:
    """The page of the filter language."""
    rows = [
        (
            code(name + ("…" if name == INPUT else ":")),
            meaning,
            "`>` `>=` `<` `<=`" if name in ORDERED else "",
            "one by one" if name in DEAR else "",
            "`payload.read`" if name in NEEDS_PAYLOAD else "",
        )
        for name, meaning in NAMES.items()
    ]
    views = [(one.name, code(one.query), one.order) for one in BUILT_IN]
    return page(
        "Filters",
        _INTRO,
        table(("term", "what it looks at", "compares", "looked at", "needs"), rows),
        "## How far a search looks",
        _SCANS,
        "## Views that everybody has",
        table(("name", "filter", "order"), views),
    )
