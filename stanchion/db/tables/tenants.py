"""Who works here: tenants, their keys, and the chain of what people and keys did."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    FetchedValue,
    Identity,
    Index,
    LargeBinary,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from stanchion.contracts import limits
from stanchion.db.columns import at, metadata, tenant_id

tenant = Table(
    "tenant",
    metadata,
    tenant_id(),
    Column("name", Text, nullable=False),
    at("created_at"),
    PrimaryKeyConstraint("tenant_id"),
    UniqueConstraint("name"),
)

api_key = Table(
    "api_key",
    metadata,
    Column("key_id", Uuid, nullable=False),
    tenant_id(),
    Column("name", Text, nullable=False),
    Column("secret_hash", LargeBinary, nullable=False),
    Column("scopes", ARRAY(Text), nullable=False),
    at("created_at"),
    at("expires_at", nullable=True),
    at("revoked_at", nullable=True),
    PrimaryKeyConstraint("key_id", "tenant_id"),
    UniqueConstraint("secret_hash"),
    UniqueConstraint("tenant_id", "name"),
    CheckConstraint("octet_length(secret_hash) = 32", name="a_secret_is_kept_as_its_hash"),
)

signing_key = Table(
    "signing_key",
    metadata,
    Column("key_id", Text, nullable=False),
    tenant_id(),
    Column("public_key", LargeBinary, nullable=False),
    Column("scopes", ARRAY(Text), nullable=False),
    at("created_at"),
    at("revoked_at", nullable=True),
    PrimaryKeyConstraint("key_id", "tenant_id"),
    CheckConstraint("octet_length(public_key) = 32", name="an_ed25519_key_has_32_bytes"),
)

audit = Table(
    "audit",
    metadata,
    tenant_id(),
    Column("lane", SmallInteger, nullable=False, server_default="0"),  # 0: acts of people and keys; else submissions
    Column("audit_id", BigInteger, Identity(always=True), nullable=False),
    at("at"),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("detail", JSONB, nullable=False),
    Column("previous_hash", LargeBinary),
    Column("hash", LargeBinary, nullable=False, server_default=FetchedValue()),
    PrimaryKeyConstraint("audit_id", "tenant_id"),
    Index("audit_of_tenant", "tenant_id", "audit_id"),
    Index("audit_lanes", "tenant_id", "lane", "audit_id"),
    Index("audit_of_target", "tenant_id", "target", "audit_id"),
    CheckConstraint(f"lane BETWEEN 0 AND {limits.SUBMISSION_LANES}", name="lanes_of_the_audit_log"),
)
