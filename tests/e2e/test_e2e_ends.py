"""Ends: cancel, pause, timeouts, poison, drains and scaling, while real work goes on in real processes."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest
from kit.world import PATIENCE, Task, World, until
from test_e2e_runs import reason_of

from stanchion.cli.service_process import ServiceProcess
from stanchion.contracts import ids
from stanchion.errors import StanchionError
from stanchion.sdk.client import Client
from stanchion.sdk.kafka_client import KafkaClient


def public(task: Task) -> str:
    """The id that people use."""
    return ids.public(ids.TASK, task.task_id)


def open_up(world: World, name: str) -> None:
    """Let what waits for this name go on."""
    (world.history / f"{name}.go").touch()


def dozing(world: World, name: str) -> Task:
    """A task whose first step runs until it is opened up."""
    task = world.submit("e2e_long", name=name)
    until(lambda: world.steps(task, "doze")[0]["state"] == "running", PATIENCE, "its start")
    return task


def holder_of(world: World, task: Task) -> ServiceProcess:
    """The worker that runs the task's step."""
    sql = """SELECT w.pid FROM stanchion.attempt a JOIN stanchion.worker w ON w.worker_id = a.worker_id
        WHERE a.run_id = %s AND a.ended_at IS NULL"""
    pid = world.sql(sql, task.run_id)[0]
    return next(worker for worker in world.stack.workers if worker.pid == pid)


def test_cancel_over_http_stops_a_running_step(world: World, http: Client) -> None:
    """The step is told at its next heartbeat, by cancelling it; what comes behind never starts."""
    task = dozing(world, "cancelled-http")
    http.cancel(public(task), reason="changed my mind")
    assert world.ended(task) == "cancelled"
    assert (world.history / "cancelled-http.cancelled").exists()
    assert {s["node"]: s["state"] for s in world.steps(task)} == {"doze": "cancelled", "after_doze": "cancelled"}
    world.judge(task)


def test_cancel_over_kafka_while_it_waits_for_a_retry(world: World, kafka: KafkaClient) -> None:
    """A step in back-off is never tried again."""
    task = world.submit("e2e_later")
    until(lambda: world.steps(task)[0]["state"] == "retry_wait", PATIENCE)
    kafka.cancel(public(task), reason="no")
    assert world.ended(task) == "cancelled"
    assert world.steps(task)[0]["fence"] == 1
    world.judge(task)


def test_cancel_before_anything_ran(world: World, http: Client) -> None:
    """With all workers standing still the task ends all the same, and nothing of it ever runs."""
    with world.frozen(*world.stack.workers):
        task = world.submit("e2e_long", name="never")
        http.cancel(public(task))
        assert world.ended(task) == "cancelled"
    step = world.steps(task, "doze")[0]
    assert step["state"] == "cancelled"
    assert not [e for e in world.executions() if e.step_id == step["step_id"]]
    world.judge(task)


def test_cancel_of_a_wide_fan_out(world: World, http: Client) -> None:
    """In the middle of 2,000 children: what has not started never does, what runs ends, and the counts are right."""
    task = world.submit("e2e_many", count=2_000, pause_ms=20)
    sql = "SELECT count(*) FROM stanchion.step WHERE run_id = %s AND node = 'visit' AND state = 'succeeded'"
    until(lambda: world.sql(sql, task.run_id)[0] > 50, PATIENCE)
    http.cancel(public(task))
    assert world.ended(task, 2 * PATIENCE) == "cancelled"
    world.judge(task)


def test_cancel_at_the_moment_of_the_lease(world: World, http: Client) -> None:
    """Sixty cancels that cross with leases and starts: each task ends cancelled, and no step is left running."""
    tasks = []
    for number in range(60):
        tasks.append(world.submit("e2e_long", name="nobody opens this"))
        time.sleep(number % 6 * 0.005)  # from before the lease to after the start
        http.cancel(public(tasks[-1]))
    for task in tasks:
        assert world.ended(task) == "cancelled"
    world.judge(*tasks)


def test_cancel_after_the_end_is_refused(world: World, http: Client, kafka: KafkaClient) -> None:
    """What has ended stays as it is."""
    task = world.submit("e2e_many", count=1)
    assert world.ended(task) == "completed"
    for cancel in (http.cancel, kafka.cancel):
        with pytest.raises(StanchionError) as refused:
            cancel(public(task))
        assert refused.value.code.startswith("E-TASK")
    assert world.state(task) == "completed"


def test_pause_lets_run_what_runs_and_starts_nothing(world: World, http: Client) -> None:
    """The running step ends, the one behind it waits until the task is resumed."""
    task = dozing(world, "paused")
    http.pause(public(task))
    open_up(world, "paused")
    until(lambda: world.steps(task, "doze")[0]["state"] == "succeeded", PATIENCE)
    assert world.steps(task, "after_doze")[0]["state"] == "ready"
    assert world.state(task) == "running"
    http.resume(public(task))
    assert world.ended(task) == "completed"
    world.judge(task)


def test_poison_ends_by_its_budget(world: World) -> None:
    """A step that kills its worker is tried retries + 1 times; then it has failed, and the workers are back."""
    restarts = sum(w.restarts for w in world.stack.workers)
    task = world.submit("e2e_poison")
    assert world.ended(task, 3 * PATIENCE) == "failed"
    step = world.steps(task)[0]
    assert (step["attempts"], step["losses"]) == (3, 3)
    assert "its worker was lost 3 times" in str(reason_of(world, task))
    until(lambda: all(w.is_running() for w in world.stack.workers), 2 * PATIENCE, "the workers")
    assert sum(w.restarts for w in world.stack.workers) - restarts <= 3
    world.judge(task)


def test_an_endless_native_loop_is_killed(world: World) -> None:
    """`while True: pass` in a process of its own ends with its timeout, not with its worker."""
    pids = [w.pid for w in world.stack.workers]
    task = world.submit("e2e_isolated")
    assert world.ended(task) == "failed"
    assert "E-STEP-22" in str(reason_of(world, task))
    assert [w.pid for w in world.stack.workers] == pids
    world.judge(task)


def test_a_thread_that_blocks_is_left_behind(world: World) -> None:
    """Past its timeout the step has failed and its slot goes on; what the thread still returns changes nothing."""
    tasks = [world.submit("e2e_blocking") for _ in range(13)]  # more than all slots of all workers
    for task in tasks:
        assert world.ended(task, 2 * PATIENCE) == "failed"
        assert "E-STEP-22" in str(reason_of(world, task))
    open_up(world, "block")
    after = world.submit("e2e_many", count=12)
    assert world.ended(after) == "completed"
    world.judge(*tasks, after)


def test_blocking_code_in_an_async_step_is_ended_from_outside(world: World) -> None:
    """It stops its worker's event loop, so nothing in the worker can end it: its lease is taken back at its deadline."""
    task = world.submit("e2e_stuck")
    try:
        assert world.ended(task) == "failed"
        assert "E-STEP-22" in str(reason_of(world, task))
        after = world.submit("e2e_many", count=12)
        assert world.ended(after) == "completed", "other workers go on"
    finally:
        open_up(world, "stuck")
    world.judge(task, after)


def test_a_worker_that_drains_ends_what_it_runs(world: World) -> None:
    """SIGTERM: the running step goes on under its lease to its end, no second attempt, exit code 0."""
    task = dozing(world, "drained")
    worker = holder_of(world, task)
    worker.kill(signal.SIGTERM)
    until(lambda: world.sql("SELECT state = 'draining' FROM stanchion.worker WHERE pid = %s", worker.pid)[-1], PATIENCE)
    open_up(world, "drained")
    until(lambda: not worker.is_running(), PATIENCE, "its end")
    assert worker.exit_status() == 0
    assert world.ended(task) == "completed"
    assert world.result(task, "after_doze") == 1
    world.judge(task)
    worker.restart()


def test_workers_come_and_go_while_a_fan_out_runs(world: World) -> None:
    """From three workers to one, to four, to one, to three: every child once, no loss counted."""
    world.stack.scale_workers(1)
    task = world.submit("e2e_many", count=2_000, pause_ms=5)
    sql = "SELECT count(*) FROM stanchion.step WHERE run_id = %s AND node = 'visit' AND state = 'succeeded'"
    step: Callable[[int], object] = lambda n: until(lambda: world.sql(sql, task.run_id)[0] > n, 2 * PATIENCE)  # noqa: E731
    step(50)
    world.stack.scale_workers(4)
    step(400)
    world.stack.scale_workers(1)
    assert world.ended(task, 3 * PATIENCE) == "completed"
    assert world.result(task, "add_up") == [2_000, 1_999_000]
    assert world.sql("SELECT sum(losses) FROM stanchion.step WHERE run_id = %s", task.run_id) == [0]
    world.judge(task)
    world.stack.scale_workers(3)
