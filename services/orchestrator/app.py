"""Composition root of an orchestrator: the only place that names concrete parts."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event

from stanchion.authority.keyring import cookie_name
from stanchion.authority.keys import Keys
from stanchion.authority.objects import Objects
from stanchion.authority.people import People
from stanchion.authority.pipeline import Pipeline
from stanchion.authority.planning import Planning
from stanchion.authority.samples import Samples
from stanchion.authority.upkeep import Upkeep
from stanchion.authority.webhooks import Masters, Webhooks
from stanchion.authority.workflows import Workflows
from stanchion.bus.consumer import Consumer
from stanchion.bus.lag_reader import LagReader, readers
from stanchion.contracts.topics import ORCHESTRATOR_COMMANDS, ORCHESTRATORS_GROUP
from stanchion.db.engine import Database
from stanchion.runtime import failpoints
from stanchion.runtime.hints import ORCHESTRATOR, Hints
from stanchion.runtime.http import HttpServer, health_app, is_loopback
from stanchion.runtime.lifecycle import Service
from stanchion.runtime.logging import configure_logging, get_logger

from . import lag_watcher, sampler
from .command_listener import CommandListener
from .dashboard.door import Door
from .dashboard.reads import Reads
from .dashboard.site import Site
from .dashboard.task_api import TaskApi
from .deadline_keeper import DeadlineKeeper
from .lag_watcher import LagWatcher
from .lease_reaper import LeaseReaper
from .lookout import Lookout
from .offer_dispatcher import OfferDispatcher
from .run_planner import RunPlanner
from .run_sweeper import RunSweeper
from .sampler import Sampler
from .settings import OrchestratorSettings
from .webhook_courier import WebhookCourier

log = get_logger()

PAGE_STATEMENT_SECONDS = 5  # a page that takes longer is given up
ASLEEP_SECONDS = 30.0
"""How long a loop sleeps when nobody wakes it: the lookout does, within half a second."""


def build(argv: Sequence[str]) -> Service:
    """An orchestrator from its settings; nothing is opened before the service starts."""
    settings = OrchestratorSettings.load(argv)
    configure_logging(
        format=settings.log_format, level=settings.log_level, service=settings.SERVICE, instance=settings.instance
    )
    failpoints.configure(settings.profile)
    database = Database(settings.database_url.get_secret_value(), name="orchestrator", pool_size=4)
    upkeep = Upkeep(database)
    planning = Planning(database, Workflows(database), Objects(settings.objects_url))
    hints = Hints(settings.redis_url.get_secret_value() if settings.redis_url else None)
    lookout = Lookout(upkeep)
    look = hints.subscribe([ORCHESTRATOR])
    arrived = Event()
    consumer = Consumer(settings.kafka, ORCHESTRATORS_GROUP, [ORCHESTRATOR_COMMANDS], wake=arrived)

    service = Service(settings.SERVICE, drain_seconds=settings.drain_seconds)
    service.add(hints)
    service.add(consumer)

    def asleep(name: str, run_once: object, field: str, busy_wait: float = 0.0) -> None:
        event = lookout.wakes(field, Event())
        service.add_loop(name, run_once, busy_wait=busy_wait, idle_wait=ASLEEP_SECONDS, wake=event)  # type: ignore[arg-type]  # a bound run_once

    asleep("run-planner", RunPlanner(planning, upkeep, hints).run_once, "expansions")
    asleep("lease-reaper", LeaseReaper(upkeep, hints).run_once, "leases")
    asleep("deadline-keeper", DeadlineKeeper(upkeep, hints).run_once, "timers")
    asleep("offer-dispatcher", OfferDispatcher(upkeep, hints).run_once, "offers", busy_wait=0.05)
    sweeper = RunSweeper(upkeep, lookout, hints, round(settings.cancel_grace_seconds * 1000))
    runs = Event()
    lookout.wakes("runs", runs)
    lookout.wakes("barriers", runs)
    service.add_loop("run-sweeper", sweeper.run_once, idle_wait=ASLEEP_SECONDS, wake=runs)
    service.add_loop(
        "command-listener",
        CommandListener(consumer, look).run_once,
        busy_wait=0.005,
        idle_wait=ASLEEP_SECONDS,
        wake=arrived,
    )
    if settings.webhook_calls:
        # connections of its own: endpoints that answer all at once must not take those of the loops
        calls = Database(
            settings.database_url.get_secret_value(), name="orchestrator webhooks", pool_size=2, overflow=2
        )
        webhooks = Webhooks(calls, Masters.of(settings.webhook_masters, settings.profile))
        due = lookout.wakes("deliveries", Event())
        courier = WebhookCourier(webhooks, settings.webhook_rules, hands=settings.webhook_calls, wake=due)
        service.add(courier)
        service.add_loop("webhook-courier", courier.run_once, idle_wait=ASLEEP_SECONDS, wake=due)
    service.add_loop("lookout", lookout.run_once, busy_wait=0.05, idle_wait=settings.lookout_seconds, wake=look)
    measure(service, settings, database)
    if settings.http_port is not None:
        checks = {"database": lambda: None if database.read("SELECT 1") else "no answer", "broker": consumer.check}
        with_metrics = is_loopback(settings.http_host)
        site = site_of(settings)
        if site is None:
            log.warning("dashboard.off", fix="set STANCHION_DASHBOARD_DATABASE_URL")
            app = health_app(checks, with_metrics=with_metrics)
        else:
            app = service.add(site).app(checks, with_metrics=with_metrics)
        service.add(HttpServer(app, host=settings.http_host, port=settings.http_port, service=settings.SERVICE))
    return service


def measure(service: Service, settings: OrchestratorSettings, database: Database) -> None:
    """The loops that write down how things stand; each does its part of it when no other orchestrator has."""
    seconds = sampler.LOOK_SECONDS
    service.add_loop("sampler", Sampler(Samples(database)).run_once, busy_wait=0.05, idle_wait=seconds)
    reader = LagReader(settings.kafka, readers(settings.kafka_group))
    watcher = service.add(LagWatcher(Pipeline(database), reader, settings.instance))
    seconds = lag_watcher.LOOK_SECONDS
    service.add_loop("lag-watcher", watcher.run_once, busy_wait=seconds, idle_wait=seconds)


def site_of(settings: OrchestratorSettings) -> Site | None:
    """The dashboard, over connections of its own: a flood of visitors must not take those of the loops."""
    if settings.dashboard_database_url is None:
        return None
    database = Database(
        settings.dashboard_database_url.get_secret_value(),
        name="dashboard",
        pool_size=4,
        overflow=4,
        wait_seconds=5.0,
        statement_timeout_ms=PAGE_STATEMENT_SECONDS * 1_000,
    )
    # in the dev profile whoever can reach this machine's loopback has its database and its keys as well
    dev = settings.profile == "dev" and is_loopback(settings.http_host)
    open_to = settings.page_tenant if dev else None
    door = Door(Keys(database), People(database), open_to=open_to, cookie=cookie_name(secure=not dev))
    return Site(Reads(database), door, TaskApi(settings.task_service_url), dev=dev, open_status=settings.status_open)
