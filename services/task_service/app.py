"""Composition root of the task service: the only place that names concrete parts."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from stanchion.authority.approvals import Approvals
from stanchion.authority.artifacts import Artifacts
from stanchion.authority.audit import Audit
from stanchion.authority.dead_letters import DeadLetters
from stanchion.authority.error_groups import ErrorGroups
from stanchion.authority.events import Events
from stanchion.authority.graph_view import GraphView
from stanchion.authority.intake import Intake
from stanchion.authority.inventory import Inventory
from stanchion.authority.jobs import Jobs
from stanchion.authority.keyring import KeyRing, cookie_name
from stanchion.authority.keys import Keys
from stanchion.authority.maintenance import Maintenance
from stanchion.authority.objects import Objects
from stanchion.authority.operations import Operations
from stanchion.authority.outcomes import Outcomes
from stanchion.authority.people import People
from stanchion.authority.pipeline import Pipeline
from stanchion.authority.queries import Queries
from stanchion.authority.queues import Queues
from stanchion.authority.samples import Samples
from stanchion.authority.saved_views import SavedViews
from stanchion.authority.submission import Submission
from stanchion.authority.task_search import TaskSearch
from stanchion.authority.tasks import Tasks
from stanchion.authority.webhooks import Masters, Webhooks
from stanchion.authority.why import Asking
from stanchion.authority.workflows import Workflows
from stanchion.bus.admin import ensure_topics
from stanchion.bus.consumer import Consumer
from stanchion.bus.producer import Producer
from stanchion.contracts.topics import PARTITIONS, PARTITIONS_EMBEDDED, TASK_SERVICE_COMMANDS, specs
from stanchion.db.engine import Database
from stanchion.errors import Unavailable
from stanchion.runtime import failpoints
from stanchion.runtime.hints import RELAY, Hints
from stanchion.runtime.http import Check, HttpServer
from stanchion.runtime.lifecycle import Service
from stanchion.runtime.logging import configure_logging

from .command_reader import CommandReader
from .deps import Deps
from .event_feed import EventFeed
from .handlers import Handlers
from .health import IntakeCheck, SchemaCheck
from .http import create_app
from .intake import CommandIntake
from .oidc import Oidc
from .redriver import Redriver
from .settings import TaskServiceSettings
from .sign_in import SignIn
from .transfers import Transfers

TOPICS_SECONDS: Final = 5.0


def build(argv: Sequence[str]) -> Service:
    """The service from its settings; nothing is opened before it starts."""
    settings = TaskServiceSettings.load(argv)
    configure_logging(
        format=settings.log_format, level=settings.log_level, service=settings.SERVICE, instance=settings.instance
    )
    failpoints.configure(settings.profile)
    service = Service(settings.SERVICE, drain_seconds=settings.drain_seconds)
    hints = service.add(Hints(settings.redis_url.get_secret_value() if settings.redis_url else None))
    producer = service.add(Producer(settings.kafka))
    connections = service.add(Connections(settings))
    checks: dict[str, Check] = {}
    if settings.kafka_intake:
        wake = threading.Event()
        consumer = service.add(Consumer(settings.kafka, settings.kafka_group, [TASK_SERVICE_COMMANDS], wake=wake))
        intake = command_intake(settings, connections.make("intake", 2), hints, producer, consumer)
        service.add(Topics(settings))
        service.add_loop("intake", intake.run_once, idle_wait=1.0, wake=wake, runs_while_draining=True)
        checks["intake"] = IntakeCheck(consumer).check
    if settings.http_port is not None:
        feed = event_feed(settings, hints, connections)
        service.add_loop("event-feed", feed.run_once, idle_wait=1.0, wake=feed.wake, runs_while_draining=True)
        deps = deps_of(settings, connections.make("http", settings.db_pool), hints, producer, feed)
        checks["database"] = SchemaCheck(deps.database).check
        app = create_app(settings, deps, checks)
        service.add(HttpServer(app, host=settings.http_host, port=settings.http_port, service=settings.SERVICE))
    return service


def command_intake(
    settings: TaskServiceSettings, database: Database, hints: Hints, producer: Producer, consumer: Consumer
) -> CommandIntake:
    """The intake of Kafka commands."""
    reader = CommandReader(Keys(database), settings.rights, settings.tenants, settings.key_cache_seconds)
    return CommandIntake(
        consumer,
        reader,
        handlers_of(database, hints),
        Intake(database),
        producer,
        batch=settings.intake_batch,
        service=settings.SERVICE,
    )


class Topics:
    """Makes the topics of the engine at the start, if the broker is there; else whoever comes first makes them."""

    name = "topics"

    def __init__(self, settings: TaskServiceSettings) -> None:
        self.settings = settings

    def start(self) -> None:
        """Create what is missing."""
        partitions = PARTITIONS_EMBEDDED if self.settings.profile == "dev" else PARTITIONS
        with suppress(Unavailable):
            ensure_topics(self.settings.kafka, specs(partitions=partitions), timeout=TOPICS_SECONDS)

    def stop(self, timeout: float = 0.0) -> bool:  # noqa: ARG002 - the signature of a part
        """Nothing."""
        return True


def event_feed(settings: TaskServiceSettings, hints: Hints, connections: Connections) -> EventFeed:
    """The feeder of event streams; whoever commits work wakes the relay, and with it this."""
    wake = hints.subscribe([RELAY])
    return EventFeed(Events(connections.make("events", 1)), settings.streams, wake)


def deps_of(
    settings: TaskServiceSettings, database: Database, hints: Hints, producer: Producer, feed: EventFeed
) -> Deps:
    """What routes work with, over connections of their own: no flood of requests takes those of the intake."""
    keys, letters, workflows = Keys(database), DeadLetters(database), Workflows(database)
    objects = Objects(settings.objects_url)
    people = People(database)
    oidc = Oidc(settings, keys, people) if settings.oidc_issuer else None
    return Deps(
        database=database,
        handlers=handlers_of(database, hints),
        queries=Queries(database),
        search=TaskSearch(database),
        jobs=Jobs(database),
        saved_views=SavedViews(database),
        errors=ErrorGroups(database),
        graph_view=GraphView(database, workflows),
        outcomes=Outcomes(database, workflows, objects),
        asking=Asking(database),
        inventory=Inventory(database),
        queues=Queues(database),
        samples=Samples(database),
        pipeline=Pipeline(database),
        operations=Operations(database),
        approvals=Approvals(database),
        dead_letters=letters,
        redriver=Redriver(letters, producer, hints),
        maintenance=Maintenance(database),
        artifacts=Artifacts(database),
        objects=objects,
        transfers=Transfers(settings.transfers),
        upload_bytes=settings.upload_bytes,
        keys=keys,
        people=people,
        sign_in=SignIn(settings, keys, people, oidc),
        audit=Audit(database),
        webhooks=Webhooks(database, Masters.of(settings.webhook_masters, settings.profile)),
        webhook_rules=settings.webhook_rules,
        ring=KeyRing(keys, people, settings.key_cache_seconds, cookie=cookie_name(secure=settings.secure_cookies)),
        feed=feed,
        stream_heartbeat=settings.stream_heartbeat_seconds,
        stream_seconds=settings.stream_seconds,
    )


def handlers_of(database: Database, hints: Hints) -> Handlers:
    """The commands, over one set of connections."""
    workflows = Workflows(database)
    return Handlers(
        workflows,
        Submission(database, workflows),
        Tasks(database, workflows),
        Queries(database),
        Operations(database),
        Approvals(database),
        hints,
    )


class Connections:
    """The pools of this process, one for each part of it; closed once all parts have ended."""

    name = "connections"

    def __init__(self, settings: TaskServiceSettings) -> None:
        self.settings = settings
        self.made: list[Database] = []

    def make(self, part: str, size: int) -> Database:
        """A pool of `size` connections, opened as they are needed."""
        self.made.append(
            Database(
                self.settings.database_url.get_secret_value(),
                name=f"task-service {part} {self.settings.instance}",
                pool_size=size,
                overflow=0,
                wait_seconds=self.settings.db_wait_seconds,
            )
        )
        return self.made[-1]

    def start(self) -> None:
        """Nothing: the first use connects."""

    def stop(self, timeout: float = 0.0) -> bool:  # noqa: ARG002 - the signature of a part
        """Close them all."""
        for database in self.made:
            database.close()
        return True
