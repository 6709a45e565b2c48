"""Every state of a step x every function that writes: each changes exactly what it should, and a stale fence nothing.

A step is brought into its state by the engine itself; each call then runs in a transaction that is rolled back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from kit.databases import Databases
from kit.engine import Engine
from kit.flows import fan, single
from psycopg.types.json import Jsonb

from stanchion.db.engine import Database, login_url
from stanchion.db.grants import MAINTENANCE, ORCHESTRATOR, TASK_SERVICE, WORKER
from stanchion.workflow import All, Ctx, Go, Workflow

Sql = psycopg.Connection[tuple[Any, ...]]

TABLES = [
    "task",
    "run",
    "step",
    "attempt",
    "result",
    "barrier",
    "barrier_slot",
    "barrier_release",
    "event",
    "outbox",
    "ready",
    "timer",
    "refused_write",
    "audit",
    "inbox",
    "artifact",
    "artifact_version",
    "object_removal",
]
LATER = "'2 days'"


@dataclass
class Scene:
    """A step in one state, with the worker and fence of its last lease."""

    engine: Engine
    task_id: UUID
    step_id: UUID
    worker_id: UUID
    fence: int


def pending(engine: Engine) -> None:
    wf = Workflow("pending")

    @wf.step()
    def one(ctx: Ctx) -> int:
        return 1

    @wf.step(after=one)
    def target(ctx: Ctx, n: int) -> int:
        return n

    engine.submit(wf)


def ready(engine: Engine) -> None:
    target(engine, "ready")


def target(engine: Engine, name: str) -> Any:
    """A run whose only child, of a join that holds, is the step; its worker is returned."""
    engine.submit(fan(name, All(on_failed="hold"), ["a"], retries=3))
    worker = engine.worker()
    worker.finish(worker.take("plan")[0], ["a"])
    engine.expand()
    return worker


def leased(engine: Engine) -> None:
    target(engine, "leased").take("visit")


def running(engine: Engine) -> None:
    worker = target(engine, "running")
    worker.leases.renew(worker.take("visit"), [True], [None])


def waiting(engine: Engine) -> None:
    engine.submit(fan("waiting", "all", ["a"]))
    worker = engine.worker()
    worker.finish(worker.take("plan")[0], ["a"])


def retry_wait(engine: Engine) -> None:
    worker = target(engine, "retry_wait")
    worker.fail(*worker.take("visit"), final=False, delay_ms=60_000)


def succeeded(engine: Engine) -> None:
    worker = target(engine, "succeeded")
    worker.finish(worker.take("visit")[0], "A")


def failed(engine: Engine) -> None:
    worker = target(engine, "failed")
    worker.fail(*worker.take("visit"))


def cancelled(engine: Engine) -> None:
    task = engine.submit(single("cancelled"))
    engine.cancel(task)
    engine.sweep()


def skipped(engine: Engine) -> None:
    wf = Workflow("skipped")

    @wf.step(next="target")
    def choose(ctx: Ctx) -> int | Go:
        return 1

    @wf.step(on_demand=True)
    def target(ctx: Ctx) -> int:
        return 1

    @wf.step(after=choose)
    def last(ctx: Ctx, n: int | None) -> int:
        return 1

    engine.submit(wf)
    worker = engine.worker()
    worker.finish(worker.take("choose")[0], 1)


SCENES: dict[str, Callable[[Engine], None]] = {
    f.__name__: f for f in (pending, ready, leased, running, waiting, retry_wait, succeeded, failed, cancelled, skipped)
}


@pytest.fixture(scope="module", params=SCENES)
def scene(request: pytest.FixtureRequest, databases: Databases) -> Iterator[Scene]:
    """A database with one step in the state of this name."""
    url = databases.create()
    opened: list[Database] = []

    def under(login: str) -> Database:
        opened.append(Database(login_url(url, login), name="test"))
        return opened[-1]

    with psycopg.connect(url, autocommit=True) as admin:
        tenant = admin.execute("SELECT stanchion.create_tenant('acme')").fetchone()
        assert tenant is not None
        engine = Engine(under, admin, tenant[0])
        SCENES[request.param](engine)
        steps = admin.execute(
            "SELECT s.step_id, r.task_id, s.fence FROM stanchion.step s JOIN stanchion.run r ON r.run_id = s.run_id"
            " WHERE s.state = %s ORDER BY (s.node IN ('target', 'visit')) DESC, s.kind DESC",
            (request.param,),
        ).fetchall()
        assert steps, f"no step is {request.param}"
        worker = admin.execute(
            "SELECT worker_id FROM stanchion.attempt WHERE step_id = %s ORDER BY fence DESC", (steps[0][0],)
        ).fetchone()
        yield Scene(engine, steps[0][1], steps[0][0], worker[0] if worker else uuid4(), steps[0][2])
    for database in opened:
        database.close()
    databases.drop(url)


@dataclass(frozen=True)
class Act:
    """One call: SQL with %(worker)s, %(step)s, %(fence)s, %(task)s, %(tenant)s; the login that may do it; by state the
    new state of the step (None or absent: unchanged) and the tables that change."""

    login: str
    sql: str
    moves: dict[str, tuple[str | None, str]]
    fenced: bool = False
    later: bool = False


HELD_DONE = "step attempt event "
FAIL = "SELECT * FROM stanchion.fail(%(worker)s, ARRAY[%(step)s], ARRAY[%(fence)s]::bigint[], %(error)s, ARRAY[{}], ARRAY[1000])"
FAILS = ("failed", HELD_DONE + "barrier")
ACTS = {
    "lease": Act(
        WORKER,
        "SELECT * FROM stanchion.lease(%(worker)s, NULL, %(served)s, ARRAY['default'], ARRAY[%(step)s], 30000, 1)",
        {"ready": ("leased", "step attempt event ready")},
    ),
    "complete": Act(
        WORKER,
        "SELECT * FROM stanchion.complete(%(worker)s, ARRAY[%(step)s], ARRAY[%(fence)s]::bigint[], ARRAY['1'::jsonb], ARRAY[NULL]::bytea[], NULL, ARRAY['none@1'], ARRAY['default'], 0, 30000)",
        dict.fromkeys(
            ("leased", "running"), ("succeeded", HELD_DONE + "result barrier barrier_release outbox ready run")
        ),
        fenced=True,
    ),
    "complete_with_plan": Act(
        WORKER,
        "SELECT stanchion.complete_with_plan(%(worker)s, %(step)s, %(fence)s, '1', NULL, '{}')",
        dict.fromkeys(
            ("leased", "running"), ("succeeded", HELD_DONE + "result barrier barrier_release outbox ready run")
        ),
        fenced=True,
    ),
    "fail for good": Act(WORKER, FAIL.format("true"), {"leased": FAILS, "running": FAILS}, fenced=True),
    "fail and retry": Act(
        WORKER,
        FAIL.format("false"),
        dict.fromkeys(("leased", "running"), ("retry_wait", HELD_DONE + "timer")),
        fenced=True,
    ),
    "give_back": Act(
        WORKER,
        "SELECT stanchion.give_back(%(worker)s, ARRAY[%(step)s], ARRAY[%(fence)s]::bigint[], 'test')",
        dict.fromkeys(("leased", "running"), ("ready", HELD_DONE + "ready outbox")),
        fenced=True,
    ),
    "renew": Act(
        WORKER,
        "SELECT * FROM stanchion.renew(%(worker)s, ARRAY[%(step)s], ARRAY[%(fence)s]::bigint[], ARRAY[true], ARRAY[NULL]::jsonb[], 60000)",
        {"leased": ("running", HELD_DONE), "running": (None, "attempt")},
        fenced=True,
    ),
    "begin_artifact": Act(
        WORKER,
        "SELECT stanchion.begin_artifact(%(worker)s, %(step)s, %(fence)s, 'report', 'text/plain', '{}')",
        dict.fromkeys(("leased", "running"), (None, "artifact artifact_version event")),
        fenced=True,
    ),
    "flip_artifact of no version": Act(
        WORKER,
        "SELECT * FROM stanchion.flip_artifact(%(worker)s, %(step)s, %(fence)s, gen_random_uuid(), sha256(''), 0)",
        {},
        fenced=True,
    ),
    "abandon_versions": Act(MAINTENANCE, "SELECT stanchion.abandon_versions('0', 100)", {}),
    "end_cancelled": Act(
        WORKER,
        "SELECT stanchion.end_cancelled(%(worker)s, ARRAY[%(step)s], ARRAY[%(fence)s]::bigint[])",
        {},
    ),
    "reap too early": Act(ORCHESTRATOR, "SELECT * FROM stanchion.reap(100)", {}),
    "reap": Act(
        ORCHESTRATOR,
        "SELECT * FROM stanchion.reap(100)",
        dict.fromkeys(("leased", "running"), ("ready", HELD_DONE + "ready outbox")),
        later=True,
    ),
    "fire_timers": Act(ORCHESTRATOR, "SELECT stanchion.fire_timers(100)", {}),
    "fire_timers later": Act(
        ORCHESTRATOR,
        "SELECT stanchion.fire_timers(100)",
        {"retry_wait": ("ready", "step event ready outbox timer")},
        later=True,
    ),
    "reopen": Act(
        TASK_SERVICE,
        "SELECT stanchion.reopen_steps(%(tenant)s, ARRAY[%(step)s], NULL, 'test', 'ann')",
        {"failed": ("ready", "step event ready outbox barrier audit")},
    ),
    "cancel": Act(
        TASK_SERVICE,
        "SELECT stanchion.cancel_task(%(tenant)s, %(task)s, 'test', 'ann')",
        dict.fromkeys(set(SCENES) - {"cancelled"}, (None, "run task event outbox audit")),
    ),
    "sweep without a reason": Act(ORCHESTRATOR, "SELECT stanchion.sweep_run(run_id, 100, 0) FROM stanchion.run", {}),
}


def snapshot(sql: Sql) -> dict[str, str]:
    """What each table holds."""
    parts = ", ".join(
        f"(SELECT coalesce(md5(string_agg(t::text, '|' ORDER BY t::text)), '') FROM stanchion.{t} t)" for t in TABLES
    )
    row = sql.execute(f"SELECT {parts}").fetchone()
    assert row is not None
    return dict(zip(TABLES, row, strict=True))


def call(scene: Scene, act: Act, fence: int, worker: UUID) -> tuple[set[str], str, int]:
    """(tables that changed, the step's state then, rows added to refused_write) of one call, which is rolled back."""
    sql = scene.engine.admin
    values = {
        "worker": worker,
        "served": scene.engine.definitions,
        "step": scene.step_id,
        "fence": fence,
        "task": scene.task_id,
        "tenant": scene.engine.tenant,
        "error": [Jsonb({"code": "E-STEP-27"})],
    }
    with sql.transaction(force_rollback=True):
        if act.later:
            sql.execute(
                "CREATE OR REPLACE FUNCTION stanchion.clock() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE"
                f" AS $$ SELECT clock_timestamp() + interval {LATER} $$"
            )
        before = snapshot(sql)
        refused = sql.execute("SELECT count(*) FROM stanchion.refused_write").fetchone()
        sql.execute(f"SET LOCAL ROLE {act.login}")
        if "FROM stanchion.run" in act.sql:
            sql.execute("RESET ROLE")
        sql.execute(act.sql, values)
        sql.execute("RESET ROLE")
        after = snapshot(sql)
        state = sql.execute("SELECT state FROM stanchion.step WHERE step_id = %s", (scene.step_id,)).fetchone()
        now = sql.execute("SELECT count(*) FROM stanchion.refused_write").fetchone()
    assert state is not None
    assert refused is not None
    assert now is not None
    return {t for t in TABLES if before[t] != after[t]}, state[0], now[0] - refused[0]


def state_of(scene: Scene) -> str:
    return str(scene.engine.one("SELECT state FROM stanchion.step WHERE step_id = %s", scene.step_id)[0])


@pytest.mark.parametrize("name", ACTS)
def test_a_function_changes_exactly_what_it_should(scene: Scene, name: str) -> None:
    """The step goes where the function says, the tables that it may write change, and no other.

    A fenced call for a step that nobody holds is refused and leaves one row on record.
    """
    act = ACTS[name]
    state = state_of(scene)
    moved, tables = act.moves.get(state, (None, ""))
    changed, now, refused = call(scene, act, scene.fence, scene.worker_id)
    assert now == (moved or state)
    again = (
        act.fenced
        and not tables
        and scene.engine.all(
            "SELECT state FROM stanchion.attempt WHERE step_id = %s AND fence = %s AND worker_id = %s",
            scene.step_id,
            scene.fence,
            scene.worker_id,
        )
    )
    if act.fenced and not tables and refused:
        assert (changed, refused) == ({"refused_write"}, 1)
    elif again:
        # it asks again for what it did itself: told so, nothing is written
        assert changed == set()
    else:
        assert changed == set(tables.split())


@pytest.mark.parametrize("name", [n for n, a in ACTS.items() if a.fenced])
@pytest.mark.parametrize("off", [-1, 1])
def test_a_stale_fence_changes_nothing(scene: Scene, name: str, off: int) -> None:
    """Whatever the state: one row in refused_write, and not a byte elsewhere."""
    changed, now, refused = call(scene, ACTS[name], scene.fence + off, scene.worker_id)
    assert (changed, refused) == ({"refused_write"}, 1)
    assert now == state_of(scene)


@pytest.mark.parametrize("name", ["complete", "complete_with_plan", "fail for good", "give_back"])
def test_the_fence_in_other_hands_after_the_end(scene: Scene, name: str) -> None:
    """Who was not the holder of an ended attempt is a stale writer, also with the right number."""
    if state_of(scene) in ("leased", "running"):
        return
    changed, _now, refused = call(scene, ACTS[name], scene.fence, uuid4())
    assert (changed, refused) == ({"refused_write"}, 1)


@pytest.mark.parametrize("grace_ms", [0, 3_600_000])
def test_sweeping_a_cancelled_run(scene: Scene, grace_ms: int) -> None:
    """What nobody holds is cancelled at once, what is held after the grace, what has ended stays as it is."""
    sql = scene.engine.admin
    state = state_of(scene)
    with sql.transaction(force_rollback=True):
        sql.execute("SELECT stanchion.cancel_task(%s, %s, 'test', 'ann')", (scene.engine.tenant, scene.task_id))
        said = []
        for _ in range(5):
            row = sql.execute(
                "SELECT stanchion.sweep_run(run_id, 100, %s) FROM stanchion.run WHERE task_id = %s",
                (grace_ms - 1, scene.task_id),
            ).fetchone()
            assert row is not None
            said.append(row[0])
        now = sql.execute("SELECT state FROM stanchion.step WHERE step_id = %s", (scene.step_id,)).fetchone()
    assert now is not None
    ended = state in ("succeeded", "failed", "cancelled", "skipped")
    kept = ended or (state in ("leased", "running") and grace_ms > 0)
    assert now[0] == (state if kept else "cancelled")
    if ended or not kept:
        assert said.count("ended") == (state != "cancelled"), "it is told once, by whoever ended it"
        assert said[-1] == "gone"
    else:
        assert "waiting" in said
