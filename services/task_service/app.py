"""Composition root of the task service: the only place that names concrete parts."""

from __future__ import annotations

from collections.abc import Sequence

from stanchion.authority.dead_letters import DeadLetters
from stanchion.authority.events import Events
from stanchion.authority.graph_view import GraphView
from stanchion.authority.inventory import Inventory
from stanchion.authority.keys import Keys
from stanchion.authority.outcomes import Outcomes
from stanchion.authority.queries import Queries
from stanchion.authority.submission import Submission
from stanchion.authority.tasks import Tasks
from stanchion.authority.why import Asking
from stanchion.authority.workflows import Workflows
from stanchion.bus.producer import Producer
from stanchion.db.engine import Database
from stanchion.runtime import failpoints
from stanchion.runtime.hints import Hints
from stanchion.runtime.http import HttpServer
from stanchion.runtime.lifecycle import Service
from stanchion.runtime.logging import configure_logging

from .access import KeyRing
from .deps import Deps
from .event_feed import EventFeed
from .handlers import RELAY, Handlers
from .health import SchemaCheck
from .http import create_app
from .redriver import Redriver
from .settings import TaskServiceSettings


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
    if settings.http_port is not None:
        feed = event_feed(settings, hints, connections)
        service.add_loop("event-feed", feed.run_once, idle_wait=1.0, wake=feed.wake, runs_while_draining=True)
        deps = deps_of(settings, connections.make("http", settings.db_pool), hints, producer, feed)
        checks = {"database": SchemaCheck(deps.database).check}
        app = create_app(settings, deps, checks)
        service.add(HttpServer(app, host=settings.http_host, port=settings.http_port, service=settings.SERVICE))
    return service


def event_feed(settings: TaskServiceSettings, hints: Hints, connections: Connections) -> EventFeed:
    """The feeder of event streams; whoever commits work wakes the relay, and with it this."""
    wake = hints.subscribe([RELAY])
    return EventFeed(Events(connections.make("events", 1)), settings.streams, wake)


def deps_of(
    settings: TaskServiceSettings, database: Database, hints: Hints, producer: Producer, feed: EventFeed
) -> Deps:
    """What routes work with, over connections of their own: no flood of requests takes those of the intake."""
    keys, letters, workflows = Keys(database), DeadLetters(database), Workflows(database)
    return Deps(
        database=database,
        handlers=handlers_of(database, hints),
        queries=Queries(database),
        graph_view=GraphView(database, workflows),
        outcomes=Outcomes(database, workflows),
        asking=Asking(database),
        inventory=Inventory(database),
        dead_letters=letters,
        redriver=Redriver(letters, producer, hints),
        keys=keys,
        ring=KeyRing(keys, settings.key_cache_seconds),
        feed=feed,
        stream_heartbeat=settings.stream_heartbeat_seconds,
        stream_seconds=settings.stream_seconds,
    )


def handlers_of(database: Database, hints: Hints) -> Handlers:
    """The commands, over one set of connections."""
    workflows = Workflows(database)
    return Handlers(workflows, Submission(database, workflows), Tasks(database, workflows), Queries(database), hints)


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
