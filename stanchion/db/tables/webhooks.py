"""Whom we call when something happens, and each call that is to be made, was made, or was given up."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
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

from stanchion.db.columns import CHURN, at, metadata, tenant_id

webhook = Table(
    "webhook",
    metadata,
    Column("webhook_id", Uuid, nullable=False),
    tenant_id(),
    Column("url", Text, nullable=False),
    Column("events", ARRAY(Text), nullable=False),
    Column("master", Text, nullable=False),  # which master key its secret is derived from; the secret stands nowhere
    Column("state", Text, nullable=False, server_default="active"),
    Column("created_by", Text, nullable=False),
    at("created_at"),
    at("changed_at"),
    PrimaryKeyConstraint("webhook_id", "tenant_id"),
    Index("webhooks_of_tenant", "tenant_id"),
    CheckConstraint("state IN ('active', 'paused', 'failed')", name="states_of_webhooks"),
    CheckConstraint("cardinality(events) BETWEEN 1 AND 50", name="a_webhook_wants_something"),
)

webhook_delivery = Table(
    "webhook_delivery",
    metadata,
    Column("delivery_id", Uuid, nullable=False),
    tenant_id(),
    Column("webhook_id", Uuid, nullable=False),
    Column("event_id", Uuid, nullable=False),
    Column("type", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("body", JSONB, nullable=False),
    Column("state", Text, nullable=False, server_default="due"),
    Column("fence", BigInteger, nullable=False, server_default="0"),
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("status", Integer),  # of the last answer; NULL: none came
    Column("error", Text),  # a code of ours; nothing that the endpoint said
    at("created_at"),
    at("due_at", nullable=True),  # when it is tried next; a lease moves it on; NULL: nothing is to be done
    at("give_up_at"),
    at("ended_at", nullable=True),
    PrimaryKeyConstraint("delivery_id", "tenant_id"),
    UniqueConstraint("webhook_id", "event_id", "tenant_id"),
    Index("deliveries_due", "due_at", postgresql_where=text("state = 'due' AND due_at IS NOT NULL")),
    Index("deliveries_of_webhook", "webhook_id", "due_at", postgresql_where=text("state = 'due'")),
    Index("deliveries_of_tenant", "tenant_id", "delivery_id"),
    Index("deliveries_ended", "ended_at", postgresql_where=text("ended_at IS NOT NULL")),
    CheckConstraint("state IN ('due', 'sent', 'failed')", name="states_of_webhook_deliveries"),
    CheckConstraint("(ended_at IS NULL) = (state = 'due')", name="a_delivery_has_an_end_only_when_it_ended"),
    CheckConstraint("state = 'due' OR due_at IS NULL", name="what_has_ended_is_not_due"),
    postgresql_with=CHURN | {"fillfactor": "70"},
)
