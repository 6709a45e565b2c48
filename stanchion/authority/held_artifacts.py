"""Artifacts under a lease: what the holder of a step may promote and read. A stale holder changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from stanchion.contracts import ids
from stanchion.db.engine import Database
from stanchion.errors import LeaseLost, NotFound
from stanchion.objects import Stored
from stanchion.workflow.artifact import Artifact

from .artifact_flips import Flipped, public
from .leases import Lease


class HeldArtifacts:
    """Under the worker's login."""

    def __init__(self, database: Database, worker_id: UUID) -> None:
        self.database = database
        self.worker_id = worker_id

    def begin(self, lease: Lease, name: str, media_type: str, made_from: Sequence[UUID]) -> UUID:
        """The row of a new version; raises LeaseLost (the try is on record), NotFound for a source that is not there."""
        rows = self.database.call(
            "begin_artifact",
            "SELECT stanchion.begin_artifact(%s, %s, %s, %s, %s, %s)",
            (self.worker_id, lease.step_id, lease.fence, name, media_type, list(made_from)),
        )
        found: UUID | None = rows[0][0]
        if found is None:
            raise _lost(lease)
        return found

    def flip(self, lease: Lease, version_id: UUID, content: Stored) -> Flipped:
        """Make a version visible whose content is stored; raises LeaseLost (the try is on record)."""
        rows = self.database.call(
            "flip_artifact",
            "SELECT * FROM stanchion.flip_artifact(%s, %s, %s, %s, %s, %s)",
            (self.worker_id, lease.step_id, lease.fence, version_id, content.sha256, content.size),
        )
        flipped = Flipped._make(rows[0])
        if flipped.outcome == "superseded":
            raise _lost(lease)
        return flipped

    def find(self, lease: Lease, version_id: UUID) -> Artifact:
        """An available version of the lease's tenant; raises NotFound, and LeaseLost when the lease is over."""
        rows = self.database.read(
            "SELECT * FROM stanchion.find_artifact(%s, %s, %s)", (lease.step_id, lease.fence, version_id)
        )
        if not rows:
            raise _lost(lease)
        found, name, number, sha256, size, media_type = rows[0]
        if found is None:
            shown = ids.public(ids.ARTIFACT, version_id)
            raise NotFound("E-FIND-01", f"there is no artifact {shown} in this tenant, or it was deleted")
        return Artifact(public(found), name, number, sha256.hex(), size, media_type)

    def value_size(self, lease: Lease, sha256: bytes) -> int | None:
        """How large a value is that lies in the object store; None when it is not there, or the lease is over."""
        rows = self.database.read("SELECT stanchion.find_value(%s, %s, %s)", (lease.step_id, lease.fence, sha256))
        size: int | None = rows[0][0] if rows else None
        return size


def _lost(lease: Lease) -> LeaseLost:
    return LeaseLost(lease.node, fence=lease.fence, why="another attempt has the step")
