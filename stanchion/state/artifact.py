"""One version of an artifact: a name in a task, and content that never changes."""

from __future__ import annotations

from enum import StrEnum

from .machine import Machine, Transition


class ArtifactState(StrEnum):
    """Where a version is in its life. Readers see available ones only."""

    PENDING = "pending"
    AVAILABLE = "available"
    DELETED = "deleted"


S = ArtifactState

ARTIFACT = Machine(
    table="artifact_version",
    states=ArtifactState,
    births=(S.PENDING,),
    transitions=(
        Transition(
            "flip",
            (S.PENDING,),
            S.AVAILABLE,
            ("worker", "operator"),
            "its content is in the store, and is what was announced",
            "ArtifactAvailable",
            fenced=True,
        ),
        Transition(
            "abandon",
            (S.PENDING,),
            S.DELETED,
            ("engine",),
            "it did not become available within the grace time",
            "ArtifactAbandoned",
        ),
        Transition(
            "delete",
            (S.AVAILABLE,),
            S.DELETED,
            ("operator", "engine"),
            "somebody asked for it, or its time was over",
            "ArtifactDeleted",
        ),
    ),
    immutable=(
        "tenant_id",
        "version_id",
        "artifact_id",
        "task_id",
        "run_id",
        "step_id",
        "fence",
        "actor",
        "media_type",
    ),
    shapes={
        "an_available_version_has_its_content": "state <> 'available' OR (number IS NOT NULL AND sha256 IS NOT NULL AND size IS NOT NULL)",
        "a_pending_version_has_no_number": "state <> 'pending' OR number IS NULL",
        "a_version_is_numbered_when_it_becomes_available": "(number IS NOT NULL) = (available_at IS NOT NULL)",
        "a_version_has_an_end_only_when_it_was_deleted": "(deleted_at IS NOT NULL) = (state = 'deleted')",
        "only_an_available_version_is_pinned": "pinned_at IS NULL OR state = 'available'",
    },
)
