"""However a step ends, its attempt has an outcome, its slot serves the next one, and the others don't notice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kit import unruly_flows as flows
from kit.crew import Crew, crew
from kit.engine import Engine

from services.workers import event_loop
from services.workers.durations import Durations
from services.workers.presence import Presence
from stanchion.errors import InvariantViolated
from stanchion.workflow import Workflow

TARGETS = [f"kit.unruly_flows:{name}" for name in ("apart", "apart_async")]
ENDED = "SELECT count(*) FROM stanchion.step WHERE state IN ('succeeded', 'failed')"


@pytest.fixture
def worker(engine: Engine) -> Iterator[Crew]:
    """A worker with four slots that serves the flows of this module."""
    for workflow in (
        flows.plain,
        flows.on_loop,
        flows.apart,
        flows.apart_async,
        flows.poison,
        flows.beside,
        flows.together,
    ):
        engine.register(workflow)
    with crew(engine, targets=TARGETS) as made:
        yield made


def run(engine: Engine, worker: Crew, flow: Workflow, kinds: list[str]) -> dict[str, str]:
    """Run one task for each kind until all have ended; what each came to: its result, or the text of its error."""
    (before,) = engine.one(ENDED)
    tasks = engine.submit_all(flow, [({"input": {"kind": kind}}, None) for kind in kinds])
    worker.work(lambda: engine.one(ENDED)[0] == before + len(kinds))
    came = dict(
        engine.all(
            "SELECT s.run_id, coalesce(a.error->>'what', r.body #>> '{}') FROM stanchion.step s"
            " JOIN stanchion.attempt a ON a.step_id = s.step_id AND a.counted LEFT JOIN stanchion.result r ON r.step_id = s.step_id"
        )
    )
    return {kind: came[task.run_id] for task, kind in zip(tasks, kinds, strict=True)}


def all_slots_serve(engine: Engine, worker: Crew) -> None:
    """Four steps run at once that end only together."""
    assert worker.slots.taken == worker.slots.waiting == 0
    tasks = engine.submit_all(flows.together, [({}, None)] * 4)
    worker.work(lambda: all(engine.task(t)[0] == "completed" for t in tasks))


@pytest.mark.parametrize("flow", [flows.plain, flows.on_loop, flows.apart, flows.apart_async], ids=lambda f: f.name)
def test_whatever_a_step_raises(engine: Engine, worker: Crew, flow: Workflow) -> None:
    """Its attempt fails with an error that names it; more of them than there are slots leave every slot in service."""
    kinds = [*flows.KINDS, "fine"]
    came = run(engine, worker, flow, kinds)
    assert came.pop("fine") == "fine"
    assert {kind: kind in what for kind, what in came.items()} == dict.fromkeys(flows.KINDS, True), came
    all_slots_serve(engine, worker)


@pytest.mark.parametrize("flow", [flows.on_loop, flows.apart_async], ids=lambda f: f.name)
def test_what_an_async_step_does_to_its_task(engine: Engine, worker: Crew, flow: Workflow) -> None:
    """A task that is cancelled, or closed, by its own code is the end of that attempt alone; what it leaves undone does
    not reach the next one."""
    came = run(engine, worker, flow, ["cancels itself", "swallows its cancel", "is told to close", "fine"])
    assert "CancelledError" in came["cancels itself"]
    assert came["swallows its cancel"] == "swallows its cancel"
    assert "GeneratorExit" in came["is told to close"]
    assert run(engine, worker, flow, ["swallows its cancel", "fine"] * 4)["fine"] == "fine"
    all_slots_serve(engine, worker)


def test_what_would_end_the_event_loop(engine: Engine, worker: Crew) -> None:
    """The loop goes on, with all that is on it."""
    kinds = ["stops the loop", "leaves a SystemExit", "leaves a KeyboardInterrupt", "calls exit soon", "fine"]
    assert run(engine, worker, flows.on_loop, kinds) == {kind: kind for kind in kinds}
    all_slots_serve(engine, worker)


def test_a_step_that_cancels_everybody(engine: Engine, worker: Crew) -> None:
    """Whoever it was, those that were cancelled may be tried again, and every slot serves on."""
    came = run(engine, worker, flows.on_loop, ["cancels everybody", "leaves a SystemExit"])
    assert "CancelledError" in came["cancels everybody"]
    all_slots_serve(engine, worker)


def test_a_step_that_fells_the_loop_in_each_attempt(engine: Engine, worker: Crew) -> None:
    """Another loop takes over, the attempt counts, so that the step ends by its budget; what ran in a thread beside it is
    given back, and spends nothing."""
    flows.go.clear()
    beside = engine.submit(flows.beside)
    worker.work(lambda: worker.slots.taken == 1)
    engine.submit(flows.poison)
    worker.work(lambda: bool(engine.all("SELECT FROM stanchion.attempt WHERE state = 'released'")))
    flows.go.set()
    engine_state = "SELECT state, attempts FROM stanchion.step WHERE workflow = 'unruly_poison'"

    def over() -> bool:
        engine.fire()
        return engine.one(engine_state)[0] == "failed"

    worker.work(over)
    assert engine.one(engine_state) == ("failed", 2)
    errors = "SELECT error->>'code' FROM stanchion.attempt WHERE error IS NOT NULL"
    assert engine.all(errors) == ["E-STEP-30", "E-STEP-30"]
    worker.work(lambda: engine.task(beside)[0] == "completed")
    assert engine.one("SELECT attempts FROM stanchion.step WHERE workflow = 'unruly_beside'") == (1,)
    all_slots_serve(engine, worker)


def test_a_worker_without_a_loop(engine: Engine, worker: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    """When no other loop can be made, the attempt still counts; then the worker says that it takes on nothing, and ends."""

    def none() -> Any:
        raise OSError(24, "too many open files")

    monkeypatch.setattr(event_loop.asyncio, "new_event_loop", none)
    engine.submit(flows.poison)
    with pytest.raises(InvariantViolated, match="event loop has ended"):
        worker.work(lambda: False)
    assert engine.all("SELECT state FROM stanchion.attempt") == ["failed"]
    Presence(worker.leases, worker.foreman, Durations(0, 0, 4), "test", 4, lambda: None).run_once()
    assert engine.all("SELECT state FROM stanchion.worker") == ["draining"]


def test_an_attempt_that_nobody_works_on(engine: Engine, worker: Crew) -> None:
    """Should one ever be lost between the worker's hands, its lease is not renewed, and the loss counts."""
    worker.slots.submit = lambda attempts: None  # type: ignore[method-assign]  # it loses them
    engine.submit(flows.beside)
    worker.work(lambda: bool(worker.foreman.held))
    engine.forward(20)
    worker.keeper.run_once()
    engine.forward(20)
    assert list(engine.upkeep.reap().values()) == ["failed"]
