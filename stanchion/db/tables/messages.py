"""What happened, and what goes over Kafka."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Identity,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from stanchion.db.columns import CHURN, Xid8, at, metadata, tenant_id

event = Table(
    "event",
    metadata,
    tenant_id(),
    Column("event_id", BigInteger, Identity(always=True), nullable=False),
    Column("xid", Xid8, nullable=False, server_default=text("stanchion.event_xid(pg_current_xact_id())")),
    Column("run_id", Uuid, nullable=False),
    Column("step_id", Uuid),
    Column("fence", BigInteger),
    Column("version", BigInteger),
    at("at"),
    Column("kind", Text, nullable=False),
    Column("actor", Text),
    Column("body", JSONB),
    # by transaction first: a reader that goes on from (xid, event_id) below the oldest running one misses nothing
    PrimaryKeyConstraint("run_id", "xid", "event_id", "at"),
    # rows come in the order of their time: the ranges of a few blocks cost nothing to keep, and find the last seconds
    # few rows are failures: they are put into groups from here, in the order in which none is skipped
    Index("event_failed", "xid", "event_id", postgresql_where=text("kind IN ('StepFailed', 'StepRetryScheduled')")),
    Index(
        "event_lately", "at", postgresql_using="brin", postgresql_with={"pages_per_range": "32", "autosummarize": "on"}
    ),
    postgresql_partition_by="RANGE (at)",
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", BigInteger, Identity(always=True), nullable=False),
    Column("part", SmallInteger, nullable=False),
    tenant_id(),
    Column("message_id", Uuid, nullable=False, server_default=text("uuidv7()")),
    Column("topic", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("correlation_id", Text),
    Column("causation_id", Text),
    Column("sequence", BigInteger),
    at("at"),
    Column("body", Text, nullable=False),
    PrimaryKeyConstraint("id"),
    Index("outbox_part", "part", "id"),
    postgresql_with=CHURN,
)

outbox_partition = Table(
    "outbox_partition",
    metadata,
    Column("part", SmallInteger, nullable=False, autoincrement=False),
    Column("owner", Uuid),
    Column("fence", BigInteger, nullable=False, server_default="0"),
    at("lease_until"),
    PrimaryKeyConstraint("part"),
    postgresql_with={"fillfactor": "20"},
)

relay = Table(
    "relay",
    metadata,
    Column("relay_id", Uuid, nullable=False),
    Column("name", Text, nullable=False),
    at("seen_at"),
    PrimaryKeyConstraint("relay_id"),
    postgresql_with={"fillfactor": "20"},
)

inbox = Table(
    "inbox",
    metadata,
    tenant_id(),
    Column("message_id", Text, nullable=False),
    Column("consumer", Text, nullable=False),
    Column("subject", Uuid),
    Column("answer", JSONB),  # of what is not answered from the state of its subject
    at("at"),
    PrimaryKeyConstraint("message_id", "consumer", "tenant_id"),
    Index("inbox_age", "at"),
)

dead_letter = Table(
    "dead_letter",
    metadata,
    Column("dead_letter_id", Uuid, nullable=False, server_default=text("uuidv7()")),
    Column("tenant_id", Uuid),
    Column("topic", Text, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("key", LargeBinary),
    Column("value", LargeBinary),
    Column("headers", JSONB, nullable=False),
    Column("code", Text, nullable=False),
    Column("reason", Text, nullable=False),
    at("at"),
    at("redriven_at", nullable=True),
    PrimaryKeyConstraint("dead_letter_id"),
    Index("dead_letter_parked", "tenant_id", "dead_letter_id", postgresql_where=text("redriven_at IS NULL")),
    UniqueConstraint("topic", "partition", "offset", "at"),
)
