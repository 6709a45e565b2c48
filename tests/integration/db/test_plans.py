"""Plans are made before there are statistics: on a fresh database that nobody analysed, the cost of a child stays flat."""

from __future__ import annotations

import random
from collections.abc import Iterator
from threading import Lock
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from kit.engine import Engine
from kit.flows import fan
from kit.racing import deadlocks, race
from psycopg.types.json import Jsonb

from stanchion.authority.leases import Done
from stanchion.contracts import limits
from stanchion.db.engine import login_url
from stanchion.db.grants import WORKER

CHILDREN = 20_000
WINDOW = 1_000
BATCH = 50
SERVED = ["flat@1", "pages@1"]
HOT = ("step", "attempt", "result")

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def never_analysed(engine: Engine) -> Engine:
    """Autovacuum analyses nothing while the test runs."""
    tables = engine.all(
        "SELECT relname::text FROM pg_class WHERE relnamespace = 'stanchion'::regnamespace AND relkind = 'r'"
    )
    for table in tables:
        engine.admin.execute(f"ALTER TABLE stanchion.{table} SET (autovacuum_enabled = false)")
    return engine


@pytest.fixture
def session(database_url: str) -> Iterator[Connection]:
    """One session under the worker's login, as long as the test: its plans are cached when the tables are empty."""
    with psycopg.connect(login_url(database_url, WORKER), autocommit=True, prepare_threshold=0) as connection:
        yield connection


def spread_out(engine: Engine, name: str, children: int) -> list[UUID]:
    """A fan-out of so many children; their ids in order of their index."""
    engine.submit(fan(name, "all", []))
    worker = engine.worker()
    worker.finish(next(x for x in worker.take("plan") if x.workflow == name), ["x"] * children)
    engine.expand()
    return engine.all(
        "SELECT step_id FROM stanchion.step WHERE workflow = %s AND node = 'visit' AND kind = 'step' ORDER BY idx", name
    )


def flush(engine: Engine, session: Connection) -> None:
    """Have all sessions report what they did: an idle one would do so in the middle of what is measured."""
    for connection in (session, engine.admin):
        connection.execute("SELECT pg_stat_force_next_flush()")
        connection.execute("SELECT 1")
    for database in (engine.service, engine.orchestrator, engine.worker_database):
        database.read("SELECT pg_stat_force_next_flush()")
        database.read("SELECT 1")


def buffers(engine: Engine, session: Connection) -> int:
    """Blocks of tables and indexes that were asked for so far, in memory or not."""
    flush(engine, session)
    total = "heap_blks_read + heap_blks_hit + coalesce(idx_blks_read + idx_blks_hit, 0) + coalesce(toast_blks_read + toast_blks_hit, 0)"
    return int(engine.one(f"SELECT sum({total}) FROM pg_statio_user_tables WHERE schemaname = 'stanchion'")[0])


def scans(engine: Engine, session: Connection) -> dict[str, int]:
    """Sequential scans of the tables that grow with the children."""
    flush(engine, session)
    return dict(
        engine.all(
            "SELECT relname::text, seq_scan FROM pg_stat_user_tables WHERE schemaname = 'stanchion' AND relname = ANY (%s)",
            list(HOT),
        )
    )


def lease(session: Connection, worker: UUID, steps: list[UUID]) -> list[int]:
    rows = session.execute(
        "SELECT step_id, fence FROM stanchion.lease(%s, NULL, %s, ARRAY['default'], %s, 60000, %s)",
        (worker, SERVED, steps, len(steps)),
    ).fetchall()
    assert len(rows) == len(steps)
    fences = dict(rows)
    return [fences[s] for s in steps]


def complete(session: Connection, worker: UUID, steps: list[UUID], fences: list[int]) -> None:
    rows = session.execute(
        "SELECT outcome FROM stanchion.complete(%s, %s, %s, %s, %s, NULL, ARRAY['x@1'], ARRAY['default'], 0, 60000)",
        (worker, steps, fences, [Jsonb("r")] * len(steps), [None] * len(steps)),
    ).fetchall()
    assert rows.count(("done",)) == len(steps)


def test_a_child_costs_the_same_among_1000_and_among_20000(never_analysed: Engine, session: Connection) -> None:
    """Buffers per child of lease and complete: the last thousand costs what the first did, and no table is scanned."""
    engine, worker = never_analysed, uuid4()
    # the first call of each function meets empty tables: that is the plan that stays
    session.execute(
        "SELECT * FROM stanchion.lease(%s, NULL, %s, ARRAY['default'], %s, 60000, 1)", (worker, SERVED, [uuid4()])
    )
    complete_nothing = (
        "SELECT outcome FROM stanchion.complete(%s, %s, %s, %s, %s, NULL, ARRAY['x@1'], ARRAY['default'], 0, 60000)"
    )
    for _ in range(6):
        session.execute(complete_nothing, (worker, [uuid4()], [1], [Jsonb(1)], [None]))
    steps = spread_out(engine, "flat", CHILDREN)
    before = scans(engine, session)
    costs = []
    for start in range(0, CHILDREN, WINDOW):
        spent = buffers(engine, session)
        for first in range(start, start + WINDOW, BATCH):
            batch = steps[first : first + BATCH]
            complete(session, worker, batch, lease(session, worker, batch))
        costs.append((buffers(engine, session) - spent) / WINDOW)
    assert scans(engine, session) == before
    assert max(costs[1:]) < 1.5 * min(costs[:3]), " ".join(str(round(c)) for c in costs)
    assert engine.barrier("gather")["state"] == "released"


def test_four_workers_over_one_join_of_20000(never_analysed: Engine) -> None:
    """Batches of random children, across all slots, from four threads: one release, every child counted, no deadlock."""
    engine = never_analysed
    steps = spread_out(engine, "crossing", CHILDREN)
    random.Random(7).shuffle(steps)
    workers = [engine.worker() for _ in range(4)]
    lock = Lock()

    def work(number: int) -> int:
        done = 0
        while True:
            with lock:
                batch = [steps.pop() for _ in range(min(100, len(steps)))]
            if not batch:
                return done
            leases = workers[number].leases.lease(batch, len(batch))
            accepted = workers[number].leases.complete([Done(x, "r") for x in leases], 0).accepted
            done += len(accepted)

    answers = race(1, *[lambda _, n=n: work(n) for n in range(4)])
    assert sum(a[0] for a in answers) == CHILDREN
    assert deadlocks(engine) == 0
    join = engine.barrier("gather")
    assert (join["state"], join["succeeded"], join["slots_left"]) == ("released", CHILDREN, 0)
    assert engine.all("SELECT sum(remaining)::int FROM stanchion.barrier_slot") == [0]
    assert engine.all("SELECT count(*) FROM stanchion.barrier_release WHERE included = 20000") == [1]
    engine.check_counts()


def test_looking_for_work_costs_little_when_nothing_is_due(never_analysed: Engine, database_url: str) -> None:
    """Thousands of timers and leases that are not due yet: the look reads their indexes' first pages, not all of them."""
    engine = never_analysed
    engine.submit(fan("not_due", "all", ["x"] * 4_000, start_within="1h", total="2h"))
    worker = engine.worker(ttl_ms=3_600_000)
    worker.finish(worker.take("plan")[0], ["x"] * 4_000)
    engine.expand()
    for first in range(0, 4_000, 500):
        worker.leases.lease(worker.ready("visit")[:500], 500)
        del first
    assert engine.all("SELECT count(*) FROM stanchion.attempt WHERE ended_at IS NULL") == [4_000]
    with psycopg.connect(login_url(database_url, "stanchion_orchestrator"), autocommit=True) as session:
        for statement in (
            "SELECT * FROM stanchion.work_waiting()",
            "SELECT * FROM stanchion.reap(100)",
            "SELECT stanchion.fire_timers(100)",
            "SELECT * FROM stanchion.due_expansions(20)",
        ):
            for _ in range(6):
                session.execute(statement)
            before = buffers(engine, session)
            for _ in range(10):
                session.execute(statement)
            assert (buffers(engine, session) - before) / 10 < 60, statement
    assert limits.FAN_OUT_CHUNK == 5_000


def test_a_page_of_results_costs_the_same_wherever_it_is(never_analysed: Engine, session: Connection) -> None:
    """The last page of 5,000 children is read as fast as the first."""
    engine, worker = never_analysed, uuid4()
    steps = spread_out(engine, "pages", 5_000)
    for first in range(0, len(steps), 500):
        batch = steps[first : first + 500]
        complete(session, worker, batch, lease(session, worker, batch))
    joining = engine.worker()
    (join,) = joining.take("gather")
    assert join.sources is not None
    costs = []
    for after in range(-1, 4_999, 500):
        before = buffers(engine, session)
        page = session.execute(
            "SELECT idx FROM stanchion.results_page(%s, %s, %s, 'visit', %s, 500)",
            (join.step_id, join.fence, join.sources[0], after),
        ).fetchall()
        assert [r[0] for r in page] == list(range(after + 1, after + 501))
        costs.append(buffers(engine, session) - before)
    assert max(costs[1:]) < 1.5 * min(costs[:3]), costs
