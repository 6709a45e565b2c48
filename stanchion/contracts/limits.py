"""Every number that somebody can run into, in one place; passing one is an error that names it, its value and the fix.

Units stand last in the name. A tenant or a workflow may set another value where the documentation says so.
"""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

# --- payloads ---
PAYLOAD_DEPTH: Final = 64  # nesting of arrays and objects; deeper values have brought parsers down
PAYLOAD_VALUES: Final = 4_000_000  # values in one payload: stops a small value that unfolds without end
INTEGER_MAX: Final = 2**53 - 1  # beyond it a double, and so JavaScript, rounds
INLINE_BYTES: Final = 64 * KIB  # payload or result kept in the row; larger ones go by reference
BLOB_BYTES: Final = 8 * MIB  # content-addressed blob in PostgreSQL
VALUE_BYTES: Final = 100 * MIB  # a value beyond that goes to the object store, as an artifact; above it: stream one
COMMAND_BYTES: Final = 64 * KIB  # payload inside a SubmitTask message
MESSAGE_BYTES: Final = 1_000_000  # whole Kafka message: below the 1 MiB that brokers accept by default
HTTP_BODY_BYTES: Final = BLOB_BYTES + 64 * KIB  # a request: one payload of blob size and what surrounds it

# --- artifacts ---
ARTIFACT_BYTES: Final = 50 * 1024 * MIB  # one version; parts of an upload grow, and memory with them, above 80 GiB
ARTIFACT_CHUNK_BYTES: Final = MIB  # what is written at once is cut into chunks of this size
MADE_FROM: Final = 1_000  # versions that one version says it is made from
MEDIA_TYPE_CHARACTERS: Final = 200
ARTIFACT_GRACE_HOURS: Final = 24.0  # an upload that takes longer is given up, and its content removed

# --- texts ---
KEY_CHARACTERS: Final = 200  # idempotency keys, operation keys
NAME_CHARACTERS: Final = 200  # workflows, nodes, artifacts
QUEUE_CHARACTERS: Final = 64  # queue names are part of a topic name
TENANT_CHARACTERS: Final = 64  # tenant names stand in every header and every log line
TAGS: Final = 32  # tags of a task
TAG_CHARACTERS: Final = 64  # one tag
REASON_CHARACTERS: Final = 1_000  # why somebody cancelled, reopened, approved
ERROR_CHARACTERS: Final = 4_000  # error text kept of one attempt; the rest is cut with a note
NOTE_CHARACTERS: Final = 200  # the note of ctx.progress; the rest is cut
HEADER_BYTES: Final = 4 * KIB  # one header of a message

# --- approvals ---
QUESTION_CHARACTERS: Final = 500  # what people are asked, in plain words
SUMMARY_CHARACTERS: Final = 20_000  # what is rendered for them beside it
APPROVERS: Final = 20  # people or teams that one approval names, and approvals that it needs
EDITS: Final = 50  # how often what one step asks is changed by those it asks
VOTES: Final = 200  # what is said about one approval, questions included

# --- shapes ---
FAN_OUT_CHILDREN: Final = 100_000  # children of one fan-out
FAN_OUT_CHUNK: Final = (
    5_000  # steps of branches inserted in one transaction, so that the first start before the last exist
)
GRAPH_STEPS: Final = 2_000  # declared steps of a workflow
OFFER_WINDOW: Final = 5_000  # offers of one queue that are out at once
OUTBOX_PARTITIONS: Final = (
    8  # of the outbox, each published by one relay at a time; a power of two, fixed with the schema
)
BARRIER_SLOTS: Final = 16  # counters that arrivals at a large join are spread over, fixed with the schema
SUBMISSION_LANES: Final = 8  # chains of a tenant's audit log that submissions are spread over, fixed with the schema
SLOT_RUN: Final = 64  # neighbouring children that share a slot, so that a batch touches one to three of them
STEPS_IN_OFFER: Final = 64  # steps named by one ExecuteSteps message

# --- priorities: higher goes first ---
PRIORITY_MIN: Final = -100
PRIORITY_MAX: Final = 100
PRIORITY_DEFAULT: Final = 0

# --- attempts and leases ---
RETRIES: Final = 3  # so at most 4 counted attempts
RETRIES_MAX: Final = 100
LEASE_SECONDS: Final = 30.0
LEASE_SECONDS_MIN: Final = 2.0  # below it a pause of the garbage collector costs the lease
HEARTBEATS_PER_LEASE: Final = 3  # a lease outlives two lost heartbeats
CANCEL_GRACE_SECONDS: Final = 30.0  # what a running step gets after a cancel before its lease is taken
DRAIN_SECONDS: Final = 30.0  # what running steps get after SIGTERM
REOFFER_SECONDS: Final = 5.0  # a ready step whose offer is older and that nobody leased is offered again
WORKER_SEEN_SECONDS: Final = 30  # a worker that was silent for so long serves nobody
CLOCK_SKEW_SECONDS: Final = 2.0  # a worker whose clock is further off is shown so

# --- effects ---
HOST_WAIT_SECONDS: Final = 3_600.0  # how long an outside host may have itself left alone at a time
UNKNOWN_SECONDS: Final = 86_400.0  # how long an operation of unknown fate is asked after; then a person decides

# --- budgets ---
BUDGET_UNITS: Final = 10  # units of one task's budget
UNIT_CHARACTERS: Final = 32  # the name of one
AMOUNT_DIGITS: Final = 15  # of an amount: as many as a double keeps
AMOUNT_DECIMALS: Final = 9  # of them behind the point

# --- relay ---
RELAY_TAKEOVER_SECONDS: Final = 2.0  # silence after which another relay takes a partition
RELAY_BATCH: Final = 2_000  # outbox rows read at once

# --- maintenance ---
REDRIVE_RATE_MAX: Final = 1_000  # dead letters that one bulk redrive sends again in a second
DEAD_LETTER_DAYS: Final = 30.0  # how long a parked message stays; its topic's .dlq keeps it as long
DEAD_LETTER_ROWS: Final = 100_000  # parked messages of one tenant, or of none; beyond it the oldest go
DEAD_LETTER_BYTES: Final = 100 * MIB  # the same in bytes: what anybody may send must not fill the disk
WORKER_GONE_DAYS: Final = 1.0  # how long a worker that ended is still listed
WORKER_SILENT_DAYS: Final = 7.0  # how long one is that fell silent
INBOX_DAYS: Final = 30.0  # how long ids of applied messages are kept: longer than any broker keeps ours
SIGNED_DAYS: Final = 29.0  # age of a signed command: below INBOX_DAYS, or one that was forgotten could be replayed
SIGNED_AHEAD_SECONDS: Final = 300.0  # how far the clock of whoever signs may be ahead of ours
SAMPLE_DAYS: Final = 7.0  # how long samples of ten seconds are kept
SAMPLE_SPAN_DAYS: Final = 90.0  # how long they are in spans of five minutes

# --- webhooks ---
WEBHOOKS: Final = 20  # of one tenant
WEBHOOK_SECONDS: Final = 10.0  # in which an endpoint has to answer
WEBHOOK_ANSWER_BYTES: Final = 16 * KIB  # that are read of its answer; nothing of it is kept
WEBHOOK_DAYS: Final = 3.0  # for which it is called again; then the delivery is given up
WEBHOOK_BACKOFF_SECONDS: Final = 3_600.0  # between two tries at most

# --- pages ---
PAGE_ROWS: Final = 100
PAGE_ROWS_MAX: Final = 1_000
FILTER_CHARACTERS: Final = 1_000  # of one filter
FILTER_TERMS: Final = 20  # of one filter
SEARCH_SECONDS: Final = 3.0  # after which a search that must look at rows one by one stops, and says how far it came
SEARCH_DAYS: Final = 7.0  # how far back such a search looks unless it is told
COUNTED_ROWS: Final = 10_000  # up to which lists are counted exactly
VIEWS: Final = 200  # saved views of one tenant

# --- jobs in bulk ---
JOBS_OPEN: Final = 20  # of one tenant at once
JOB_RATE: Final = 20  # targets a second, unless another rate is asked for
JOB_RATE_MAX: Final = 200
JOB_FAILED_SHARE: Final = 0.2  # of those that were retried or reopened; when more have failed again, the job stops

# --- times ---
DURATION_SECONDS_MAX: Final = 3650 * 86_400  # ten years: any duration in a decorator, in Retry(after=) or in a join
YEAR_MIN: Final = 1970
YEAR_MAX: Final = 9999
