"""What a task may spend, and what it has spent: limits and sums by unit, and the bookings that they are the sums of."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Index,
    Numeric,
    PrimaryKeyConstraint,
    Table,
    Text,
    Uuid,
    text,
)

from stanchion.db.columns import at, metadata, tenant_id

budget = Table(
    "budget",
    metadata,
    tenant_id(),
    Column("task_id", Uuid, nullable=False),
    Column("unit", Text, nullable=False),
    Column("allowed", Numeric),  # NULL: it is counted, and not limited
    Column("spent", Numeric, nullable=False, server_default="0"),
    PrimaryKeyConstraint("task_id", "unit", "tenant_id"),
    CheckConstraint("allowed > 0 AND allowed < 'Infinity'", name="a_limit_is_a_positive_number"),
    CheckConstraint("spent >= 0 AND spent < 'Infinity'", name="what_is_spent_never_falls_below_zero"),
    postgresql_with={"fillfactor": "70"},
)

spending = Table(
    "spending",
    metadata,
    tenant_id(),
    Column("spending_id", Uuid, nullable=False),
    Column("task_id", Uuid, nullable=False),  # whose budget it is
    Column("run_id", Uuid, nullable=False),
    Column("step_id", Uuid, nullable=False),
    Column("fence", BigInteger),  # NULL: a person said that an operation was not done
    Column("operation_id", Uuid),  # NULL: a step reported it
    Column("unit", Text, nullable=False),
    Column("amount", Numeric, nullable=False),  # below zero: given back
    at("at"),
    PrimaryKeyConstraint("spending_id", "unit", "tenant_id"),
    Index("spending_of_task", "task_id", "unit"),
    Index("spending_of_run", "run_id"),
    Index("spending_of_operation", "operation_id", postgresql_where=text("operation_id IS NOT NULL")),
    CheckConstraint(
        "amount > 0 AND amount < 'Infinity' OR amount < 0 AND amount > '-Infinity' AND operation_id IS NOT NULL",
        name="only_an_operation_gives_back",
    ),
)
