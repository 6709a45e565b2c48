# mypy: ignore-errors
# Reason: procrastinate, psycopg and uvloop are installed in this peer's environment only.
"""Procrastinate: async jobs, `concurrency` as its guide says for jobs that wait, batches where jobs are deferred."""

import asyncio
import os
import sys
import time

import joins
import procrastinate
import psycopg
import talk
import uvloop
from psycopg_pool import AsyncConnectionPool

URL = os.environ["PEER_DATABASE_URL"]
SLOTS = int(os.environ["PEER_SLOTS"])
LINKS = 50

# One connection for each job that runs, one that listens, one that fetches.
app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(conninfo=URL, min_size=SLOTS + 2, max_size=SLOTS + 2),
    worker_defaults={"concurrency": SLOTS},
)
pool = AsyncConnectionPool(
    URL,
    min_size=SLOTS,
    max_size=SLOTS,
    open=False,
    kwargs={"autocommit": True, "cursor_factory": psycopg.AsyncRawCursor},
)


@app.task(name="child")
async def child(run: int, index: int) -> None:
    slot = index % joins.SLOTS
    async with pool.connection() as c:
        if await value_of(c, joins.ARRIVE, run, slot, index // joins.SLOTS):
            await close_slot(c, run, slot)


async def close_slot(connection, run: int, slot: int) -> None:
    async with connection.transaction():
        if not await value_of(connection, joins.CLOSE_SLOT, run, slot):
            return
        if await value_of(connection, joins.CLOSE_RUN, run):
            # Procrastinate's statements have named parameters, which the cursors of our pool don't know.
            connection.cursor_factory = psycopg.AsyncCursor
            try:
                await joined.configure(connection=connection).defer_async(run=run)
            finally:
                connection.cursor_factory = psycopg.AsyncRawCursor


@app.task(name="joined")
async def joined(run: int) -> None:
    await execute(joins.JOIN, run)


@app.task(name="only")
async def only() -> None:
    return None


@app.task(name="link")
async def link(number: int, first: float) -> None:
    first = first or time.monotonic()
    if number + 1 < LINKS:
        await link.defer_async(number=number + 1, first=first)
    else:
        await execute(joins.NOTE, "chain", 0, time.monotonic() - first)


@app.task(name="timed")
async def timed(number: int) -> None:
    await execute(joins.NOTE, "start", number, time.monotonic())


async def execute(statement: str, *values) -> None:
    async with pool.connection() as c:
        await c.execute(statement, values, prepare=True)


async def value_of(connection, statement: str, *values):
    row = await (await connection.execute(statement, values, prepare=True)).fetchone()
    return row and row[0]


async def setup() -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
    async with await psycopg.AsyncConnection.connect(URL, autocommit=True) as c:
        for statement in joins.SCHEMA:
            await c.execute(statement)


async def work() -> None:
    async with app.open_async(), pool:
        talk.up()
        await app.run_worker_async(install_signal_handlers=False)


class Driver:
    def __init__(self) -> None:
        self.run = 0

    async def open(self) -> None:
        await app.open_async()
        self.connection = await psycopg.AsyncConnection.connect(
            URL, autocommit=True, cursor_factory=psycopg.AsyncRawCursor
        )

    async def fan_out(self, count: int):
        self.run += 1
        await self.value(joins.OPEN_RUN + " RETURNING 1", self.run, count)
        await self.value(joins.OPEN_SLOTS + " RETURNING 1", self.run, count)
        yield
        for first in range(0, count, 1_000):
            indexes = range(first, min(first + 1_000, count))
            await child.batch_defer_async(*({"run": self.run, "index": n} for n in indexes))
        await self.until(joins.IS_JOINED, self.run)
        yield
        ran, joins_run = await (await self.connection.execute(joins.CHECK, (self.run,))).fetchone()
        yield {"ran": ran, "joins": joins_run}

    async def one_step_tasks(self, count: int):
        ids = []
        for first in range(0, count, 1_000):
            ids += await only.batch_defer_async(*({} for _ in range(min(1_000, count - first))))
        yield
        await self.until("SELECT NOT EXISTS (SELECT FROM procrastinate_jobs WHERE status IN ('todo', 'doing'))")
        yield
        sql = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded' AND id = ANY ($1::bigint[])"
        yield {"ran": await self.value(sql, ids)}

    async def chain(self, count: int):
        await self.connection.execute(joins.FORGET_NOTES)
        yield
        for number in range(count):
            await link.defer_async(number=0, first=0)
            await self.until("SELECT count(*) > $1::int FROM bench_note", number)
        yield
        found = await (await self.connection.execute(joins.NOTES, ("chain",))).fetchall()
        yield {"ran": len(found), "values_ms": [value / (LINKS - 1) * 1e3 for _, value in found]}

    async def latency(self, count: int):
        await self.connection.execute(joins.FORGET_NOTES)
        submitted = []
        yield
        for number in range(count):
            submitted.append(time.monotonic())
            await timed.defer_async(number=number)
            await asyncio.sleep(max(0.0, submitted[0] + (number + 1) * 0.1 - time.monotonic()))
        await self.until("SELECT count(*) = $1::int FROM bench_note", count)
        yield
        found = await (await self.connection.execute(joins.NOTES, ("start",))).fetchall()
        yield {"ran": len(found), "values_ms": [(started - submitted[n]) * 1e3 for n, started in found]}

    async def value(self, sql: str, *values):
        return await value_of(self.connection, sql, *values)

    async def until(self, sql: str, *values) -> None:
        while not await self.value(sql, *values):
            await asyncio.sleep(0.01)


async def advanced(running):
    return await anext(running)


def main() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if sys.argv[1] == "setup":
            runner.run(setup())
        elif sys.argv[1] == "worker":
            runner.run(work())
        else:
            driver = Driver()
            runner.run(driver.open())
            names = ("fan_out", "one_step_tasks", "chain", "latency")
            talk.serve({n: getattr(driver, n) for n in names}, lambda running: runner.run(advanced(running)))


if __name__ == "__main__":
    main()
