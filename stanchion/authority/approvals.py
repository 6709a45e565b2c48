"""Approvals as people see and decide them. Who may, and on what, is looked at in the database, under the row's lock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal
from uuid import UUID

from pydantic import JsonValue
from sqlalchemy import Select, select

from stanchion.contracts import limits, payload
from stanchion.contracts.ids import new_id
from stanchion.db import tables
from stanchion.db.engine import Database
from stanchion.errors import Conflict, TooLarge

from .queries import rows_of
from .rows import Row, missing

_APPROVAL, _VOTE, _TASK = tables.approval.c, tables.approval_vote.c, tables.task.c
PAYLOADS: Final = ("question", "summary", "payload", "reason")
"""What of an approval only somebody sees who may see payloads, or who is asked."""
_SHOWN: Final = tuple(c for c in _APPROVAL if c.name not in ("tenant_id", "fence", "version", *PAYLOADS))

Vote = Literal["approve", "reject", "ask_back", "answer", "delegate"]


class Approvals:
    """Under the task service's login; every call sees one tenant."""

    def __init__(self, database: Database) -> None:
        self.database = database

    # --- looking ---

    def page(
        self,
        tenant_id: UUID,
        *,
        limit: int,
        before: UUID | None = None,
        states: Sequence[str] = (),
        task_id: UUID | None = None,
    ) -> list[Row]:
        """Approvals of the tenant, the newest first."""
        found = _approvals()
        if before is not None:
            found = found.where(_APPROVAL.approval_id < before)
        if states:
            found = found.where(_APPROVAL.state.in_(states))
        if task_id is not None:
            found = found.where(_APPROVAL.task_id == task_id)
        with self.database.tenant(tenant_id) as connection:
            return rows_of(connection, found.order_by(_APPROVAL.approval_id.desc()).limit(limit))

    def inbox(self, tenant_id: UUID, person_id: UUID, *, limit: int, after: UUID | None = None) -> list[Row]:
        """What waits for this person's say at this moment, the least time left first."""
        ids = [
            row[0]
            for row in self.database.read(
                "SELECT approval_id FROM stanchion.approvals_for(%s, %s, %s, %s)", (tenant_id, person_id, after, limit)
            )
        ]
        with self.database.tenant(tenant_id) as connection:
            found = _approvals().where(_APPROVAL.approval_id.in_(ids))
            return rows_of(connection, found.order_by(_APPROVAL.expires_at, _APPROVAL.approval_id))

    def no_say(self, tenant_id: UUID, approval_id: UUID, person_id: UUID) -> str | None:
        """Why this person has no say about it: its state unless it is open, else role, requester, delegated, not asked,
        or said; None: it waits for them."""
        sql = "SELECT stanchion.say_of(%s, %s, %s)"
        found: str | None = self.database.read(sql, (tenant_id, approval_id, person_id))[0][0]
        return found

    def get(self, tenant_id: UUID, approval_id: UUID) -> Row:
        """One approval with all that is shown, and what was said about it; raises NotFound."""
        said = [c for c in _VOTE if c.name not in ("tenant_id", "approval_id", "person_id")]
        with self.database.tenant(tenant_id) as connection:
            rows = rows_of(connection, _approvals(*PAYLOADS).where(_APPROVAL.approval_id == approval_id))
            if not rows:
                raise missing("approval")
            votes = rows_of(connection, select(*said).where(_VOTE.approval_id == approval_id).order_by(_VOTE.number))
        return {**rows[0], "votes": votes}

    def replaced_by(self, tenant_id: UUID, row: Row) -> UUID | None:
        """What is asked instead of an approval whose payload somebody changed."""
        found = select(_APPROVAL.approval_id).where(
            _APPROVAL.task_id == row["task_id"], _APPROVAL.replaces == row["approval_id"]
        )
        with self.database.tenant(tenant_id) as connection:
            return connection.execute(found.limit(1)).scalar()

    # --- deciding ---

    def vote(
        self,
        tenant_id: UUID,
        approval_id: UUID,
        person_id: UUID,
        vote: Vote,
        *,
        payload_hash: bytes,
        comment: str | None = None,
        delegate_to: str | None = None,
    ) -> str:
        """Say something about it; returns the state that this leaves it in. The same again changes nothing.

        Raises NotFound, NotAllowed E-APR-03 for somebody who has no vote, Conflict E-APR-01 once it is decided, E-APR-02
        after its time, E-APR-04 for the hash of something else, E-APR-05 for another vote, E-APR-06 for a delegate who
        can't be one.
        """
        rows = self.database.call(
            "vote",
            "SELECT stanchion.vote(%s, %s, %s, %s, %s, %s, %s)",
            (tenant_id, approval_id, person_id, vote, payload_hash, comment, delegate_to),
        )
        return str(rows[0][0])

    def edit(
        self,
        tenant_id: UUID,
        approval_id: UUID,
        person_id: UUID,
        changed: JsonValue,
        *,
        payload_hash: bytes,
        comment: str | None = None,
    ) -> UUID:
        """Ask about another payload of the same shape instead; returns the id of the approval that this needs.

        Raises NotFound, and what `vote` does; Conflict E-APR-10 for another shape, for no change, and when nobody would
        be left to approve it; TooLarge E-SIZE-01.
        """
        shown = self.get(tenant_id, approval_id)["payload"]
        changed = payload.check(_as_stored(changed))
        if fault := shape_fault(shown, changed):
            raise Conflict("E-APR-10", "the changed payload has another shape", where=fault)
        if (size := payload.size(changed)) > limits.INLINE_BYTES:
            raise TooLarge("E-SIZE-01", f"the payload would have {size:,} bytes", limit=limits.INLINE_BYTES)
        given = (tenant_id, approval_id, person_id, payload_hash, new_id(), payload.dumps(changed).decode())
        rows = self.database.call(
            "edit",
            "SELECT stanchion.edit_approval(%s, %s, %s, %s, %s, %s, %s, %s)",
            (*given, payload.digest(changed), comment),
        )
        return UUID(str(rows[0][0]))

    def revoke(self, tenant_id: UUID, approval_id: UUID, *, reason: str, actor: str) -> str:
        """Take it back, as long as what it allows has not happened; raises NotFound, Conflict E-APR-01."""
        rows = self.database.call(
            "revoke", "SELECT stanchion.revoke_approval(%s, %s, %s, %s)", (tenant_id, approval_id, reason, actor)
        )
        return str(rows[0][0])


def shape_fault(shown: JsonValue, changed: JsonValue, path: str = "$") -> str | None:
    """Where `changed` is another kind of value than `shown`; None when it is a value of the same shape.

    The names of objects stay, lists may have another length, with items like those before, and what was null may
    become anything.
    """
    if shown is None:
        return None
    if isinstance(shown, list) and isinstance(changed, list):
        unlike = (n for n, item in enumerate(changed) if shown and all(shape_fault(one, item) for one in shown))
        return next((f"{path}[{n}]" for n in unlike), None)
    if isinstance(shown, dict) and isinstance(changed, dict):
        if odd := sorted(shown.keys() ^ changed.keys()):
            return f"{path}.{odd[0]}"
        found = (shape_fault(value, changed[name], f"{path}.{name}") for name, value in shown.items())
        return next((fault for fault in found if fault), None)
    return None if _kind(shown) == _kind(changed) else path


def _as_stored(value: JsonValue) -> JsonValue:
    """The value as it comes back from the database, which keeps 1e16 as a whole number."""
    if isinstance(value, dict):
        return {name: _as_stored(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_as_stored(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _kind(value: JsonValue) -> str:
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def _approvals(*more: str) -> Select[Any]:
    joined = tables.approval.join(
        tables.task, (_TASK.task_id == _APPROVAL.task_id) & (_TASK.tenant_id == _APPROVAL.tenant_id)
    )
    return select(*_SHOWN, *(_APPROVAL[name] for name in more), _TASK.workflow).select_from(joined)
