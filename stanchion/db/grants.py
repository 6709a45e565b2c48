"""Who may do what in the database: one login a service, each with the least it needs."""

from __future__ import annotations

OWNER = "stanchion_owner"
ENGINE = "stanchion_engine"
"""Owns the functions that work across tenants; nobody logs in as it."""

TASK_SERVICE = "stanchion_task_service"
ORCHESTRATOR = "stanchion_orchestrator"
RELAY = "stanchion_relay"
WORKER = "stanchion_worker"
MAINTENANCE = "stanchion_maintenance"
DASHBOARD = "stanchion_dashboard"
LOGINS = (TASK_SERVICE, ORCHESTRATOR, RELAY, WORKER, MAINTENANCE, DASHBOARD)

EVERYONE = LOGINS


def password_variable(login: str) -> str:
    """The variable that `stanchion db migrate` reads this login's password from."""
    return f"{login.upper()}_PASSWORD"


FUNCTION_GRANTS: dict[str, tuple[str, ...]] = {
    "clock": EVERYONE,
    "event_xid": (TASK_SERVICE,),
    "get_workflow": EVERYONE,
    "tenant_by_name": EVERYONE,
    "tenant_names": EVERYONE,
    # the worker's login has nothing but these
    "lease": (WORKER,),
    "complete": (WORKER,),
    "complete_with_plan": (WORKER,),
    "fail": (WORKER,),
    "give_back": (WORKER,),
    "give_back_unheld": (WORKER,),
    "end_cancelled": (WORKER,),
    "renew": (WORKER,),
    "find_ready": (WORKER,),
    "find_steps": (WORKER, ORCHESTRATOR),
    "answers_of": (TASK_SERVICE,),
    "worker_seen": (WORKER,),
    "note_durations": (WORKER,),
    # the ledger, written by whoever holds the step
    "op_prepare": (WORKER,),
    "op_dispatch": (WORKER,),
    "op_settle": (WORKER,),
    "op_probed": (WORKER,),
    "ops_in_doubt": (WORKER,),
    "op_to_undo": (WORKER,),
    "end_in_doubt": (WORKER,),
    "end_probe": (WORKER,),
    "put_blobs": (WORKER, TASK_SERVICE),
    "get_blob": (WORKER,),
    "input_of": (WORKER,),
    "results_page": (WORKER,),
    "results_counts": (WORKER,),
    "register_workflow": (WORKER, TASK_SERVICE),
    "bury": (WORKER, TASK_SERVICE, ORCHESTRATOR),
    "begin_artifact": (WORKER,),
    "flip_artifact": (WORKER,),
    "find_artifact": (WORKER,),
    "find_value": (WORKER,),
    # the one door for people and programs
    "submit": (TASK_SERVICE,),
    "take_in": (TASK_SERVICE,),
    "find_submitted": (TASK_SERVICE,),
    "cancel_by_message": (TASK_SERVICE,),
    "cancel_task": (TASK_SERVICE,),
    "pause_task": (TASK_SERVICE,),
    "reopen_steps": (TASK_SERVICE,),
    "open_barrier": (TASK_SERVICE,),
    "retry_task": (TASK_SERVICE,),
    "authenticate": (TASK_SERVICE, ORCHESTRATOR),
    "authenticate_session": (TASK_SERVICE, ORCHESTRATOR),
    "ensure_person": (TASK_SERVICE,),
    "open_session": (TASK_SERVICE,),
    "end_session": (TASK_SERVICE,),
    "list_sessions": (TASK_SERVICE,),
    "list_people": (TASK_SERVICE,),
    "set_role": (TASK_SERVICE,),
    "disable_person": (TASK_SERVICE,),
    "put_in_team": (TASK_SERVICE,),
    "list_teams": (TASK_SERVICE,),
    "begin_sign_in": (TASK_SERVICE,),
    "take_sign_in": (TASK_SERVICE,),
    "audit_text": (TASK_SERVICE, DASHBOARD),
    "create_webhook": (TASK_SERVICE,),
    "list_webhooks": (TASK_SERVICE,),
    "pause_webhook": (TASK_SERVICE,),
    "remove_webhook": (TASK_SERVICE,),
    "list_deliveries": (TASK_SERVICE,),
    "resend_delivery": (TASK_SERVICE,),
    "signing_key_of": (TASK_SERVICE,),
    "create_tenant": (TASK_SERVICE,),
    "create_key": (TASK_SERVICE,),
    "list_dead_letters": (TASK_SERVICE,),
    "get_dead_letter": (TASK_SERVICE,),
    "claim_redrive": (TASK_SERVICE,),
    "release_redrive": (TASK_SERVICE,),
    "list_keys": (TASK_SERVICE,),
    "revoke_key": (TASK_SERVICE,),
    "create_signing_key": (TASK_SERVICE,),
    "list_signing_keys": (TASK_SERVICE,),
    "revoke_signing_key": (TASK_SERVICE,),
    "post": (TASK_SERVICE,),
    "read_blob": (TASK_SERVICE, ORCHESTRATOR),
    "drain_worker": (TASK_SERVICE,),
    "tell_operation": (TASK_SERVICE,),
    "probe_operation": (TASK_SERVICE,),
    "compensate_operation": (TASK_SERVICE,),
    "begin_upload": (TASK_SERVICE,),
    "flip_upload": (TASK_SERVICE,),
    "pin_artifact": (TASK_SERVICE,),
    "delete_artifact": (TASK_SERVICE,),
    # the loops that keep runs moving
    "work_waiting": (ORCHESTRATOR,),
    "due_expansions": (ORCHESTRATOR,),
    "nodes_of": (ORCHESTRATOR,),
    "gathers_of": (ORCHESTRATOR,),
    "place_of": (ORCHESTRATOR, WORKER),
    "expand": (ORCHESTRATOR,),
    "fan_before": (ORCHESTRATOR,),
    "branches_before": (ORCHESTRATOR,),
    "same_values": (ORCHESTRATOR,),
    "read_value": (ORCHESTRATOR,),
    "fire_timers": (ORCHESTRATOR,),
    "end_early": (ORCHESTRATOR,),
    "reap": (ORCHESTRATOR,),
    "due_items": (ORCHESTRATOR,),
    "put_aside": (ORCHESTRATOR,),
    "offer_ready": (ORCHESTRATOR,),
    "sweep_run": (ORCHESTRATOR,),
    "claim_deliveries": (ORCHESTRATOR,),
    "finish_delivery": (ORCHESTRATOR,),
    "trim_deliveries": (ORCHESTRATOR,),
    "sweep_barrier": (ORCHESTRATOR,),
    "outbox_lag": (RELAY, ORCHESTRATOR, TASK_SERVICE),
    "relay_tick": (RELAY,),
    "relay_read": (RELAY,),
    "relay_sent": (RELAY,),
    "relay_park": (RELAY,),
    # jobs that cost nothing when they come late; the maintenance worker has nothing but these
    "plan_maintenance": (MAINTENANCE,),
    "claim_maintenance": (MAINTENANCE,),
    "keep_maintenance": (MAINTENANCE,),
    "finish_maintenance": (MAINTENANCE,),
    "forget_maintenance": (MAINTENANCE,),
    "request_maintenance": (TASK_SERVICE,),
    "next_redrives": (MAINTENANCE,),
    "note_redriven": (MAINTENANCE,),
    "miscounted_barriers": (MAINTENANCE,),
    "recount_barrier": (MAINTENANCE,),
    "make_partitions": (MAINTENANCE,),
    "drop_partitions": (MAINTENANCE,),
    "remove_payloads": (MAINTENANCE,),
    "remove_history": (MAINTENANCE,),
    "remove_orphans": (MAINTENANCE,),
    "remove_artifacts": (MAINTENANCE,),
    "next_tenant": (MAINTENANCE,),
    "ask_removals": (MAINTENANCE,),
    "begin_removals": (MAINTENANCE,),
    "note_removed": (MAINTENANCE,),
    "forget_removals": (MAINTENANCE,),
    "abandon_versions": (MAINTENANCE,),
    "trim_inbox": (MAINTENANCE,),
    "remove_dead_letters": (MAINTENANCE,),
    "remove_workers": (MAINTENANCE,),
    # the administrator's tools run as the owner
    "rebuild_run": (OWNER,),
    "rebuild_rest": (OWNER,),
}

READABLE: dict[str, tuple[str, ...]] = dict.fromkeys(
    (TASK_SERVICE, ORCHESTRATOR, DASHBOARD),
    (
        "tenant",
        "workflow",
        "node_stat",
        "task",
        "run",
        "step",
        "attempt",
        "result",
        "barrier",
        "barrier_slot",
        "barrier_release",
        "artifact",
        "artifact_version",
        "event",
        "ready",
        "timer",
        "operation",
        "operation_probe",
        "refused_write",
        "set_aside",
        "worker",
        "audit",
        "dead_letter",
        "maintenance_job",
        "outbox_partition",
        "relay",
    ),
)
"""Tables that a login may SELECT from, under row-level security. The worker and the relay read through functions only."""

OWNER_FUNCTIONS = (
    "event_xid",
    "adopt_cluster",
    "guard_partition",
    "make_partitions",
    "drop_partitions",
    "remove_history",
)
"""What makes and drops tables, or removes rows that the engine may only add, runs as the owner."""

ENGINE_NEVER = {
    "event": "UPDATE, DELETE",
    "barrier_release": "UPDATE, DELETE",
    "refused_write": "UPDATE, DELETE",
    "operation_probe": "UPDATE, DELETE",
    "audit": "UPDATE, DELETE",
    "workflow": "UPDATE, DELETE",
}
"""What even the functions may not do: these tables only ever grow."""
