"""Steps with isolation="process": what goes to the child, what comes back, and what it costs when the child dies."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import psutil
import pytest
from kit import isolated_flows as flows
from kit.crew import Crew, crew
from kit.engine import Engine
from kit.flows import result

TARGETS = [
    f"kit.isolated_flows:{name}"
    for name in ("isolated", "patient", "patient_async", "joined", "branching", "branching_async")
]


@pytest.fixture
def worker(engine: Engine) -> Iterator[Crew]:
    """A worker that serves the flows of this module."""
    for workflow in (
        flows.isolated,
        flows.patient,
        flows.patient_async,
        flows.joined,
        flows.branching,
        flows.branching_async,
    ):
        engine.register(workflow)
    with crew(engine, targets=TARGETS) as made:
        yield made


def attempts(engine: Engine) -> list[Any]:
    return engine.all("SELECT error->>'code', error->>'what' FROM stanchion.attempt WHERE counted ORDER BY started_at")


def answers(engine: Engine, worker: Crew, *whats: str, flow: Any = flows.branching) -> list[str]:
    """Run one step after the other; what each returned, or the text of its error."""
    found = []
    for what in whats:
        task = engine.submit(flow, input={"what": what})
        over = "SELECT FROM stanchion.step WHERE run_id = %s AND state IN ('succeeded', 'failed')"
        worker.work(partial(engine.all, over, task.run_id))
        query = "SELECT coalesce(r.body #>> '{}', a.error->>'what') FROM stanchion.attempt a LEFT JOIN stanchion.result r USING (step_id) WHERE a.run_id = %s AND a.counted"
        found += engine.all(query, task.run_id)
    return found


def group(leader: int) -> list[psutil.Process]:
    """The living processes of a group."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


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


def test_a_kept_process_that_ends_under_its_step(engine: Engine, worker: Crew) -> None:
    """That is an attempt too: the step is not begun anew in another one, as if nothing had been."""
    assert answers(engine, worker, "first")[0].startswith("first ")
    assert answers(engine, worker, "forks and dies") == ["the process of the step ended with exit code 7"]
    assert engine.all("SELECT count(*) FROM stanchion.attempt") == [2]


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


@pytest.mark.parametrize("flow", [flows.branching, flows.branching_async], ids=lambda f: f.name)
def test_a_step_that_forks(engine: Engine, worker: Crew, flow: Any) -> None:
    """The copy's answer is none: every step gets its own, now and later."""
    whats = ["forks", "one", "forks and raises", "two", "three"]
    assert [answer.rpartition(" ")[0] for answer in answers(engine, worker, *whats, flow=flow)] == whats


def test_an_answer_for_another_step(engine: Engine, worker: Crew) -> None:
    """It is taken for nobody's; the process that gave it is killed."""
    wrong, right = answers(engine, worker, "answers for another", "next")
    assert wrong == "the process of the step answered for another one"
    assert right.startswith("next ")
    (child,) = worker.slots.processes._all
    assert right.endswith(f" {child.process.pid}")


def test_a_word_that_comes_late(engine: Engine, worker: Crew, eventually: Any) -> None:
    """A process that speaks unasked between two steps is replaced, and the next step spends nothing."""
    (late,) = answers(engine, worker, "speaks late")
    (child,) = worker.slots.processes._idle
    eventually(child.pipe.poll)
    (right,) = answers(engine, worker, "next")
    assert right.startswith("next ")
    assert right.split()[-1] != late.split()[-1]
    eventually(lambda: not group(child.process.pid))


def test_a_process_that_ends_while_its_copy_lives(engine: Engine, worker: Crew, eventually: Any) -> None:
    """The step ends with its process, and the copy too, whatever it holds open."""
    engine.submit(flows.branching, input={"what": "forks and dies"})
    worker.work(lambda: bool(worker.slots.processes._all))
    (child,) = worker.slots.processes._all
    worker.work(lambda: ended(engine, "failed"))
    assert attempts(engine) == [("E-STEP-28", "the process of the step ended with exit code 7")]
    eventually(lambda: not group(child.process.pid))


def test_what_a_step_leaves_running(engine: Engine, worker: Crew, eventually: Any) -> None:
    """Its result counts, and nothing outlives it; one whose processes have ended keeps its own for the next."""
    (left,) = answers(engine, worker, "leaves one")
    eventually(lambda: not group(int(left.split()[-1])))
    assert worker.slots.processes._idle == []
    one, two = answers(engine, worker, "has had one", "next")
    assert one.split()[-1] == two.split()[-1]


def test_pools_of_processes(engine: Engine, worker: Crew) -> None:
    """A step in a process of its own may have more of them."""
    assert answers(engine, worker, "pools") == ["6 6"]


def test_a_worker_that_is_killed(eventually: Any) -> None:
    """Neither the process of a step nor what that has started outlives it."""
    code = (
        "import time, uuid; from services.workers.child import ChildSettings; from services.workers.processes import _Child;"
        " c = _Child(ChildSettings(['kit.isolated_flows:branching'], 'postgresql://nowhere', None, uuid.uuid4()));"
        " print(c.process.pid, flush=True); time.sleep(60)"
    )
    paths = os.pathsep.join(sys.path)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": paths}
    ) as worker:
        assert worker.stdout is not None
        child = int(worker.stdout.readline())
        eventually(lambda: group(child), 180)
        worker.kill()
        eventually(lambda: not group(child), 10)
