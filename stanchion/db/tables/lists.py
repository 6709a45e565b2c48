"""What people keep of lists: saved views, what jobs in bulk came to, and errors in groups."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from stanchion.db.columns import Xid8, at, metadata, tenant_id

saved_view = Table(
    "saved_view",
    metadata,
    Column("view_id", Uuid, nullable=False),
    tenant_id(),
    Column("owner", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("query", Text, nullable=False),
    Column("order", Text, nullable=False, server_default="newest"),
    Column("shared", Boolean, nullable=False, server_default="false"),
    at("created_at"),
    at("updated_at"),
    PrimaryKeyConstraint("view_id", "tenant_id"),
    UniqueConstraint("tenant_id", "owner", "name"),
)

job_target = Table(
    "job_target",
    metadata,
    Column("job_id", Uuid, nullable=False),
    Column("target_id", Uuid, nullable=False),
    tenant_id(),
    Column("made_id", Uuid),  # what the act made: the run of a retry
    Column("outcome", Text, nullable=False),
    Column("code", Text),
    Column("what", Text),
    at("at"),
    PrimaryKeyConstraint("job_id", "target_id", "tenant_id"),
    Index("job_target_lately", "job_id", "at", postgresql_where=text("outcome = 'done'")),
    CheckConstraint("outcome IN ('done', 'skipped', 'failed')", name="outcomes_of_targets"),
)
"""One row for each target that a job has acted on, written with the act: that is why none is acted on twice."""

error_group = Table(
    "error_group",
    metadata,
    Column("group_id", Uuid, nullable=False),  # of its fingerprint
    tenant_id(),
    Column("workflow", Text, nullable=False),
    Column("node", Text, nullable=False),
    Column("code", Text, nullable=False),
    Column("type", Text),
    Column("place", Text),
    Column("message", Text, nullable=False),
    Column("versions", ARRAY(Integer), nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    at("first_at"),
    at("last_at"),
    Column("example", JSONB, nullable=False),
    Column("example_step_id", Uuid, nullable=False),
    Column("known", Boolean, nullable=False, server_default="false"),
    Column("note", Text),
    Column("link", Text),
    Column("assigned_to", Text),
    Column("marked_by", Text),
    at("marked_at", nullable=True),
    PrimaryKeyConstraint("group_id", "tenant_id"),
    Index("error_group_lately", "tenant_id", text("last_at DESC"), text("group_id DESC")),
    Index("error_group_age", "last_at"),
    postgresql_with={"fillfactor": "70"},
)

error_member = Table(
    "error_member",
    metadata,
    Column("run_id", Uuid, nullable=False),
    Column("step_id", Uuid, nullable=False),
    tenant_id(),
    Column("group_id", Uuid, nullable=False),
    Column("fan_id", Uuid),
    Column("worker_id", Uuid),
    Column("failures", BigInteger, nullable=False),
    at("first_at"),
    at("last_at"),
    PrimaryKeyConstraint("run_id", "step_id", "tenant_id"),
    Index("error_member_of_group", "tenant_id", "group_id", text("step_id DESC")),
)
"""Each step that has failed, in the group of its last failure."""

error_cursor = Table(
    "error_cursor",
    metadata,
    Column("here", Boolean, nullable=False, server_default="true"),
    Column("xid", Xid8, nullable=False, server_default=text("'0'")),
    Column("event_id", BigInteger, nullable=False, server_default="0"),
    PrimaryKeyConstraint("here"),
    CheckConstraint("here", name="failures_are_counted_in_one_order"),
)
"""Up to which event failures were put into groups."""
