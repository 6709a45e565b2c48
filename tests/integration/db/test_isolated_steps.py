"""Steps with isolation="process": what goes to the child, what comes back, and what it costs when the child dies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kit import isolated_flows as flows
from kit.crew import Crew, crew
from kit.engine import Engine
from kit.flows import result

TARGETS = [f"kit.isolated_flows:{name}" for name in ("isolated", "patient", "patient_async", "joined")]


@pytest.fixture
def worker(engine: Engine) -> Iterator[Crew]:
    """A worker that serves the flows of this module."""
    for workflow in (flows.isolated, flows.patient, flows.patient_async, flows.joined):
        engine.register(workflow)
    with crew(engine, targets=TARGETS) as made:
        yield made


def attempts(engine: Engine) -> list[Any]:
    return engine.all("SELECT error->>'code', error->>'what' FROM stanchion.attempt WHERE counted ORDER BY started_at")


def ended(engine: Engine, *states: str) -> bool:
    return bool(engine.all("SELECT FROM stanchion.step WHERE state = ANY (%s)", list(states)))


def test_decisions_come_back(engine: Engine, worker: Crew) -> None:
    """Retry, Go and Again are decisions of a process of its own as of any other."""
    engine.submit(flows.isolated, input={"what": "retry"})
    worker.work(lambda: ended(engine, "retry_wait"))
    assert attempts(engine) == [("E-STEP-25", "the step asked to be tried again: later")]
    go = engine.submit(flows.isolated, input={"what": "go"})
    worker.work(lambda: engine.task(go)[0] == "completed")
    assert result(engine, "other") == "chosen"
    again = engine.submit(flows.isolated, input={"what": "again"})
    worker.work(lambda: engine.task(again)[0] == "completed")


def test_errors_come_back(engine: Engine, worker: Crew) -> None:
    """An error that can't be made anew in the worker is told with its text and its traceback, and is tried again."""
    engine.submit(flows.isolated, input={"what": "odd"})
    worker.work(lambda: ended(engine, "retry_wait"))
    assert attempts(engine) == [("E-STEP-27", "OddError: one and two")]
    (trace,) = engine.all("SELECT error->>'traceback' FROM stanchion.attempt")
    assert 'raise OddError("one", "two")' in trace


def test_what_is_too_large(engine: Engine, worker: Crew) -> None:
    """It is refused in its process, for good."""
    engine.submit(flows.isolated, input={"what": "large"})
    worker.work(lambda: ended(engine, "failed"))
    assert [code for code, _ in attempts(engine)] == ["E-SIZE-01"]


def test_a_process_that_ends_under_its_step(engine: Engine, worker: Crew) -> None:
    """That is an attempt, with the exit code."""
    engine.submit(flows.isolated, input={"what": "exit"})
    worker.work(lambda: ended(engine, "retry_wait"))
    assert attempts(engine) == [("E-STEP-28", "the process of the step ended with exit code 3")]


def test_a_process_that_ends_while_idle(engine: Engine, worker: Crew) -> None:
    """The next step gets another one, and spends nothing."""
    first = engine.submit(flows.isolated, input={"what": "a"})
    worker.work(lambda: engine.task(first)[0] == "completed")
    for child in worker.slots.processes._idle:
        child.process.kill()
        child.process.join(5)
    second = engine.submit(flows.isolated, input={"what": "b"})
    worker.work(lambda: engine.task(second)[0] == "completed")
    assert attempts(engine) == [(None, None), (None, None)]


@pytest.mark.parametrize("flow", [flows.patient, flows.patient_async], ids=lambda f: f.name)
def test_progress_and_the_grace_of_a_cancel(engine: Engine, worker: Crew, flow: Any) -> None:
    """Progress is kept with the heartbeat; a cancel is told by `ctx.stopping`, and the process lives on."""
    task = engine.submit(flow)
    reported = "SELECT progress FROM stanchion.attempt WHERE progress IS NOT NULL"

    def has_reported() -> bool:
        worker.keeper.run_once()
        return bool(engine.all(reported))

    worker.work(has_reported)
    assert engine.all(reported) == [{"done": 1, "of": 2, "note": "half"}]
    engine.cancel(task)
    worker.keeper.run_once()
    worker.work(lambda: ended(engine, "cancelled"))
    (idle,) = worker.slots.processes._idle
    assert idle.process.is_alive()


def test_a_lost_lease_kills_the_process(engine: Engine, worker: Crew) -> None:
    """There is no grace for an attempt that somebody else makes already."""
    engine.submit(flows.patient)
    worker.work(lambda: any(child.began for child in worker.slots.processes._all))
    (child,) = worker.slots.processes._all
    (attempt,) = worker.foreman.held.values()
    attempt.stop("lost")
    worker.work(lambda: not worker.foreman.held)
    assert not child.process.is_alive()


def test_a_join_reads_its_pages_in_its_process(engine: Engine, worker: Crew) -> None:
    """`Results` works there too."""
    task = engine.submit(flows.joined)

    def done() -> bool:
        engine.expand()
        return engine.task(task)[0] == "completed"

    worker.work(done)
    assert result(engine, "gather") == ["A", "B"]
