"""The cluster that all of it runs on, workers that are there, and the jobs of maintenance."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Index,
    Integer,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from stanchion.db.columns import at, metadata, tenant_id

cluster = Table(
    "cluster",
    metadata,
    Column("here", Boolean, nullable=False, server_default="true"),
    Column("system_identifier", BigInteger, nullable=False),
    at("adopted_at"),
    PrimaryKeyConstraint("here"),
    CheckConstraint("here", name="a_database_is_in_one_cluster"),
)

worker = Table(
    "worker",
    metadata,
    Column("worker_id", Uuid, nullable=False),
    Column("name", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("queues", ARRAY(Text), nullable=False),
    Column("workflows", ARRAY(Text), nullable=False),
    Column("tenants", ARRAY(Uuid)),  # NULL: it serves all
    Column("slots", Integer, nullable=False),
    Column("running", Integer, nullable=False, server_default="0"),
    Column("state", Text, nullable=False),
    Column("drain_requested", Boolean, nullable=False, server_default="false"),
    Column("clock_offset_ms", Integer, nullable=False, server_default="0"),
    at("started_at"),
    at("seen_at"),
    PrimaryKeyConstraint("worker_id"),
    CheckConstraint("state IN ('active', 'draining', 'gone')", name="states_of_workers"),
    postgresql_with={"fillfactor": "50"},
)

maintenance_job = Table(
    "maintenance_job",
    metadata,
    Column("kind", Text, nullable=False),
    Column("key", Text, nullable=False),
    tenant_id(),  # of what belongs to no tenant: the nil UUID
    Column("state", Text, nullable=False, server_default="due"),
    Column("fence", BigInteger, nullable=False, server_default="0"),
    Column("tries", SmallInteger, nullable=False, server_default="0"),
    Column("worker", Text),
    at("due_at"),
    at("lease_until", nullable=True),
    at("created_at"),
    at("started_at", nullable=True),
    at("finished_at", nullable=True),
    Column("request", JSONB),
    Column("result", JSONB),
    PrimaryKeyConstraint("kind", "key", "tenant_id"),
    Index("maintenance_open", "due_at", postgresql_where=text("finished_at IS NULL")),
    Index("maintenance_ended", "finished_at", postgresql_where=text("finished_at IS NOT NULL")),
    CheckConstraint("state IN ('due', 'running', 'done', 'failed')", name="states_of_maintenance_jobs"),
    CheckConstraint(
        "(finished_at IS NOT NULL) = (state IN ('done', 'failed'))",
        name="a_maintenance_job_has_an_end_only_when_it_ended",
    ),
    CheckConstraint("(lease_until IS NOT NULL) = (state = 'running')", name="a_running_maintenance_job_has_a_lease"),
    postgresql_with={"fillfactor": "70"},
)

set_aside = Table(
    "set_aside",
    metadata,
    Column("kind", Text, nullable=False),
    Column("target_id", Uuid, nullable=False),
    tenant_id(),
    Column("run_id", Uuid),
    Column("code", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("tries", SmallInteger, nullable=False),
    at("since"),
    at("retry_at"),
    PrimaryKeyConstraint("target_id", "kind", "tenant_id"),
    CheckConstraint("kind IN ('lease', 'timer', 'expansion', 'run', 'barrier')", name="kinds_of_what_may_be_set_aside"),
)
"""Single items of upkeep that the database refuses: damaged rows, which must not stop what is beside them."""
