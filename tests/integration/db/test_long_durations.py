"""Every duration that a decorator takes, up to ten years, goes through each statement that carries milliseconds."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from kit.engine import Engine
from kit.flows import single

from stanchion.authority.leases import Failure
from stanchion.authority.tasks import Tasks
from stanchion.authority.workflows import Workflows
from stanchion.contracts import limits
from stanchion.workflow import AtLeast, Ctx, Results, Retry, Workflow

LONGEST = timedelta(seconds=limits.DURATION_SECONDS_MAX)
MS = limits.DURATION_SECONDS_MAX * 1000
ALL: dict[str, Any] = dict.fromkeys(("timeout", "lease", "total", "start_within"), LONGEST)


def test_a_first_step(engine: Engine) -> None:
    """It is accepted, leased, renewed and completed, and its worker knows for how long it may trust the lease."""
    task = engine.submit(single("first", **ALL))
    worker = engine.worker()
    (lease,) = worker.take()
    assert worker.leases.renew([lease], [True], [None]) == {lease.step_id: "ok"}
    assert lease.timeout_ms == pytest.approx(MS, abs=60_000)
    assert lease.lease_ms == MS
    assert worker.finish(lease, 1)
    assert engine.task(task) == ("completed", "succeeded")


def test_what_is_left_of_the_total_time(engine: Engine) -> None:
    """A `total=` alone limits each attempt to what is left of it."""
    engine.submit(single("total", total=LONGEST))
    worker = engine.worker()
    (lease,) = worker.take()
    assert lease.timeout_ms == pytest.approx(MS, abs=60_000)
    assert lease.lease_ms == worker.leases.ttl_ms


def test_steps_of_a_branch(engine: Engine) -> None:
    """They are inserted, whether a branch is one step or several, in a first run and in a retried one."""
    wf = Workflow("branches")

    @wf.step()
    def plan(ctx: Ctx) -> list[str]:
        return ["a", "b"]

    @wf.step(after=plan, each=True, **ALL)
    def fetch(ctx: Ctx, item: str) -> str:
        return item

    @wf.step(after=fetch, **ALL)
    def read(ctx: Ctx, item: str) -> str:
        return item

    @wf.step(after=read, join=AtLeast(2, within=LONGEST))
    def total(ctx: Ctx, items: Results[str]) -> list[str]:
        return list(items)

    @wf.step(after=plan, each=True, retries=0, **ALL)
    def alone(ctx: Ctx, item: str) -> str:
        if item == "b" and attempts.append(item) is None and len(attempts) == 1:
            raise ValueError(item)
        return item

    @wf.step(after=alone, join="all")
    def rest(ctx: Ctx, items: Results[str]) -> int:
        return len(items)

    attempts: list[str] = []
    task = engine.submit(wf)
    engine.worker().work()
    assert engine.task(task) == ("failed", "failed")
    tasks = Tasks(engine.service, Workflows(engine.service))
    tasks.retry(engine.tenant, task.task_id, reason="test", actor="ann")
    engine.worker().work()
    assert engine.task(task) == ("completed", "succeeded")


def test_a_retry_after(engine: Engine) -> None:
    """The step waits as long as it asked to, beside one of the same batch that waits for a moment, and runs again."""
    wf = Workflow("later")

    @wf.step()
    def ask(ctx: Ctx) -> int | Retry:
        return Retry(after=LONGEST) if ctx.attempt == 1 else 7

    slow, quick = engine.submit(wf), engine.submit(single("soon"))
    worker = engine.worker()
    (late,), (soon,) = worker.take("ask"), worker.take("only")
    asked = worker.run(late)
    states = worker.leases.fail([asked, Failure(soon, asked.error, False, 1)])
    assert states == {late.step_id: "retry_wait", soon.step_id: "retry_wait"}
    engine.forward(LONGEST.total_seconds() - 60)
    engine.fire()
    assert (engine.states(slow), engine.states(quick)) == ({"retry_wait": 1}, {"ready": 1})
    engine.forward(61)
    engine.fire()
    (again,) = worker.take("ask")
    assert worker.finish(again, 7)


def test_the_wait_before_a_retry(engine: Engine) -> None:
    """`retry_delay` and `retry_cap` of ten years make a failure that is recorded."""
    engine.submit(single("patient", retry_delay=LONGEST, retry_cap=LONGEST))
    worker = engine.worker()
    (lease,) = worker.take()
    failure = worker.executor.raised(worker.attempt(lease), ValueError("no"))
    assert failure.delay_ms > 2**31
    assert worker.leases.fail([failure]) == {lease.step_id: "retry_wait"}


def test_how_long_steps_took(engine: Engine) -> None:
    """A mean of ten years is kept: it is told by the loop that also says that the worker lives."""
    engine.register(single("long"))
    worker = engine.worker()
    for _ in range(2):
        worker.leases.note_durations({("long", 1, "only"): (MS, 1)})
    assert engine.one("SELECT mean_ms FROM stanchion.node_stat") == (MS,)
