"""why.md: every reason that `stanchion why` gives, and the runbook: what to look at, and what to do."""

from __future__ import annotations

from stanchion.authority.why_codes import WHY

from .markdown import code, page, section, table

_INTRO = """
`stanchion why ID`, `GET /v1/tasks/{id}/why` and `GET /v1/why/{any_id}`, and a task's page say what holds a task, run,
step or barrier. They come from one function, which reads the columns, and uses the conditions, by which work is handed
out. There is always at least one reason, also that it moves (`W-OK`) or is done (`W-DONE`). They come in the order of
this table, the ones that need somebody first.

Each has a `code`, a `text` with the values that hold now, `since` when, whether it passes `by_itself` and what comes
`next`, the rows that it was read from (`evidence`), and up to three ways out: `fix` has them as commands, `actions`
those that the API and a page can do. Whatever could not be looked at stands in `unchecked`. Who may not see payloads gets the
meaning of a code instead of a text that holds words of a step's author, of somebody who said why, or of the database.
"""

_NONE = """
There is no code for a limit on rates or on running tasks of a tenant, for a task that is to start later, or for a quota
of artifacts: Stanchion has none of these, so nothing waits for them.
"""


def why_page() -> str:
    """The page of all reasons, and the line of the runbook of each."""
    rows = ((code(name), info.meaning, "yes" if info.by_itself else "no") for name, info in WHY.items())
    runbook = ((code(name), info.look, info.do) for name, info in WHY.items())
    return page(
        "Reasons",
        _INTRO,
        table(("code", "what it means", "passes by itself"), rows),
        section("Runbook", table(("code", "what to look at", "what to do"), runbook)),
        section("What is not there", " ".join(_NONE.split())),
    )
