"""What people are asked: for me, for my teams, all of it, and what is over."""

from __future__ import annotations

from typing import Any, Final

from stanchion.authority.rows import Row
from stanchion.contracts import ids

from .. import approval_words
from ..view import Asked, Page, Shown, Twin
from . import approval_reads
from .approval_reads import SHOWN

FOR: Final = {"me": "For me", "teams": "My teams", "all": "All open", "closed": "Closed"}
COMMANDS: Final = {
    "me": ("stanchion approval list --mine", "GET /v1/approvals/inbox"),
    "closed": (
        f"stanchion approval list --state {','.join(approval_words.CLOSED)}",
        f"GET /v1/approvals?state={','.join(approval_words.CLOSED)}",
    ),
}
OPEN: Final = ("stanchion approval list --state requested", "GET /v1/approvals?state=requested")


def show(asked: Asked) -> Shown:
    """The inbox; without a tab that is named what waits for the visitor, if there is one."""
    signed_in = asked.visitor.person_id is not None
    tab = asked.one_of("for", tuple(FOR)) or ("me" if signed_in else "all")
    after, before = asked.chosen_id("after", ids.APPROVAL), asked.chosen_id("before", ids.APPROVAL)
    teams: list[str] = []
    if tab == "closed":
        rows = approval_reads.closed_ones(asked, before)
    elif tab == "all":
        rows = approval_reads.open_ones(asked, after=after)
    elif not signed_in:
        rows = []
    elif tab == "me":
        rows = approval_reads.open_ones(asked, person_id=asked.visitor.person_id, after=after)
    else:
        name = asked.visitor.name.removeprefix(approval_words.PERSON)
        teams = approval_reads.teams_of(asked.reads, asked.visitor.tenant_id, name)
        rows = approval_reads.open_ones(asked, teams=teams, after=after) if teams else []
    return Shown(
        "approvals",
        "Approvals",
        ("list",),
        _context(asked, rows) | {"tab": tab, "tabs": FOR, "signed_in": signed_in, "teams": teams},
        Twin(*COMMANDS.get(tab, OPEN)),
        "approvals",
        said=f"{len(rows[:SHOWN])} approvals",
    )


def _context(asked: Asked, rows: list[Row]) -> dict[str, Any]:
    return {
        "rows": rows[:SHOWN],
        "more": rows[SHOWN - 1]["approval_id"] if len(rows) > SHOWN else None,
        "moved": bool(asked.query.get("after") or asked.query.get("before")),
        "open_count": approval_reads.how_many(asked) if not rows else 0,
        "words": approval_words,
    }


def part(asked: Asked, task: Row) -> dict[str, Any]:
    """The approvals of a task, as a part of its page."""
    rows = approval_reads.of_task(asked, task["task_id"], asked.chosen_id("before", ids.APPROVAL))
    return _context(asked, rows)


PAGES: Final = (Page("/approvals", show, query=("for", "after", "before"), personal=True),)
