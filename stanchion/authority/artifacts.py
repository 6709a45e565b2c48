"""Artifacts as people and keys see them: looking, uploading, keeping, deleting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, Select, func, select

from stanchion.contracts import limits
from stanchion.db import tables
from stanchion.db.engine import Database
from stanchion.objects import Stored

from .artifact_flips import refused
from .queries import SCAN_ROWS, rows_of, task_row
from .rows import Page, Row, missing

_VERSION, _ARTIFACT = tables.artifact_version.c, tables.artifact.c

COLUMNS: Final[tuple[ColumnElement[Any], ...]] = (
    _VERSION.version_id,
    _ARTIFACT.name,
    _VERSION.number,
    (_VERSION.number == _ARTIFACT.latest).label("latest"),
    _VERSION.task_id,
    _VERSION.run_id,
    _VERSION.step_id,
    _VERSION.fence,
    _VERSION.actor,
    _VERSION.sha256,
    _VERSION.size,
    _VERSION.media_type,
    _VERSION.made_from,
    _VERSION.created_at,
    _VERSION.available_at,
    _VERSION.pinned_at,
)
"""What is told of a version; the database shows available ones only."""
REMOVED: Final = (
    "version_id", "task_id", "name", "number", "sha256", "size", "media_type", "deleted_at", "deleted_by", "why",
)  # fmt: skip
"""What is told of one that was deleted."""


class Artifacts:
    """What people and keys may do, under the task service's login; every call sees one tenant."""

    def __init__(self, database: Database) -> None:
        self.database = database

    # --- looking ---

    def page(self, tenant_id: UUID, task_id: UUID, *, name: str | None, limit: int, before: UUID | None = None) -> Page:
        """Available versions of a task, the newest first; raises NotFound for a task that is not there."""
        found = _versions().where(_VERSION.task_id == task_id)
        if name is not None:
            found = found.where(_ARTIFACT.name == name)
        if before is not None:
            found = found.where(_VERSION.version_id < before)
        with self.database.tenant(tenant_id) as connection:
            task_row(connection, task_id)
            rows = rows_of(connection, found.order_by(_VERSION.version_id.desc()).limit(limit + 1))
        more = rows[limit - 1]["version_id"] if len(rows) > limit else None
        return Page(rows[:limit], more)

    def newest(self, tenant_id: UUID, *, name: str | None, limit: int, before: UUID | None = None) -> Page:
        """Available versions of all tasks, the newest first; a rare name costs more pages, never a full scan."""
        scan = select(_VERSION.version_id).where(_VERSION.tenant_id == tenant_id)
        if before is not None:
            scan = scan.where(_VERSION.version_id < before)
        scan = scan.order_by(_VERSION.version_id.desc())
        found = _versions()
        if name is not None:
            window = scan.limit(SCAN_ROWS).subquery()
            found = found.join(window, window.c.version_id == _VERSION.version_id).where(_ARTIFACT.name == name)
        elif before is not None:
            found = found.where(_VERSION.version_id < before)
        with self.database.tenant(tenant_id) as connection:
            rows = rows_of(connection, found.order_by(_VERSION.version_id.desc()).limit(limit + 1))
            if len(rows) > limit:
                return Page(rows[:limit], rows[limit - 1]["version_id"])
            seen = scan.offset(SCAN_ROWS - 1).limit(1)
            return Page(rows, connection.execute(seen).scalar() if name is not None else None)

    def removed(self, tenant_id: UUID, version_id: UUID) -> Row | None:
        """What is left of a version that was deleted: no content, but what it was, and at whose wish it went."""
        rows = self.database.read("SELECT * FROM stanchion.removed_version(%s, %s)", (tenant_id, version_id))
        return dict(zip(REMOVED, rows[0], strict=True)) if rows else None

    def get(self, tenant_id: UUID, version_id: UUID) -> Row:
        """One available version, and the versions that were made from it; raises NotFound."""
        row = self.find(tenant_id, version_id)
        made_into = select(_VERSION.version_id).where(
            _VERSION.task_id == select(_VERSION.task_id).where(_VERSION.version_id == version_id).scalar_subquery(),
            func.array_position(_VERSION.made_from, version_id).is_not(None),
        )
        with self.database.tenant(tenant_id) as connection:
            into = connection.execute(made_into.order_by(_VERSION.version_id).limit(limits.PAGE_ROWS)).scalars()
            return row | {"made_into": list(into)}

    def find(self, tenant_id: UUID, version_id: UUID) -> Row:
        """One available version alone; raises NotFound."""
        with self.database.tenant(tenant_id) as connection:
            rows = rows_of(connection, _versions().where(_VERSION.version_id == version_id))
        if not rows:
            raise missing("artifact")
        return rows[0]

    # --- uploading ---

    def upload(
        self,
        tenant_id: UUID,
        task_id: UUID,
        name: str,
        put: Callable[[], Stored],
        *,
        media_type: str,
        made_from: Sequence[UUID] = (),
        actor: str,
    ) -> Row:
        """A new version: the row, then `put`, then the flip; the version as `get` would tell it.

        Raises NotFound for a task or a source that is not there, Conflict E-TASK-08 or E-ART-04, and what `put` raises.
        """
        rows = self.database.call(
            "begin_artifact",
            "SELECT stanchion.begin_upload(%s, %s, %s, %s, %s, %s)",
            (tenant_id, task_id, name, media_type, list(made_from), actor),
        )
        version_id: UUID = rows[0][0]
        content = put()
        rows = self.database.call(
            "flip_artifact",
            "SELECT * FROM stanchion.flip_upload(%s, %s, %s, %s)",
            (tenant_id, version_id, content.sha256, content.size),
        )
        if rows[0][0] != "available":
            raise refused(rows[0][0])
        return self.find(tenant_id, version_id) | {"made_into": []}

    # --- keeping and deleting ---

    def pin(self, tenant_id: UUID, version_id: UUID, *, pinned: bool, actor: str) -> bool:
        """Pin or unpin; True if that changed something. Raises NotFound."""
        rows = self.database.call(
            "curate", "SELECT stanchion.pin_artifact(%s, %s, %s, %s)", (tenant_id, version_id, pinned, actor)
        )
        return bool(rows[0][0])

    def delete(self, tenant_id: UUID, version_id: UUID, *, reason: str, actor: str) -> bool:
        """Delete; False when it was deleted before. Its content goes when no other version has the same.

        Raises NotFound, Conflict E-ART-03 while it is pinned.
        """
        rows = self.database.call(
            "curate", "SELECT stanchion.delete_artifact(%s, %s, %s, %s)", (tenant_id, version_id, reason, actor)
        )
        return bool(rows[0][0])


def _versions() -> Select[Any]:
    joined = tables.artifact_version.join(tables.artifact, _ARTIFACT.artifact_id == _VERSION.artifact_id)
    return select(*COLUMNS).select_from(joined)
