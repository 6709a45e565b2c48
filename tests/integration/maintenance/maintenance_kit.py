"""What the tests of the maintenance worker share: a Redis database of their own, a worker worked by hand, processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import redis
from sqlalchemy.engine import make_url

from services.workers.maintenance.performer import Part, Performer, Work
from services.workers.maintenance.planner import Planner
from services.workers.maintenance.queue_runner import QueueRunner
from services.workers.maintenance.redis_link import RedisLink
from stanchion.authority.maintenance import Job, Maintenance
from stanchion.db import grants
from stanchion.db.engine import Database, login_url

ROOT = Path(__file__).parents[3]
QUEUE = "stanchion-test"


class Hand:
    """A maintenance worker whose every pass a test makes itself. `calls` has each part that was worked, in order."""

    def __init__(self, admin_url: str, redis_url: str, name: str = "hand", *, lease_seconds: float = 60.0) -> None:
        self.database = Database(login_url(admin_url, grants.MAINTENANCE), name=f"test {name}", pool_size=2)
        self.maintenance = Maintenance(self.database, name)
        self.link = RedisLink(redis_url, strict=False)
        self.calls: list[Job] = []
        self.works: dict[str, Work] = {"test": self.noted(lambda _job: Part({"did": 1}))}
        self.performer = Performer(self.maintenance, self.works, lease_seconds)
        self.periods: dict[str, int] = {"test": 3_600}
        self.planner = Planner(self.maintenance, self.link, QUEUE, self.periods, 1.0)
        self.runner = QueueRunner(self.link, QUEUE, self.performer.perform, name)

    def noted(self, work: Work) -> Work:
        """The same work, with each call on record."""

        def wrapped(job: Job) -> Part:
            self.calls.append(job)
            return work(job)

        return wrapped

    def take(self) -> bool:
        """Perform the next entry; False when the queue is empty."""
        if self.runner._worker is None:
            self.runner._worker = self.runner._made()
        worker = self.runner._worker
        if not any(queue.count for queue in worker.queues):
            return False
        return worker.work_once(1)

    def drain(self) -> int:
        """Perform everything that is queued; returns how many entries were taken."""
        taken = 0
        while self.take():
            taken += 1
        return taken

    def close(self) -> None:
        self.database.close()
        self.link.stop()


class Process:
    """A maintenance worker as a real process, with its log."""

    def __init__(self, folder: Path, admin_url: str, redis_url: str, **settings: str) -> None:
        self.redis_url = redis_url
        self.log = folder / f"maintenance-{len(list(folder.glob('*.log')))}.log"
        environment = {
            **os.environ,
            "STANCHION_DATABASE_URL": login_url(admin_url, grants.MAINTENANCE),
            "STANCHION_REDIS_URL": redis_url,
            "STANCHION_KAFKA_BOOTSTRAP": "127.0.0.1:9",
            "STANCHION_PROFILE": "dev",
            "STANCHION_LOG_FORMAT": "json",
            "STANCHION_PLAN_SECONDS": "0.1",
            "STANCHION_JOB_LEASE_SECONDS": "1.5",
            "PYTHONPATH": str(ROOT),
            **{f"STANCHION_{name.upper()}": value for name, value in settings.items()},
        }
        with self.log.open("wb") as out:
            self.child = subprocess.Popen(
                [sys.executable, "-P", "-m", "services.workers.maintenance"],
                env=environment, stdout=out, stderr=subprocess.STDOUT, cwd=folder,
            )  # fmt: skip

    def text(self) -> str:
        """Its log so far."""
        return self.log.read_text()

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
        return self.child.wait(60)

    def kill(self) -> None:
        """SIGKILL."""
        self.child.kill()
        self.child.wait(10)


def own_redis(endpoint: str, number: int) -> str:
    """A numbered database of the server, so that no other test's keys are in it."""
    return make_url(endpoint).set(database=str(number)).render_as_string(hide_password=False)


def rows(admin: Any, kind: str | None = None) -> list[Mapping[str, Any]]:
    """The jobs as they stand in PostgreSQL, oldest first."""
    cursor = admin.execute(
        "SELECT kind, key, tenant_id, state, fence, tries, worker, result, finished_at FROM stanchion.maintenance_job"
        " WHERE %s::text IS NULL OR kind = %s ORDER BY created_at, key",
        (kind, kind),
    )
    names = [column.name for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def keys_without_end(client: redis.Redis) -> list[bytes]:
    """Keys of jobs and results that would stay for ever."""
    found = [key for pattern in ("rq:job:*", "rq:results:*", "rq:execution:*") for key in client.scan_iter(pattern)]
    return [key for key in found if client.ttl(key) == -1]


def together(count: int, call: Callable[[int], None]) -> None:
    """Run `call(n)` in threads that start at the same moment."""
    gate = threading.Barrier(count)

    def one(number: int) -> None:
        gate.wait(10)
        call(number)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
