"""The planner: looks in the database for what is due, and puts an entry for it into the queue.

It keeps nothing. An entry's id says which claim of which job it is for, so several planners add it once; when Redis
lost it, the next look adds it again; and if it is taken twice, the second one's fence is old.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import redis
from rq import Queue
from rq.exceptions import DuplicateJobError

from stanchion.authority.maintenance import NOBODY, Due, Maintenance

from .guarded_job import FAILURE_SECONDS, FUNCTION, QUEUED_SECONDS, RESULT_SECONDS, GuardedJob
from .redis_link import RedisLink

BATCH = 500


def queues_of(name: str, client: redis.Redis, job_class: type[GuardedJob] = GuardedJob) -> list[Queue]:
    """The two queues in the order in which they are worked: what somebody asked for, then what comes by itself.

    With two of them RQ pops an entry at once; with one it parks it in a third, and trusts what it reads there.
    """
    return [
        Queue(f"{name}-{part}", connection=client, serializer="json", job_class=job_class)
        for part in ("requested", "periodic")
    ]


class Planner:
    """`run_once` queues what is due; a batch that was full is followed by the next at once."""

    def __init__(
        self, maintenance: Maintenance, link: RedisLink, queue: str, periods: Mapping[str, int], seconds: float
    ) -> None:
        self.maintenance = maintenance
        self.link = link
        self.periods = periods
        self.seconds = seconds
        self.requested, self.periodic = queues_of(queue, link.client)

    def run_once(self) -> float:
        """Queue what is due; the seconds to the next look."""
        due = self.maintenance.due(self.periods, BATCH)
        if due and not self.link.usable():
            return self.link.wait_seconds()
        try:
            for job in due:
                self._queue(job)
        except redis.RedisError as error:
            return self.link.lost(error)
        return self.seconds

    def _queue(self, job: Due) -> None:
        queue = self.periodic if job.tenant_id == NOBODY else self.requested
        with suppress(DuplicateJobError):  # another planner was faster, or the entry still waits
            queue.enqueue_call(
                FUNCTION,
                args=[job.kind, job.key, str(job.tenant_id), job.fence],
                job_id=job.entry,
                description=f"{job.kind} {job.key}",
                timeout=-1,
                ttl=QUEUED_SECONDS,
                result_ttl=RESULT_SECONDS,
                failure_ttl=FAILURE_SECONDS,
                unique=True,
            )
