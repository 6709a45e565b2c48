"""Artifacts: what tasks make for people and for later steps. Rows name content that lies in an object store."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY

from stanchion.db.columns import at, metadata, tenant_id

artifact = Table(
    "artifact",
    metadata,
    tenant_id(),
    Column("artifact_id", Uuid, nullable=False, server_default=text("uuidv7()")),
    Column("task_id", Uuid, nullable=False),
    Column("name", Text, nullable=False),
    Column("latest", Integer, nullable=False, server_default="0"),
    at("created_at"),
    PrimaryKeyConstraint("artifact_id", "tenant_id"),
    UniqueConstraint("task_id", "name", "tenant_id"),
    CheckConstraint("length(name) BETWEEN 1 AND 200", name="an_artifact_has_a_name_of_bounded_length"),
    CheckConstraint("latest >= 0", name="versions_of_an_artifact_count_from_one"),
    postgresql_with={"fillfactor": "70"},
)

artifact_version = Table(
    "artifact_version",
    metadata,
    tenant_id(),
    Column("version_id", Uuid, nullable=False, server_default=text("uuidv7()")),
    Column("artifact_id", Uuid, nullable=False),
    Column("task_id", Uuid, nullable=False),
    Column("run_id", Uuid, nullable=False),
    Column("step_id", Uuid),
    Column("fence", BigInteger),
    Column("actor", Text),
    Column("number", Integer),
    Column("version", BigInteger, nullable=False, server_default="0"),
    Column("state", Text, nullable=False),
    Column("sha256", LargeBinary),
    Column("size", BigInteger),
    Column("media_type", Text, nullable=False),
    Column("made_from", ARRAY(Uuid), nullable=False, server_default="{}"),
    Column("outlives", Boolean, nullable=False, server_default="false"),
    at("created_at"),
    at("available_at", nullable=True),
    at("deleted_at", nullable=True),
    at("pinned_at", nullable=True),
    PrimaryKeyConstraint("version_id", "tenant_id"),
    Index("artifact_version_number", "artifact_id", "number", "tenant_id", unique=True),
    Index("artifact_version_of_task", "task_id", "version_id"),
    Index("artifact_version_of_run", "run_id"),
    Index("artifact_content", "sha256", postgresql_where=text("state = 'available'")),
    Index("artifact_version_pending", "created_at", postgresql_where=text("state = 'pending'")),
    Index(
        "artifact_version_outlives",
        "version_id",
        postgresql_where=text("outlives AND pinned_at IS NULL AND state = 'available'"),
    ),
    CheckConstraint("octet_length(sha256) = 32", name="content_is_named_by_its_sha256"),
    CheckConstraint("size >= 0", name="content_has_a_size"),
    CheckConstraint(
        "(step_id IS NULL) = (fence IS NULL) AND (step_id IS NULL) = (actor IS NOT NULL)",
        name="a_version_is_of_a_lease_or_of_somebody",
    ),
    postgresql_with={"fillfactor": "70"},
)

object_removal = Table(
    "object_removal",
    metadata,
    tenant_id(),
    Column("sha256", LargeBinary, nullable=False),
    at("asked_at"),
    at("begun_at", nullable=True),
    at("removed_at", nullable=True),
    PrimaryKeyConstraint("sha256", "tenant_id"),
    Index("object_removal_open", "asked_at", postgresql_where=text("removed_at IS NULL")),
    Index("object_removal_ended", "removed_at", postgresql_where=text("removed_at IS NOT NULL")),
    CheckConstraint("octet_length(sha256) = 32", name="an_object_is_named_by_its_sha256"),
    CheckConstraint("removed_at IS NULL OR begun_at IS NOT NULL", name="a_removal_begins_before_it_ends"),
)
