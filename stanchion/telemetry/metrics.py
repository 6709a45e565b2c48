"""The metrics of a process, in one registry of its own.

A process shows only what it touches: every metric exists from the start, with zero or no samples. Tests that need a
clean slate read differences; nothing here is ever reset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.process_collector import ProcessCollector

from stanchion.telemetry.names import MetricName

REGISTRY: Final = CollectorRegistry()
ProcessCollector(registry=REGISTRY)

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_SHORT = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_LONG = (0.001, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1_800.0, 7_200.0)
_ROWS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_000, 5_000)


def _counter(name: MetricName, meaning: str, labels: Sequence[str] = ()) -> Counter:
    return Counter(name.removesuffix("_total"), meaning, labels, registry=REGISTRY)


def _gauge(name: MetricName, meaning: str, labels: Sequence[str] = ()) -> Gauge:
    return Gauge(name, meaning, labels, registry=REGISTRY)


def _histogram(
    name: MetricName, meaning: str, labels: Sequence[str] = (), *, buckets: Sequence[float] = _SHORT
) -> Histogram:
    return Histogram(name, meaning, labels, registry=REGISTRY, buckets=buckets)


steps_leased = _counter("stanchion_steps_leased_total", "Attempts granted", ["queue"])
steps_succeeded = _counter("stanchion_steps_succeeded_total", "Results accepted", ["queue"])
steps_failed = _counter("stanchion_steps_failed_total", "Attempts that failed", ["queue"])
steps_refused = _counter("stanchion_steps_refused_total", "Writes refused for an old fence")
step_seconds = _histogram("stanchion_step_seconds", "Duration of user code", ["queue"], buckets=_LONG)
take_overs = _counter("stanchion_take_overs_total", "Steps granted again after a lost lease")
set_aside = _counter("stanchion_set_aside_total", "Items of upkeep that the database refused", ["kind"])
aside = _gauge("stanchion_aside", "Items of upkeep that are set aside now")
leases_reaped = _counter("stanchion_leases_reaped_total", "Expired leases taken back")
slots_busy = _gauge("stanchion_slots_busy", "Attempts that run in this worker")
slots = _gauge("stanchion_slots", "Attempts that may run in this worker")
heartbeat_seconds = _histogram("stanchion_heartbeat_seconds", "Duration of one heartbeat call")

outbox_lag_seconds = _gauge("stanchion_outbox_lag_seconds", "Age of the oldest row that is not published")
outbox_rows = _gauge("stanchion_outbox_rows", "Rows that are not published")
relay_messages = _counter("stanchion_relay_messages_total", "Messages acknowledged by the broker")
relay_batch_rows = _histogram("stanchion_relay_batch_rows", "Rows in one batch", buckets=_ROWS)
relay_parked = _counter("stanchion_relay_parked_total", "Rows that the broker refused for good")
relay_partitions = _gauge("stanchion_relay_partitions", "Outbox partitions that this relay holds")

removed = _counter("stanchion_maintenance_removed_total", "What retention removed", ["what"])

intake_accepted = _counter("stanchion_intake_accepted_total", "Commands that were done", ["type"])
intake_rejected = _counter("stanchion_intake_rejected_total", "Commands that were refused", ["code"])
intake_dead_lettered = _counter("stanchion_intake_dead_lettered_total", "Messages that were parked", ["topic"])

ready_steps = _gauge("stanchion_ready_steps", "Ready steps", ["queue"])
ready_age_seconds = _gauge("stanchion_ready_age_seconds", "Age of the oldest ready step", ["queue"])
offers = _counter("stanchion_offers_total", "Offers written", ["queue"])
offers_repeated = _counter("stanchion_offers_repeated_total", "Offers written again", ["queue"])
barriers_released = _counter("stanchion_barriers_released_total", "Barriers that opened")
barriers_failed = _counter("stanchion_barriers_failed_total", "Barriers that can no longer open")
runs_finished = _counter("stanchion_runs_finished_total", "Runs that ended", ["state"])
webhook_calls = _counter("stanchion_webhook_calls_total", "Calls of webhooks", ["outcome"])
webhook_seconds = _histogram("stanchion_webhook_seconds", "Duration of one call")

loop_seconds = _histogram("stanchion_loop_seconds", "Duration of one pass of a loop", ["loop"])
loop_errors = _counter("stanchion_loop_errors_total", "Passes of a loop that failed", ["loop", "family"])

bus_records = _counter("stanchion_bus_records_total", "Records taken from topics", ["topic"])
bus_queued = _gauge("stanchion_bus_queued", "Records in local queues", ["group"])
bus_produced = _counter("stanchion_bus_produced_total", "Messages acknowledged", ["topic"])
bus_produce_errors = _counter("stanchion_bus_produce_errors_total", "Messages not acknowledged", ["topic"])

http_requests = _counter("stanchion_http_requests_total", "Requests", ["route", "method", "status"])
http_seconds = _histogram("stanchion_http_seconds", "Duration of a request", ["route"])
db_pool_waiting = _gauge("stanchion_db_pool_waiting", "Threads that wait for a connection")


def render() -> bytes:
    """The registry in Prometheus' text format (`CONTENT_TYPE`)."""
    return generate_latest(REGISTRY)


def declared() -> frozenset[str]:
    """The names of the metrics that exist, as `MetricName` spells them."""
    found = set()
    for family in REGISTRY.collect():
        if family.name.startswith("stanchion_"):
            found.add(family.name + "_total" if family.type == "counter" else family.name)
    return frozenset(found)


def missing() -> frozenset[str]:
    """Names that `MetricName` lists and no metric has: a test keeps this empty."""
    return frozenset(get_args(MetricName)) - declared()
