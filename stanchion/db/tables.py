"""Every table, defined once: the DDL is rendered from here and the dynamic reads are built on it.

Hot tables are narrow and updated in place: `step` has no index on a column that changes (heap-only updates), what is
ready or due stands in `ready` and `timer`, the lease's expiry in `attempt`. `tenant_id` is in every key, after the
selective column.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    FetchedValue,
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
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from stanchion.state import MACHINES
from stanchion.state.render import check_states

from .columns import CHURN, HOT, Xid8, at, metadata, tenant_id

__all__ = ["GLOBAL_TABLES", "metadata"]

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

step = Table(
    "step",
    metadata,
    tenant_id(),
    Column("step_id", Uuid, nullable=False),
    Column("run_id", Uuid, nullable=False),
    Column("fan_id", Uuid),
    Column("fence", BigInteger, nullable=False, server_default="0"),
    Column("proof", BigInteger, nullable=False, server_default="0"),
    Column("idx", Integer, nullable=False, server_default="0"),
    Column("version", BigInteger, nullable=False, server_default="0"),
    Column("round", Integer, nullable=False, server_default="0"),
    Column("waits", SmallInteger, nullable=False, server_default="0"),
    Column("attempts", SmallInteger, nullable=False, server_default="0"),
    Column("losses", SmallInteger, nullable=False, server_default="0"),
    Column("max_attempts", SmallInteger, nullable=False, server_default="4"),
    Column("priority", SmallInteger, nullable=False, server_default="0"),
    Column("counts", Boolean, nullable=False, server_default="false"),
    Column("holds", Boolean, nullable=False, server_default="false"),
    Column("spoiled", Boolean, nullable=False, server_default="false"),
    Column("uncollected", Boolean, nullable=False, server_default="false"),
    Column("kind", Text, nullable=False, server_default="step"),
    Column("state", Text, nullable=False),
    Column("node", Text, nullable=False),
    Column("queue", Text, nullable=False),
    Column("workflow", Text, nullable=False),
    Column("workflow_version", Integer, nullable=False),
    Column("feeds", ARRAY(Uuid)),
    Column("sources", ARRAY(Uuid)),
    Column("chooses", ARRAY(Uuid)),
    Column("late_for", ARRAY(Uuid)),
    Column("input", JSONB),
    Column("input_blob", LargeBinary),
    Column("answers", Text),
    Column("replaced_by", Uuid),
    Column("timeout_ms", BigInteger),
    Column("lease_ms", BigInteger),
    Column("start_within_ms", BigInteger),
    Column("total_ms", BigInteger),
    at("expires_at", nullable=True),
    at("created_at"),
    at("updated_at"),
    PrimaryKeyConstraint("step_id", "tenant_id"),
    Index("step_of_run", "run_id", "step_id"),
    Index("step_of_fan", "fan_id", "idx", postgresql_where=text("fan_id IS NOT NULL")),
    Index("step_blob", "input_blob", postgresql_where=text("input_blob IS NOT NULL")),
    CheckConstraint("kind IN ('step', 'fan')", name="kinds_of_steps"),
    CheckConstraint("attempts <= max_attempts", name="attempts_stay_within_the_budget"),
    CheckConstraint("waits >= 0", name="waits_never_fall_below_zero"),
    CheckConstraint("proof = 0", name="a_proof_is_never_stored"),
    CheckConstraint("NOT spoiled OR state = 'skipped'", name="only_a_skipped_step_is_spoiled"),
    postgresql_with=HOT,
)

attempt = Table(
    "attempt",
    metadata,
    tenant_id(),
    Column("step_id", Uuid, nullable=False),
    Column("run_id", Uuid, nullable=False),
    Column("worker_id", Uuid, nullable=False),
    Column("fence", BigInteger, nullable=False),
    at("lease_until"),
    at("granted_at"),
    at("started_at", nullable=True),
    at("ended_at", nullable=True),
    at("deadline_at", nullable=True),
    Column("number", SmallInteger, nullable=False),
    Column("counted", Boolean, nullable=False, server_default="false"),
    Column("state", Text, nullable=False),
    Column("error", JSONB),
    Column("progress", JSONB),
    PrimaryKeyConstraint("step_id", "fence", "tenant_id"),
    Index("attempt_open", "lease_until", postgresql_where=text("ended_at IS NULL")),
    Index("attempt_one_open", "step_id", "tenant_id", unique=True, postgresql_where=text("ended_at IS NULL")),
    postgresql_with={"fillfactor": "70", "autovacuum_vacuum_scale_factor": "0.02"},
)

result = Table(
    "result",
    metadata,
    tenant_id(),
    Column("step_id", Uuid, nullable=False),
    Column("fence", BigInteger),
    Column("body", JSONB),
    Column("blob", LargeBinary),
    Column("late", Boolean, nullable=False, server_default="false"),
    PrimaryKeyConstraint("step_id", "tenant_id"),
    Index("result_blob", "blob", postgresql_where=text("blob IS NOT NULL")),
    CheckConstraint("body IS NULL OR blob IS NULL", name="a_result_stands_in_one_place"),
)

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
    Index("barrier_rest", "barrier_id", postgresql_where=text("kind = 'gather' AND NOT closed AND state <> 'waiting'")),
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

event = Table(
    "event",
    metadata,
    tenant_id(),
    Column("event_id", BigInteger, Identity(always=True), nullable=False),
    Column("xid", Xid8, nullable=False, server_default=text("pg_current_xact_id()")),
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
    at("at"),
    PrimaryKeyConstraint("message_id", "consumer", "tenant_id"),
    Index("inbox_age", "at"),
)

ready = Table(
    "ready",
    metadata,
    Column("step_id", Uuid, nullable=False),
    tenant_id(),
    Column("workflow", Text, nullable=False),
    Column("workflow_version", Integer, nullable=False),
    Column("node", Text, nullable=False),
    Column("queue", Text, nullable=False),
    Column("priority", SmallInteger, nullable=False),
    Column("offers", SmallInteger, nullable=False, server_default="0"),
    at("since"),
    at("offered_at", nullable=True),
    PrimaryKeyConstraint("step_id", "tenant_id"),
    Index("ready_waiting", "queue", text("priority DESC"), "since", postgresql_where=text("offered_at IS NULL")),
    Index("ready_offered", "queue", "offered_at", postgresql_where=text("offered_at IS NOT NULL")),
    postgresql_with=CHURN,
)

timer = Table(
    "timer",
    metadata,
    Column("timer_id", Uuid, nullable=False, server_default=text("uuidv7()")),
    tenant_id(),
    Column("kind", Text, nullable=False),
    at("due_at"),
    Column("run_id", Uuid, nullable=False),
    Column("target_id", Uuid, nullable=False),
    Column("version", BigInteger),
    PrimaryKeyConstraint("timer_id", "tenant_id"),
    Index("timer_due", "due_at"),
    Index("timer_of_target", "target_id"),
    Index("timer_expand", "run_id", "due_at", postgresql_where=text("kind = 'expand'")),
    CheckConstraint(
        "kind IN ('retry', 'expand', 'barrier_deadline', 'task_deadline', 'start_deadline', 'step_deadline')",
        name="kinds_of_timers",
    ),
    postgresql_with=CHURN,
)

blob = Table(
    "blob",
    metadata,
    tenant_id(),
    Column("sha256", LargeBinary, nullable=False),
    Column("size", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    at("created_at"),
    PrimaryKeyConstraint("sha256", "tenant_id"),
    CheckConstraint("octet_length(sha256) = 32", name="a_blob_is_named_by_its_sha256"),
    CheckConstraint("size BETWEEN 0 AND 8388608", name="a_blob_has_at_most_8_mib"),
)

refused_write = Table(
    "refused_write",
    metadata,
    Column("refused_id", Uuid, nullable=False, server_default=text("uuidv7()")),
    tenant_id(),
    Column("run_id", Uuid),
    Column("step_id", Uuid, nullable=False),
    Column("worker_id", Uuid),
    Column("fence", BigInteger, nullable=False),
    Column("current_fence", BigInteger),
    Column("attempted", Text, nullable=False),
    Column("why", Text, nullable=False),
    at("at"),
    PrimaryKeyConstraint("refused_id", "tenant_id"),
    Index("refused_of_step", "step_id"),
    Index("refused_of_run", "run_id"),
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
    UniqueConstraint("topic", "partition", "offset", "at"),
)

audit = Table(
    "audit",
    metadata,
    tenant_id(),
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

for _machine in MACHINES:
    _table = metadata.tables[f"stanchion.{_machine.table}"]
    _table.append_constraint(CheckConstraint(check_states(_machine), name=f"states_of_{_machine.table}s"))
    for _name, _expression in _machine.shapes.items():
        _table.append_constraint(CheckConstraint(_expression, name=_name))

GLOBAL_TABLES = frozenset({"workflow", "node_stat", "outbox", "outbox_partition", "relay", "worker", "dead_letter"})
"""Tables whose keys carry no tenant: what is deployed (definitions, workers) and what only the engine reads."""
