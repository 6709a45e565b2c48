"""Artifacts: the order in which a version becomes visible, and what may be asked of it afterwards.

A version is a row before it is bytes: the row is written as `pending`, the content put and verified, the row flipped to
`available`. Whatever fails in between leaves a row that nobody reads, and an object that the sweeper removes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from sqlalchemy import ColumnElement, Select, func, select

from stanchion.contracts import ids, limits
from stanchion.db import tables
from stanchion.db.engine import Database
from stanchion.errors import Conflict, InvariantViolated, NotFound, StanchionError, Unavailable, register_code
from stanchion.objects import ObjectStore, Stored
from stanchion.runtime import failpoints

from .queries import Page, Row, missing, rows_of, task_row

PINNED: Final = register_code(
    "E-ART-03",
    "artifact is pinned",
    status=409,
    meaning="A pinned version is neither deleted by hand nor by retention.",
    fix="Unpin it first: stanchion artifact pin --off.",
)
ABANDONED: Final = register_code(
    "E-ART-04",
    "upload was given up",
    status=409,
    meaning=f"A version that is not complete within {limits.ARTIFACT_GRACE_HOURS:g} hours, or whose task lost its payloads, is given up.",
    fix="Upload it again.",
)
SWEPT: Final = register_code(
    "E-ART-05",
    "content was removed meanwhile",
    status=503,
    meaning="The same content was being removed while it was uploaded, so it has to be put once more.",
    fix="Upload it again.",
)
register_code(
    "E-ART-06",
    "artifact is a value",
    status=409,
    meaning="A result or an input above 8 MiB lies in the object store as a version; its row would name nothing.",
    fix="Nothing: it goes with the payloads of its task.",
)

STORED = failpoints.declare("artifact.stored", "the content of an artifact is in the store; no reader sees it yet")

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


class Flipped(NamedTuple):
    """What became of a flip: `available` with its number, `superseded`, `abandoned` or `swept`."""

    outcome: str
    number: int | None


def stored(
    store: ObjectStore,
    chunks: Iterable[bytes],
    *,
    most_bytes: int = limits.ARTIFACT_BYTES,
    expected_sha256: bytes | None = None,
) -> Stored:
    """Put content and verify that it is there: hashed on its way in, and as long as what was sent.

    Raises TooLarge E-SIZE-01, Unprocessable E-OBJ-02 where it is not what was expected, Unavailable.
    """
    put = store.put(chunks, most_bytes=most_bytes, expected_sha256=expected_sha256)
    if (size := store.stat(put.sha256)) != put.size:
        raise Unavailable("E-OBJ-04", f"{put.size:,} bytes were put, the store has {size}", fix="put it again")
    failpoints.hit(STORED, sha256=put.sha256.hex())
    return put


def refused(outcome: str) -> Conflict | Unavailable:
    """The error for a flip that a person or a key asked for in vain."""
    if outcome == "swept":
        return Unavailable(SWEPT, "the same content was being removed while it was uploaded", fix="upload it again")
    return Conflict(ABANDONED, "the upload took too long, or its task has lost its payloads", fix="upload it again")


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


def verify(store: ObjectStore, sha256: bytes, size: int) -> StanchionError | None:
    """Read all of a version's content: None when it is what its row says, else what is wrong. Raises Unavailable."""
    try:
        found = store.verify(sha256)
    except (NotFound, InvariantViolated) as error:
        return error
    if found.size != size:
        return InvariantViolated("E-OBJ-03", f"{found.size:,} bytes are stored, its row says {size:,}")
    return None


def _versions() -> Select[Any]:
    joined = tables.artifact_version.join(tables.artifact, _ARTIFACT.artifact_id == _VERSION.artifact_id)
    return select(*COLUMNS).select_from(joined)


def public(version_id: UUID) -> str:
    """The id of a version as people see it."""
    return ids.public(ids.ARTIFACT, version_id)
