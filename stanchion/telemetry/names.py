"""Every name that leaves a process as telemetry: log events, metrics, spans. One line each, with what it tells.

Log events are constant, dotted, lower case: `<part>.<what happened>`; what varies goes into fields. Add a name here
when you need one: the type checker refuses any other.
"""

from __future__ import annotations

from typing import Literal

LogEvent = Literal[
    # --- life of a process ---
    "service.starting",  # settings are read, parts start now
    "service.ready",  # all parts run
    "service.draining",  # SIGTERM came: no new work, what runs may finish
    "service.drain_skipped",  # a second signal, or the time for draining is over
    "service.stopped",  # all parts have ended
    "service.failed",  # a part can't go on: the process ends with an error
    "service.part_stuck",  # a part did not stop in its time and is left behind
    "settings.checked",  # a relation between settings that deserves a look
    "http.listening",  # host and port
    "http.request_failed",  # an unexpected error in a handler; request id
    "health.failing",  # a readiness check fails, with the reason
    "health.recovered",  # it passes again
    "failpoint.fired",  # dev only: a named pause point did what it was armed for
    "foreign.log",  # a line of a library's own logging
    # --- loops ---
    "loop.unavailable",  # something outside does not answer; the loop backs off
    "loop.recovered",  # the first success after that
    "loop.retrying",  # a deadlock or serialization failure: run again at once
    "loop.superseded",  # another replica took over what the loop was doing
    "loop.error",  # an unexpected error; the loop backs off and goes on
    "loop.invariant_violated",  # a bug: the process ends
    # --- hints ---
    "hints.away",  # Valkey does not answer: polling carries on alone
    "hints.back",  # it answers again
    # --- bus ---
    "bus.connecting",  # first connection to the broker
    "bus.broker_away",  # the broker does not answer; retried
    "bus.broker_back",  # it answers again
    "bus.topic_missing",  # a topic does not exist; waits for it
    "bus.topics_ready",  # all topics exist
    "bus.assigned",  # partitions that this consumer owns now
    "bus.revoked",  # partitions that it gave up
    "bus.lost",  # partitions that were taken from it
    "bus.commit_refused",  # another member owns the partition: the work is dropped
    "bus.offsets_reset",  # the broker has less than was committed: it came back empty
    "bus.group_repaired",  # a group of the embedded broker was stuck and was made anew
    "bus.paused",  # a local queue is full: fetching stops for a partition
    "bus.producer_rebuilt",  # the idempotent session ended: a new producer
    "bus.message_refused",  # the broker refuses one message, e.g. for its size
    "bus.unreadable_record",  # a record that the client library can't decode
    # --- intake ---
    "intake.accepted",  # a command became a task
    "intake.rejected",  # a command was refused, with its code
    "intake.dead_lettered",  # a message that can't be read was parked
    "intake.duplicate",  # a command that was handled before
    # --- tasks and runs ---
    "task.cancelling",  # a cancel is on record
    "run.planned",  # steps of a run were inserted
    "run.expanded",  # children of a fan-out were inserted
    "run.expansion_failed",  # the list behind a fan-out can not be expanded: its run ends
    "run.finished",  # a run ended, with its state
    # --- steps ---
    "step.leased",  # attempts were granted, with fences
    "step.finished",  # one line for each attempt that ended
    "step.refused",  # a write with an old fence changed nothing and was recorded
    "step.lease_lost",  # the worker learned that an attempt is no longer its own
    "step.released",  # given back on shutdown; no loss counted
    "step.cancelled",  # stopped on request
    "step.batch_refused",  # the database refuses a batch of outcomes: they are handed in one by one
    "step.outcome_refused",  # one of them is to blame: its attempt fails and counts
    "step.lease_refused",  # a step can't be leased, with why; it is left alone for a minute
    "step.unknown",  # a step was leased that this worker does not have
    "lease.answer_lost",  # steps were leased by a call that was never answered, and were given back
    "lease.progress_refused",  # what an attempt reported can't be kept; said once
    "step.child_replaced",  # an idle process for isolated steps had ended: another one runs the step
    "step.waits",  # an attempt needs the database, which is away: it waits, and spends nothing
    "step.left_behind",  # its code did not stop when it was told to; its slot goes on without it
    "damage.one_by_one",  # a batch was refused: its members are done one by one
    "damage.set_aside",  # one of them is refused: it is tried again later
    "lease.reaped",  # expired leases were taken back
    "lease.renewed",  # heartbeat; debug only
    "barrier.released",  # a barrier opened
    "barrier.failed",  # a barrier can no longer open
    "offer.repeated",  # ready steps whose offer got lost were offered again
    "timer.fired",  # due rows were handled
    # --- people and webhooks ---
    "person.signed_in",  # a session was opened
    "person.sign_in_refused",  # what came back from a provider did not fit; the caller is not told which part
    "webhook.sent",  # an endpoint accepted a call; debug only
    "webhook.refused",  # it did not answer, or not with 2xx: it is called again
    "webhook.given_up",  # it did not for three days: its webhook has failed
    "webhook.lost",  # another courier has the call by now
    # --- relay ---
    "relay.partition_taken",  # this relay publishes a partition now
    "relay.partition_lost",  # another relay does
    "relay.batch_sent",  # rows were acknowledged by the broker and deleted
    "relay.topic_failed",  # a topic can't be made or reached: its messages wait, or are parked when it is refused
    "relay.parked",  # a row that the broker refuses was put aside
    # --- workers ---
    "operation.unknown",  # a request was sent, and nobody knows what became of it
    "operation.probed",  # the outside system was asked
    "pending.forgotten",  # a step asked for an effect or reported what it used, and neither awaited it nor called wait()
    "worker.registered",  # workflows and queues that a worker serves
    "worker.offer_dropped",  # an offer for a version that is not registered here
    "worker.clock_skewed",  # this machine's clock is off
    "worker.held_up",  # the code of a step blocks the event loop: nothing more is leased until it answers
    "worker.serves_again",  # its event loop answers again
    "worker.loop_fell",  # code of a step ended the event loop: it is run again, or replaced (lost) when that goes on
    # --- maintenance ---
    "maintenance.job_done",  # a job of the maintenance queue ended
    "maintenance.job_failed",  # it failed; it is derived again
    "maintenance.recounted",  # a join counted wrong and was set right: something had damaged it
    "maintenance.dead_letters_crowded",  # an owner had more of them than fit: its oldest went before their time
    "maintenance.job_lost",  # another worker has it now; this one stopped
    "maintenance.entry_refused",  # something in the queue that we did not put there
    "maintenance.redis_away",  # Redis does not answer: jobs wait
    "maintenance.redis_back",  # it answers again
    "maintenance.redis_evicts",  # its memory policy drops entries of the queue
    "maintenance.redis_full",  # it takes no more entries
    # --- database ---
    "db.connected",  # first connection, with server version
    "db.migrated",  # migrations were applied
    "page.look_failed",  # a page that somebody watches could not be looked at
    "dashboard.off",  # no login to read with was named: this orchestrator serves no pages
    "db.schema_differs",  # the schema is not the one this version needs
]

SpanName = Literal[
    "http.request",  # one request to the task service
    "intake.message",  # one message from a topic to its answer
    "run.plan",  # one planning of one run
    "step.run",  # user code of one attempt
    "relay.batch",  # one batch from read to delete
]

MetricName = Literal[
    "stanchion_steps_leased_total",  # attempts granted, by queue
    "stanchion_steps_succeeded_total",  # results accepted, by queue
    "stanchion_steps_failed_total",  # attempts that failed, by queue
    "stanchion_steps_refused_total",  # writes refused for an old fence
    "stanchion_step_seconds",  # duration of user code, by queue
    "stanchion_take_overs_total",  # steps granted again after a lost lease
    "stanchion_set_aside_total",  # items of upkeep that the database refused
    "stanchion_aside",  # items of upkeep that are set aside now
    "stanchion_leases_reaped_total",  # expired leases taken back
    "stanchion_slots_busy",  # attempts that run in this worker
    "stanchion_slots",  # attempts that may run in this worker
    "stanchion_heartbeat_seconds",  # duration of one heartbeat call
    "stanchion_outbox_lag_seconds",  # age of the oldest row that is not published
    "stanchion_outbox_rows",  # rows that are not published
    "stanchion_relay_messages_total",  # messages acknowledged by the broker
    "stanchion_relay_batch_rows",  # rows in one batch
    "stanchion_relay_parked_total",  # rows that the broker refused for good
    "stanchion_relay_partitions",  # outbox partitions that this relay holds
    "stanchion_maintenance_removed_total",  # what retention removed, by kind
    "stanchion_intake_accepted_total",  # commands that were done, by type
    "stanchion_intake_rejected_total",  # commands that were refused, by code
    "stanchion_intake_dead_lettered_total",  # messages that were parked
    "stanchion_ready_steps",  # ready steps, by queue
    "stanchion_ready_age_seconds",  # age of the oldest ready step, by queue
    "stanchion_offers_total",  # offers written, by queue
    "stanchion_offers_repeated_total",  # offers written again, by queue
    "stanchion_barriers_released_total",  # barriers that opened
    "stanchion_barriers_failed_total",  # barriers that can no longer open
    "stanchion_runs_finished_total",  # runs that ended, by state
    "stanchion_webhook_calls_total",  # calls of webhooks, by outcome
    "stanchion_webhook_seconds",  # duration of one call
    "stanchion_loop_seconds",  # duration of one pass, by loop
    "stanchion_loop_errors_total",  # passes that failed, by loop and family
    "stanchion_bus_records_total",  # records taken from topics
    "stanchion_bus_queued",  # records in local queues
    "stanchion_bus_produced_total",  # messages acknowledged
    "stanchion_bus_produce_errors_total",  # messages not acknowledged
    "stanchion_http_requests_total",  # requests, by route, method and status
    "stanchion_http_seconds",  # duration of a request, by route
    "stanchion_db_pool_waiting",  # threads that wait for a connection
]

SampleCount = Literal[
    # --- of a tenant, and of all tenants for the platform ---
    "tasks_submitted",  # tasks that were accepted
    "tasks_completed",  # tasks that have their result
    "tasks_failed",  # tasks that ended without one
    "tasks_cancelled",  # tasks that ended because somebody asked for it
    "tasks_rejected",  # tasks that ended with somebody's no
    "steps_made_ready",  # steps that became ready, also again; by queue
    "steps_leased",  # attempts granted, by queue
    "steps_succeeded",  # results accepted
    "steps_failed",  # attempts that failed, and steps that failed without one
    "steps_retried",  # those of them that are tried again
    "leases_reaped",  # expired leases taken back: steps that lost their worker
    "steps_refused",  # writes refused for an old fence
    "operations_confirmed",  # operations known to be done
    "operations_unknown",  # operations whose fate became unknown
    # --- of the platform alone ---
    "relay_messages",  # messages that left the outbox: published, or parked
]

SampleLevel = Literal[
    # --- of a tenant, and of all tenants for the platform ---
    "ready_steps",  # ready steps, by queue
    "ready_age_seconds",  # age of the oldest ready step, by queue
    "steps_running",  # attempts that hold a lease, by queue
    "approvals_open",  # questions that wait for people
    "approvals_age_seconds",  # age of the oldest of them
    "operations_in_doubt",  # operations of unknown fate
    "operations_age_seconds",  # for how long the oldest of them has been unknown
    # --- of a tenant alone ---
    "queue_wait_seconds_p50",  # from ready to granted, of attempts that ended: the median
    "queue_wait_seconds_p95",  # the same: of twenty the slowest
    "step_seconds_p50",  # from started to ended: the median
    "step_seconds_p95",  # the same: of twenty the slowest
    # --- of the platform alone ---
    "outbox_rows",  # rows that are not published
    "outbox_lag_seconds",  # age of the oldest row that is not published
    "outbox_left_total",  # messages that left the outbox since the database server counts
    "relays",  # relays that report
    "relay_partitions",  # outbox partitions that some relay holds
    "workers_live",  # workers that were heard of lately
    "workers_silent",  # workers that were not, and never said that they end
    "workers_gone",  # workers that ended and are still listed
    "slots",  # attempts that may run in live workers
    "slots_busy",  # attempts that run in live workers, as these report
    "db_connections",  # connections to the database server
    "db_connections_max",  # how many it lets in
    "db_bytes",  # size of the database
]
