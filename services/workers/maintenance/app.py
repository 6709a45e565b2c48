"""Composition root of a maintenance worker: the only place that names concrete parts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from threading import Event

from stanchion.authority.bulk_redrive import BulkRedrive
from stanchion.authority.error_groups import ErrorCollector
from stanchion.authority.job_acts import JobActs
from stanchion.authority.jobs import KIND as BULK
from stanchion.authority.maintenance import REDRIVE, Maintenance
from stanchion.authority.objects import Objects
from stanchion.authority.recounts import Recounts
from stanchion.authority.retention import Retention
from stanchion.authority.samples import Samples
from stanchion.authority.sweeping import Sweeping
from stanchion.bus.producer import Producer
from stanchion.db.engine import Database
from stanchion.runtime import failpoints
from stanchion.runtime.hints import MAINTENANCE, ORCHESTRATOR, RELAY, Hints
from stanchion.runtime.http import HttpServer, health_app, is_loopback
from stanchion.runtime.lifecycle import Service
from stanchion.runtime.logging import configure_logging

from . import jobs
from .bulk import Bulk
from .performer import Performer, Work
from .planner import Planner
from .queue_runner import QueueRunner
from .redis_link import RedisLink
from .settings import MaintenanceSettings


def build(argv: Sequence[str]) -> Service:
    """A maintenance worker from its settings; nothing is opened before it starts."""
    settings = MaintenanceSettings.load(argv)
    configure_logging(
        format=settings.log_format, level=settings.log_level, service=settings.SERVICE, instance=settings.instance
    )
    failpoints.configure(settings.profile)
    return assembled(settings)


def assembled(settings: MaintenanceSettings) -> Service:
    """The parts of a maintenance worker."""
    assert settings.redis_url is not None, "the settings were checked"
    redis_url = settings.redis_url.get_secret_value()
    database = Database(settings.database_url.get_secret_value(), name="maintenance", pool_size=3)
    maintenance = Maintenance(database, settings.instance)
    service = Service(settings.SERVICE, drain_seconds=settings.drain_seconds)
    hints = service.add(Hints(redis_url))
    link = service.add(RedisLink(redis_url, strict=settings.profile != "dev" and not settings.allow_eviction))
    producer = service.add(Producer(settings.kafka))
    work = works(settings, maintenance, database, producer, hints)
    performer = service.add(Performer(maintenance, work, settings.job_lease_seconds))
    runner = QueueRunner(link, settings.queue, performer.perform, settings.instance)
    planner = Planner(maintenance, link, settings.queue, periods(settings), settings.plan_seconds)
    wake = hints.subscribe([MAINTENANCE], Event())
    planning = service.add_loop("job-planner", planner.run_once, idle_wait=settings.plan_seconds, wake=wake)
    running = service.add_loop("queue-runner", runner.run_once, idle_wait=5.0)
    if settings.http_port is not None:
        checks = {"database": planning.check, "redis": link.check, "queue": running.check}
        app = health_app(checks, with_metrics=is_loopback(settings.http_host))
        service.add(HttpServer(app, host=settings.http_host, port=settings.http_port, service=settings.SERVICE))
    return service


def periods(settings: MaintenanceSettings) -> dict[str, int]:
    """How often each job comes that nobody asks for, in seconds."""
    return {
        "partitions": settings.partitions_every_seconds,
        "retention": settings.retention_every_seconds,
        "dead-letters": settings.dead_letters_every_seconds,
        "recount": settings.recount_every_seconds,
        "tidy": settings.tidy_every_seconds,
        "sweep": settings.sweep_every_seconds,
        "orphans": settings.orphans_every_seconds,
        "errors": settings.errors_every_seconds,
        "samples": settings.samples_every_seconds,
    }


def works(
    settings: MaintenanceSettings, maintenance: Maintenance, database: Database, producer: Producer, hints: Hints
) -> dict[str, Work]:
    """What is done for each kind of job."""
    retention = Retention(database)
    grace = timedelta(hours=settings.artifact_grace_hours)
    sweeping = Sweeping(database, Objects(settings.objects_url), grace)
    days = timedelta(days=settings.payload_days), timedelta(days=settings.history_days)
    letters = timedelta(days=settings.dead_letter_days), settings.dead_letter_rows, settings.dead_letter_bytes
    workers = timedelta(days=settings.worker_gone_days), timedelta(days=settings.worker_silent_days)
    samples = timedelta(days=settings.sample_days), timedelta(days=settings.sample_span_days)
    return {
        "partitions": partial(jobs.partitions, retention),
        "retention": jobs.Retaining(retention, *days),
        "recount": jobs.Recounting(Recounts(database), timedelta(seconds=settings.recount_after_seconds)),
        "dead-letters": partial(jobs.dead_letters, retention, *letters),
        "sweep": partial(jobs.sweep, sweeping),
        "orphans": partial(jobs.find_orphans, sweeping),
        "tidy": partial(jobs.tidy, maintenance, settings.tidy_after_seconds, retention, *workers, days[1]),
        "errors": partial(jobs.group_errors, ErrorCollector(database)),
        "samples": partial(jobs.samples, Samples(database), *samples),
        REDRIVE: jobs.Redriving(BulkRedrive(database), producer),
        BULK: Bulk(JobActs(database), partial(_wake, hints)),
    }


def _wake(hints: Hints) -> None:
    """What a job in bulk did is to be published, and what it made ready is to be offered."""
    hints.publish(RELAY)
    hints.publish(ORCHESTRATOR)
