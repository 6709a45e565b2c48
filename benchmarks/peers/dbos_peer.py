# mypy: ignore-errors
# Reason: dbos and psycopg are installed in this peer's environment only.
"""DBOS: a parent workflow enqueues its children and awaits them, as its queue guide shows; polling as often as pays.

A child is a workflow without a step, the cheapest thing that DBOS makes durable.
"""

import asyncio
import os
import sys
import threading
import time

import psycopg
import talk
from dbos import DBOS, DBOSClient, SetWorkflowID

URL = os.environ["PEER_DATABASE_URL"]
SLOTS = int(os.environ["PEER_SLOTS"])
POLL_SECONDS = float(os.environ.get("PEER_POLL", "0.02"))
LINKS = 50
GROUP = 100
QUEUE = "bench"
STATUS = "SELECT count(*) FROM dbos.workflow_status WHERE name = %s AND status = %s"


@DBOS.workflow(name="child")
def child(index: int) -> int:
    return index


@DBOS.step(name="joined")
async def joined(indexes: list[int]) -> int:
    return len(set(indexes))


@DBOS.workflow(name="parent")
async def parent(count: int) -> int:
    # Enqueued side by side and awaited in groups: one by one took five times as long, and all at once would have each of
    # thousands poll by itself.
    handles = await asyncio.gather(*(DBOS.enqueue_workflow_async(QUEUE, child, n) for n in range(count)))
    indexes: list[int] = []
    for first in range(0, count, GROUP):
        waiting = (handle.get_result(polling_interval_sec=0.1) for handle in handles[first : first + GROUP])
        indexes += await asyncio.gather(*waiting)
    return await joined(indexes)


@DBOS.step(name="link")
def link(number: int) -> float:
    return time.monotonic()


@DBOS.workflow(name="linked")
def linked() -> float:
    moments = [link(number) for number in range(LINKS)]
    return moments[-1] - moments[0]


@DBOS.workflow(name="queued_link")
def queued_link(chain: int, number: int, first: float) -> float:
    first = first or time.monotonic()
    if number + 1 < LINKS:
        with SetWorkflowID(f"link-{chain}-{number + 1}"):
            DBOS.enqueue_workflow(QUEUE, queued_link, chain, number + 1, first)
    return time.monotonic() - first


@DBOS.workflow(name="timed")
def timed() -> float:
    return time.monotonic()


def launch(executor: str) -> None:
    DBOS(
        config={
            "name": "bench",
            "system_database_url": URL,
            "application_version": "bench",
            "executor_id": executor,
            "console_log_level": "ERROR",
        }
    )
    DBOS.launch()
    DBOS.register_queue(QUEUE, worker_concurrency=SLOTS, polling_interval_sec=POLL_SECONDS)


class Driver:
    def __init__(self) -> None:
        self.client = DBOSClient(system_database_url=URL)
        self.connection = psycopg.connect(URL, autocommit=True)

    def enqueue(self, name: str, *values):
        return self.client.enqueue({"workflow_name": name, "queue_name": QUEUE}, *values)

    def ended(self, name: str) -> int:
        return self.connection.execute(STATUS, (name, "SUCCESS")).fetchone()[0]

    def fan_out(self, count: int):
        before, parents = self.ended("child"), self.ended("parent")
        yield
        handle = self.enqueue("parent", count)
        distinct = handle.get_result(polling_interval_sec=POLL_SECONDS)
        yield
        assert distinct == count, f"the join saw {distinct} results"
        yield {"ran": self.ended("child") - before, "joins": self.ended("parent") - parents}

    def one_step_tasks(self, count: int):
        before = self.ended("child")
        for number in range(count):
            self.enqueue("child", number)
        yield
        self.until("SELECT NOT EXISTS (SELECT FROM dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING'))")
        yield
        yield {"ran": self.ended("child") - before}

    def chain(self, count: int):
        yield
        chains = (self.enqueue("linked").get_result(polling_interval_sec=POLL_SECONDS) for _ in range(count))
        hops = [elapsed / (LINKS - 1) * 1e3 for elapsed in chains]
        yield
        yield {"ran": len(hops), "values_ms": hops}

    def chain_queued(self, count: int):
        hops = []
        yield
        for number in range(count):
            self.enqueue("queued_link", number, 0, 0.0)
            last = f"link-{number}-{LINKS - 1}"
            self.until("SELECT EXISTS (SELECT FROM dbos.workflow_status WHERE workflow_uuid = %s)", last)
            elapsed = self.client.retrieve_workflow(last).get_result(polling_interval_sec=POLL_SECONDS)
            hops.append(elapsed / (LINKS - 1) * 1e3)
        yield
        yield {"ran": len(hops), "values_ms": hops}

    def latency(self, count: int):
        submitted, handles = [], []
        yield
        for _ in range(count):
            submitted.append(time.monotonic())
            handles.append(self.enqueue("timed"))
            time.sleep(max(0.0, submitted[0] + len(handles) * 0.1 - time.monotonic()))
        started = [handle.get_result(polling_interval_sec=POLL_SECONDS) for handle in handles]
        yield
        yield {"ran": len(started), "values_ms": [(b - a) * 1e3 for a, b in zip(submitted, started, strict=True)]}

    def until(self, sql: str, *values) -> None:
        while not self.connection.execute(sql, values).fetchone()[0]:
            time.sleep(0.02)


def main() -> None:
    if sys.argv[1] == "setup":
        launch("setup")
        DBOS.destroy()
    elif sys.argv[1] == "worker":
        launch(f"worker-{sys.argv[2]}")
        talk.up()
        threading.Event().wait()
    else:
        driver = Driver()
        names = ("fan_out", "one_step_tasks", "chain", "chain_queued", "latency")
        talk.serve({name: getattr(driver, name) for name in names})


if __name__ == "__main__":
    main()
