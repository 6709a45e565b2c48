"""A worker of real parts that a test drives pass by pass: foreman, slots, lease keeper. It hears of no offers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any
from uuid import uuid4

from kit.engine import Engine
from services.workers.catalogue import Catalogue
from services.workers.child import ChildSettings
from services.workers.durations import Durations
from services.workers.executor import Executor
from services.workers.foreman import Foreman
from services.workers.lease_keeper import LeaseKeeper
from services.workers.offers import Offers
from services.workers.processes import ProcessPool
from services.workers.slots import Slots
from stanchion.authority.leases import Leases, Reach
from stanchion.authority.objects import Objects
from stanchion.bus.consumer import Consumer
from stanchion.db.engine import Database
from stanchion.errors import Unavailable
from stanchion.runtime.clock import Deadline, pause
from stanchion.runtime.hints import Hints
from stanchion.runtime.kafka_settings import KafkaSettings
from stanchion.workflow import Workflow


class Crew:
    """`foreman.run_once()` and `keeper.run_once()` are the passes that its loops would make."""

    def __init__(
        self,
        database: Database,
        workflows: list[Workflow],
        ttl_ms: int,
        targets: list[str],
        objects_url: str | None = None,
    ) -> None:
        self.catalogue = Catalogue(workflows)
        reach = Reach(None, self.catalogue.definitions, self.catalogue.queues)
        self.leases = Leases(database, uuid4(), reach, ttl_ms, Objects(objects_url))
        children = ChildSettings(targets, database.url, objects_url, self.leases.worker_id)
        self.slots = Slots(4, Executor(self.leases, self.catalogue.graph), ProcessPool(children), lambda: None)
        offers = Offers(
            Consumer(KafkaSettings("127.0.0.1:1"), "none", ["none"]), self.catalogue.serves, lambda *_: None
        )
        durations = Durations(0, 0, 4)
        self.foreman = Foreman(self.leases, self.catalogue, self.slots, offers, durations, Hints(None), 0.001, Event())
        self.keeper = LeaseKeeper(self.leases, self.foreman)

    def work(self, until: Callable[[], Any], seconds: float = 180.0) -> None:
        """Pass after pass of the foreman until something is so."""
        deadline = Deadline(seconds)
        while not until():
            assert not deadline.passed, f"still not so after {seconds:g} s"
            try:
                wait = self.foreman.run_once()
            except Unavailable:
                wait = False  # as its loop does: later again
            if wait is not True:
                pause(0.01)


@contextmanager
def crew(
    engine: Engine,
    *,
    database: Database | None = None,
    ttl_ms: int = 30_000,
    targets: list[str] | None = None,
    objects_url: str | None = None,
) -> Iterator[Crew]:
    """A worker that serves all registered workflows; what it holds at the end is given back."""
    made = Crew(database or engine.worker_database, list(engine.workflows.values()), ttl_ms, targets or [], objects_url)
    made.slots.start()
    try:
        yield made
    finally:
        made.foreman.release_all()
        made.slots.stop()
