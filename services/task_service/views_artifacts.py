"""What goes out about artifacts."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import PlainSerializer

from stanchion.contracts import ids

from .views import RunId, StepId, TaskId, View, form, shown

ArtifactId = Annotated[UUID, shown(ids.ARTIFACT), form(ids.ARTIFACT)]
Hash = Annotated[bytes, PlainSerializer(bytes.hex, return_type=str)]


class ArtifactVersion(View):
    """One version of an artifact; `latest` says that no version of its name came after it.

    It was made by a step under a fence, or uploaded by `actor`. `made_from` names the versions that it was made from.
    """

    version_id: ArtifactId
    name: str
    number: int
    latest: bool
    task_id: TaskId
    run_id: RunId
    step_id: StepId | None
    fence: int | None
    actor: str | None
    sha256: Hash
    size: int
    media_type: str
    made_from: list[ArtifactId]
    created_at: datetime
    available_at: datetime
    pinned_at: datetime | None


class ArtifactShown(ArtifactVersion):
    """One version, with those of its task that were made from it."""

    made_into: list[ArtifactId]


class ArtifactPinned(View):
    """Whether a version is pinned now."""

    version_id: ArtifactId
    pinned: bool


class ArtifactDeleted(View):
    """A version that is deleted; `deleted` is false when it was before."""

    version_id: ArtifactId
    deleted: bool


class ArtifactVerified(View):
    """Whether the stored content of a version is what its row says; if not, why."""

    version_id: ArtifactId
    intact: bool
    code: str | None = None
    why: str | None = None
