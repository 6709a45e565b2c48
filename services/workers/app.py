"""Composition root of a worker: the only place that names concrete parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from threading import Event
from typing import Any

from stanchion.authority.dead_letters import DeadLetters
from stanchion.authority.leases import Leases, Reach
from stanchion.authority.objects import Objects
from stanchion.authority.workflows import Workflows
from stanchion.bus.admin import ensure_topics
from stanchion.bus.consumer import Consumer
from stanchion.contracts.ids import new_id
from stanchion.contracts.topics import (
    PARTITIONS,
    PARTITIONS_EMBEDDED,
    WORKERS_GROUP,
    worker_commands,
    worker_specs,
)
from stanchion.db.engine import Database
from stanchion.errors import NotFound, Unavailable
from stanchion.runtime import failpoints
from stanchion.runtime.hints import WORKERS, Hints
from stanchion.runtime.http import HttpServer, health_app, is_loopback
from stanchion.runtime.lifecycle import Service
from stanchion.runtime.logging import configure_logging, get_logger
from stanchion.telemetry import metrics

from .catalogue import Catalogue
from .child import ChildSettings
from .durations import Durations
from .executor import Executor
from .foreman import Foreman
from .lease_keeper import MARGIN, LeaseKeeper
from .offers import Offers
from .presence import Presence
from .processes import ProcessPool
from .settings import WorkerSettings
from .slots import Slots

log = get_logger()

PRESENCE_SECONDS = 5.0


class WorkerPart:
    """Registers at the start, drains, and gives every lease back at the end: the frame around the foreman's loop."""

    def __init__(
        self, foreman: Foreman, presence: Presence, register: Callable[[], None], ensure_topics: Callable[[], None]
    ) -> None:
        self.name = "worker"
        self.foreman = foreman
        self.presence = presence
        self.register = register
        self.ensure_topics = ensure_topics

    def start(self) -> None:
        """Make its workflows known, the topics of its queues, and itself."""
        self.register()
        with suppress(
            Unavailable
        ):  # while the broker is away it works from the ready table; the relay creates topics too
            self.ensure_topics()
        self.presence.report("active")

    def quiesce(self) -> None:
        """Lease nothing more."""
        self.foreman.drain()

    def busy(self) -> bool:
        """Steps are still running."""
        return bool(self.foreman.held)

    def stop(self, timeout: float) -> bool:  # noqa: ARG002 - the signature of a part
        """Give back what is left, and say goodbye."""
        self.foreman.release_all()
        self.presence.report("gone")
        return True


def tenants_of(database: Database, names: Sequence[str]) -> list[Any] | None:
    """The ids of tenants by name; None for all."""
    if not names:
        return None
    ids = []
    for name in names:
        found = database.read("SELECT stanchion.tenant_by_name(%s)", (name,))[0][0]
        if found is None:
            raise NotFound("E-CONF-06", f"there is no tenant {name!r}", where="STANCHION_TENANTS")
        ids.append(found)
    return ids


def build(argv: Sequence[str]) -> Service:
    """A worker from its settings; the database is asked only for the ids of tenants, if they are named."""
    settings = WorkerSettings.load(argv)
    configure_logging(
        format=settings.log_format, level=settings.log_level, service=settings.SERVICE, instance=settings.instance
    )
    failpoints.configure(settings.profile)
    catalogue = Catalogue.load(settings.targets)
    url = settings.database_url.get_secret_value()
    database = Database(url, name=f"worker {settings.instance}", pool_size=3, overflow=settings.slots)
    queues = list(settings.queues) or catalogue.queues
    leases = Leases(
        database,
        new_id(),
        Reach(tenants_of(database, settings.tenants), catalogue.definitions, queues),
        round(settings.lease_seconds * 1000),
        Objects(settings.objects_url),
    )
    hints = Hints(settings.redis_url.get_secret_value() if settings.redis_url else None)
    durations = Durations(settings.ahead_ms, settings.ahead_most, settings.slots)
    wake = Event()
    consumer = Consumer(settings.kafka, WORKERS_GROUP, [worker_commands(q) for q in queues], wake=wake)
    slots = _slots(settings, leases, catalogue, wake)
    foreman = Foreman(
        leases,
        catalogue,
        slots,
        Offers(consumer, catalogue.serves, DeadLetters(database).bury),
        durations,
        hints,
        settings.find_seconds,
        called=hints.subscribe([WORKERS]),
    )
    hints.subscribe([WORKERS], wake)  # after `called`: whoever is woken finds it set
    metrics.slots.set(settings.slots)

    service = Service(settings.SERVICE, drain_seconds=settings.drain_seconds)
    presence = Presence(leases, foreman, durations, settings.instance, settings.slots, service.request_stop)
    service.add(hints)
    service.add(consumer)
    service.add(slots)
    service.add_loop(
        "presence", presence.run_once, busy_wait=PRESENCE_SECONDS, idle_wait=PRESENCE_SECONDS, runs_while_draining=True
    )
    keeper = LeaseKeeper(leases, foreman)
    service.add_loop(
        "lease-keeper",
        keeper.run_once,
        busy_wait=settings.heartbeat,
        idle_wait=settings.heartbeat,
        runs_while_draining=True,
    )
    look = settings.lease_seconds * MARGIN / 2
    service.add_loop("lease-guard", keeper.guard_once, busy_wait=look, idle_wait=look, runs_while_draining=True)
    partitions = PARTITIONS_EMBEDDED if settings.profile == "dev" else PARTITIONS
    specs = [replace(spec, partitions=partitions) for q in queues for spec in worker_specs(q)]
    service.add(
        WorkerPart(
            foreman,
            presence,
            lambda: catalogue.register(Workflows(database)),
            lambda: ensure_topics(settings.kafka, specs, timeout=5),
        )
    )
    service.add_loop(
        "foreman", foreman.run_once, idle_wait=settings.find_seconds * 4, wake=wake, runs_while_draining=True
    )
    if settings.http_port is not None:
        service.add(_health(settings, database, consumer, foreman))
    return service


def _slots(settings: WorkerSettings, leases: Leases, catalogue: Catalogue, wake: Event) -> Slots:
    url = settings.database_url.get_secret_value()
    children = ChildSettings(settings.targets, url, settings.objects_url, leases.worker_id)
    return Slots(settings.slots, Executor(leases, catalogue.graph), ProcessPool(children), wake.set)


def _health(settings: WorkerSettings, database: Database, consumer: Consumer, foreman: Foreman) -> HttpServer:
    assert settings.http_port is not None
    checks = {
        "database": lambda: None if database.read("SELECT 1") else "no answer",
        "broker": consumer.check,
        "event loop": foreman.held_up,
    }
    alive = {"slots": foreman.slots.check}
    app = health_app(checks | alive, alive=alive, with_metrics=is_loopback(settings.http_host))
    return HttpServer(app, host=settings.http_host, port=settings.http_port, service=settings.SERVICE)
