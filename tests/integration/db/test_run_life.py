"""A task from acceptance to its end: cancel at every stage, pause, deadlines, idempotent submission."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from threading import Barrier, Thread

import pytest
from kit.engine import Engine
from kit.flows import fan, result, single

from stanchion.errors import Conflict, NotFound
from stanchion.workflow import All, Ctx, Workflow


class TestCancel:
    """What has not started ends with the next sweep; what runs gets a grace."""

    def test_before_anything_was_leased(self, engine: Engine) -> None:
        """Run and task go to cancelled; nothing is left ready, due or open."""
        task = engine.submit(fan("early", "all", ["a"]))
        assert engine.cancel(task) == "cancelling"
        assert engine.worker().take() == [], "a run that winds down leases nothing more"
        engine.sweep()
        assert engine.task(task) == ("cancelled", "cancelled")
        assert engine.states(task) == {"cancelled": 2}
        assert engine.all("SELECT step_id FROM stanchion.ready") == []
        engine.check_counts()

    def test_while_a_step_runs(self, engine: Engine) -> None:
        """Its heartbeat says so; what it hands in within the grace is accepted, and nothing follows from it."""
        task = engine.submit(fan("running", "all", ["a"]))
        worker = engine.worker()
        (plan,) = worker.take("plan")
        engine.cancel(task)
        engine.sweep()
        assert engine.task(task) == ("cancelling", "cancelling")
        assert worker.leases.renew([plan], [True], [None]) == {plan.step_id: "cancel"}
        assert worker.finish(plan, ["a"])
        engine.sweep()
        assert engine.task(task) == ("cancelled", "cancelled")
        assert engine.states(task) == {"succeeded": 1, "cancelled": 1}
        engine.check_counts()

    def test_a_step_that_outlives_its_grace_loses_its_lease(self, engine: Engine) -> None:
        """After its grace the canceller takes it: the attempt is superseded, its result is refused and on record."""
        task = engine.submit(single("stubborn"))
        worker = engine.worker()
        (lease,) = worker.take()
        engine.cancel(task)
        engine.forward(601)
        engine.sweep()
        assert engine.task(task) == ("cancelled", "cancelled")
        assert engine.all("SELECT state FROM stanchion.attempt") == ["superseded"]
        assert not worker.finish(lease, 1)
        assert engine.all("SELECT attempted, why FROM stanchion.refused_write") == [
            ("complete", "the step is cancelled")
        ]
        engine.check_counts()

    def test_a_worker_that_stops_reports_it(self, engine: Engine) -> None:
        """The run need not wait for the end of the grace."""
        task = engine.submit(single("obedient"))
        worker = engine.worker()
        (lease,) = worker.take()
        engine.cancel(task)
        assert worker.leases.end_cancelled([lease]) == {lease.step_id}
        engine.sweep()
        assert engine.task(task) == ("cancelled", "cancelled")

    def test_in_the_middle_of_a_fan_out(self, engine: Engine) -> None:
        """Children in every state: done stays done, ready and retrying are cancelled, held ones after the grace."""
        task = engine.submit(fan("middle", "all", list("abcde"), retries=3))
        worker = engine.worker()
        worker.finish(worker.take("plan")[0], list("abcde"))
        engine.expand()
        a, b, c, d = worker.take("visit", limit=4)
        worker.finish(a, "A")
        worker.fail(b, final=False, delay_ms=60_000)
        worker.leases.renew([c], [True], [None])
        engine.cancel(task)
        engine.sweep()
        assert engine.states(task) == {"succeeded": 2, "cancelled": 3, "running": 1, "leased": 1}
        engine.forward(601)
        engine.sweep()
        assert engine.states(task) == {"succeeded": 2, "cancelled": 5}
        assert engine.task(task) == ("cancelled", "cancelled")
        assert engine.barrier("gather")["state"] == "cancelled"
        assert engine.all("SELECT kind FROM stanchion.timer") == []
        del d
        engine.check_counts()

    def test_while_a_fan_out_waits_for_its_expansion(self, engine: Engine) -> None:
        """The planner finds nothing to do any more."""
        task = engine.submit(fan("unexpanded", "all", ["a"]))
        worker = engine.worker()
        worker.finish(worker.take("plan")[0], ["a"])
        (due,) = engine.planning.due(10)
        engine.cancel(task)
        assert engine.planning.due(10) == []
        assert engine.planning.expand(due) == "winding down"
        engine.sweep()
        assert engine.planning.expand(due) == "gone"
        assert engine.task(task) == ("cancelled", "cancelled")
        engine.check_counts()

    def test_twice_is_the_same_as_once(self, engine: Engine) -> None:
        """The second cancel tells the state and writes nothing."""
        task = engine.submit(single("twice"))
        assert engine.cancel(task) == engine.cancel(task) == "cancelling"
        assert engine.all("SELECT count(*) FROM stanchion.audit WHERE action <> 'task.submit'") == [1]
        engine.sweep()
        assert engine.cancel(task) == "cancelled"

    def test_after_the_end_changes_nothing(self, engine: Engine) -> None:
        """What is complete stays complete."""
        task = engine.submit(single("done"))
        engine.worker().work()
        assert engine.cancel(task) == "completed"

    def test_a_failing_run_is_not_cancelled(self, engine: Engine) -> None:
        """The run winds down for a failure already: its task ends failed, with the failure as its reason."""
        task = engine.submit(fan("failing", "all", ["bad", "b"]))
        worker = engine.worker()
        worker.finish(worker.take("plan")[0], ["bad", "b"])
        engine.expand()
        bad, _b = worker.take("visit")
        worker.fail(bad)
        engine.cancel(task)
        engine.forward(601)
        engine.sweep()
        assert engine.task(task) == ("failed", "failed")

    def test_of_another_tenant_is_not_found(self, engine: Engine) -> None:
        """The answer is the same as for a task that does not exist."""
        task = engine.submit(single("theirs"))
        engine.tenant = engine.one("SELECT stanchion.create_tenant('other')")[0]
        with pytest.raises(NotFound):
            engine.cancel(task)


class TestPause:
    """Paused: nothing new is leased, what runs goes on."""

    def test_nothing_is_leased_until_it_is_resumed(self, engine: Engine) -> None:
        """The ready step stays ready; on resume it is offered anew."""
        task = engine.submit(single("paused"))
        worker = engine.worker()
        assert engine.pause(task)
        assert not engine.pause(task), "it was paused already"
        assert worker.take() == []
        assert worker.leases.find_ready(0, 10) == []
        assert engine.pause(task, False)
        assert engine.all("SELECT offered_at FROM stanchion.ready") == [None]
        worker.work()
        assert engine.task(task) == ("completed", "succeeded")

    def test_what_runs_goes_on(self, engine: Engine) -> None:
        """A result is accepted, what follows becomes ready and waits."""
        task = engine.submit(fan("goes_on", "all", ["a"]))
        worker = engine.worker()
        (plan,) = worker.take()
        engine.pause(task)
        assert worker.finish(plan, ["a"])
        engine.expand()
        assert len(worker.ready("visit")) == 1
        assert worker.take() == []
        engine.pause(task, False)
        worker.work()
        assert engine.task(task)[0] == "completed"

    def test_a_step_that_becomes_ready_is_not_handed_to_the_worker_that_is_there(self, engine: Engine) -> None:
        """complete() grants nothing of a paused run, and the step can still be found."""
        wf = Workflow("two")

        @wf.step()
        def one(ctx: Ctx) -> int:
            return 1

        @wf.step(after=one)
        def two(ctx: Ctx, n: int) -> int:
            return n

        from stanchion.authority.leases import Done

        task = engine.submit(wf)
        worker = engine.worker()
        (lease,) = worker.take()
        engine.pause(task)
        accepted, granted, _ = worker.leases.complete([Done(lease, 1)], 10)
        assert (accepted, granted) == ({lease.step_id}, [])
        assert len(worker.ready("two")) == 1
        engine.pause(task, False)
        worker.work()
        assert engine.task(task)[0] == "completed"

    def test_an_ended_task_can_not_be_paused(self, engine: Engine) -> None:
        """It says that the task has ended."""
        task = engine.submit(single("ended"))
        engine.worker().work()
        with pytest.raises(Conflict):
            engine.pause(task)


class TestDeadlines:
    """Deadlines stand in the database and end what is late, whatever state it is in."""

    def test_of_a_task(self, engine: Engine) -> None:
        """The task fails with the deadline as its reason."""
        late = datetime.now(UTC) + timedelta(hours=1)
        task = engine.submit(fan("late", "all", ["a"]), deadline=late)
        engine.worker().take("plan")
        assert engine.fire() == 0
        engine.forward(3_601)
        assert engine.fire() == 1
        engine.forward(601)
        engine.sweep()
        assert engine.task(task) == ("failed", "failed")
        assert engine.one("SELECT reason->>'code' FROM stanchion.task") == ("E-TASK-03",)
        engine.check_counts()

    def test_of_a_task_that_ended_in_time(self, engine: Engine) -> None:
        """Nothing is due any more."""
        engine.submit(single("in_time"), deadline=datetime.now(UTC) + timedelta(hours=1))
        engine.worker().work()
        assert engine.all("SELECT kind FROM stanchion.timer") == []

    def test_to_start_counts_from_readiness(self, engine: Engine) -> None:
        """A step that waits for its predecessor is not late; once it is ready nobody may let it lie."""
        wf = Workflow("starts")

        @wf.step()
        def one(ctx: Ctx) -> int:
            return 1

        @wf.step(after=one, start_within="10m")
        def two(ctx: Ctx, n: int) -> int:
            return n

        task = engine.submit(wf)
        worker = engine.worker()
        (lease,) = worker.take("one")
        engine.forward(3_600)
        assert engine.fire() == 0
        worker.finish(lease, 1)
        engine.forward(601)
        assert engine.fire() == 1
        engine.sweep()
        assert engine.task(task) == ("failed", "failed")
        assert engine.all("SELECT body->'error'->>'code' FROM stanchion.event WHERE kind = 'StepFailed'") == [
            "E-STEP-23"
        ]

    def test_to_start_is_met_by_the_first_lease(self, engine: Engine) -> None:
        """A step that was taken in time and waits for its retry is not late to start."""
        task = engine.submit(single("retries", start_within="10m", retries=3))
        worker = engine.worker()
        worker.fail(*worker.take(), final=False, delay_ms=3_600_000)
        engine.forward(601)
        engine.fire()
        assert engine.states(task) == {"retry_wait": 1}

    def test_of_a_step_covers_all_its_attempts(self, engine: Engine) -> None:
        """total=: a retry that would begin after the end of the time is not scheduled."""
        task = engine.submit(single("total", total="10m", retries=100))
        worker = engine.worker()
        assert worker.fail(*worker.take(), final=False, delay_ms=60_000) != {}
        engine.forward(61)
        engine.fire()
        (lease,) = worker.take()
        assert list(worker.fail(lease, final=False, delay_ms=3_600_000).values()) == ["failed"]
        engine.sweep()
        assert engine.task(task) == ("failed", "failed")

    def test_of_a_step_ends_one_that_waits(self, engine: Engine) -> None:
        """Nobody leases it: when its total time is over it has failed."""
        task = engine.submit(single("waits", total="10m"))
        engine.forward(601)
        engine.fire()
        engine.sweep()
        assert engine.task(task) == ("failed", "failed")

    def test_of_a_step_ends_one_that_runs(self, engine: Engine) -> None:
        """Its lease is not renewed past the end of the time, and the loss is final."""
        task = engine.submit(single("runs", total="10m", retries=100))
        worker = engine.worker()
        (lease,) = worker.take()
        assert lease.timeout_ms is not None
        assert lease.timeout_ms <= 600_000
        for _ in range(25):
            engine.forward(25)
            worker.leases.renew([lease], [True], [None])
            engine.fire()
        assert list(engine.upkeep.reap().values()) == ["failed"]
        engine.fire()
        engine.sweep()
        assert engine.task(task) == ("failed", "failed")
        assert engine.all("SELECT kind FROM stanchion.timer") == []

    def test_of_a_step_survives_a_give_back(self, engine: Engine) -> None:
        """A worker that shuts down at the last moment does not make the step immortal."""
        task = engine.submit(single("given_back", total="10m"))
        worker = engine.worker(ttl_ms=3_600_000)
        leases = worker.take()
        engine.forward(601)
        engine.fire()
        worker.leases.give_back(leases, "test")
        engine.forward(2)
        engine.fire()
        engine.sweep()
        assert engine.task(task) == ("failed", "failed")

    def test_of_children(self, engine: Engine) -> None:
        """Children of a fan-out have their own: those that nobody takes fail, the join collects them."""
        task = engine.submit(fan("children", All(on_failed="collect"), list("abc"), start_within="1m", total="5m"))
        worker = engine.worker()
        worker.finish(worker.take("plan")[0], list("abc"))
        engine.expand()
        (a,) = worker.take("visit", limit=1)
        engine.forward(61)
        engine.fire()
        assert engine.states(task, "visit") == {"leased": 1, "failed": 2}
        worker.finish(a, "A")
        worker.work()
        assert result(engine, "gather") == {"ok": ["A"], "failed": 2, "missing": 0, "total": 3}
        assert engine.task(task)[0] == "completed"
        assert engine.all("SELECT kind FROM stanchion.timer") == []


class TestSubmission:
    """The same key and payload give the same task; the same message is applied once."""

    def test_the_same_key_and_payload_is_a_duplicate(self, engine: Engine) -> None:
        """Also in one batch, and with another payload it is a conflict; nothing is half-written."""
        wf = fan("keys", "all", ["a"])
        first = engine.submit(wf, idempotency_key="k")
        again, other, fresh = engine.submit_all(
            wf,
            [
                ({"idempotency_key": "k"}, None),
                ({"idempotency_key": "k", "priority": 3}, None),
                ({"idempotency_key": "n"}, None),
            ],
        )
        assert (first.outcome, again.outcome, other.outcome, fresh.outcome) == (
            "created",
            "duplicate",
            "conflict",
            "created",
        )
        assert again.task_id == first.task_id == other.task_id
        assert engine.all("SELECT count(*) FROM stanchion.task") == [2]
        assert engine.all("SELECT count(*) FROM stanchion.step") == [2 * 3]

    def test_a_repeated_message_in_one_batch_is_one_task(self, engine: Engine) -> None:
        """A broker may deliver a message twice in one poll."""
        one, two = engine.submit_all(single("batch"), [({}, "m-1"), ({}, "m-1")])
        assert (one.outcome, two.outcome) == ("created", "duplicate")
        assert one.task_id == two.task_id
        assert engine.all("SELECT count(*) FROM stanchion.task") == [1]

    def test_a_repeated_message_is_one_task_for_all_replicas(self, engine: Engine) -> None:
        """Eight replicas apply the same message at the same moment: one task, one answer."""
        wf = single("replicas")
        engine.register(wf)
        answers = []
        gate = Barrier(8)

        def apply() -> None:
            gate.wait()
            answers.append(engine.submit(wf, message_id="m-1"))

        threads = [Thread(target=apply) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(30)
        assert len(answers) == 8
        assert len({a.task_id for a in answers}) == 1
        assert sorted(a.outcome for a in answers) == ["created"] + ["duplicate"] * 7
        assert engine.all("SELECT count(*) FROM stanchion.task") == [1]

    def test_a_new_message_with_a_known_key_is_about_the_known_task(self, engine: Engine) -> None:
        """And so is that message when it comes again."""
        wf = single("known")
        first = engine.submit(wf, message_id="m-1", idempotency_key="k")
        second = engine.submit(wf, message_id="m-2", idempotency_key="k")
        assert (second.outcome, second.task_id) == ("duplicate", first.task_id)
        assert engine.all("SELECT DISTINCT subject FROM stanchion.inbox") == [first.task_id]

    def test_a_key_belongs_to_its_tenant(self, engine: Engine) -> None:
        """Two tenants may use one key: neither learns of the other."""
        wf = single("tenants")
        mine = engine.submit(wf, idempotency_key="k")
        engine.tenant = engine.one("SELECT stanchion.create_tenant('other')")[0]
        theirs = engine.submit(wf, idempotency_key="k")
        assert (mine.outcome, theirs.outcome) == ("created", "created")
        assert mine.task_id != theirs.task_id


def test_what_several_statements_read_fits_together(engine: Engine) -> None:
    """The steps of a task are counted and its joins are looked at as of one moment, whatever happens between."""
    count = "SELECT count(*) FROM stanchion.task"
    with engine.service.tenant(engine.tenant) as connection:
        assert connection.exec_driver_sql(count).scalar_one() == 0
        engine.submit(single("meanwhile"))
        assert connection.exec_driver_sql(count).scalar_one() == 0
    with engine.service.tenant(engine.tenant) as connection:
        assert connection.exec_driver_sql(count).scalar_one() == 1
