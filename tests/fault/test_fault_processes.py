"""Processes die and stand still where it hurts: what each one held is found and done by another, once."""

from __future__ import annotations

import signal

import pytest
from fault_lanes import LEASE_SECONDS, OutcomeLane, Shot
from kit.world import PATIENCE, Task, World, let_pass, until
from test_fault_broker import in_the_middle, sums_up
from test_fault_database import wake

from stanchion.cli.service_process import ServiceProcess


def napping(world: World) -> tuple[Task, ServiceProcess]:
    """A task whose only step runs, and the worker that runs it."""
    task = world.submit("fault_slow", seconds=3 * PATIENCE)
    until(lambda: world.steps(task)[0]["state"] == "running", PATIENCE, "its start")
    return task, holder_of(world, task)


def holder_of(world: World, task: Task) -> ServiceProcess:
    """The worker that holds the newest lease."""
    pid = world.sql(
        """SELECT w.pid FROM stanchion.attempt a JOIN stanchion.worker w ON w.worker_id = a.worker_id
        WHERE a.run_id = %s ORDER BY a.fence DESC LIMIT 1""",
        task.run_id,
    )[0]
    return next(worker for worker in world.stack.workers if worker.pid == pid)


def test_orchestrators_die_twice_and_the_lease_stays(world: World) -> None:
    """All orchestrators are killed, and killed again, during a long step: its worker keeps the lease, attempt 1 ends it."""
    task, _ = napping(world)
    for _ in range(2):
        for one in [s for s in world.stack.services if s.kind == "orchestrator"]:
            one.kill()
        let_pass(LEASE_SECONDS * 0.7)
    wake(world, task)
    assert world.ended(task) == "completed"
    assert world.result(task, "nap") == 1
    world.judge(task)


def test_everything_dies_at_once(world: World) -> None:
    """All services, PostgreSQL, the broker with all its messages and Valkey, in the same moment: all of it comes back
    out of PostgreSQL alone."""
    task = in_the_middle(world)
    busy = world.submit("fault_busy")
    servers = world.stack.servers
    for one in (*world.stack.services, servers.kafka, servers.valkey, servers.postgres):
        one.kill()
    sums_up(world, task)
    assert world.ended(busy, 2 * PATIENCE) == "completed"
    world.judge(busy)


def test_a_frozen_worker_is_refused_when_it_comes_back(world: World) -> None:
    """Frozen with a result in its hands, for longer than its lease, it hands it in all the same: refused, on record, and
    without effect."""
    service = world.stack.service
    lane = OutcomeLane(
        world, service("worker-3"), [service("worker-1"), service("worker-2")], [Shot("step.ran", "stop")]
    )
    with lane.still():
        for one in lane.expected:
            one.verify(world)
    sql = "SELECT count(*) FROM stanchion.refused_write JOIN stanchion.worker USING (worker_id) WHERE pid = %s"
    until(lambda: world.sql(sql, lane.victim.pid)[0], PATIENCE, "the refusal")
    lane.verify()


def test_all_workers_frozen_at_once(world: World) -> None:
    """With nobody left to take over, the leases are taken back all the same, and the first who wakes up goes on."""
    task, _ = napping(world)
    with world.frozen(*world.stack.workers):
        until(lambda: world.steps(task)[0]["state"] == "ready", PATIENCE, "the reaper")
    until(lambda: world.steps(task)[0]["state"] == "running", PATIENCE, "the next attempt")
    wake(world, task)
    assert world.ended(task) == "completed"
    assert world.result(task, "nap") == 2
    world.judge(task)


def test_a_cancel_in_the_gap_between_two_workers(world: World) -> None:
    """The worker is dead, its lease not over yet: the cancel is accepted and the task ends, without another attempt."""
    task, worker = napping(world)
    with world.frozen(*(w for w in world.stack.workers if w is not worker)):
        world.owned.add(worker.name)
        worker.kill()
        world.cancel(task)
    world.owned.discard(worker.name)
    assert world.ended(task) == "cancelled"
    assert [e.fence for e in world.executions() if e.step_id == world.steps(task)[0]["step_id"]] == [1]
    world.judge(task)


def test_a_worker_that_is_told_to_end_hands_its_lease_back(world: World) -> None:
    """SIGTERM with a step that outlasts the drain: no loss is counted, another attempt begins at once."""
    worker = world.stack.service("worker-2")  # drains for half a second
    with world.frozen(*(one for one in world.stack.workers if one is not worker)):
        task = world.submit("fault_slow", seconds=3 * PATIENCE)
        until(lambda: world.steps(task)[0]["state"] == "running", PATIENCE, "its start")
        assert holder_of(world, task) is worker
    worker.kill(signal.SIGTERM)
    until(lambda: world.steps(task)[0]["fence"] == 2, PATIENCE, "the next attempt")
    step = world.steps(task)[0]
    assert (step["attempts"], step["losses"]) == (0, 0)
    wake(world, task)
    assert world.ended(task) == "completed"
    world.judge(task)


@pytest.mark.parametrize("kind", ["outbox-relay", "orchestrator", "worker", "task-service"])
def test_one_of_a_kind_stands_still_and_the_other_carries_on(kind: str, world: World) -> None:
    """A whole run passes while one process of each kind in turn is frozen."""
    with world.frozen(world.stack.service(f"{kind}-1")):
        task = world.submit("fault_busy")
        assert world.ended(task, 2 * PATIENCE) == "completed"
    world.judge(task)
