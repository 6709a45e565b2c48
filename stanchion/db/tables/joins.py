"""Barriers: what a join waits for."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    Index,
    Integer,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    Uuid,
    text,
)

from stanchion.db.columns import at, metadata, tenant_id

barrier = Table(
    "barrier",
    metadata,
    tenant_id(),
    Column("barrier_id", Uuid, nullable=False),
    Column("run_id", Uuid, nullable=False),
    Column("step_id", Uuid),
    Column("fan_id", Uuid),
    Column("node", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("rule", Text, nullable=False),
    Column("share", Double),
    Column("need", Integer, nullable=False),
    Column("expected", Integer, nullable=False),
    Column("succeeded", Integer, nullable=False, server_default="0"),
    Column("failed", Integer, nullable=False, server_default="0"),
    Column("skipped", Integer, nullable=False, server_default="0"),
    Column("slots", SmallInteger, nullable=False, server_default="0"),
    Column("slots_left", SmallInteger, nullable=False, server_default="0"),
    Column("closed", Boolean, nullable=False, server_default="false"),
    Column("on_failed", Text, nullable=False, server_default="fail"),
    Column("rest", Text, nullable=False, server_default="cancel"),
    Column("state", Text, nullable=False),
    Column("version", BigInteger, nullable=False, server_default="0"),
    at("sweep_at", nullable=True),
    at("deadline_at", nullable=True),
    at("released_at", nullable=True),
    at("created_at"),
    PrimaryKeyConstraint("barrier_id", "tenant_id"),
    Index("barrier_of_step", "step_id", postgresql_where=text("step_id IS NOT NULL")),
    Index("barrier_of_run", "run_id"),
    Index("barrier_of_fan", "fan_id", postgresql_where=text("fan_id IS NOT NULL")),
    Index(
        "barrier_rest",
        "barrier_id",
        postgresql_where=text("kind = 'gather' AND state <> 'waiting' AND (NOT closed OR sweep_at IS NOT NULL)"),
    ),
    # changes with failures alone: what people have to decide about
    Index(
        "barrier_held",
        "tenant_id",
        "barrier_id",
        postgresql_where=text("state = 'waiting' AND on_failed = 'hold' AND failed > 0"),
    ),
    CheckConstraint("kind IN ('after', 'gather')", name="kinds_of_barriers"),
    CheckConstraint("rule IN ('all', 'first', 'at_least')", name="rules_of_barriers"),
    CheckConstraint("on_failed IN ('fail', 'collect', 'hold')", name="what_a_failed_child_does"),
    CheckConstraint("rest IN ('cancel', 'finish')", name="what_the_rest_does"),
    CheckConstraint("expected >= 0 AND slots_left >= 0", name="a_barrier_counts_down_to_zero"),
    CheckConstraint(
        "step_id IS NOT NULL OR (rule = 'all' AND on_failed = 'collect')", name="a_join_without_a_step_only_waits"
    ),
    CheckConstraint(
        "slots = 0 OR (rule = 'all' AND on_failed <> 'hold')", name="only_a_join_of_all_that_never_holds_has_slots"
    ),
    postgresql_with={"fillfactor": "50"},
)

barrier_slot = Table(
    "barrier_slot",
    metadata,
    tenant_id(),
    Column("barrier_id", Uuid, nullable=False),
    Column("slot", SmallInteger, nullable=False),
    Column("remaining", Integer, nullable=False),
    PrimaryKeyConstraint("barrier_id", "slot", "tenant_id"),
    CheckConstraint("remaining >= 0", name="a_slot_counts_down_to_zero"),
    postgresql_with={"fillfactor": "20"},
)

barrier_release = Table(
    "barrier_release",
    metadata,
    tenant_id(),
    Column("barrier_id", Uuid, nullable=False),
    Column("included", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("skipped", Integer, nullable=False),
    at("at"),
    PrimaryKeyConstraint("barrier_id", "tenant_id"),
)
