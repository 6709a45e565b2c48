"""The database crashes, drops sessions, is out of reach; Valkey is emptied. What was acknowledged stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest
from fault_lanes import LEASE_SECONDS
from kit.proxy import TcpProxy
from kit.world import PATIENCE, Task, World, let_pass, until
from sqlalchemy.engine import make_url
from test_fault_broker import in_the_middle, sums_up

from stanchion.cli.launches import service_url
from stanchion.cli.service_process import ServiceProcess
from stanchion.contracts import ids
from stanchion.db.grants import WORKER


def test_postgresql_crashes_in_the_middle(world: World) -> None:
    """Killed with SIGKILL in the middle of 2,000 children: what was acknowledged is there, the rest is done again."""
    task = in_the_middle(world)
    world.stack.servers.postgres.kill()
    sums_up(world, task)


def test_all_sessions_are_ended_ten_times(world: World) -> None:
    """Every loop of every service comes back by itself, each time."""
    task = world.submit("fault_wide", count=1_000, pause_ms=20)
    pids = {s.name: s.pid for s in world.stack.services}
    theirs = "FROM pg_stat_activity WHERE application_name LIKE 'stanchion %%'"
    for _ in range(10):
        ended = world.sql(f"SELECT pid {theirs} AND pg_terminate_backend(pid)")
        assert len(ended) > 3
        until(lambda gone=ended: world.sql(f"SELECT count(*) > 3 {theirs} AND pid <> ALL (%s)", gone)[0])
    sums_up(world, task, 1_000)
    assert {s.name: s.pid for s in world.stack.services} == pids


def test_valkey_is_flushed_and_killed(world: World) -> None:
    """Hints and maintenance entries vanish in the middle: nothing depends on them."""
    import redis

    task = in_the_middle(world)
    valkey = redis.Redis.from_url(world.stack.endpoints.redis_url)
    valkey.flushall()
    valkey.close()
    world.stack.servers.valkey.kill()
    sums_up(world, task)


def test_valkey_flaps(world: World) -> None:
    """Ten times away in the middle: maintenance jobs are derived again, and steps take no notice."""
    task = world.submit("fault_wide", count=400, pause_ms=100)
    pids = {s.name: s.pid for s in world.stack.services}
    valkey = world.stack.servers.valkey
    for _ in range(10):
        valkey.kill()
        valkey.restart()  # not by the supervisor, which lets a server that dies often wait longer and longer
    sums_up(world, task, 400)
    now = world.sql("SELECT now()")[0]
    jobs = "SELECT count(*) FROM stanchion.maintenance_job WHERE finished_at > %s AND state = 'done'"
    until(lambda: world.sql(jobs, now)[0], 2 * PATIENCE, "a maintenance job")
    assert {s.name: s.pid for s in world.stack.services} == pids


def test_heartbeats_wait_for_nobody_who_holds_the_run(world: World) -> None:
    """Somebody sits on the run's row for two leases while its step runs: the lease is kept all the same."""
    task = world.submit("fault_slow", seconds=PATIENCE)
    until(lambda: world.steps(task)[0]["state"] == "running", what="its start")
    with psycopg.connect(world.database_url) as other:
        other.execute("SELECT FROM stanchion.run WHERE run_id = %s FOR UPDATE", (task.run_id,))
        let_pass(2 * LEASE_SECONDS)
        other.rollback()
    wake(world, task)
    assert world.ended(task) == "completed"
    assert world.result(task, "nap") == 1
    world.judge(task)


def wake(world: World, task: Task) -> None:
    """End the naps of a task."""
    for step in world.steps(task):
        (world.history / f"{ids.public(ids.STEP, step['step_id'])}.go").touch()


@pytest.fixture(scope="module")
def proxy(world: World) -> Iterator[TcpProxy]:
    """A way to the database that can be cut."""
    url = make_url(world.database_url)
    with TcpProxy((url.host or "127.0.0.1", url.port or 5432)) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def linked(world: World, proxy: TcpProxy) -> Iterator[ServiceProcess]:
    """One more worker, which reaches the database only by the proxy."""
    url = make_url(service_url(world.database_url, WORKER)).set(host="127.0.0.1", port=proxy.port)
    address = url.render_as_string(hide_password=False)
    # a tenth of the lease is the margin in which it stops: a longer lease leaves a busy machine more of it
    lease = str(2 * LEASE_SECONDS)
    worker = world.stack.add("worker", env={"STANCHION_DATABASE_URL": address, "STANCHION_LEASE_SECONDS": lease})
    yield worker
    world.stack.remove(worker)


@pytest.mark.parametrize("how", ["cut", "swallow"])
def test_a_worker_without_its_database_stops_before_others_start(
    how: str, world: World, linked: ServiceProcess, proxy: TcpProxy
) -> None:
    """Its link is gone until another worker has its step: it stops its own attempt before the lease is over, whether
    the network refuses or swallows; and what the first one still says changes nothing.
    """
    with world.frozen(*(worker for worker in world.stack.workers if worker is not linked)):
        task = world.submit("fault_slow", seconds=2 * PATIENCE)
        until(lambda: world.steps(task)[0]["state"] == "running", PATIENCE, "its start")
        break_link: Callable[[], None] = getattr(proxy, how)
        break_link()
    step = world.steps(task)[0]["step_id"]
    until(lambda: world.steps(task)[0]["fence"] == 2, PATIENCE, "the take-over")
    mark = world.history / f"{ids.public(ids.STEP, step)}.1.stopped"
    until(mark.exists, PATIENCE, "the end of the first attempt")
    reason, stopped_at = mark.read_text(encoding="utf-8").split()
    granted_at = world.sql(
        "SELECT extract(epoch FROM granted_at)::float FROM stanchion.attempt WHERE step_id = %s AND fence = 2", step
    )[0]
    assert reason == "lost"
    assert float(stopped_at) <= granted_at, "it went on when another had begun"
    proxy.heal()
    wake(world, task)
    assert world.ended(task) == "completed"
    assert world.result(task, "nap") == 2
    world.judge(task)
