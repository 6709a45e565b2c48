# mypy: ignore-errors
# Reason: celery and redis are installed in this peer's environment only.
"""Celery on Valkey: its own chord and chain, results kept (a chord needs them), prefetch as its guide says for short tasks,
threads because prefork took nearly twice the CPU for tasks that do nothing.

Acknowledged early, which is its default: a killed worker's tasks are lost, and that is what its speed is at.
"""

import os
import sys
import time

import redis
import talk
from celery import Celery, chain, chord, signals

SERVER = os.environ["PEER_REDIS_URL"].rsplit("/", 1)[0]
SLOTS = os.environ["PEER_SLOTS"]
LINKS = 50

app = Celery("bench", broker=f"{SERVER}/1", backend=f"{SERVER}/2")
app.conf.update(
    worker_prefetch_multiplier=64,
    worker_disable_rate_limits=True,
    worker_redirect_stdouts=False,  # the runner listens there
    broker_connection_retry_on_startup=True,
    result_expires=3_600,
)


@app.task(name="child")
def child(index):
    return index


@app.task(name="joined")
def joined(indexes, run):
    # Every child's result is here: counting them is part of the join.
    redis.Redis.from_url(f"{SERVER}/3").rpush(f"joined:{run}", len(set(indexes)))


@app.task(name="only")
def only():
    return None


@app.task(name="link")
def link(first, number):
    first = first or time.monotonic()
    return first if number + 1 < LINKS else time.monotonic() - first


@app.task(name="timed")
def timed():
    return time.monotonic()


class Driver:
    def __init__(self):
        self.run = 0
        self.results = redis.Redis.from_url(f"{SERVER}/2")
        self.notes = redis.Redis.from_url(f"{SERVER}/3")

    def forget(self):
        self.results.flushdb()
        self.notes.flushdb()

    def fan_out(self, count):
        self.forget()
        self.run += 1
        yield
        chord([child.s(n) for n in range(count)])(joined.s(self.run))
        until(lambda: self.notes.llen(f"joined:{self.run}"))
        yield
        found = self.notes.lrange(f"joined:{self.run}", 0, -1)
        yield {"ran": int(found[0]), "joins": len(found)}

    def one_step_tasks(self, count):
        self.forget()
        with app.producer_pool.acquire(block=True) as producer:
            handles = [only.apply_async(producer=producer) for _ in range(count)]
        yield
        until(lambda: self.results.dbsize() >= count)
        yield
        yield {"ran": sum(handle.successful() for handle in handles)}

    def chain(self, count):
        hops = []
        yield
        for _ in range(count):
            handle = chain(link.s(0, 0), *(link.s(number) for number in range(1, LINKS)))()
            hops.append(handle.get(timeout=60) / (LINKS - 1) * 1e3)
        yield
        yield {"ran": len(hops), "values_ms": hops}

    def latency(self, count):
        submitted, handles = [], []
        yield
        for number in range(count):
            submitted.append(time.monotonic())
            handles.append(timed.delay())
            time.sleep(max(0.0, submitted[0] + (number + 1) * 0.1 - time.monotonic()))
        started = [handle.get(timeout=60) for handle in handles]
        yield
        yield {"ran": len(started), "values_ms": [(b - a) * 1e3 for a, b in zip(submitted, started, strict=True)]}


def until(holds):
    while not holds():
        time.sleep(0.01)


@signals.worker_ready.connect
def tell(**_):
    talk.up()


def main():
    if sys.argv[1] == "setup":
        for database in (1, 2, 3):
            redis.Redis.from_url(f"{SERVER}/{database}").flushdb()
    elif sys.argv[1] == "worker":
        words = [
            "--pool",
            "threads",
            "--concurrency",
            SLOTS,
            "--hostname",
            f"worker-{sys.argv[2]}",
            "--loglevel",
            "ERROR",
        ]
        app.worker_main(["worker", *words, "--without-gossip", "--without-mingle", "--without-heartbeat"])
    else:
        driver = Driver()
        names = ("fan_out", "one_step_tasks", "chain", "latency")
        talk.serve({name: getattr(driver, name) for name in names})


if __name__ == "__main__":
    main()
