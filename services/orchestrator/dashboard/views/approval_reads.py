"""Approvals as lists of pages show them: by the time that is left, and those that are over by when they were asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, Select, select, tuple_

from stanchion.authority.queries import rows_of
from stanchion.authority.rows import Row
from stanchion.db import tables

from .. import approval_words
from ..reads import Reads
from ..view import Asked

SHOWN: Final = 50
COUNTED: Final = 1_000
TEAMS: Final = 1_000

_APPROVAL, _VOTE, _TASK = tables.approval.c, tables.approval_vote.c, tables.task.c
_NAMES: Final = (
    "approval_id", "task_id", "node", "state", "operation_kind", "operation_key", "people", "teams", "needs", "four_eyes",
    "requested_by", "edited_by", "decided_by", "on_timeout", "created_at", "expires_at", "decided_at",
)  # fmt: skip
_PAYLOADS: Final = ("question", "reason")


def _columns(asked: Asked) -> list[Any]:
    texts = _PAYLOADS if asked.visitor.sees_payloads else ()
    return [*(_APPROVAL[name] for name in (*_NAMES, *texts)), _TASK.workflow]


def _listed(asked: Asked) -> Select[Any]:
    joined = tables.approval.join(
        tables.task, (_TASK.task_id == _APPROVAL.task_id) & (_TASK.tenant_id == _APPROVAL.tenant_id)
    )
    return select(*_columns(asked)).select_from(joined).where(_APPROVAL.tenant_id == asked.visitor.tenant_id)


def open_ones(
    asked: Asked, *, person_id: UUID | None = None, teams: Sequence[str] | None = None, after: UUID | None = None
) -> list[Row]:
    """What is asked at this moment, the least time left first: all of it, of these teams, or for one person; one more
    than is shown, with what was said."""
    found = _listed(asked).where(_APPROVAL.state == approval_words.OPEN)
    if person_id is not None:
        found = found.where(_APPROVAL.approval_id.in_(_mine(asked, person_id, after)))
    if teams is not None:
        found = found.where(_APPROVAL.teams.overlap(list(teams)))
    if after is not None:
        last = select(_APPROVAL.expires_at).where(_APPROVAL.approval_id == after).scalar_subquery()
        found = found.where(tuple_(_APPROVAL.expires_at, _APPROVAL.approval_id) > tuple_(last, after))
    with asked.reads.database.tenant(asked.visitor.tenant_id) as connection:
        rows = rows_of(connection, found.order_by(_APPROVAL.expires_at, _APPROVAL.approval_id).limit(SHOWN + 1))
        return with_votes(connection, rows)


def _mine(asked: Asked, person_id: UUID, after: UUID | None) -> list[UUID]:
    sql = "SELECT approval_id FROM stanchion.approvals_for(%s, %s, %s, %s)"
    return [row[0] for row in asked.reads.database.read(sql, (asked.visitor.tenant_id, person_id, after, SHOWN + 1))]


def closed_ones(asked: Asked, before: UUID | None) -> list[Row]:
    """What is over, the newest question first; one more than is shown."""
    found = _listed(asked).where(_APPROVAL.state != approval_words.OPEN)
    if before is not None:
        found = found.where(_APPROVAL.approval_id < before)
    with asked.reads.database.tenant(asked.visitor.tenant_id) as connection:
        return rows_of(connection, found.order_by(_APPROVAL.approval_id.desc()).limit(SHOWN + 1))


def of_task(asked: Asked, task_id: UUID, before: UUID | None) -> list[Row]:
    """What was asked for one task, the newest first; one more than is shown."""
    found = _listed(asked).where(_APPROVAL.task_id == task_id)
    if before is not None:
        found = found.where(_APPROVAL.approval_id < before)
    with asked.reads.database.tenant(asked.visitor.tenant_id) as connection:
        rows = rows_of(connection, found.order_by(_APPROVAL.approval_id.desc()).limit(SHOWN + 1))
        return with_votes(connection, rows)


def how_many(asked: Asked) -> int:
    """How many are asked in the tenant at this moment, up to `COUNTED`."""
    found = select(_APPROVAL.approval_id).where(
        _APPROVAL.tenant_id == asked.visitor.tenant_id, _APPROVAL.state == approval_words.OPEN
    )
    with asked.reads.database.tenant(asked.visitor.tenant_id) as connection:
        return len(connection.execute(found.limit(COUNTED)).all())


def with_votes(connection: Connection, rows: list[Row]) -> list[Row]:
    """The same rows, each with how many approved it and whom it waits for."""
    names = ("approval_id", "subject", "vote", "delegate_to")
    which = _VOTE.approval_id.in_([row["approval_id"] for row in rows])
    said: dict[UUID, list[Row]] = {}
    if rows:
        found = select(*(_VOTE[name] for name in names)).where(which).order_by(_VOTE.approval_id, _VOTE.number)
        for vote in rows_of(connection, found):
            said.setdefault(vote["approval_id"], []).append(vote)
    for row in rows:
        votes = said.get(row["approval_id"], [])
        row["approved"] = approval_words.said_yes(votes)
        row["missing"] = approval_words.missing(row, votes)
        row["waits_for_answer"] = bool(votes) and votes[-1]["vote"] == "ask_back"
    return rows


def around(asked: Asked, row: Row) -> dict[str, Any]:
    """What stands beside one approval: its task, and what it was used for."""
    operation = tables.operation.c
    used = select(operation.operation_id, operation.state).where(operation.operation_id == row["spent_by"])
    with asked.reads.database.tenant(asked.visitor.tenant_id) as connection:
        task = rows_of(connection, select(_TASK.goal, _TASK.state).where(_TASK.task_id == row["task_id"]))
        return {
            "task": task[0],
            "used": next(iter(rows_of(connection, used)), None) if row["spent_by"] else None,
        }


def teams_of(reads: Reads, tenant_id: UUID, name: str) -> list[str]:
    """The teams that somebody is in."""
    return [one["team"] for one in reads.people.teams(tenant_id, limit=TEAMS) if name in one["members"]]
