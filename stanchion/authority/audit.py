"""The audit log: what people and keys did, in chains of hashes that show whether any entry was changed.

Each entry's hash covers the hash before it in its lane and the one text of the entry. Lane 0 has the acts of people and
keys, lanes 1 to 8 submissions, which come by the thousand and must not wait for each other's commits. Walking all of
them takes the memory of one page, whatever the length.

A chain shows that what is there is unchanged, in order, and whole up to its end. That its end was not cut off is shown
by an anchor: the heads of an earlier walk, kept outside of the database.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Select, func, select

from stanchion.contracts import ids, limits
from stanchion.db import tables
from stanchion.db.engine import Database
from stanchion.errors import Unprocessable

from .queries import SCAN_ROWS, rows_of
from .rows import Row

PAGE: Final = 1_000
OUT_OF_ORDER: Final = timedelta(hours=1)
"""Entries are numbered when they are written, and have the time of their transaction: none is older by more than that."""
COLUMNS: Final = ("audit_id", "lane", "at", "actor", "action", "target", "detail", "hash")
LANES: Final = 1 + limits.SUBMISSION_LANES

_AUDIT = tables.audit.c
_TEXT = func.stanchion.audit_text(
    _AUDIT.tenant_id,
    _AUDIT.lane,
    _AUDIT.audit_id,
    _AUDIT.at,
    _AUDIT.actor,
    _AUDIT.action,
    _AUDIT.target,
    _AUDIT.detail,
).label("text")
_PLACE = re.compile(r"([0-9])/([0-9]{1,15})/([0-9]{0,19})/([0-9a-f:,]*)")
_HEAD = re.compile(r"([0-8]):([0-9]{1,19}):([0-9a-f]{64})")

Heads = Mapping[int, tuple[int, bytes]]
"""By lane: the number and the hash of its last entry."""


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which entries; None: any."""

    actor: str | None = None
    action: str | None = None
    target: str | None = None
    after: datetime | None = None


@dataclass(frozen=True, slots=True)
class Entries:
    """Some entries, and the one behind which the next ones are; a page may be short and yet not the last."""

    items: list[Row]
    next: int | None


@dataclass(frozen=True, slots=True)
class Fault:
    """The first entry that does not fit, and why."""

    entry: int
    why: str


@dataclass(slots=True)
class Walk:
    """How far a verification has come: lane by lane, since only within a lane entries are seen in their order."""

    lane: int = 0
    heads: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    checked: int = 0
    faults: list[Fault] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether all lanes were walked."""
        return self.lane >= LANES

    @property
    def fault(self) -> Fault | None:
        """The first entry that does not fit: in a lane nothing behind it can be told, the others are walked on."""
        return min(self.faults, key=lambda fault: fault.entry, default=None)


class Audit:
    """Under a login that may read it."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def page(self, tenant_id: UUID, wanted: AuditFilter, *, limit: int, before: int | None = None) -> Entries:
        """Entries, the newest first. What is done to one target has an index; a rare actor or action costs more pages,
        never a full scan: `next` may stand behind a page that is not full."""
        scan = self._scan(tenant_id, wanted)
        if before is not None:
            scan = scan.where(_AUDIT.audit_id < before)
        window = scan.limit(SCAN_ROWS).subquery()
        found = _fitting(select(window), window.c, wanted)
        with self.database.tenant(tenant_id) as connection:
            rows = rows_of(connection, found.order_by(window.c.audit_id.desc()).limit(limit + 1))
            if len(rows) > limit:
                return Entries(rows[:limit], rows[limit - 1]["audit_id"])
            place = scan.with_only_columns(_AUDIT.audit_id, _AUDIT.at).offset(SCAN_ROWS - 1).limit(1)
            last = connection.execute(place).one_or_none()
        if last is None or (wanted.after is not None and last.at < wanted.after - OUT_OF_ORDER):
            return Entries(rows, None)
        return Entries(rows, last.audit_id)

    def acts(self, tenant_id: UUID, wanted: AuditFilter, *, limit: int) -> list[Row]:
        """What people and keys did, without submissions, which stand in lanes of their own; the newest first."""
        found = _fitting(self._scan(tenant_id, wanted).where(_AUDIT.lane == 0), _AUDIT, wanted)
        with self.database.tenant(tenant_id) as connection:
            return rows_of(connection, found.limit(limit))

    def _scan(self, tenant_id: UUID, wanted: AuditFilter) -> Select[Any]:
        """What is done to one target, or all, the newest first."""
        scan = select(*(_AUDIT[name] for name in COLUMNS)).where(_AUDIT.tenant_id == tenant_id)
        if wanted.target is not None:
            scan = scan.where(_AUDIT.target == wanted.target)
        return scan.order_by(_AUDIT.audit_id.desc())

    def go_on(self, tenant_id: UUID, walk: Walk, anchor: Heads, *, most: int = 50 * PAGE) -> Walk:
        """Check about `most` entries more, or all that are left."""
        seen = 0
        while not walk.done and seen < most:
            rows = self._after(tenant_id, walk)
            fault = _first_fault(rows, walk, anchor)
            if fault is None and len(rows) < PAGE:
                fault = _cut(walk, anchor)
            if fault is not None:
                walk.faults.append(fault)
            if fault is not None or len(rows) < PAGE:
                walk.lane += 1
            seen += len(rows)
        return walk

    def _after(self, tenant_id: UUID, walk: Walk) -> list[Row]:
        columns = ("audit_id", "lane", "previous_hash", "hash")
        found = select(*(_AUDIT[name] for name in columns), _TEXT)
        found = found.where(_AUDIT.tenant_id == tenant_id, _AUDIT.lane == walk.lane)
        if walk.lane in walk.heads:
            found = found.where(_AUDIT.audit_id > walk.heads[walk.lane][0])
        with self.database.tenant(tenant_id) as connection:
            return rows_of(connection, found.order_by(_AUDIT.audit_id).limit(PAGE))


def _fitting(found: Select[Any], columns: Any, wanted: AuditFilter) -> Select[Any]:
    if wanted.actor is not None:
        found = found.where(columns.actor == wanted.actor)
    if wanted.action is not None:
        found = found.where(columns.action == wanted.action)
    if wanted.after is not None:
        found = found.where(columns.at >= wanted.after)
    return found


def _first_fault(rows: list[Row], walk: Walk, anchor: Heads) -> Fault | None:
    for row in rows:
        walk.checked += 1
        fault = _fault_of(row, walk.heads, anchor)
        if fault is not None:
            return fault
        walk.heads[row["lane"]] = (row["audit_id"], bytes(row["hash"]))
    return None


def _fault_of(row: Row, heads: Heads, anchor: Heads) -> Fault | None:
    entry, lane = row["audit_id"], row["lane"]
    before = heads.get(lane)
    previous = bytes(row["previous_hash"]) if row["previous_hash"] is not None else None
    if previous != (before[1] if before else None):
        if before is None:
            return Fault(entry, "it names an entry before it, and there is none: the beginning is gone")
        return Fault(entry, f"it does not follow entry {before[0]}: one between them is gone, or one was put there")
    if hashlib.sha256((previous or b"") + str(row["text"]).encode()).digest() != bytes(row["hash"]):
        return Fault(entry, "its content is not what its hash says: it was changed, or moved here")
    at_anchor = anchor.get(lane)
    if at_anchor is not None and at_anchor[0] == entry and at_anchor[1] != bytes(row["hash"]):
        return Fault(entry, "its hash is not that of the anchor: the chain was written anew")
    if at_anchor is not None and at_anchor[0] < entry and (before is None or before[0] < at_anchor[0]):
        return Fault(entry, f"entry {at_anchor[0]} of the anchor is not there: the chain was cut and goes on anew")
    return None


def _cut(walk: Walk, anchor: Heads) -> Fault | None:
    at_anchor, head = anchor.get(walk.lane), walk.heads.get(walk.lane)
    if at_anchor is None or (head is not None and head[0] >= at_anchor[0]):
        return None
    return Fault(at_anchor[0], "the anchor's entry is not there: the end was cut off")


def kept_as(target: str) -> str:
    """A target as the log has it: ids stand there without their prefix."""
    prefix = target.partition("_")[0].lower()
    if prefix in ids.PREFIXES:
        try:
            return str(ids.parse(target, prefix))
        except Unprocessable:
            pass  # a name that begins like an id
    return target


def place_text(walk: Walk) -> str:
    """How far a walk has come, as a text that `place_of` reads."""
    fault = walk.fault.entry if walk.fault else ""
    return f"{walk.lane}/{walk.checked}/{fault}/{heads_text(walk.heads)}"


def place_of(text: str | None, where: str) -> Walk:
    """The walk that goes on from a place; None: from the beginning. Raises Unprocessable E-DATA-11."""
    if text is None:
        return Walk()
    place = _PLACE.fullmatch(text)
    if place is None or int(place[1]) >= LANES:
        raise Unprocessable("E-DATA-11", "this is no cursor", where=where, fix="send `next` as it came")
    faults = [Fault(int(place[3]), "an earlier part of this walk found it")] if place[3] else []
    return Walk(int(place[1]), heads_of(place[4], where), int(place[2]), faults)


def heads_text(heads: Heads) -> str:
    """Heads as one text to be kept: `lane:entry:hash`, separated by commas."""
    return ",".join(f"{lane}:{entry}:{digest.hex()}" for lane, (entry, digest) in sorted(heads.items()))


def heads_of(text: str | None, where: str) -> dict[int, tuple[int, bytes]]:
    """The heads that a text says; raises Unprocessable E-DATA-15."""
    found: dict[int, tuple[int, bytes]] = {}
    for part in (text or "").split(",") if text else ():
        match = _HEAD.fullmatch(part.strip())
        if match is None:
            raise Unprocessable(
                "E-DATA-15",
                "these are no heads of the audit log",
                where=where,
                fix="send them as `audit verify` gave them",
            )
        found[int(match[1])] = (int(match[2]), bytes.fromhex(match[3]))
    return found
