# mypy: ignore-errors
# Reason: pgqueuer, asyncpg and uvloop are installed in this peer's environment only.
"""pgqueuer: asyncpg and uvloop, autovacuum as its checklist says, batches as its guide says for short jobs."""

import asyncio
import json
import os
import sys
import time

import asyncpg
import joins
import talk
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.queries import Queries

URL = os.environ["PEER_DATABASE_URL"]
SLOTS = int(os.environ["PEER_SLOTS"])
BATCH = int(os.environ["PEER_BATCH"])
AT_ONCE = int(os.environ.get("PEER_AT_ONCE", "0")) or None
LINKS = 50


async def setup() -> None:
    connection = await asyncpg.connect(URL)
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    await queries.optimize_autovacuum()
    for statement in joins.SCHEMA:
        await connection.execute(statement)
    await connection.close()


async def work() -> None:
    # The guide: a connection of its own for the queue manager, a pool for what the jobs do. The pool's size is the
    # number of jobs that touch the database at once.
    connection = await asyncpg.connect(URL)
    pool = await asyncpg.create_pool(URL, min_size=SLOTS, max_size=SLOTS, reset=as_it_is)
    queries = Queries(AsyncpgPoolDriver(pool))
    queue = PgQueuer(AsyncpgDriver(connection))

    @queue.entrypoint("child")
    async def child(job) -> None:
        run, index = map(int, job.payload.split())
        slot = index % joins.SLOTS
        if await pool.fetchval(joins.ARRIVE, run, slot, index // joins.SLOTS):
            await close_slot(run, slot)

    async def close_slot(run: int, slot: int) -> None:
        async with pool.acquire() as c, c.transaction():
            if await c.fetchval(joins.CLOSE_SLOT, run, slot) and await c.fetchval(joins.CLOSE_RUN, run):
                await Queries(AsyncpgDriver(c)).enqueue("joined", str(run).encode())

    @queue.entrypoint("joined")
    async def joined(job) -> None:
        await pool.execute(joins.JOIN, int(job.payload))

    @queue.entrypoint("only")
    async def only(job) -> None:
        return None

    @queue.entrypoint("link")
    async def link(job) -> None:
        number, first = json.loads(job.payload)
        first = first or time.monotonic()
        if number + 1 < LINKS:
            await queries.enqueue("link", json.dumps([number + 1, first]).encode())
        else:
            await pool.execute(joins.NOTE, "chain", 0, time.monotonic() - first)

    @queue.entrypoint("timed")
    async def timed(job) -> None:
        started = time.monotonic()
        await pool.execute(joins.NOTE, "start", int(job.payload), started)

    talk.up()
    await queue.run(batch_size=BATCH, max_concurrent_tasks=AT_ONCE)


class Driver:
    def __init__(self) -> None:
        self.run = 0

    async def open(self) -> None:
        self.connection = await asyncpg.connect(URL)
        self.queries = Queries(AsyncpgDriver(self.connection))

    async def fan_out(self, count: int):
        self.run += 1
        await self.connection.execute(joins.OPEN_RUN, self.run, count)
        await self.connection.execute(joins.OPEN_SLOTS, self.run, count)
        yield
        for first in range(0, count, 1_000):
            payloads = [b"%d %d" % (self.run, n) for n in range(first, min(first + 1_000, count))]
            await self.queries.enqueue(["child"] * len(payloads), payloads, [0] * len(payloads))
        await self.until(joins.IS_JOINED, self.run)
        yield
        ran, joined = await self.connection.fetchrow(joins.CHECK, self.run)
        yield {"ran": ran, "joins": joined}

    async def one_step_tasks(self, count: int):
        ids = []
        for first in range(0, count, 1_000):
            size = min(1_000, count - first)
            ids += await self.queries.enqueue(["only"] * size, [b"0"] * size, [0] * size)
        yield
        await self.until("SELECT NOT EXISTS (SELECT FROM pgqueuer)")
        yield
        yield {
            "ran": await self.connection.fetchval(
                "SELECT count(*) FROM pgqueuer_log WHERE status = 'successful' AND job_id = ANY ($1)", ids
            )
        }

    async def chain(self, count: int):
        await self.connection.execute(joins.FORGET_NOTES)
        yield
        for number in range(count):
            await self.queries.enqueue("link", json.dumps([0, None]).encode())
            await self.until("SELECT count(*) > $1 FROM bench_note", number)
        yield
        found = await self.connection.fetch(joins.NOTES, "chain")
        yield {"ran": len(found), "values_ms": [value / (LINKS - 1) * 1e3 for _, value in found]}

    async def latency(self, count: int):
        await self.connection.execute(joins.FORGET_NOTES)
        submitted = []
        yield
        for number in range(count):
            submitted.append(time.monotonic())
            await self.queries.enqueue("timed", str(number).encode())
            await asyncio.sleep(max(0.0, submitted[0] + (number + 1) * 0.1 - time.monotonic()))
        await self.until("SELECT count(*) = $1 FROM bench_note", count)
        yield
        found = await self.connection.fetch(joins.NOTES, "start")
        yield {"ran": len(found), "values_ms": [(started - submitted[n]) * 1e3 for n, started in found]}

    async def until(self, sql: str, *values) -> None:
        while not await self.connection.fetchval(sql, *values):
            await asyncio.sleep(0.01)


async def as_it_is(_connection) -> None:
    """Nothing here changes a session, so a connection goes back to the pool without a statement that resets it."""


async def advanced(running):
    return await anext(running)


def main() -> None:
    if sys.argv[1] == "setup":
        uvloop.run(setup())
    elif sys.argv[1] == "worker":
        uvloop.run(work())
    else:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            driver = Driver()
            runner.run(driver.open())
            names = ("fan_out", "one_step_tasks", "chain", "latency")
            talk.serve({n: getattr(driver, n) for n in names}, lambda running: runner.run(advanced(running)))


if __name__ == "__main__":
    main()
