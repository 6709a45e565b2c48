"""What people are asked, and what each of them said."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Index,
    LargeBinary,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from stanchion.contracts import limits
from stanchion.db.columns import at, metadata, tenant_id

approval = Table(
    "approval",
    metadata,
    tenant_id(),
    Column("approval_id", Uuid, nullable=False),
    Column("task_id", Uuid, nullable=False),
    Column("run_id", Uuid, nullable=False),
    Column("step_id", Uuid, nullable=False),  # it waits for the decision, which becomes its result
    Column("fence", BigInteger, nullable=False),  # of the attempt that asked
    Column("node", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("version", BigInteger, nullable=False, server_default="0"),
    Column("question", Text, nullable=False),
    Column("summary", Text),
    Column("payload", JSONB),  # what is shown; retention takes it away, the hash stays
    Column("payload_hash", LargeBinary, nullable=False),
    Column("operation_kind", Text),  # NULL: a decision that allows no effect
    Column("operation_key", Text),
    Column("resource_id", Uuid),  # a version of an artifact
    Column("resource_sha256", LargeBinary),
    Column("people", ARRAY(Text), nullable=False, server_default="{}"),
    Column("teams", ARRAY(Text), nullable=False, server_default="{}"),
    Column("needs", SmallInteger, nullable=False),
    Column("four_eyes", Boolean, nullable=False),
    Column("on_timeout", Text, nullable=False),
    Column("on_rejected", Text, nullable=False),
    Column("requested_by", Text, nullable=False),
    Column("replaces", Uuid),  # the approval whose payload was edited into this one
    Column("edited_by", Text),
    Column("decided_by", Text),
    Column("reason", Text),
    Column("spent_by", Uuid),
    at("created_at"),
    at("updated_at"),
    at("expires_at"),
    at("decided_at", nullable=True),
    at("spent_at", nullable=True),
    PrimaryKeyConstraint("approval_id", "tenant_id"),
    Index(
        "approval_of_step", "step_id", "fence", "tenant_id", unique=True, postgresql_where=text("state <> 'replaced'")
    ),
    Index("approval_open_of_run", "run_id", postgresql_where=text("state = 'requested'")),
    Index("approval_of_task", "task_id", "approval_id"),
    Index("approval_open", "tenant_id", "approval_id", postgresql_where=text("state = 'requested'")),
    Index("approval_newest", "tenant_id", "approval_id"),
    Index("approval_spent", "spent_by", "tenant_id", postgresql_where=text("spent_by IS NOT NULL")),
    CheckConstraint("octet_length(payload_hash) = 32", name="an_approval_is_bound_to_a_sha256"),
    CheckConstraint("(resource_id IS NULL) = (resource_sha256 IS NULL)", name="a_resource_is_bound_with_its_content"),
    CheckConstraint("operation_key IS NULL OR operation_kind IS NOT NULL", name="a_key_belongs_to_an_operation"),
    CheckConstraint(f"needs BETWEEN 1 AND {limits.APPROVERS}", name="an_approval_needs_somebody"),
    CheckConstraint("on_timeout IN ('reject', 'fail')", name="silence_never_approves"),
    CheckConstraint("on_rejected IN ('end', 'continue')", name="a_no_ends_the_task_or_not"),
    CheckConstraint("(replaces IS NULL) = (edited_by IS NULL)", name="who_replaces_an_approval_is_named"),
    postgresql_with={"fillfactor": "70"},
)

approval_vote = Table(
    "approval_vote",
    metadata,
    tenant_id(),
    Column("approval_id", Uuid, nullable=False),
    Column("number", SmallInteger, nullable=False),
    Column("person_id", Uuid, nullable=False),
    Column("subject", Text, nullable=False),
    Column("vote", Text, nullable=False),
    Column("payload_hash", LargeBinary, nullable=False),  # of what was shown to this person
    Column("comment", Text),
    Column("delegate_to", Text),
    at("at"),
    PrimaryKeyConstraint("approval_id", "number", "tenant_id"),
    Index(
        "approval_one_say_each",
        "approval_id",
        "person_id",
        "tenant_id",
        unique=True,
        postgresql_where=text("vote IN ('approve', 'reject', 'delegate')"),
    ),
    Index("approval_passed_on", "tenant_id", "delegate_to", postgresql_where=text("delegate_to IS NOT NULL")),
    CheckConstraint("vote IN ('approve', 'reject', 'ask_back', 'answer', 'delegate')", name="what_can_be_said"),
    CheckConstraint("(vote = 'delegate') = (delegate_to IS NOT NULL)", name="a_delegation_names_somebody"),
)
