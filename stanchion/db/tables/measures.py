"""What operators measure and hold: paused queues, samples of every ten seconds, and how far readers of Kafka are."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, TIMESTAMP

from stanchion.db.columns import at, metadata, tenant_id

queue_pause = Table(
    "queue_pause",
    metadata,
    tenant_id(),
    Column("queue", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("paused_by", Text, nullable=False),
    at("since"),
    PrimaryKeyConstraint("queue", "tenant_id"),
)
"""Nothing of such a queue is leased or offered for the tenant."""

sample = Table(
    "sample",
    metadata,
    tenant_id(),  # of the platform as a whole: the nil UUID
    Column("seconds", Integer, nullable=False),
    at("slot"),
    Column("body", JSONB, nullable=False),
    at("taken_at"),
    PrimaryKeyConstraint("tenant_id", "seconds", "slot"),
    Index("sample_age", "seconds", "slot"),
    CheckConstraint("seconds IN (10, 300)", name="samples_are_of_ten_seconds_or_five_minutes"),
)
"""`counts` of what happened from `slot` on for so many seconds, and `levels` of what stood at its end."""

lag_look = Table(
    "lag_look",
    metadata,
    Column("here", Boolean, nullable=False, server_default="true"),
    at("taken_at"),
    Column("taken_by", Text, nullable=False),
    at("answered_at", nullable=True),
    at("failing_since", nullable=True),
    Column("fault", JSONB),
    PrimaryKeyConstraint("here"),
    CheckConstraint("here", name="one_look_at_the_broker_at_a_time"),
    CheckConstraint("(fault IS NULL) = (failing_since IS NULL)", name="a_fault_has_a_beginning"),
    postgresql_with={"fillfactor": "20"},
)
"""Who looked at the broker last, and what kept it from answering."""

consumer_group = Table(
    "consumer_group",
    metadata,
    Column("name", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("members", ARRAY(Text), nullable=False),
    Column("rebalances", ARRAY(TIMESTAMP(timezone=True)), nullable=False, server_default="{}"),
    at("since"),
    at("seen_at"),
    PrimaryKeyConstraint("name"),
    CheckConstraint("state IN ('steady', 'rebalancing', 'empty', 'unknown')", name="states_of_consumer_groups"),
    postgresql_with={"fillfactor": "20"},
)

consumer_lag = Table(
    "consumer_lag",
    metadata,
    Column("group_name", Text, nullable=False),
    Column("topic", Text, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("end_offset", BigInteger, nullable=False),
    Column("committed", BigInteger),  # NULL: the group has committed nothing there yet
    Column("rate_in", Float, nullable=False, server_default=text("0")),
    Column("rate_out", Float, nullable=False, server_default=text("0")),
    Column("owner", Text),
    at("moved_at"),
    at("seen_at"),
    PrimaryKeyConstraint("topic", "group_name", "partition"),
    postgresql_with={"fillfactor": "50"},
)
"""What the latest look found; a row that it found as it was is not written. `moved_at` is when the group was last seen to
come on, or had nothing before it."""
