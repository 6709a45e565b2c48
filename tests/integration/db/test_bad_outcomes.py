"""Nothing that one step hands in, reports or is made of may harm the others, or end a process again and again."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from kit.crew import crew
from kit.engine import Engine, Worker
from kit.flows import fan, single

from services.orchestrator.run_planner import RunPlanner
from services.workers.attempt import Steer
from services.workers.catalogue import Catalogue
from services.workers.lease_keeper import LeaseKeeper
from services.workers.settler import Settler
from stanchion.authority.leases import Done, Failure, Lease
from stanchion.authority.ledger import Ledger
from stanchion.errors import InvariantViolated
from stanchion.runtime.clock import monotonic
from stanchion.runtime.hints import Hints
from stanchion.workflow import Ctx, Workflow


def refuse(engine: Engine, table: str, operation: str, condition: str, sqlstate: str) -> None:
    """Let the database refuse certain rows, as a rule that nobody thought of would."""
    engine.admin.execute(
        f"CREATE FUNCTION stanchion.test_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF {condition} THEN "
        f"RAISE EXCEPTION 'refused by the test' USING ERRCODE = '{sqlstate}'; END IF; RETURN NEW; END $$;"
        f"CREATE TRIGGER test_refuse BEFORE {operation} ON stanchion.{table} FOR EACH ROW EXECUTE FUNCTION stanchion.test_refuse()"
    )


def settler(engine: Engine, worker: Worker, *leases: Lease) -> Settler:
    held = {x.step_id: worker.attempt(x) for x in leases}
    return Settler(
        worker.leases,
        Ledger(worker.leases.database, worker.leases.worker_id),
        Catalogue(engine.workflows.values()),
        Hints(None),
        held,
        lambda _granted, _asked_at: None,
    )


def three(engine: Engine, **options: Any) -> tuple[Worker, list[Lease]]:
    engine.submit_all(single("three", **options), [({}, None)] * 3)
    worker = engine.worker()
    return worker, worker.take()


def how(engine: Engine, lease: Lease) -> tuple[str, int]:
    """State of the step, and how many attempts it has spent."""
    return engine.one("SELECT state, attempts FROM stanchion.step WHERE step_id = %s", lease.step_id)  # type: ignore[return-value]  # two columns


def error_of(engine: Engine, lease: Lease) -> dict[str, Any]:
    found: dict[str, Any] = engine.one("SELECT error FROM stanchion.attempt WHERE step_id = %s", lease.step_id)[0]
    return found


@pytest.mark.parametrize("value", ["a\x00b", {"a\x00": 1}, {1, 2}, "\ud800"], ids=["nul", "key", "set", "surrogate"])
def test_a_result_that_can_not_be_stored(engine: Engine, value: Any) -> None:
    """It fails for good with an attempt that counts; the others of the batch are accepted."""
    worker, (a, bad, c) = three(engine)
    part = settler(engine, worker, a, bad, c)
    part.hand_in([Done(a, 1), Done(bad, value), Done(c, 1)], 0)
    assert [how(engine, x) for x in (a, bad, c)] == [("succeeded", 1), ("failed", 1), ("succeeded", 1)]
    assert error_of(engine, bad)["code"] == "E-STEP-29"
    assert part.held == {}


def test_an_error_that_can_not_be_stored(engine: Engine) -> None:
    """The failure is recorded without it, as final as it was; the others keep their own error."""
    worker, (a, bad, c) = three(engine)
    part = settler(engine, worker, a, bad, c)
    part.hand_in(
        [
            Failure(a, {"what": "a"}, True, 0),
            Failure(bad, {"what": "\x00"}, False, 0),
            Failure(c, {"what": "c"}, True, 0),
        ],
        0,
    )
    assert [how(engine, x)[0] for x in (a, bad, c)] == ["failed", "retry_wait", "failed"]
    assert [error_of(engine, x).get("what") for x in (a, c)] == ["a", "c"]


def test_a_decision_that_can_not_be_stored(engine: Engine) -> None:
    """A steer that the database refuses fails its own step."""
    worker, (a, bad, _) = three(engine)
    part = settler(engine, worker, a, bad)
    part.hand_in([Steer(Done(bad, None), {"outcome": "\x00"}), Done(a, 1)], 0)
    assert [how(engine, x)[0] for x in (a, bad)] == ["succeeded", "failed"]


def test_a_bug_that_one_result_meets(engine: Engine) -> None:
    """The process ends, but the attempt has been counted before, and the others are accepted."""
    worker, (a, bad, c) = three(engine)
    refuse(engine, "result", "INSERT", "NEW.body = '13'", "ST002")
    part = settler(engine, worker, a, bad, c)
    with pytest.raises(InvariantViolated):
        part.hand_in([Done(a, 1), Done(bad, 13), Done(c, 1)], 0)
    assert [how(engine, x) for x in (a, bad, c)] == [("succeeded", 1), ("retry_wait", 1), ("succeeded", 1)]
    assert part.held == {}


def test_a_bug_that_takes_no_failure_either(engine: Engine) -> None:
    """The lease is held no longer: it is neither renewed nor given back at the end, so that its loss counts."""
    worker, (a, bad, _) = three(engine)
    refuse(engine, "attempt", "UPDATE", f"NEW.step_id = '{bad.step_id}' AND NEW.state <> 'lost'", "ST002")
    part = settler(engine, worker, a, bad)
    with pytest.raises(InvariantViolated):
        part.hand_in([Done(a, 1), Done(bad, 1)], 0)
    assert part.held == {}
    engine.forward(31)
    engine.upkeep.reap()
    assert how(engine, bad) == ("ready", 1)


def test_a_schema_that_does_not_fit(engine: Engine) -> None:
    """Nobody is to blame: the process ends, and all that it holds is there to be given back."""
    worker, leases = three(engine)
    engine.admin.execute("ALTER FUNCTION stanchion.complete RENAME TO complete_of_another_version")
    part = settler(engine, worker, *leases)
    with pytest.raises(InvariantViolated, match="E-DB-02"):
        part.hand_in([Done(x, 1) for x in leases], 0)
    assert len(part.held) == 3
    assert [how(engine, x) for x in leases] == [("leased", 0)] * 3


def test_a_step_that_can_not_be_leased(engine: Engine) -> None:
    """The others are leased and run; it is left alone, and the worker goes on."""
    tasks = engine.submit_all(single("four"), [({}, None)] * 4)
    poison: UUID = engine.all("SELECT step_id FROM stanchion.ready ORDER BY step_id")[1]
    refuse(engine, "step", "UPDATE", f"NEW.step_id = '{poison}' AND NEW.state = 'leased'", "22003")
    with crew(engine) as worker:
        worker.work(lambda: [engine.task(t)[0] for t in tasks].count("completed") == 3)
        assert worker.foreman.run_once() is not True
    assert engine.one("SELECT state, attempts FROM stanchion.step WHERE step_id = %s", poison) == ("ready", 0)


def test_steps_that_the_worker_does_not_have(engine: Engine) -> None:
    """One of a workflow that it does not serve goes back unspent, one that its code lacks has spent an attempt; the
    others run."""
    mine, theirs, older = single("mine"), single("theirs"), Workflow("older")

    @older.step()
    def gone(ctx: Ctx) -> int:
        return 1

    task, _, _ = engine.submit(mine), engine.submit(theirs), engine.submit(older)
    engine.workflows = {"mine": mine, "older": single("older")}
    with crew(engine) as worker:
        worker.leases.reach.definitions.append("theirs@1")
        worker.work(lambda: engine.task(task)[0] == "completed")
    states = dict(engine.all("SELECT workflow, state || ' ' || attempts FROM stanchion.step"))
    assert states == {"mine": "succeeded 1", "theirs": "ready 0", "older": "retry_wait 1"}


def test_a_run_that_can_not_be_expanded(engine: Engine) -> None:
    """It ends with its reason; the run behind it is expanded, and the planner goes on."""
    bad, good = engine.submit(fan("bad", "all", ["x"])), engine.submit(fan("good", "all", ["x"]))
    worker = engine.worker()
    for lease in worker.take("plan"):
        worker.finish(lease, ["x"])
    refuse(engine, "step", "INSERT", "NEW.node = 'visit' AND NEW.workflow = 'bad'", "22003")
    planner = RunPlanner(engine.planning, engine.upkeep, Hints(None))
    assert planner.run_once() is True
    assert planner.run_once() is False
    engine.sweep()
    assert engine.task(bad)[0] == "failed"
    assert engine.one("SELECT reason->>'code', reason->>'why' FROM stanchion.task WHERE task_id = %s", bad.task_id) == (
        "E-DB-11",
        "refused by the test",
    )
    assert engine.states(good, "visit") == {"ready": 1}


def test_a_bug_that_one_run_meets(engine: Engine) -> None:
    """That run ends with its reason, and the planner goes on: no row ends the process."""
    bad, good = engine.submit(fan("bad", "all", ["x"])), engine.submit(fan("good", "all", ["x"]))
    worker = engine.worker()
    for lease in worker.take("plan"):
        worker.finish(lease, ["x"])
    refuse(engine, "step", "INSERT", "NEW.node = 'visit' AND NEW.workflow = 'bad'", "ST002")
    planner = RunPlanner(engine.planning, engine.upkeep, Hints(None))
    assert planner.run_once() is True
    assert planner.run_once() is False
    engine.sweep()
    assert engine.task(bad)[0] == "failed"
    assert engine.states(good, "visit") == {"ready": 1}


@pytest.mark.parametrize(
    ("done", "note", "kept"),
    [
        (1, "caf\x00e", {"done": 1, "of": None, "note": "caf\ufffde"}),
        (Decimal("0.5"), "", {"done": 0.5, "of": None, "note": ""}),
        (10**400, "\ud800", {"done": None, "of": None, "note": "?"}),
        ({1, 2}, "x" * 500, {"done": None, "of": None, "note": "x" * 199 + "…"}),
        (float("nan"), None, {"done": None, "of": None, "note": "None"}),
    ],
    ids=["nul", "decimal", "surrogate", "set", "nan"],
)
def test_progress_is_cleaned(engine: Engine, done: Any, note: Any, kept: dict[str, Any]) -> None:
    """Whatever a step reports is kept as far as it can be, and its lease is renewed."""
    worker, (lease, *_) = three(engine)
    attempt = worker.attempt(lease)
    attempt.context.progress(done, note=note)
    assert worker.leases.renew([lease], [True], [attempt.context.take_progress()]) == {lease.step_id: "ok"}
    assert engine.one("SELECT progress FROM stanchion.attempt WHERE step_id = %s", lease.step_id) == (kept,)


@pytest.mark.parametrize(
    "progress", [{"note": "\x00"}, {"note": {1}}, {"note": "\ud800"}], ids=["nul", "set", "surrogate"]
)
def test_progress_of_one_and_the_leases_of_others(engine: Engine, progress: Any) -> None:
    """What can't be kept all the same is left out: one heartbeat renews all leases."""
    engine.submit_all(single("held"), [({}, None)] * 3)
    with crew(engine) as worker:
        worker.slots.submit = worker.slots._queue.extend  # type: ignore[method-assign]  # they wait, and do not run
        worker.work(lambda: len(worker.foreman.held) == 3)
        attempts = list(worker.foreman.held.values())
        for attempt in attempts:
            attempt.begin()
        attempts[0].context.pass_on_progress(progress)
        attempts[1].context.progress(1)
        engine.forward(20)
        worker.keeper.run_once()
        engine.forward(20)
        assert engine.upkeep.reap() == {}
        assert [a.stop_reason for a in attempts] == [None] * 3


def test_a_long_lease_is_trusted_for_as_long(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a word from the database a step is stopped when its own lease is nearly over, not the worker's."""
    now = [monotonic()]
    monkeypatch.setattr("services.workers.lease_keeper.monotonic", lambda: now[0])
    monkeypatch.setattr("services.workers.attempt.monotonic", lambda: now[0])
    engine.submit(single("usual"))
    engine.submit(single("patient", lease="10m"))
    with crew(engine) as worker:
        worker.slots.submit = worker.slots._queue.extend  # type: ignore[method-assign]  # they wait, and do not run
        worker.work(lambda: len(worker.foreman.held) == 2)
        usual, patient = sorted(worker.foreman.held.values(), key=lambda a: a.lease.lease_ms)
        keeper = LeaseKeeper(worker.leases, worker.foreman)
        now[0] = max(usual.asked_at, patient.asked_at) + 28.0
        keeper.guard_once()
        assert (usual.stop_reason, patient.stop_reason) == ("out_of_reach", None)
        now[0] = patient.asked_at + 541.0
        keeper.guard_once()
        assert patient.told() == "lost"
