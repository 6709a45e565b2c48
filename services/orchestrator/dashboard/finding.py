"""From an id, whatever it is of, to the page that shows it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final
from uuid import UUID

from sqlalchemy import ColumnElement, Table, select

from stanchion.contracts import ids
from stanchion.contracts.actions import BARRIER
from stanchion.db import tables
from stanchion.errors import StanchionError, Unprocessable

from .door import Visitor
from .reads import Reads
from .targets import LISTS, PLACES

_PREFIXED: Final = re.compile(r"([a-z]{2,3})_[0-9a-z]{26}", re.IGNORECASE)
_BARE: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_OWN: Final[dict[str, tuple[Table, str]]] = {
    ids.TASK: (tables.task, "task_id"),
    ids.STEP: (tables.step, "step_id"),
    ids.OPERATION: (tables.operation, "operation_id"),
    ids.APPROVAL: (tables.approval, "approval_id"),
    ids.ARTIFACT: (tables.artifact_version, "version_id"),
    ids.WORKER: (tables.worker, "worker_id"),
    ids.DEAD_LETTER: (tables.dead_letter, "dead_letter_id"),
    ids.ERROR: (tables.error_group, "group_id"),
}
"""Where the things with a page of their own are kept."""


def place_of(reads: Reads, visitor: Visitor, text: str) -> str | None:
    """The path of what an id names, as far as this visitor may know of it; None: it names nothing here."""
    found = _PREFIXED.fullmatch(text)
    if found is not None:
        prefix = found[1].lower()
        try:
            return _place(reads, visitor, prefix, ids.parse(text, prefix))
        except Unprocessable:
            return None
    if _BARE.fullmatch(text) is None:
        return None
    value = UUID(text)
    kinds = (*_OWN, ids.RUN, BARRIER)
    return next((place for prefix in kinds if (place := _place(reads, visitor, prefix, value))), None)


def _place(reads: Reads, visitor: Visitor, prefix: str, value: UUID) -> str | None:
    if prefix in _OWN:
        table, name = _OWN[prefix]
        if _one(reads, visitor, table.c[name], table.c[name] == value) is not None:
            return PLACES[prefix] + ids.public(prefix, value)
        removed = prefix == ids.ARTIFACT and reads.artifacts.removed(visitor.tenant_id, value) is not None
        return PLACES[prefix] + ids.public(prefix, value) if removed else None
    if prefix in _BEHIND:
        owner, look = _BEHIND[prefix]
        found = look(reads, visitor, value)
        return None if found is None else PLACES[owner] + ids.public(owner, found)
    if prefix == ids.JOB:
        return PLACES[prefix] + ids.public(prefix, value)
    listed = LISTS.get(prefix)
    return f"{listed}#{ids.public(prefix, value)}" if listed else None


def _one(reads: Reads, visitor: Visitor, column: ColumnElement[UUID], where: ColumnElement[bool]) -> UUID | None:
    try:
        with reads.database.tenant(visitor.tenant_id) as connection:
            return connection.execute(select(column).where(where).limit(1)).scalar()
    except StanchionError as error:
        if error.status == 403:
            return None
        raise


def _of_run(reads: Reads, visitor: Visitor, value: UUID) -> UUID | None:
    run = tables.run.c
    return _one(reads, visitor, run.task_id, run.run_id == value)


def _of_barrier(reads: Reads, visitor: Visitor, value: UUID) -> UUID | None:
    barrier = tables.barrier.c
    run_id = _one(reads, visitor, barrier.run_id, barrier.barrier_id == value)
    return None if run_id is None else _of_run(reads, visitor, run_id)


_BEHIND: Final[dict[str, tuple[str, Callable[[Reads, Visitor, UUID], UUID | None]]]] = {
    ids.RUN: (ids.TASK, _of_run),
    BARRIER: (ids.TASK, _of_barrier),
}
"""What has no page, and whose page shows it."""
