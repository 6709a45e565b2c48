"""One approval: what exactly is asked, what follows from each answer, what was said, and the doors to say something."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from stanchion.authority.approvals import PAYLOADS
from stanchion.authority.rows import Row
from stanchion.contracts import ids
from stanchion.contracts.actions import ACTIONS
from stanchion.errors import NotFound
from stanchion.state import ApprovalState

from .. import approval_words as words
from ..differing import differences
from ..door import Visitor
from ..view import Asked, Page, Shown, Twin
from . import approval_reads


def show(asked: Asked) -> Shown:
    """An approval's page; what is asked only for those who may see payloads."""
    approval_id, visitor = asked.id("approval_id", ids.APPROVAL), asked.visitor
    whole = asked.reads.approvals.get(visitor.tenant_id, approval_id)
    row = whole if visitor.sees_payloads else _withheld(whole)
    beside = approval_reads.around(asked, row)
    beside["replaced_by"] = _replaced_by(asked, row)
    apr, tsk = ids.public(ids.APPROVAL, approval_id), ids.public(ids.TASK, row["task_id"])
    used_state = beside["used"]["state"] if beside["used"] else None
    return Shown(
        "approval",
        f"{row.get('question') or row['node']}: {row['state']}",
        ("head", "asked", "follows", "said", "decide", "next"),
        {"row": row, "apr": apr, "tsk": tsk, "words": words}
        | beside
        | _mine(asked, row, words.ways(row, used_state))
        | {"changes": _changes(asked, row), "version": _version(asked, row)},
        Twin(f"stanchion approval show {apr}", f"GET /v1/approvals/{apr}"),
        "approvals",
        (("Approvals", "/approvals"),),
        ended=row["state"] not in (words.OPEN, "granted", "spent"),
        said=f"it is {row['state']}",
    )


def _withheld(row: Row) -> Row:
    shown = {name: value for name, value in row.items() if name not in PAYLOADS}
    return shown | {"votes": [vote | {"comment": None} for vote in row["votes"]]}


def _mine(asked: Asked, row: Row, ways: tuple[str, ...]) -> dict[str, Any]:
    """How the visitor stands to it, what they may do, and what waits for them beside it."""
    visitor, person_id = asked.visitor, asked.visitor.person_id
    why: str | None = "key"
    others: list[Row] = []
    if person_id is not None:
        why = asked.reads.approvals.no_say(visitor.tenant_id, row["approval_id"], person_id)
        waiting = approval_reads.open_ones(asked, person_id=person_id)
        others = [one for one in waiting if one["approval_id"] != row["approval_id"]]
    mine = why is None
    # who has not signed in is shown all doors: they lead through the sign-in
    offered = [name for name in ways if not visitor.acts or _may(visitor, name, mine=mine)]
    no_say = words.no_say(why, row, visitor.name) if visitor.acts else None
    return {"no_say": no_say, "others": others, "offered": offered}


def _may(visitor: Visitor, name: str, *, mine: bool) -> bool:
    if name in ("approval.answer", "approval.revoke"):
        return visitor.may(ACTIONS[name].right) and (visitor.person_id is not None or name == "approval.revoke")
    return mine


def _replaced_by(asked: Asked, row: Row) -> UUID | None:
    replaced = row["state"] == ApprovalState.REPLACED
    return asked.reads.approvals.replaced_by(asked.visitor.tenant_id, row) if replaced else None


def _changes(asked: Asked, row: Row) -> list[Any] | None:
    """What differs from the payload that it replaces; None where there is nothing to compare, or it may not be seen."""
    if row["replaces"] is None or not asked.visitor.sees_payloads:
        return None
    before = asked.reads.approvals.get(asked.visitor.tenant_id, row["replaces"])["payload"]
    return differences(before, row["payload"]) if before is not None and row["payload"] is not None else None


def _version(asked: Asked, row: Row) -> Row | None:
    """The version of an artifact that it is about, while it is there."""
    if row["resource_id"] is None:
        return None
    try:
        return asked.reads.artifacts.find(asked.visitor.tenant_id, row["resource_id"])
    except NotFound:
        return None


PAGES: Final = (Page("/approvals/{approval_id}", show, personal=True),)
