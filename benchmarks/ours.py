"""Stanchion's own numbers, on a whole stack of real processes."""

from __future__ import annotations

import signal
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg

from stanchion.authority.submission import Request, Submission, prepare
from stanchion.authority.workflows import Workflows
from stanchion.cli.stack import Stack
from stanchion.contracts import ids
from stanchion.contracts.commands import SubmitTask
from stanchion.db import grants
from stanchion.db.engine import Database, login_url
from stanchion.runtime.clock import pause
from stanchion.runtime.hints import Hints
from stanchion.runtime.kafka_settings import KafkaSettings
from stanchion.sdk.client import Client
from stanchion.sdk.kafka_client import KafkaClient

from .usage import Meter

TARGET = "benchmarks.flows"
WORKERS = 2
SLOTS = 8


class Ours:
    """A stack under measurement: 2 workers of 8 slots, fsync on."""

    def __init__(self, root: Path, *, kafka: str = "tansu", lease_seconds: float = 30.0) -> None:
        self.stack = Stack(
            root,
            workers=WORKERS,
            slots=SLOTS,
            targets=[TARGET],
            kafka=kafka,  # type: ignore[arg-type]  # checked by argparse
            lease_seconds=lease_seconds,
            ephemeral=True,
            replicas={"maintenance": 0},
        )

    def __enter__(self) -> Ours:
        stack = self.stack.start()
        assert stack.servers is not None
        url = stack.endpoints.database_url
        self.admin = psycopg.connect(url, autocommit=True)
        self.database = Database(login_url(url, grants.TASK_SERVICE), name="bench")
        self.submission = Submission(self.database, Workflows(self.database))
        self.hints = Hints(stack.endpoints.redis_url)
        self.tenant: UUID = self.database.read("SELECT stanchion.tenant_by_name(%s)", (stack.tenant,))[0][0]
        pids: dict[str, list[int]] = {
            "postgres": [_pid(stack.servers.postgres)],
            "broker": [_pid(stack.servers.kafka)],
            "valkey": [_pid(stack.servers.valkey)],
        }
        for service in stack.services:
            pids.setdefault(service.kind, []).append(_pid(service))
        self.meter = Meter(url, pids)
        self.kafka = KafkaClient(KafkaSettings.dev(stack.endpoints.kafka_bootstrap), tenant=stack.tenant)
        self._warm_up()
        return self

    def __exit__(self, *_: object) -> None:
        self.kafka.close()
        self.meter.close()
        self.database.close()
        self.admin.close()
        self.hints.stop()
        self.stack.stop()

    def _warm_up(self) -> None:
        """Groups have joined, code is loaded, connections are open."""
        for _ in range(2):
            self.fan_out(64)

    def fan_out(self, children: int) -> dict[str, Any]:
        """One task submitted over Kafka, fanned out and joined."""
        self.meter.start()
        started = time.perf_counter()
        receipt = self.kafka.submit("bench_fan", n=children, timeout=60)
        self.await_end([ids.parse(receipt.task_id, ids.TASK)])
        seconds = time.perf_counter() - started
        usage = self.meter.stop()
        releases = self.one(
            "SELECT count(*) FROM stanchion.barrier_release r JOIN stanchion.barrier b ON b.barrier_id = r.barrier_id WHERE b.run_id = %s AND b.kind = 'gather'",
            ids.parse(receipt.run_id, ids.RUN),
        )
        return {
            "children": children,
            "seconds": round(seconds, 3),
            "per_second": round(children / seconds),
            "releases": releases,
            **usage.per(children),
        }

    def one_step_tasks(self, count: int) -> dict[str, Any]:
        """Independent tasks of one step: queued while the workers are frozen, then drained."""
        for worker in self.stack.workers:
            worker.freeze()
        pause(0.2)
        tasks = []
        started = time.perf_counter()
        for first in range(0, count, 100):
            requests = [
                Request(self.tenant, SubmitTask(workflow="bench_one", version=1, input={"n": n}), "kafka", "bench")
                for n in range(first, min(first + 100, count))
            ]
            tasks += [
                a.task_id for a in self.submission.submit([prepare(self.submission.workflows, r) for r in requests])
            ]
        submitted = time.perf_counter() - started
        self.until(lambda: self.one("SELECT count(*) FROM stanchion.outbox WHERE type = 'ExecuteSteps'") == 0)
        self.meter.start()
        started = time.perf_counter()
        for worker in self.stack.workers:
            worker.thaw()
        self.await_end(tasks)
        seconds = time.perf_counter() - started
        return {
            "tasks": count,
            "seconds": round(seconds, 3),
            "per_second": round(count / seconds),
            "submitted_per_second": round(count / submitted),
            **self.meter.stop().per(count),
        }

    def chain(self, repeats: int) -> dict[str, Any]:
        """A chain of 50 steps; the hop is the time from one completion to the next."""
        hops = []
        for _ in range(repeats):
            task = self.submit("bench_chain", {"n": 0})
            self.await_end([task])
            seconds = self.one(
                "SELECT extract(epoch FROM max(a.ended_at) - min(a.ended_at)) FROM stanchion.attempt a JOIN stanchion.run r ON r.run_id = a.run_id WHERE r.task_id = %s",
                task,
            )
            hops.append(float(seconds) / 49 * 1e3)
        return {"links": 50, "hop_ms_p50": round(statistics.median(hops), 2), "hop_ms_max": round(max(hops), 2)}

    def latency(self, count: int, door: str) -> dict[str, Any]:
        """From the submitter's call to the grant, at 10 tasks a second."""
        found = []
        with Client(self.stack.api_url, self.stack.api_key) as client:
            for n in range(count):
                next_at = time.perf_counter() + 0.1
                before = self.now()
                receipt = client.submit("bench_one", n=n) if door == "http" else self.kafka.submit("bench_one", n=n)
                task = ids.parse(receipt.task_id if hasattr(receipt, "task_id") else receipt.id, ids.TASK)
                self.await_end([task])
                granted = self.one(
                    "SELECT min(a.granted_at) FROM stanchion.attempt a JOIN stanchion.run r ON r.run_id = a.run_id WHERE r.task_id = %s",
                    task,
                )
                found.append((granted - before).total_seconds() * 1e3)
                pause(max(0.0, next_at - time.perf_counter()))
        found.sort()
        return {
            "door": door,
            "tasks": count,
            "p50_ms": round(statistics.median(found), 1),
            "p95_ms": round(found[int(len(found) * 0.95)], 1),
            "max_ms": round(found[-1], 1),
        }

    def take_over(self, repeats: int, lease_seconds: float) -> dict[str, Any]:
        """From SIGKILL of the holder to the next grant of its step."""
        found = []
        for _ in range(repeats):
            task = self.submit("bench_slow", {"seconds": 3.0})
            holder = self.until(
                lambda task=task: self.row(
                    "SELECT w.pid, a.step_id FROM stanchion.attempt a JOIN stanchion.worker w ON w.worker_id = a.worker_id JOIN stanchion.run r ON r.run_id = a.run_id WHERE r.task_id = %s AND a.ended_at IS NULL",
                    task,
                )
            )
            pause(lease_seconds / 2)
            before = self.now()
            next(w for w in self.stack.workers if w.pid == holder[0]).kill(signal.SIGKILL)
            again = self.until(
                lambda holder=holder: self.row(
                    "SELECT granted_at FROM stanchion.attempt WHERE step_id = %s AND fence > 1 ORDER BY fence LIMIT 1",
                    holder[1],
                ),
                60,
            )
            found.append((again[0] - before).total_seconds())
            self.await_end([task])
        return {
            "lease_seconds": lease_seconds,
            "repeats": repeats,
            "p50_s": round(statistics.median(found), 2),
            "max_s": round(max(found), 2),
        }

    def idle(self, seconds: float) -> dict[str, Any]:
        """What all processes cost together while nothing happens."""
        pause(8.0)
        self.meter.start()
        pause(seconds)
        usage = self.meter.stop()
        cpu = {k: round(v / seconds * 100, 2) for k, v in usage.cpu.items()}
        return {
            "seconds": seconds,
            "cpu_percent_of_a_core": cpu,
            "cpu_percent_total": round(sum(cpu.values()), 2),
            "commits_per_second": round(usage.commits / seconds, 2),
        }

    # -- tools of all measurements --

    def submit(self, workflow: str, value: dict[str, Any]) -> UUID:
        """Submit past the task service; the relay is told."""
        request = Request(self.tenant, SubmitTask(workflow=workflow, version=1, input=value), "kafka", "bench")
        answer = self.submission.submit([prepare(self.submission.workflows, request)])[0]
        self.hints.publish("relay")
        return answer.task_id

    def now(self) -> Any:
        """The database's time."""
        return self.one("SELECT clock_timestamp()")

    def row(self, sql: str, *parameters: Any) -> Any:
        """The first row, or None."""
        return self.admin.execute(sql.encode(), parameters).fetchone()

    def one(self, sql: str, *parameters: Any) -> Any:
        """The first column of the first row, which is there."""
        row = self.row(sql, *parameters)
        assert row is not None
        return row[0]

    def await_end(self, tasks: Iterable[UUID], seconds: float = 300.0) -> None:
        """Wait until all these tasks have ended."""
        wanted = list(tasks)  # asking after 10,000 takes milliseconds of the server's time, so it is asked less often
        self.until(
            lambda: (
                self.one(
                    "SELECT count(*) FROM stanchion.task WHERE task_id = ANY (%s) AND ended_at IS NOT NULL", wanted
                )
                == len(wanted)
            ),
            seconds,
            0.005 + len(wanted) * 1e-5,
        )

    @staticmethod
    def until(found: Callable[[], Any], seconds: float = 60.0, interval: float = 0.005) -> Any:
        """What `found` gives once that is true; TimeoutError."""
        deadline = time.monotonic() + seconds
        while not (value := found()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {seconds:g} s")
            pause(interval)
        return value


def _pid(process: Any) -> int:
    assert process.pid is not None
    return int(process.pid)
