"""Who signs in: people, their teams and sessions, and sign-ins that are under way at a provider."""

from __future__ import annotations

from sqlalchemy import (
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
)
from sqlalchemy.dialects.postgresql import ARRAY

from stanchion.db.columns import at, metadata, tenant_id

person = Table(
    "person",
    metadata,
    Column("person_id", Uuid, nullable=False),
    tenant_id(),
    Column("name", Text, nullable=False),
    Column("display_name", Text, nullable=False),
    Column("email", Text),
    Column("issuer", Text),  # of OIDC; NULL: made by the dev login
    Column("subject", Text),
    Column("role", Text, nullable=False),
    Column("rights", ARRAY(Text), nullable=False, server_default="{}"),  # beside those of the role
    at("created_at"),
    at("disabled_at", nullable=True),
    PrimaryKeyConstraint("person_id", "tenant_id"),
    UniqueConstraint("tenant_id", "name"),
    UniqueConstraint("tenant_id", "issuer", "subject"),
    CheckConstraint("name ~ '^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$'", name="a_person_has_a_handle"),
    CheckConstraint("role IN ('viewer', 'operator', 'approver', 'admin', 'platform')", name="roles_of_people"),
    CheckConstraint("rights <@ ARRAY['payload.read']", name="only_payloads_are_a_right_of_their_own"),
    CheckConstraint("(issuer IS NULL) = (subject IS NULL)", name="a_subject_has_an_issuer"),
)

team_member = Table(
    "team_member",
    metadata,
    tenant_id(),
    Column("team", Text, nullable=False),
    Column("person_id", Uuid, nullable=False),
    at("added_at"),
    PrimaryKeyConstraint("person_id", "team", "tenant_id"),
    Index("teams_of_tenant", "tenant_id", "team"),
    CheckConstraint("team ~ '^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$'", name="a_team_has_a_handle"),
)

session = Table(
    "session",
    metadata,
    Column("session_id", Uuid, nullable=False),
    tenant_id(),
    Column("person_id", Uuid, nullable=False),
    Column("kind", Text, nullable=False),
    Column("token_hash", LargeBinary, nullable=False),
    Column("csrf_secret", LargeBinary, nullable=False),
    Column("idle_seconds", Integer, nullable=False),
    at("created_at"),
    at("used_at"),
    at("expires_at"),
    at("revoked_at", nullable=True),
    PrimaryKeyConstraint("session_id", "tenant_id"),
    UniqueConstraint("token_hash"),
    Index("sessions_of_person", "person_id"),
    CheckConstraint("kind IN ('browser', 'cli')", name="kinds_of_sessions"),
    CheckConstraint("octet_length(token_hash) = 32", name="a_token_is_kept_as_its_hash"),
    CheckConstraint("octet_length(csrf_secret) = 32", name="a_csrf_secret_has_32_bytes"),
)

sign_in = Table(
    "sign_in",
    metadata,
    Column("state_hash", LargeBinary, nullable=False),
    tenant_id(),
    Column("binder_hash", LargeBinary, nullable=False),  # of the browser that began it
    Column("nonce", Text, nullable=False),
    Column("verifier", Text, nullable=False),
    Column("return_to", Text, nullable=False),
    at("expires_at"),
    PrimaryKeyConstraint("state_hash", "tenant_id"),
    Index("sign_ins_by_end", "expires_at"),
    CheckConstraint(
        "octet_length(state_hash) = 32 AND octet_length(binder_hash) = 32", name="a_sign_in_is_found_by_hashes"
    ),
)
