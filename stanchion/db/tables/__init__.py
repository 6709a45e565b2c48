"""Every table, defined once: the DDL is rendered from here and the dynamic reads are built on it.

Hot tables are narrow and updated in place: `step` has no index on a column that changes (heap-only updates), what is
ready or due stands in `ready` and `timer`, the lease's expiry in `attempt`. `tenant_id` is in every key, after the
selective column.
"""

from __future__ import annotations

from sqlalchemy import CheckConstraint

from stanchion.db.columns import metadata
from stanchion.state import MACHINES
from stanchion.state.render import check_states

from .approvals import approval, approval_vote
from .artifacts import artifact, artifact_version, object_removal
from .budgets import budget, spending
from .effects import operation, operation_probe
from .joins import barrier, barrier_release, barrier_slot
from .lists import error_cursor, error_group, error_member, job_target, saved_view
from .measures import consumer_group, consumer_lag, lag_look, queue_pause, sample
from .messages import dead_letter, event, inbox, outbox, outbox_partition, relay
from .people import person, session, sign_in, team_member
from .processes import cluster, maintenance_job, set_aside, worker
from .steps import attempt, blob, ready, refused_write, result, step, timer
from .tenants import api_key, audit, signing_key, tenant
from .webhooks import webhook, webhook_delivery
from .work import node_stat, run, task, workflow

__all__ = [
    "GLOBAL_TABLES",
    "api_key",
    "approval",
    "approval_vote",
    "artifact",
    "artifact_version",
    "attempt",
    "audit",
    "barrier",
    "barrier_release",
    "barrier_slot",
    "blob",
    "budget",
    "cluster",
    "consumer_group",
    "consumer_lag",
    "dead_letter",
    "error_cursor",
    "error_group",
    "error_member",
    "event",
    "inbox",
    "job_target",
    "lag_look",
    "maintenance_job",
    "metadata",
    "node_stat",
    "object_removal",
    "operation",
    "operation_probe",
    "outbox",
    "outbox_partition",
    "person",
    "queue_pause",
    "ready",
    "refused_write",
    "relay",
    "result",
    "run",
    "sample",
    "saved_view",
    "session",
    "set_aside",
    "sign_in",
    "signing_key",
    "spending",
    "step",
    "task",
    "team_member",
    "tenant",
    "timer",
    "webhook",
    "webhook_delivery",
    "worker",
    "workflow",
]

for _machine in MACHINES:
    _table = metadata.tables[f"stanchion.{_machine.table}"]
    _table.append_constraint(CheckConstraint(check_states(_machine), name=f"states_of_{_machine.table}s"))
    for _name, _expression in _machine.shapes.items():
        _table.append_constraint(CheckConstraint(_expression, name=_name))

GLOBAL_TABLES = frozenset(
    {
        "error_cursor",
        "cluster",
        "workflow",
        "node_stat",
        "outbox",
        "outbox_partition",
        "relay",
        "worker",
        "dead_letter",
        "lag_look",
        "consumer_group",
        "consumer_lag",
    }
)
"""Tables whose keys carry no tenant: what is deployed (definitions, workers) and what only the engine reads."""
