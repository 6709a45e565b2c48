"""Damaged rows: what the database refuses is set aside, told, and stops nothing beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kit.engine import Engine
from kit.flows import fan, single

from services.orchestrator.lease_reaper import LeaseReaper
from services.orchestrator.lookout import Lookout
from services.orchestrator.run_planner import RunPlanner
from services.orchestrator.run_sweeper import RunSweeper
from stanchion.cli.checkup import FAILING, OK, Checkup
from stanchion.cli.session import Session
from stanchion.db.engine import Database
from stanchion.errors import InvariantViolated
from stanchion.runtime.hints import Hints
from stanchion.runtime.loop import Loop
from stanchion.telemetry import metrics
from stanchion.workflow import Ctx, First, Results, Workflow


def refuse(engine: Engine, table: str, event: str, condition: str, state: str = "ST002") -> None:
    """From now on the database refuses such rows."""
    engine.admin.execute(
        "CREATE OR REPLACE FUNCTION pg_temp_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" RAISE EXCEPTION USING ERRCODE = '{state}', MESSAGE = 'damaged by the test'; END $$;"
        f"CREATE TRIGGER damaged BEFORE {event} ON stanchion.{table} FOR EACH ROW WHEN ({condition}) EXECUTE FUNCTION pg_temp_refuse()"
    )


def mend(engine: Engine, table: str) -> None:
    engine.admin.execute(f"DROP TRIGGER damaged ON stanchion.{table}")


def aside(engine: Engine) -> list[Any]:
    return engine.all("SELECT kind, tries FROM stanchion.set_aside ORDER BY kind")


def lost(engine: Engine, *names: str) -> dict[str, Any]:
    """One task of each workflow, whose workers were all lost in its first step."""
    tasks = {name: engine.submit(single(name, retries=0)) for name in names}
    assert len(engine.worker().take("only")) == len(names)
    engine.admin.execute("UPDATE stanchion.attempt SET started_at = granted_at")
    engine.forward(31)
    return tasks


def test_a_slot_that_was_damaged_stops_no_other_lease(engine: Engine) -> None:
    """A counter that would fall below zero: the leases of all other runs are taken back in the same pass."""
    tasks = [engine.submit(fan(name, "all", ["x"] * 20)) for name in ("bad", "good")]
    worker = engine.worker()
    worker.settle([worker.run(x) for x in worker.take("plan")])
    engine.expand()
    assert len(worker.take("visit")) == 40
    engine.admin.execute("UPDATE stanchion.attempt SET started_at = granted_at WHERE ended_at IS NULL")
    engine.admin.execute(
        "UPDATE stanchion.barrier_slot SET remaining = 0 WHERE barrier_id = (SELECT barrier_id FROM stanchion.barrier WHERE run_id = %s AND kind = 'gather')",
        (engine.run_of(tasks[0]),),
    )
    engine.forward(31)
    assert len(engine.upkeep.reap()) == 20
    assert engine.states(tasks[1], "visit") == {"failed": 20}
    assert engine.states(tasks[0], "visit") == {"leased": 20}
    assert engine.one("SELECT count(*), min(tries) FROM stanchion.set_aside WHERE kind = 'lease'") == (20, 1)
    assert engine.upkeep.reap() == {}
    assert not engine.upkeep.waiting().leases
    assert engine.upkeep.waiting().aside == 20


def test_what_is_set_aside_is_tried_again_and_counted(engine: Engine) -> None:
    """After 30 s, then after longer; what is mended goes on by itself."""
    before = metrics.set_aside.labels("lease")._value.get()
    tasks = lost(engine, "bad", "good")
    refuse(engine, "step", "UPDATE", "NEW.workflow = 'bad' AND NEW.state = 'failed'")
    assert list(engine.upkeep.reap().values()) == ["failed"]
    assert engine.task(tasks["good"])[1] == "cancelling"
    assert aside(engine) == [("lease", 1)]
    engine.forward(31)
    assert engine.upkeep.waiting().leases
    assert engine.upkeep.reap() == {}
    assert aside(engine) == [("lease", 2)]
    engine.forward(31)
    assert not engine.upkeep.waiting().leases
    assert metrics.set_aside.labels("lease")._value.get() == before + 2
    mend(engine, "step")
    engine.forward(31)
    assert list(engine.upkeep.reap().values()) == ["failed"]
    assert engine.upkeep.waiting().aside == 0


def test_the_process_goes_on(engine: Engine, eventually: Callable[..., Any]) -> None:
    """A damaged row does not end the loop's process."""
    tasks = lost(engine, "bad", "good")
    refuse(engine, "step", "UPDATE", "NEW.workflow = 'bad' AND NEW.state = 'failed'", "23514")
    crashed: list[BaseException] = []
    loop = Loop("lease-reaper", LeaseReaper(engine.upkeep, Hints(None)).run_once, on_crash=crashed.append)
    loop.start()
    try:
        eventually(lambda: engine.task(tasks["good"])[1] == "cancelling")
        assert crashed == []
        assert loop.check() is None
    finally:
        loop.stop()


@pytest.mark.parametrize("state", ["ST002", "23514", "P0002", "ST003"])
def test_a_timer_that_is_refused(engine: Engine, state: str) -> None:
    """Retries, deadlines of steps and of joins that are due beside it fire in the same pass."""
    wf = Workflow("joined")

    @wf.step()
    def plan(ctx: Ctx) -> list[int]:
        return [1, 2]

    @wf.step(after=plan, each=True)
    def visit(ctx: Ctx, n: int) -> int:
        return n

    @wf.step(after=visit, join=First(within="10s"))
    def gather(ctx: Ctx, got: Results[int]) -> int:
        return len(got)

    joined = engine.submit(wf)
    worker = engine.worker()
    worker.settle([worker.run(x) for x in worker.take("plan")])
    engine.expand()
    tasks = {name: engine.submit(single(name, start_within="10s")) for name in ("bad", "good")}
    refuse(engine, "step", "UPDATE", "NEW.workflow = 'bad' AND NEW.state = 'failed'", state)
    engine.forward(11)
    engine.fire()
    assert engine.task(joined)[1] == "cancelling"
    assert engine.task(tasks["good"])[1] == "cancelling"
    assert engine.task(tasks["bad"])[1] == "created"
    assert aside(engine) == [("timer", 1)]
    assert not engine.upkeep.waiting().timers


def test_a_run_that_can_not_be_wound_down(engine: Engine) -> None:
    """The others end; it is left out of the looks until it is tried again."""
    tasks = {name: engine.submit(single(name)) for name in ("bad", "good")}
    for task in tasks.values():
        engine.cancel(task)
    refuse(engine, "step", "UPDATE", "NEW.workflow = 'bad' AND NEW.state = 'cancelled'")
    lookout = Lookout(engine.upkeep)
    sweeper = RunSweeper(engine.upkeep, lookout, Hints(None), 1_000)
    for _ in range(5):
        lookout.run_once()
        sweeper.run_once()
    assert engine.task(tasks["good"])[1] == "cancelled"
    assert aside(engine) == [("run", 1)]
    assert lookout.latest.runs == []


def test_a_join_whose_rest_can_not_be_cancelled(engine: Engine) -> None:
    """The rest of the others is cancelled."""
    tasks = {name: engine.submit(fan(name, First(), ["a", "b"])) for name in ("bad", "good")}
    worker = engine.worker()
    worker.settle([worker.run(x) for x in worker.take("plan")])
    engine.expand()
    first = engine.all("SELECT step_id FROM stanchion.step WHERE node = 'visit' AND kind = 'step' AND idx = 0")
    worker.settle([worker.run(x) for x in worker.leases.lease(first, 2)])
    refuse(engine, "step", "UPDATE", "NEW.workflow = 'bad' AND NEW.state = 'cancelled'")
    engine.sweep()
    assert engine.states(tasks["good"], "visit") == {"succeeded": 1, "cancelled": 1}
    assert engine.states(tasks["bad"], "visit") == {"succeeded": 1, "ready": 1}
    assert aside(engine) == [("barrier", 1)]


def test_a_fan_out_that_can_be_neither_expanded_nor_ended(engine: Engine) -> None:
    """The planner goes on with the others, and does not come back to it at once."""
    tasks = {name: engine.submit(fan(name, "all", ["x"])) for name in ("bad", "good")}
    worker = engine.worker()
    worker.settle([worker.run(x) for x in worker.take("plan")])
    refuse(engine, "step", "INSERT", "NEW.workflow = 'bad'")
    engine.admin.execute(
        "CREATE TRIGGER damaged BEFORE UPDATE ON stanchion.run FOR EACH ROW WHEN (NEW.workflow = 'bad') EXECUTE FUNCTION pg_temp_refuse()"
    )
    planner = RunPlanner(engine.planning, engine.upkeep, Hints(None))
    assert planner.run_once() is True
    assert planner.run_once() is False
    assert engine.states(tasks["good"], "visit") == {"ready": 1}
    assert aside(engine) == [("expansion", 1)]


def test_a_schema_that_differs_is_nobodys_damage(engine: Engine) -> None:
    """What every call meets ends the process, as before, and sets nothing aside."""
    lost(engine, "good")
    engine.admin.execute("ALTER FUNCTION stanchion.make_ready(uuid[]) RENAME TO make_ready_not")
    with pytest.raises(InvariantViolated, match="make_ready"):
        engine.upkeep.reap()
    assert aside(engine) == []


@pytest.fixture
def root(database_url: str) -> Iterator[Database]:
    database = Database(database_url, name="doctor")
    yield database
    database.close()


def test_the_doctor_names_it(engine: Engine, root: Database) -> None:
    """With its kind, its run, the code and what the database said."""
    lost(engine, "bad")
    look = Checkup(Session.__new__(Session))._aside
    assert [one.state for one in look(root)] == [OK]
    refuse(engine, "step", "UPDATE", "NEW.workflow = 'bad' AND NEW.state = 'failed'")
    engine.upkeep.reap()
    (finding,) = look(root)
    assert finding.state == FAILING
    assert "lease" in finding.what
    assert "E-STATE-02 damaged by the test" in finding.what
