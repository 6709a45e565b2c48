"""The check finds every damage that is done by hand, and nothing in a database that only the engine wrote."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kit.engine import Engine
from kit.flows import fan, nested, single

from stanchion.authority.check import Difference, check
from stanchion.authority.rebuild import rebuild
from stanchion.db.engine import Database
from stanchion.workflow import Again, All, AtLeast, Ctx, First, Go, Results, Spawn, Workflow


@pytest.fixture
def root(database_url: str) -> Iterator[Database]:
    """The administrator's access."""
    database = Database(database_url, name="check")
    yield database
    database.close()


def damage(engine: Engine, sql: str) -> None:
    """Write past all guards, as only a superuser can."""
    with engine.admin.transaction():
        engine.admin.execute("SET LOCAL session_replication_role = replica")
        assert engine.admin.execute(sql).rowcount > 0, sql  # type: ignore[arg-type]  # literals of this module


def told(found: list[Difference]) -> set[tuple[str, str]]:
    return {(d.what, d.field) for d in found}


def everything(engine: Engine) -> None:
    """Runs that use all that the engine knows, ended and live, succeeded, failed and cancelled."""
    worker = engine.worker()
    engine.submit(nested("all", "all", "all"))
    engine.submit(nested("early", AtLeast(2), First()))
    engine.submit(nested("collects", "all", All(on_failed="collect")))
    engine.submit(fan("fails", "all", ["bad", "b"]))
    engine.submit(fan("slotted", "all", ["x"] * 100))
    engine.submit(fan("slots_collect", All(on_failed="collect"), ["x"] * 30 + ["bad"] * 3))
    engine.submit(fan("retries", All(on_failed="collect"), ["a", "bad"], retries=2))
    engine.submit(fan("empty", "all", []))
    steer(engine)
    worker = engine.worker()
    worker.work()
    cancelled = engine.submit(fan("cancelled", "all", list("abc")))
    worker.finish(worker.take("plan")[0], list("abc"))
    engine.expand()
    worker.take("visit", limit=1)
    engine.cancel(cancelled)
    engine.forward(601)
    engine.sweep()
    half(engine)


def steer(engine: Engine) -> None:
    wf = Workflow("steers")

    @wf.step()
    def draft(ctx: Ctx, n: int) -> int:
        return n + 1

    @wf.step(after=draft, again="draft")
    def improve(ctx: Ctx, n: int) -> int | Again:
        return n if n >= 2 else Again(draft, n=n)

    @wf.step(after=improve, next=("left", "right"))
    def choose(ctx: Ctx, n: int) -> Go:
        return Go(left)

    @wf.step(on_demand=True)
    def left(ctx: Ctx) -> str:
        return "l"

    @wf.step(on_demand=True)
    def right(ctx: Ctx) -> str:
        return "r"

    @wf.step(after=(left, right), spawns=("count", "add"))
    def split(ctx: Ctx, a: str | None, b: str | None) -> int | Spawn:
        return Spawn(count, ["a", "bb"], then=add)

    @wf.step(on_demand=True)
    def count(ctx: Ctx, word: str) -> int:
        return len(word)

    @wf.step(after=count, join="all", on_demand=True)
    def add(ctx: Ctx, lengths: Results[int]) -> int:
        return sum(lengths)

    engine.submit(wf, input={"n": 0})


def half(engine: Engine) -> None:
    """A live run with children in every state, one lost and one given back, and one join that holds."""
    engine.submit(fan("half", All(on_failed="hold", within="1d"), ["x"] * 8, retries=3, total="1d", start_within="1d"))
    worker = engine.worker()
    worker.finish(next(x for x in worker.take("plan") if x.workflow == "half"), ["x"] * 8)
    engine.expand()
    mine = "SELECT step_id FROM stanchion.ready WHERE workflow = 'half' ORDER BY step_id"
    a, b, c, d, e, f = worker.leases.lease(engine.all(mine)[:6], 6)
    worker.finish(a, "A")
    worker.fail(b)
    worker.fail(c, final=False, delay_ms=3_600_000)
    worker.leases.give_back([d], "test")
    worker.leases.renew([e], [True], [None])
    engine.forward(40)
    worker.leases.renew([f], [False], [None])
    engine.upkeep.reap()
    assert worker.leases.lease(engine.all(mine)[:1], 1)


def test_a_database_that_the_engine_wrote_has_no_difference(engine: Engine, root: Database) -> None:
    """Fan-outs, joins of every kind, choices, rounds, spawns, retries, losses, cancels, live and ended."""
    everything(engine)
    assert [str(d) for d in check(root)] == []
    assert [str(r) for r in rebuild(root)] == []
    engine.check_counts()


DAMAGES = [
    ("UPDATE stanchion.task SET state = 'failed', ended_at = now() WHERE state = 'running'", ("task", "state")),
    ("UPDATE stanchion.task SET version = version + 1 WHERE state = 'running'", ("task", "version")),
    ("DELETE FROM stanchion.task WHERE state = 'running'", ("task", "row")),
    (
        "UPDATE stanchion.run SET state = 'succeeded', open = 0, ended_at = now() WHERE state = 'running'",
        ("run", "state"),
    ),
    ("UPDATE stanchion.run SET version = 9 WHERE state = 'running'", ("run", "version")),
    ("UPDATE stanchion.run SET open = open + 1 WHERE state = 'running'", ("run", "open")),
    ("UPDATE stanchion.run SET paused_at = now() WHERE state = 'running'", ("run", "paused")),
    ("DELETE FROM stanchion.run WHERE state = 'running'", ("run", "row")),
    ("UPDATE stanchion.step SET state = 'succeeded' WHERE state = 'failed'", ("step", "state")),
    ("UPDATE stanchion.step SET version = version + 1 WHERE state = 'failed'", ("step", "version")),
    ("UPDATE stanchion.step SET fence = fence - 1 WHERE state = 'leased'", ("step", "fence")),
    ("UPDATE stanchion.step SET attempts = 0 WHERE state = 'retry_wait'", ("step", "attempts")),
    ("UPDATE stanchion.step SET idx = 77 WHERE state = 'failed'", ("step", "idx")),
    ("UPDATE stanchion.step SET feeds = '{}' WHERE state = 'failed'", ("step", "feeds")),
    ("UPDATE stanchion.step SET counts = NOT counts WHERE state = 'waiting'", ("step", "counts")),
    ("DELETE FROM stanchion.step WHERE state = 'failed'", ("step", "row")),
    ("UPDATE stanchion.attempt SET state = 'lost', ended_at = now() WHERE ended_at IS NULL", ("attempt", "state")),
    ("UPDATE stanchion.attempt SET state = 'lost', ended_at = now() WHERE ended_at IS NULL", ("step", "held")),
    ("UPDATE stanchion.attempt SET counted = NOT counted WHERE state = 'lost'", ("attempt", "counted")),
    ("UPDATE stanchion.attempt SET worker_id = gen_random_uuid() WHERE ended_at IS NULL", ("attempt", "worker_id")),
    ("DELETE FROM stanchion.attempt WHERE state = 'failed'", ("attempt", "row")),
    ("UPDATE stanchion.barrier SET state = 'failed' WHERE state = 'waiting'", ("barrier", "state")),
    ("UPDATE stanchion.barrier SET version = 5 WHERE state = 'waiting'", ("barrier", "version")),
    ("UPDATE stanchion.barrier SET expected = 99 WHERE state = 'waiting'", ("barrier", "expected")),
    (
        "UPDATE stanchion.barrier SET succeeded = succeeded + 1 WHERE state = 'waiting' AND slots = 0",
        ("barrier", "succeeded"),
    ),
    ("UPDATE stanchion.barrier SET failed = 0 WHERE state = 'waiting'", ("barrier", "failed")),
    ("UPDATE stanchion.barrier SET skipped = 3 WHERE state = 'waiting'", ("barrier", "skipped")),
    ("UPDATE stanchion.barrier SET closed = true WHERE state = 'waiting'", ("barrier", "closed")),
    ("DELETE FROM stanchion.barrier WHERE state = 'waiting'", ("barrier", "row")),
    ("DELETE FROM stanchion.barrier_release", ("barrier", "releases")),
    ("UPDATE stanchion.barrier_release SET included = included + 1", ("barrier", "included")),
    ("UPDATE stanchion.barrier_slot SET remaining = remaining + 1", ("barrier_slot", "remaining")),
    ("UPDATE stanchion.barrier SET slots_left = 2 WHERE slots > 0", ("barrier", "slots_left")),
    ("DELETE FROM stanchion.result", ("result", "there")),
    ("UPDATE stanchion.result SET fence = 9", ("result", "fence")),
    (
        "INSERT INTO stanchion.result (tenant_id, step_id, body) SELECT tenant_id, step_id, '1' FROM stanchion.step WHERE state = 'failed'",
        ("result", "there"),
    ),
    ("DELETE FROM stanchion.event WHERE kind = 'StepRetryScheduled'", ("step", "state")),
    ("DELETE FROM stanchion.event WHERE kind = 'StepReleased'", ("step", "events")),
    ("DELETE FROM stanchion.event WHERE kind = 'StepLeased'", ("attempt", "events")),
    ("DELETE FROM stanchion.event WHERE kind = 'TaskAccepted'", ("run", "begun")),
    ("DELETE FROM stanchion.event WHERE kind = 'BarrierCreated'", ("barrier", "row")),
    ("DELETE FROM stanchion.event WHERE kind = 'StepReady' AND version = 0", ("step", "events")),
    (
        "INSERT INTO stanchion.event (tenant_id, run_id, step_id, kind, version, fence) SELECT tenant_id, run_id, step_id, 'StepLeased', version + 1, fence + 2 FROM stanchion.step WHERE state = 'leased'",
        ("step", "events"),
    ),
]


def test_each_damage_is_found(engine: Engine, root: Database) -> None:
    """Rows are changed, removed or added with all guards off: each is told, by table and field; undone, it is quiet."""
    engine.submit(fan("slotted", "all", ["x"] * 100))
    worker = engine.worker()
    worker.work(until=lambda: len(worker.ready("visit")) == 100)
    worker.finish_all(worker.take("visit", limit=70), "x")
    half(engine)
    assert [str(d) for d in check(root)] == []
    missed = []
    for sql, expected in DAMAGES:
        tables = {
            t
            for t in ("task", "run", "step", "attempt", "barrier", "barrier_slot", "barrier_release", "result", "event")
            if f"stanchion.{t} " in f"{sql} "
        }
        for table in tables:
            engine.admin.execute(f"CREATE TABLE public.kept_{table} AS SELECT * FROM stanchion.{table}")
        damage(engine, sql)
        if expected not in told(list(check(root))):
            missed.append((sql, expected, told(list(check(root)))))
        with engine.admin.transaction():
            engine.admin.execute("SET LOCAL session_replication_role = replica")
            for table in tables:
                engine.admin.execute(f"DELETE FROM stanchion.{table}")
                overriding = "OVERRIDING SYSTEM VALUE" if table == "event" else ""
                engine.admin.execute(f"INSERT INTO stanchion.{table} {overriding} SELECT * FROM public.kept_{table}")
                engine.admin.execute(f"DROP TABLE public.kept_{table}")
    assert missed == []
    assert [str(d) for d in check(root)] == []


def test_one_run_is_checked_by_itself(engine: Engine, root: Database) -> None:
    """Damage elsewhere is not told."""
    one = engine.submit(single("one"))
    other = engine.submit(single("other"))
    damage(engine, f"UPDATE stanchion.run SET version = 5 WHERE run_id = '{other.run_id}'")
    assert list(check(root, one.run_id)) == []
    (found,) = check(root, other.run_id)
    assert (found.what, found.field, found.stored, found.told) == ("run", "version", 5, 0)
    assert "version is 5, the events say 0" in str(found)


def test_what_retention_removed_is_not_missed(engine: Engine, root: Database) -> None:
    """Neither payloads nor whole runs, whose events stay until their month goes."""
    engine.submit(fan("removed", "all", ["a"]))
    engine.worker().work()
    engine.forward(86_400 * 100)
    engine.admin.execute("SELECT stanchion.remove_payloads('30 days', 10)")
    assert [str(d) for d in check(root)] == []
    engine.admin.execute("SELECT stanchion.remove_history('90 days', 10)")
    assert engine.all("SELECT count(*) FROM stanchion.run") == [0]
    assert [str(d) for d in check(root)] == []


class TestRebuild:
    """What is derived can be lost as a whole and comes back from what it was derived from."""

    def damaged(self, engine: Engine) -> None:
        engine.submit(fan("slotted", "all", ["x"] * 100))
        worker = engine.worker()
        worker.work(until=lambda: len(worker.ready("visit")) == 100)
        worker.finish_all(worker.take("visit", limit=70), "x")
        half(engine)
        engine.submit(fan("unexpanded", "all", ["a", "b"]))
        worker = engine.worker()
        worker.finish(worker.take("plan")[0], ["a", "b"])

    def derived(self, engine: Engine) -> list[object]:
        return [
            engine.all("SELECT step_id FROM stanchion.ready ORDER BY 1"),
            engine.all(
                "SELECT kind, target_id, version FROM stanchion.timer t WHERE kind <> 'start_deadline' AND NOT EXISTS"
                " (SELECT FROM stanchion.step s WHERE s.step_id = t.target_id AND s.state IN ('leased', 'running')) ORDER BY 1, 2"
            ),
            engine.all("SELECT barrier_id, slot, remaining FROM stanchion.barrier_slot ORDER BY 1, 2"),
            engine.all("SELECT barrier_id, succeeded, failed, skipped, slots_left FROM stanchion.barrier ORDER BY 1"),
            engine.all("SELECT run_id, open FROM stanchion.run ORDER BY 1"),
        ]

    def test_a_dry_run_tells_and_changes_nothing(self, engine: Engine, root: Database) -> None:
        """Each thing that is wrong, by its key."""
        self.damaged(engine)
        for sql in (
            "DELETE FROM stanchion.ready",
            "DELETE FROM stanchion.timer",
            "UPDATE stanchion.run SET open = open + 3",
        ):
            damage(engine, sql)
        before = self.derived(engine)
        told = list(rebuild(root))
        assert {r.what for r in told} == {"ready", "timer", "run"}
        assert self.derived(engine) == before
        assert [(r.what, r.which) for r in rebuild(root)] == [(r.what, r.which) for r in told]

    def test_everything_comes_back(self, engine: Engine, root: Database) -> None:
        """Ready steps, timers, slots, counts and open counts are what they were; a second look finds nothing."""
        self.damaged(engine)
        before = self.derived(engine)
        for sql in (
            "DELETE FROM stanchion.ready",
            "DELETE FROM stanchion.timer",
            "UPDATE stanchion.barrier_slot SET remaining = remaining + 5",
            "UPDATE stanchion.barrier SET succeeded = 0, failed = 0, skipped = 0 WHERE state = 'waiting'",
            "UPDATE stanchion.run SET open = open + 3",
        ):
            damage(engine, sql)
        assert list(rebuild(root, apply=True))
        assert self.derived(engine) == before
        assert list(rebuild(root)) == []
        assert [str(d) for d in check(root)] == []

    def test_what_should_not_be_there_goes(self, engine: Engine, root: Database) -> None:
        """Rows in ready and timers of steps and runs that have ended."""
        self.damaged(engine)
        done = engine.submit(single("done"))
        engine.worker().take()
        damage(
            engine,
            "INSERT INTO stanchion.ready (step_id, tenant_id, workflow, workflow_version, node, queue, priority) SELECT step_id, tenant_id, workflow, workflow_version, node, queue, 0 FROM stanchion.step WHERE state IN ('succeeded', 'failed')",
        )
        damage(
            engine,
            "INSERT INTO stanchion.timer (tenant_id, kind, due_at, run_id, target_id, version) SELECT tenant_id, 'retry', now(), run_id, step_id, 3 FROM stanchion.step WHERE state = 'succeeded'",
        )
        damage(engine, f"UPDATE stanchion.run SET state = 'failed', ended_at = now() WHERE run_id = '{done.run_id}'")
        assert {r.what for r in rebuild(root, apply=True)} == {"ready", "timer"}
        assert list(rebuild(root)) == []

    def test_a_run_that_lost_its_end_comes_to_it(self, engine: Engine, root: Database) -> None:
        """Everything has settled, but a counter was wrong, so nothing ended the run: the rebuild does."""
        task = engine.submit(single("stuck"))
        damage(engine, "UPDATE stanchion.run SET open = 2")
        engine.worker().work()
        assert engine.task(task)[1] == "running"
        (repair,) = rebuild(root, apply=True)
        assert repair.detail == "it counts 1 as open, 0 are"
        assert engine.task(task) == ("completed", "succeeded")
