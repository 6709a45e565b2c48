"""What is to be done: workflows, tasks and their runs."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from stanchion.db.columns import at, metadata, tenant_id

workflow = Table(
    "workflow",
    metadata,
    Column("name", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("graph", JSONB, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    at("registered_at"),
    PrimaryKeyConstraint("name", "version"),
    CheckConstraint("version > 0", name="versions_count_from_one"),
)

node_stat = Table(
    "node_stat",
    metadata,
    Column("workflow", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("node", Text, nullable=False),
    Column("mean_ms", BigInteger, nullable=False),
    Column("samples", BigInteger, nullable=False),
    at("updated_at"),
    PrimaryKeyConstraint("workflow", "version", "node"),
)

task = Table(
    "task",
    metadata,
    tenant_id(),
    Column("task_id", Uuid, nullable=False),
    Column("run_id", Uuid, nullable=False),
    Column("workflow", Text, nullable=False),
    Column("workflow_version", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("version", BigInteger, nullable=False, server_default="0"),
    Column("runs", Integer, nullable=False, server_default="1"),
    Column("idempotency_key", Text),
    Column("payload_digest", LargeBinary, nullable=False),
    Column("input", JSONB),
    Column("input_blob", LargeBinary),
    Column("priority", SmallInteger, nullable=False, server_default="0"),
    Column("tags", ARRAY(Text), nullable=False, server_default="{}"),
    Column("goal", Text),
    Column("constraints", JSONB),
    Column("reason", JSONB),
    at("deadline_at", nullable=True),
    Column("submitted_via", Text, nullable=False),
    Column("submitted_by", Text, nullable=False),
    at("created_at"),
    at("updated_at"),
    at("ended_at", nullable=True),
    at("payload_removed_at", nullable=True),
    PrimaryKeyConstraint("task_id", "tenant_id"),
    Index(
        "task_key", "tenant_id", "idempotency_key", unique=True, postgresql_where=text("idempotency_key IS NOT NULL")
    ),
    Index("task_newest", "tenant_id", text("task_id DESC")),
    # no index on the state of open tasks: it changes under them, and an update that touches no index is a cheap one
    Index("task_open", "tenant_id", text("task_id DESC"), postgresql_where=text("ended_at IS NULL")),
    Index("task_closed", "tenant_id", "state", text("task_id DESC"), postgresql_where=text("ended_at IS NOT NULL")),
    Index("task_of_workflow", "tenant_id", "workflow", text("task_id DESC")),
    Index("task_tags", "tags", postgresql_using="gin", postgresql_where=text("tags <> '{}'")),
    Index("task_ended", "ended_at", postgresql_where=text("ended_at IS NOT NULL")),
    Index(
        "task_with_payload", "ended_at", postgresql_where=text("ended_at IS NOT NULL AND payload_removed_at IS NULL")
    ),
    Index("task_blob", "input_blob", postgresql_where=text("input_blob IS NOT NULL")),
    postgresql_with={"fillfactor": "70"},
)

run = Table(
    "run",
    metadata,
    tenant_id(),
    Column("run_id", Uuid, nullable=False),
    Column("task_id", Uuid, nullable=False),
    Column("number", Integer, nullable=False),
    Column("workflow", Text, nullable=False),
    Column("workflow_version", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("version", BigInteger, nullable=False, server_default="0"),
    Column("open", Integer, nullable=False),
    Column("seq", BigInteger, nullable=False, server_default="0"),
    Column("outcome", Text),
    Column("reason", JSONB),
    Column("swept_to", Uuid),
    Column("retry_of", Uuid),
    at("paused_at", nullable=True),
    at("created_at"),
    at("updated_at"),
    at("ended_at", nullable=True),
    PrimaryKeyConstraint("run_id", "tenant_id"),
    Index("run_of_task", "task_id", "number"),
    Index("run_winding_down", "run_id", postgresql_where=text("state = 'cancelling'")),
    CheckConstraint("open >= 0", name="open_never_falls_below_zero"),
    postgresql_with={"fillfactor": "40"},
)
