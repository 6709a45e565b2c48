"""The queue runner: takes one entry at a time from the queue and performs it, in this process.

In this process and not in a forked one: jobs are calls of the database, and a killed worker then leaves nothing behind
that goes on without it.
"""

from __future__ import annotations

import logging
import secrets

import redis
from rq import Queue, SimpleWorker
from rq.exceptions import DequeueTimeout

from stanchion.runtime.logging import get_logger

from .guarded_job import GuardedJob, NoDeathPenalty, Perform
from .planner import queues_of
from .redis_link import SOCKET_SECONDS, RedisLink

BLOCK_SECONDS = 2  # how long it listens at once: what stopping may take
PRESENCE_SECONDS = 60  # an RQ worker that is silent for longer is taken for gone

log = get_logger()
logging.getLogger("rq.worker").setLevel(logging.WARNING)  # importing RQ sets it to INFO: four lines for each job


class EntryWorker(SimpleWorker):
    """RQ's worker without what steers it from Redis: no commands, no suspension, no scheduler, no callbacks."""

    death_penalty_class = NoDeathPenalty
    log_result_lifespan = False

    @property
    def connection_timeout(self) -> float:  # type: ignore[override]  # seconds; RQ would raise the socket's to its own
        """How long a call may take."""
        return SOCKET_SECONDS

    def work_once(self, seconds: int) -> bool:
        """Perform the next entry, if one comes within `seconds`; raises redis.RedisError."""
        if not self.connection.exists(self.key):  # at the start, and after Redis was emptied
            self.register_birth()  # type: ignore[no-untyped-call]  # RQ leaves it untyped
        self.heartbeat(PRESENCE_SECONDS)
        if self.should_run_maintenance_tasks:
            self._clean()
        try:
            found = Queue.dequeue_any(
                self.queues, seconds, self.connection, job_class=self.job_class, serializer=self.serializer
            )
        except DequeueTimeout:
            return False
        except (ValueError, TypeError) as error:  # an id that is none: it was popped, and that is the end of it
            log.warning("maintenance.entry_refused", why=f"its id can't be read ({type(error).__name__})")
            return True
        if found is not None:
            self.execute_job(*found)
        return True

    def _clean(self) -> None:
        """RQ's own tidying of its lists. What it can't read there must not keep jobs from running."""
        try:
            self.clean_registries()  # type: ignore[no-untyped-call]  # RQ leaves it untyped
        except redis.RedisError:
            raise
        except Exception as error:  # noqa: BLE001 - anything may stand in Redis
            log.warning("maintenance.entry_refused", why=f"a list can't be tidied ({type(error).__name__})")


class QueueRunner:
    """`run_once` performs one entry, or listens for a while."""

    name = "queue-runner"

    def __init__(self, link: RedisLink, queue: str, perform: Perform, instance: str) -> None:
        self.link = link
        self.queue = queue
        self.instance = instance
        self.job_class = GuardedJob.bound(perform)
        self._worker: EntryWorker | None = None

    def run_once(self) -> float:
        """Perform what comes; the seconds to wait before listening again."""
        if not self.link.usable():
            return self.link.wait_seconds()
        try:
            if self._worker is None:
                self._worker = self._made()
            self._worker.work_once(BLOCK_SECONDS)
        except redis.RedisError as error:
            self._worker = None
            return self.link.lost(error)
        return 0.0

    def _made(self) -> EntryWorker:
        return EntryWorker(
            queues_of(self.queue, self.link.client, self.job_class),
            # its name must be new: the one before may have been killed, and stays registered for a while
            name=f"{self.instance}-{secrets.token_hex(4)}",
            connection=self.link.client,
            job_class=self.job_class,
            serializer="json",
            worker_ttl=PRESENCE_SECONDS,
            log_job_description=False,
        )
