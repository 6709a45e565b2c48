"""Composition root of a relay: the only place that names concrete parts."""

from __future__ import annotations

from collections.abc import Sequence

from stanchion.authority.outbox import Outbox
from stanchion.bus.producer import Producer
from stanchion.contracts.ids import new_id
from stanchion.contracts.topics import PARTITIONS, PARTITIONS_EMBEDDED
from stanchion.db.engine import Database
from stanchion.runtime import failpoints
from stanchion.runtime.hints import RELAY, Hints
from stanchion.runtime.http import HttpServer, health_app, is_loopback
from stanchion.runtime.lifecycle import Service
from stanchion.runtime.logging import configure_logging
from stanchion.telemetry import metrics

from .publisher import Publisher
from .settings import RelaySettings


def build(argv: Sequence[str]) -> Service:
    """A relay from its settings; nothing is opened before the service starts."""
    settings = RelaySettings.load(argv)
    configure_logging(
        format=settings.log_format, level=settings.log_level, service=settings.SERVICE, instance=settings.instance
    )
    failpoints.configure(settings.profile)
    database = Database(settings.database_url.get_secret_value(), name="outbox-relay", pool_size=2)
    outbox = Outbox(database, new_id(), settings.instance, round(settings.relay_lease_seconds * 1000))
    producer = Producer(settings.kafka)
    hints = Hints(settings.redis_url.get_secret_value() if settings.redis_url else None)
    partitions = settings.topic_partitions or (PARTITIONS_EMBEDDED if settings.profile == "dev" else PARTITIONS)
    publisher = Publisher(
        outbox,
        producer,
        batch=settings.relay_batch,
        renew_seconds=settings.relay_lease_seconds / 3,
        topic_partitions=partitions,
    )

    def measure() -> bool:
        waiting, oldest = outbox.lag()
        metrics.outbox_rows.set(waiting)
        metrics.outbox_lag_seconds.set(oldest)
        return False

    service = Service(settings.SERVICE, drain_seconds=settings.drain_seconds)
    service.add(hints)
    service.add(producer)
    service.add_loop(
        "publisher",
        publisher.run_once,
        busy_wait=0.002,
        idle_wait=settings.relay_idle_seconds,
        wake=hints.subscribe([RELAY]),
    )
    service.add_loop("lag", measure, busy_wait=5.0, idle_wait=5.0)
    if settings.http_port is not None:
        checks = {"database": lambda: None if database.read("SELECT 1") else "no answer", "broker": producer.check}
        app = health_app(checks, with_metrics=is_loopback(settings.http_host))
        service.add(HttpServer(app, host=settings.http_host, port=settings.http_port, service=settings.SERVICE))
    return service
