"""`why` walks to what really holds a thing, tells each tenant its own, and does not grow with the children."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

import pytest
from kit.crew import crew
from kit.deciding import Deciding
from kit.effects import PAGE, publishing, step_state
from kit.engine import Engine
from kit.flows import fan, nested, single
from kit.outside import Outside
from sqlalchemy import event, select
from sqlalchemy.dialects import postgresql
from why_scenes import Stage, branches, its_message_was_parked, its_row_in_ready_is_gone, pair

from stanchion.authority.keys import Keys
from stanchion.authority.operations import Operations
from stanchion.authority.tasks import Tasks
from stanchion.authority.why import Asking, Why
from stanchion.authority.why_codes import Reason
from stanchion.authority.why_look import may_be_leased, seen_lately
from stanchion.authority.workflows import Workflows
from stanchion.contracts import ids
from stanchion.db import tables
from stanchion.db.engine import Database
from stanchion.db.grants import DASHBOARD, ORCHESTRATOR
from stanchion.errors import NotFound
from stanchion.state import RunState, StepState
from stanchion.workflow import Again, All, Ctx, Results, Spawn, Workflow


@pytest.fixture
def stage(engine: Engine, outside: Outside, people: Deciding, db: Callable[[str], Database]) -> Stage:
    """Where all of it is played."""
    return Stage(engine, outside, people, db)


def codes(why: Why) -> list[str]:
    return [reason.code for reason in why.reasons]


def of(why: Why, code: str) -> Reason:
    """The only reason with this code."""
    (found,) = (reason for reason in why.reasons if reason.code == code)
    return found


class TestWalk:
    """From what waits to what it waits for."""

    def test_a_join_over_branches_in_which_people_are_asked(self, stage: Stage) -> None:
        """Asked about the join, it names the people; three branches are one line, and one that is open is counted."""
        task = stage.submit(branches("asked"))
        with crew(stage.engine) as worker:
            worker.work(lambda: stage.engine.expand() + stage.engine.states(task, "check").get("waiting", 0) >= 3)
        for why in (
            stage.why("stp", stage.step("total")),
            stage.why("bar", stage.barrier("total")),
            stage.why("tsk", task.task_id),
        ):
            assert codes(why) == ["W-APPROVAL", "W-BARRIER"]
            assert of(why, "W-APPROVAL").text.startswith("3 approvals of check are asked of editors")
            assert "has 0 of 3" in of(why, "W-BARRIER").text
        fan_out = stage.why("stp", stage.step("part", "waiting"))
        assert "W-APPROVAL" in codes(fan_out)

    def test_only_what_leads_there_counts(self, stage: Stage) -> None:
        """What is beside the way of a step does not hold it."""
        wf = Workflow("sides")

        @wf.step(queue="left")
        def left(ctx: Ctx) -> int:
            return 1

        @wf.step(queue="right")
        def right(ctx: Ctx) -> int:
            return 1

        @wf.step(after=left)
        def left_end(ctx: Ctx, n: int) -> int:
            return n

        task = stage.submit(wf)
        queues = [r.details["queue"] for r in stage.why("stp", stage.step("left_end")).reasons if "queue" in r.details]
        assert queues == ["left"]
        assert len([r for r in stage.why("tsk", task.task_id).reasons if r.code == "W-NO-WORKER"]) == 2

    def test_a_branch_waits_for_its_own_steps(self, stage: Stage) -> None:
        """Not for those of its neighbours."""
        stage.submit(branches("own"))
        worker = stage.engine.worker()
        worker.finish(worker.take()[0], [1, 2, 3])
        stage.engine.expand()
        first, *_ = worker.take("part")
        found = stage.engine.all("SELECT step_id, idx FROM stanchion.step WHERE node = 'check' ORDER BY idx")
        reason = of(stage.why("stp", found[0][0]), "W-LEASE")
        assert reason.details["steps"] == 1
        assert reason.evidence[0].id == ids.public(ids.STEP, first.step_id)

    def test_what_was_spawned_answers_for_the_step_that_spawned(self, stage: Stage) -> None:
        """The step after it waits for the spawned children, and for their join."""
        wf = Workflow("spawning")

        @wf.step(spawns=("count", "add"))
        def split(ctx: Ctx) -> int | Spawn:
            return Spawn(count, ["a", "b"], then=add)

        @wf.step(on_demand=True)
        def count(ctx: Ctx, word: str) -> int:
            return len(word)

        @wf.step(after=count, join="all", on_demand=True)
        def add(ctx: Ctx, lengths: Results[int]) -> int:
            return sum(lengths)

        @wf.step(after=split)
        def show(ctx: Ctx, n: int) -> int:
            return n

        stage.submit(wf)
        worker = stage.engine.worker()
        worker.settle([worker.run(worker.take("split")[0])])
        stage.engine.expand()
        worker.take("count")
        why = stage.why("stp", stage.step("show"))
        assert codes(why) == ["W-LEASE", "W-BARRIER", "W-UPSTREAM"]
        assert of(why, "W-LEASE").details["node"] == "count"
        assert "show waits for add" in of(why, "W-UPSTREAM").text
        assert "W-LEASE" in codes(stage.why("stp", stage.step("add")))

    def test_a_further_round_is_what_is_waited_for(self, stage: Stage) -> None:
        """Not the steps of the round before, which have ended."""
        wf = Workflow("rounds")

        @wf.step()
        def draft(ctx: Ctx, n: int = 0) -> int:
            return n

        @wf.step(after=draft, again="draft")
        def review(ctx: Ctx, n: int) -> int | Again:
            return Again(draft, n=n + 1) if n == 0 else n

        @wf.step(after=review)
        def publish(ctx: Ctx, n: int) -> int:
            return n

        stage.submit(wf, input={"n": 0})
        worker = stage.engine.worker()
        worker.settle([worker.run(worker.take("draft")[0])])
        worker.settle([worker.run(worker.take("review")[0])])
        worker.take("draft")
        why = stage.why("stp", stage.step("publish"))
        assert codes(why) == ["W-LEASE", "W-UPSTREAM"]
        assert "publish waits for review, which is pending" in of(why, "W-UPSTREAM").text
        ended = stage.why("stp", stage.step("review", "succeeded"))
        assert "a further round does it again" in of(ended, "W-DONE").text

    def test_what_lost_its_worker_twice_waits_beside_free_slots(self, stage: Stage) -> None:
        """A worker runs one such at a time: that is said where it is the cause."""
        task = stage.submit(single("suspect"))
        for _ in range(2):
            stage.engine.worker().take()
            stage.engine.forward(31)
            stage.engine.upkeep.reap()
        stage.present()
        assert "1 step lost its worker twice" in of(stage.why("tsk", task.task_id), "W-OK").text

    def test_fan_outs_inside_of_a_fan_out_are_one_line(self, stage: Stage) -> None:
        """The inner joins have sums, the outer one its own counts."""
        task = stage.submit(nested("deep", "all", "all"))
        worker = stage.engine.worker()
        worker.work(until=lambda: len(worker.ready("visit")) == 9)
        worker.finish_all(worker.take("visit")[:4], 1)
        why = stage.why("tsk", task.task_id)
        joins = [reason.text for reason in why.reasons if reason.code == "W-BARRIER"]
        assert len(joins) == 2
        assert '3 joins "all" before sum_up have 4 of 9' in joins, joins
        inner = stage.why("stp", stage.step("total"))
        assert "W-LEASE" in codes(inner)

    def test_forty_two_failed_children_are_one_line(self, stage: Stage) -> None:
        """With the way to reopen all of them; the join can be opened without them only when nothing else is missing."""
        task = stage.submit(fan("failing", All(on_failed="hold"), ["bad"] * 42 + ["good"] * 3))
        worker = stage.engine.worker()
        worker.finish(worker.take()[0], ["bad"] * 42 + ["good"] * 3)
        stage.engine.expand()
        leases = worker.take("visit")
        worker.fail(*leases[:42])
        reason = of(stage.why("tsk", task.task_id), "W-HELD")
        assert "has 0 of 45; 42 failed steps hold it; 3 branches are still under way" in reason.text
        assert [way.action for way in reason.ways] == ["task.reopen"]
        assert reason.ways[0].given == {"node": "visit"}
        worker.finish_all(leases[42:], "x")
        reason = of(stage.why("tsk", task.task_id), "W-HELD")
        assert [way.action for way in reason.ways] == ["task.reopen", "barrier.open"]
        assert stage.engine.open(stage.barrier("gather"))

    def test_held_before_the_joined_step_it_can_be_opened(self, stage: Stage) -> None:
        """A branch stands still since an earlier step of it failed: what the page offers, the database does."""
        wf = Workflow("two_steps")

        @wf.step()
        def plan(ctx: Ctx) -> list[int]:
            return [1, 2]

        @wf.step(after=plan, each=True, retries=0)
        def begin(ctx: Ctx, n: int) -> int:
            return n

        @wf.step(after=begin, retries=0)
        def end(ctx: Ctx, n: int) -> int:
            return n

        @wf.step(after=end, join=All(on_failed="hold"))
        def total(ctx: Ctx, n: Results[int]) -> int:
            return len(n)

        task = stage.submit(wf)
        worker = stage.engine.worker()
        worker.finish(worker.take()[0], [1, 2])
        stage.engine.expand()
        bad, good = worker.take("begin")
        worker.fail(bad)
        (after,) = stage.engine.one(
            "SELECT step_id FROM stanchion.step WHERE node = 'end' AND idx = (SELECT idx FROM stanchion.step WHERE step_id = %s)",
            bad.step_id,
        )
        assert codes(stage.why("stp", after)) == ["W-DEAD", "W-UPSTREAM"]
        assert of(stage.why("stp", after), "W-DEAD").ways[0].given == {"node": "begin"}
        assert "W-HELD" in codes(stage.why("stp", stage.step("begin", "waiting")))
        assert [w.action for w in of(stage.why("tsk", task.task_id), "W-HELD").ways] == ["task.reopen"]
        worker.finish(good, 1)
        worker.finish(worker.take("end")[0], 1)
        assert [w.action for w in of(stage.why("tsk", task.task_id), "W-HELD").ways] == ["task.reopen", "barrier.open"]
        assert stage.engine.open(stage.barrier("total"))


class TestPause:
    def test_what_runs_goes_on(self, stage: Stage) -> None:
        """A leased step is not held by a pause, what is ready beside it is."""
        wf = Workflow("beside")

        @wf.step(queue="one")
        def one(ctx: Ctx) -> int:
            return 1

        @wf.step(queue="two")
        def two(ctx: Ctx) -> int:
            return 1

        task = stage.submit(wf)
        stage.engine.worker().take("one")
        stage.engine.pause(task)
        whole = stage.why("tsk", task.task_id)
        assert codes(whole) == ["W-PAUSED", "W-LEASE"]
        assert "by ann" in of(whole, "W-PAUSED").text
        assert "1 step that runs goes on" in of(whole, "W-PAUSED").text
        assert codes(stage.why("stp", stage.step("one"))) == ["W-LEASE"]
        assert codes(stage.why("stp", stage.step("two"))) == ["W-PAUSED"]

    def test_what_is_in_doubt_is_asked_after(self, stage: Stage) -> None:
        """A probe is work that a pause does not hold back; without a worker nobody makes it."""
        stage.outside.script.append("lost")
        stage.outside.blind = True
        task = stage.submit(publishing(stage.outside))
        with crew(stage.engine) as worker:
            worker.work(lambda: step_state(stage.engine) == "unknown")
        stage.engine.pause(task)
        stage.engine.forward(3_600)
        stage.engine.fire()
        why = stage.why("tsk", task.task_id)
        assert {"W-PAUSED", "W-UNKNOWN", "W-NO-WORKER"} <= set(codes(why))
        assert "for 1 probe in queue" in of(why, "W-NO-WORKER").text


class TestEnds:
    def test_a_cancelled_run_with_an_effect_in_doubt_and_no_worker(self, stage: Stage) -> None:
        """It ends once that is known; and nobody asks, since no worker is there."""
        stage.outside.script.append("lost")
        stage.outside.blind = True
        task = stage.submit(publishing(stage.outside))
        with crew(stage.engine) as worker:
            worker.work(lambda: step_state(stage.engine) == "unknown")
        stage.engine.cancel(task)
        stage.engine.sweep()
        assert {"W-CANCELLING", "W-UNKNOWN"} == set(codes(stage.why("tsk", task.task_id)))
        stage.engine.forward(3_600)
        assert "W-STALLED" in codes(stage.why("tsk", task.task_id))
        stage.engine.fire()
        why = stage.why("tsk", task.task_id)
        assert {"W-CANCELLING", "W-UNKNOWN", "W-NO-WORKER"} <= set(codes(why))
        assert "W-NO-WORKER" in codes(stage.why("stp", stage.step("send")))

    def test_what_a_step_left_in_doubt_is_asked_after_by_nobody(self, stage: Stage) -> None:
        """Its step has ended: a person has to tell, also after the end of the run."""
        stage.outside.script.extend(["late", *["never"] * 5])
        publish = stage.outside.operation()
        wf = Workflow("used_up", operations=[publish])

        @wf.step(retries=0)
        async def send(ctx: Ctx) -> dict[str, Any]:
            return await ctx.op(publish, PAGE, key="spring")

        task = stage.submit(wf)
        with crew(stage.engine) as worker:
            worker.work(lambda: step_state(stage.engine) == "failed")
        stage.engine.sweep()
        for why in (stage.why("tsk", task.task_id), stage.why("stp", stage.step("send"))):
            assert codes(why) == ["W-DEAD", "W-UNKNOWN-NOCHECK"]
            reason = of(why, "W-UNKNOWN-NOCHECK")
            assert "its step has ended" in reason.text
            assert {way.action for way in reason.ways} == {None, "operation.mark-done", "operation.mark-not-done"}

    def test_an_effect_that_is_undone_after_the_end(self, stage: Stage) -> None:
        """The task is done; the step that undoes waits as any other."""
        task = stage.submit(publishing(stage.outside, undo=stage.outside.operation("press.retract")))
        with crew(stage.engine) as worker:
            worker.work(lambda: stage.engine.task(task)[0] == "completed")
        (operation,) = stage.engine.one("SELECT operation_id FROM stanchion.operation")
        Operations(stage.engine.service).compensate(stage.engine.tenant, operation, reason="a misprint", actor="ann")
        why = stage.why("tsk", task.task_id)
        assert set(codes(why)) == {"W-DONE", "W-NO-WORKER"}
        stage.present()
        assert codes(stage.why("tsk", task.task_id)) == ["W-OK", "W-DONE"]

    def test_of_a_run_that_was_retried_nothing_is_offered(self, stage: Stage) -> None:
        """A later run has taken its place: that is said, and neither it nor its steps are retried again."""
        task = stage.submit(single("again", retries=0))
        worker = stage.engine.worker()
        (lease,) = worker.take()
        worker.fail(lease)
        stage.engine.sweep()
        assert [way.action for way in stage.why("stp", lease.step_id).reasons[0].ways] == ["task.retry"]
        Tasks(stage.engine.service, Workflows(stage.engine.service)).retry(
            stage.engine.tenant, task.task_id, reason="test", actor="ann"
        )
        old = stage.why("run", task.run_id)
        assert codes(old) == ["W-DEAD"]
        assert old.reasons[0].text.startswith("run 1 failed")
        assert "in run 2" in old.reasons[0].next
        assert [way.action for way in old.reasons[0].ways] == [None]
        assert stage.why("stp", lease.step_id).reasons[0].ways == ()
        assert "W-DEAD" not in codes(stage.why("tsk", task.task_id))

    def test_a_skipped_step_says_why(self, stage: Stage) -> None:
        """With the failure that it could not come after."""
        stage.submit(fan("spoiled", "all", ["bad", "b"]))
        stage.engine.worker().work()
        reason = of(stage.why("stp", stage.step("gather")), "W-SKIPPED")
        assert "the join before gather failed" in reason.text
        assert "the join before gather failed" in of(stage.why("bar", stage.barrier("gather")), "W-DEAD").text


class TestPlaces:
    def test_a_line_of_one_queue_has_its_pace(self, stage: Stage) -> None:
        """How many steps of this tenant ended in the last seconds, and how long the rest takes at that."""
        stage.submit_many(single("line"), 30)
        worker = stage.engine.worker()
        worker.finish_all(worker.take(limit=20), 1)
        stage.present(slots=2, running=2)
        task = stage.submit(single("line"))
        reason = of(stage.why("tsk", task.task_id), "W-CAPACITY")
        assert "10 ahead; at 2.0/s about 5.5 s" in reason.text
        assert reason.details["ahead"] == 10

    def test_many_silent_workers_are_one_line(self, stage: Stage) -> None:
        """With how long the longest is silent, and when the first of their leases ends; those at work are another."""
        task = stage.submit(fan("mute", "all", list("abcd")))
        worker = stage.engine.worker()
        worker.finish(worker.take()[0], list("abcd"))
        stage.engine.expand()
        for _ in range(3):
            silent = stage.engine.worker()
            silent.seen()
            silent.take("visit", limit=1)
        stage.engine.forward(20)
        alive = stage.engine.worker()
        alive.seen()
        alive.take("visit")
        why = stage.why("tsk", task.task_id)
        assert (
            "3 workers are silent or have ended, for up to 20 s; their leases on 3 steps end in"
            in of(why, "W-LEASE-LOST").text
        )
        assert of(why, "W-LEASE").details["steps"] == 1
        stage.engine.forward(15)
        alive.seen()
        assert "the lease of 3 workers on 3 steps ran out" in of(stage.why("tsk", task.task_id), "W-LEASE-LOST").text

    def test_what_other_workers_take_is_not_ahead(self, stage: Stage) -> None:
        """In the same queue, and more urgent: those that serve these steps don't have its workflow."""
        stage.submit(single("foreign"), priority=50)
        task = stage.submit(single("own"))
        stage.present("own@1", slots=1, running=1)
        why = stage.why("tsk", task.task_id)
        assert codes(why) == ["W-CAPACITY"]
        assert "1 of 1 slots busy at 1 worker, 0 ahead" in of(why, "W-CAPACITY").text

    def test_another_tenants_steps_are_not_counted(self, stage: Stage, database_url: str) -> None:
        """Nor named; that they were not is said."""
        other = Keys(stage.engine.service).create_tenant("rival")
        mine = stage.engine.tenant
        stage.engine.tenant = other
        stage.submit(single("shared"), priority=50)
        stage.engine.tenant = mine
        task = stage.submit(single("shared"))
        stage.present(slots=1, running=1)
        why = stage.why("tsk", task.task_id)
        assert codes(why) == ["W-CAPACITY"]
        assert of(why, "W-CAPACITY").details["ahead"] == 0
        assert any("other tenants" in what for what in why.unchecked)

    def test_one_partition_without_a_relay_is_enough(self, stage: Stage) -> None:
        """The relay that is there holds the others: it is not the relay that is behind."""
        task = stage.submit(single("part"))
        stage.db("stanchion_relay").read("SELECT * FROM stanchion.relay_tick(%s, 'r', 600000)", (uuid4(),))
        stage.engine.admin.execute("UPDATE stanchion.outbox_partition SET owner = NULL WHERE part = 3")
        stage.engine.forward(10)
        reason = of(stage.why("tsk", task.task_id), "W-RELAY-DOWN")
        assert reason.text.startswith("no relay holds 1 of 8 partitions")
        assert reason.evidence[0].id == "3"

    def test_a_dead_letter_that_was_sent_again_is_no_reason(self, stage: Stage) -> None:
        """And neither is one about another run."""
        task = its_message_was_parked(stage)
        other = stage.submit(single("clean"))
        assert "W-POISON" in codes(stage.why("tsk", task))
        assert "W-POISON" not in codes(stage.why("tsk", other.task_id))
        stage.engine.admin.execute("UPDATE stanchion.dead_letter SET redriven_at = now()")
        assert "W-POISON" not in codes(stage.why("tsk", task))


def test_what_another_tenant_owns_is_not_there(stage: Stage) -> None:
    """The same answer as for what never was, for each kind of id."""
    task = stage.submit(pair("mine"))
    rival = Keys(stage.engine.service).create_tenant("rival")
    (barrier,) = stage.engine.one("SELECT barrier_id FROM stanchion.barrier")
    asking = Asking(stage.engine.service)
    for prefix, value in (
        ("tsk", task.task_id),
        ("run", task.run_id),
        ("stp", stage.step("first")),
        ("bar", barrier),
    ):
        told = []
        for about in (value, uuid4()):
            with pytest.raises(NotFound) as caught:
                asking.about(rival, ids.public(prefix, about))
            told.append(str(caught.value))
        assert told[0] == told[1]
        with pytest.raises(NotFound):
            asking.about(rival, str(value))


def test_what_it_says_of_damage_mends_it(stage: Stage, database_url: str) -> None:
    """A run whose row in ready is gone has nothing that would move it, until it is rebuilt."""
    run_id = its_row_in_ready_is_gone(stage)
    (reason,) = stage.why("run", run_id).reasons
    assert (reason.code, reason.ways[1].command) == (
        "W-DAMAGED",
        f"stanchion db rebuild --run {ids.public(ids.RUN, run_id)}",
    )
    stage.engine.admin.execute("SELECT stanchion.rebuild_run(%s, true)", (run_id,))
    assert codes(stage.why("run", run_id)) == ["W-NO-WORKER"]


@pytest.mark.parametrize("login", [DASHBOARD, ORCHESTRATOR])
def test_pages_may_ask_as_the_api_does(stage: Stage, login: str) -> None:
    """Under a login that only reads; the same reasons come of it."""
    task = stage.submit(branches("read"))
    with crew(stage.engine) as worker:
        worker.work(lambda: stage.engine.expand() + stage.engine.states(task, "check").get("waiting", 0) >= 1)
    stage.engine.forward(10)
    about = ids.public(ids.TASK, task.task_id)
    read = Asking(stage.db(login)).about(stage.engine.tenant, about)
    assert codes(read) == codes(Asking(stage.engine.service).about(stage.engine.tenant, about))


# --- the predicates that schedule ---


def test_what_may_be_leased_is_what_the_database_leases(engine: Engine) -> None:
    """For every state of a run, paused or not, and every state and kind of a step."""
    engine.submit(single("some"))
    step = tables.step
    for state in RunState:
        for paused in (None, "2026-12-01T00:00:00Z"):
            condition = may_be_leased({"state": state.value, "paused_at": paused})
            compiled = select(condition).compile(
                dialect=postgresql.dialect(),  # type: ignore[no-untyped-call]  # SQLAlchemy's
                compile_kwargs={"literal_binds": True},
            )
            ours = str(compiled).partition("\n")[0].removeprefix("SELECT ").rpartition(" AS ")[0]
            differ = engine.all(
                f"SELECT s.state || ' ' || s.kind FROM unnest(%s::text[]) a(state), unnest(ARRAY['step', 'fan', 'undo']) b(kind),"
                f" LATERAL (SELECT a.state, b.kind) s WHERE ({ours.replace(f'{step.fullname}.', 's.')})"
                f" IS DISTINCT FROM stanchion.may_be_leased(s.state, s.kind, %s, %s::timestamptz)",
                [s.value for s in StepState],
                state.value,
                paused,
            )
            assert differ == [], (state, paused)


def test_who_is_alive_is_who_the_database_counts(stage: Stage) -> None:
    """Active and heard of lately; the rest serves nobody."""
    for state in ("active", "draining", "gone"):
        stage.present("x@1", name=f"old {state}", state=state)
    stage.engine.forward(31)
    for state in ("active", "draining", "gone"):
        stage.present("x@1", name=f"new {state}", state=state)
    (now,) = stage.engine.one("SELECT stanchion.clock()")
    theirs = stage.engine.all("SELECT name FROM stanchion.worker w WHERE stanchion.is_alive(w)")
    with stage.engine.service.tenant(stage.engine.tenant) as connection:
        ours = connection.execute(select(tables.worker.c.name).where(seen_lately(now))).scalars().all()
    assert ours == theirs == ["new active"]


# --- size ---


@contextmanager
def statements(database: Database) -> Iterator[list[str]]:
    """All that is asked of the database meanwhile."""
    asked: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        asked.append(statement)

    event.listen(database.engine, "before_cursor_execute", note)
    try:
        yield asked
    finally:
        event.remove(database.engine, "before_cursor_execute", note)


def wide(stage: Stage, count: int) -> tuple[UUID, UUID]:
    """A fan-out some of whose children failed, run, wait for a retry and are ready; the run, and the step that joins."""
    task = stage.submit(fan(f"wide{count}", All(on_failed="hold"), [], retries=1))
    worker = stage.engine.worker(ttl_ms=600_000)
    worker.finish(worker.take("plan")[0], ["x"] * count)
    stage.engine.expand()
    leases = worker.take("visit", limit=count // 2)
    worker.fail(*leases[: count // 10])
    worker.fail(*leases[count // 10 : count // 5], final=False, delay_ms=60_000)
    worker.finish_all(leases[count // 5 : count // 4], 1)
    worker.seen()  # last: on a busy machine all of this takes a while
    (join,) = stage.engine.one("SELECT step_id FROM stanchion.step WHERE node = 'gather' AND run_id = %s", task.run_id)
    return task.run_id, join


def test_ten_thousand_children_are_a_few_lines_and_as_many_statements(stage: Stage) -> None:
    """As twenty are: one line of each kind, from the same number of statements."""
    counts, lines = [], []
    for children in (20, 10_000):
        run_id, join = wide(stage, children)
        stage.engine.admin.execute("DELETE FROM stanchion.outbox")  # how old its messages are is another line
        for about in (("run", run_id), ("stp", join)):
            with statements(stage.engine.service) as asked:
                why = stage.why(*about)
            counts.append(len(asked))
            lines.append(sorted(codes(why)))
    assert counts[:2] == counts[2:]
    assert max(counts) < 30
    assert lines[:2] == lines[2:]
    assert {"W-HELD", "W-LEASE", "W-RETRY", "W-OK"} <= set(lines[2])
    assert max(len(line) for line in lines) <= 6
