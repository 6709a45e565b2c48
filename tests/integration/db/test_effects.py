"""Effects outside: had once for each key, whatever happens to requests, answers, workers and runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from kit.crew import Crew, crew
from kit.effects import PAGE, finished, ledger, publishing, step_state, tick
from kit.engine import Engine
from kit.flows import result
from kit.outside import Outside

from stanchion.authority.tasks import Tasks
from stanchion.authority.workflows import Workflows
from stanchion.workflow import Ctx, Workflow
from stanchion.workflow.operation import Operation

pytestmark = pytest.mark.usefixtures("agrees")


class TestOneRequest:
    def test_a_receipt_is_the_result(self, engine: Engine, outside: Outside) -> None:
        engine.submit(publishing(outside))
        with crew(engine) as worker:
            worker.work(lambda: finished(engine))
        assert ledger(engine) == ("confirmed", 1, 0)
        assert result(engine, "send")["id"].startswith("pub-")
        assert len(outside.executed) == 1
        kinds = engine.all("SELECT kind FROM stanchion.event WHERE kind LIKE 'Operation%%' ORDER BY event_id")
        assert kinds == ["OperationPrepared", "OperationDispatched", "OperationConfirmed"]

    def test_a_lost_answer_is_found_out_at_once(self, engine: Engine, outside: Outside) -> None:
        outside.script.append("lost")
        engine.submit(publishing(outside))
        with crew(engine) as worker:
            worker.work(lambda: finished(engine))
        assert ledger(engine) == ("confirmed", 1, 1)
        assert (len(outside.executed), outside.requests) == (1, 1)
        assert engine.one("SELECT attempts::int FROM stanchion.step")[0] == 1

    def test_a_lost_request_is_sent_again_with_the_same_key(self, engine: Engine, outside: Outside) -> None:
        outside.script.append("never")
        engine.submit(publishing(outside))
        with crew(engine) as worker:
            worker.work(lambda: finished(engine))
        assert ledger(engine) == ("confirmed", 2, 1)
        assert len(outside.executed) == 1

    def test_what_was_not_sent_is_tried_again_by_the_step(self, engine: Engine, outside: Outside) -> None:
        outside.script.append("not_sent")
        engine.submit(publishing(outside))
        with crew(engine) as worker:
            worker.work(lambda: step_state(engine) == "retry_wait")
            assert ledger(engine) == ("prepared", 0, 0)
            tick(engine)
            worker.work(lambda: finished(engine))
        assert ledger(engine) == ("confirmed", 1, 0)

    def test_a_refusal_is_for_good(self, engine: Engine, outside: Outside) -> None:
        outside.script.append("refused")
        engine.submit(publishing(outside))
        with crew(engine) as worker:
            worker.work(lambda: step_state(engine) == "failed")
        assert ledger(engine) == ("refused", 1, 0)
        assert engine.one("SELECT error->>'code' FROM stanchion.attempt")[0] == "E-OP-08"
        assert outside.executed == []

    def test_plain_functions_wait_for_it(self, engine: Engine, outside: Outside) -> None:
        publish = outside.operation()
        wf = Workflow("plain", operations=[publish])

        @wf.step()
        def send(ctx: Ctx) -> dict[str, Any]:
            return ctx.op(publish, PAGE, key="spring").wait()

        engine.submit(wf)
        with crew(engine) as worker:
            worker.work(lambda: finished(engine))
        assert ledger(engine) == ("confirmed", 1, 0)

    def test_a_payload_too_large_for_a_row(self, engine: Engine, outside: Outside) -> None:
        outside.script.append("lost")
        engine.submit(publishing(outside, page={"text": "x" * 100_000}))
        with crew(engine) as worker:
            worker.work(lambda: finished(engine))
        assert len(outside.executed[0][1]["text"]) == 100_000


class TestDoubt:
    def test_a_step_waits_while_nobody_can_tell(self, engine: Engine, outside: Outside) -> None:
        outside.script.append("lost")
        outside.blind = True
        engine.submit(publishing(outside))
        with crew(engine) as worker:
            worker.work(lambda: step_state(engine) == "unknown")
            assert ledger(engine) == ("unknown", 1, 1)
            assert not worker.foreman.held
            assert engine.one("SELECT state, counted FROM stanchion.attempt") == ("failed", False)
            outside.blind = False
            tick(engine)
            worker.work(lambda: finished(engine))
        assert ledger(engine) == ("confirmed", 1, 2)
        assert len(outside.executed) == 1
        # a probe and what follows it cost no attempt: only the one that succeeded counts
        assert engine.one("SELECT attempts::int, fence::int FROM stanchion.step") == (1, 3)

    def test_a_killed_worker_leaves_a_doubt_behind(self, engine: Engine, outside: Outside) -> None:
        outside.script.append("hang")
        engine.submit(publishing(outside))
        with crew(engine, ttl_ms=2_000) as killed:
            killed.work(lambda: outside.executed)
            engine.forward(3_600)
            assert set(engine.upkeep.reap().values()) == {"unknown"}
            assert engine.one("SELECT state, counted FROM stanchion.attempt") == ("lost", False)
            assert ledger(engine) == ("unknown", 1, 0)
            with crew(engine) as worker:
                worker.work(lambda: finished(engine))
        assert ledger(engine) == ("confirmed", 1, 1)
        assert (len(outside.executed), outside.requests) == (1, 1)

    def test_a_late_request_is_held_back_by_its_key(self, engine: Engine, outside: Outside) -> None:
        """The probe finds nothing, it is sent again, and then the first one lands."""
        outside.script += ["late", "done"]
        engine.submit(publishing(outside))
        with crew(engine) as worker:
            worker.work(lambda: finished(engine))
        outside.land()
        assert len(outside.executed) == 1
        assert ledger(engine) == ("confirmed", 2, 1)

    def test_without_keys_not_found_proves_nothing(self, engine: Engine) -> None:
        outside = Outside(knows_keys=False)
        outside.script.append("late")
        engine.submit(publishing(outside))
        with crew(engine) as worker:
            worker.work(lambda: step_state(engine) == "unknown")
            for _ in range(3):
                tick(engine)
                before = ledger(engine)[2]
                worker.work(lambda before=before: ledger(engine)[2] > before and step_state(engine) == "unknown")
            outside.land()
            tick(engine)
            worker.work(lambda: finished(engine))
        assert ledger(engine)[:2] == ("confirmed", 1)
        assert len(outside.executed) == 1

    def test_after_its_deadline_not_found_proves_it(self, engine: Engine) -> None:
        outside = Outside(knows_keys=False)
        outside.script += ["never", "done"]
        engine.submit(publishing(outside, lands_within="2m"))
        with crew(engine) as worker:
            worker.work(lambda: step_state(engine) == "unknown")
            early = "SELECT t.due_at < o.lands_until FROM stanchion.timer t, stanchion.operation o"
            assert engine.one(early)[0], "what was done is found at once, however long it may take to land"
            probes = "SELECT count(*) FROM stanchion.operation_probe"
            asked = engine.one(probes)[0]
            tick(engine, 60)
            worker.work(lambda: engine.one(probes)[0] > asked and step_state(engine) == "unknown")
            assert ledger(engine)[:2] == ("unknown", 1), "until then not found proves nothing"
            tick(engine, 121)
            worker.work(lambda: finished(engine))
        assert ledger(engine)[:2] == ("confirmed", 2)
        assert len(outside.executed) == 1

    def test_a_key_that_is_no_longer_kept(self, engine: Engine, outside: Outside) -> None:
        """It is never sent again by the machine; a look-up may still find it."""
        outside.script.append("never")
        outside.blind = True
        engine.submit(publishing(outside, keeps_key="30m"))
        with crew(engine) as worker:
            worker.work(lambda: step_state(engine) == "unknown")
            outside.blind = False
            tick(engine)
            worker.work(lambda: ledger(engine)[2] == 2 and step_state(engine) == "unknown")
        assert ledger(engine)[:2] == ("unknown", 1)
        assert outside.requests == 1

    def test_without_a_check_a_person_has_to_tell(self, engine: Engine, outside: Outside) -> None:
        outside.script.append("lost")
        engine.submit(publishing(outside, check=None, unsafe_no_check="the printer has no memory"))
        with crew(engine) as worker:
            worker.work(lambda: step_state(engine) == "unknown")
        assert engine.all("SELECT kind FROM stanchion.timer WHERE kind = 'probe'") == []


class TestPeople:
    @pytest.fixture
    def worker(self, engine: Engine, outside: Outside) -> Iterator[Crew]:
        outside.script.append("lost")
        outside.blind = True
        engine.submit(publishing(outside))
        with crew(engine) as worker:
            yield worker

    @pytest.fixture
    def operation(self, engine: Engine, worker: Crew) -> Any:
        worker.work(lambda: step_state(engine) == "unknown")
        return engine.one("SELECT operation_id FROM stanchion.operation")[0]

    def tell(self, engine: Engine, operation: Any, done: bool) -> str:
        return str(
            engine.service.call(
                "op_tell",
                "SELECT stanchion.tell_operation(%s, %s, %s, %s, %s, %s, %s)",
                (engine.tenant, operation, done, "looked at the page", "receipt 17", None, "ana"),
            )[0][0]
        )

    def test_it_was_done(self, engine: Engine, outside: Outside, worker: Crew, operation: Any) -> None:
        assert self.tell(engine, operation, True) == "confirmed"
        assert step_state(engine) == "ready"
        worker.work(lambda: step_state(engine) in ("succeeded", "failed"))
        assert outside.requests == 1
        assert engine.all("SELECT action FROM stanchion.audit WHERE action <> 'task.submit'") == ["operation.mark_done"]

    def test_it_was_not_done(self, engine: Engine, outside: Outside, worker: Crew, operation: Any) -> None:
        """It is sent again, with the same key."""
        assert self.tell(engine, operation, False) == "prepared"
        worker.work(lambda: finished(engine))
        assert ledger(engine)[:2] == ("confirmed", 2)
        assert len(outside.executed) == 1, "the person was wrong, and the key held it back"

    def test_telling_twice_changes_nothing(
        self, engine: Engine, outside: Outside, worker: Crew, operation: Any
    ) -> None:
        assert self.tell(engine, operation, True) == "confirmed"
        assert self.tell(engine, operation, False) == "confirmed"

    def test_a_probe_now(self, engine: Engine, outside: Outside, worker: Crew, operation: Any) -> None:
        outside.blind = False
        call = ("op_tell", "SELECT stanchion.probe_operation(%s, %s, %s)", (engine.tenant, operation, "ana"))
        assert engine.service.call(*call) == [("unknown",)]
        assert engine.service.call(*call) == [("unknown",)]
        worker.work(lambda: finished(engine))
        assert len(outside.executed) == 1


class TestKeys:
    def two(self, engine: Engine, outside: Outside, second: Any) -> None:
        publish = outside.operation()
        wf = Workflow("two", operations=[publish])

        @wf.step()
        async def first(ctx: Ctx) -> dict[str, Any]:
            return await ctx.op(publish, PAGE, key="spring")

        @wf.step(after=first)
        async def again(ctx: Ctx, before: dict[str, Any]) -> bool:
            return await ctx.op(publish, second, key="spring") == before

        engine.submit(wf)

    def test_the_same_again_gives_the_same_receipt(self, engine: Engine, outside: Outside) -> None:
        self.two(engine, outside, PAGE)
        with crew(engine) as worker:
            worker.work(lambda: finished(engine))
        assert result(engine, "again") is True
        assert len(outside.executed) == 1

    def test_another_payload_is_refused(self, engine: Engine, outside: Outside) -> None:
        self.two(engine, outside, {"title": "Another"})
        with crew(engine) as worker:
            worker.work(lambda: engine.one("SELECT count(*) FROM stanchion.attempt WHERE state = 'failed'")[0] == 1)
        assert engine.one("SELECT error->>'code' FROM stanchion.attempt WHERE state = 'failed'")[0] == "E-OP-05"
        assert len(outside.executed) == 1

    def test_a_retried_task_has_the_effect_no_second_time(self, engine: Engine, outside: Outside) -> None:
        publish = outside.operation()
        wf = Workflow("fragile", operations=[publish])
        broken = [True]

        @wf.step(retries=0)
        async def send(ctx: Ctx) -> dict[str, Any]:
            receipt = await ctx.op(publish, PAGE, key="spring")
            if broken[0]:
                raise ValueError("after the effect")
            return receipt

        task = engine.submit(wf)
        with crew(engine) as worker:
            worker.work(lambda: step_state(engine) == "failed")
            engine.sweep()
            broken[0] = False
            Tasks(engine.service, Workflows(engine.service)).retry(
                engine.tenant, task.task_id, reason="test", actor="ann"
            )
            worker.work(lambda: engine.one("SELECT count(*) FROM stanchion.run WHERE state = 'succeeded'")[0] == 1)
        assert len(outside.executed) == 1
        assert outside.requests == 1


class TestCancel:
    def test_nothing_is_sent_once_a_cancel_is_committed(self, engine: Engine, outside: Outside) -> None:
        publish = outside.operation()
        wf = Workflow("stopping", operations=[publish])
        tasks = []

        @wf.step()
        async def send(ctx: Ctx) -> dict[str, Any]:
            engine.cancel(tasks[0])
            return await ctx.op(publish, PAGE, key="spring")

        tasks.append(engine.submit(wf))
        with crew(engine) as worker:
            worker.work(lambda: step_state(engine) == "cancelled")
        assert outside.requests == 0
        assert ledger(engine) == ("prepared", 0, 0)

    def test_what_is_in_doubt_is_reconciled_before_the_run_ends(self, engine: Engine, outside: Outside) -> None:
        outside.script.append("lost")
        outside.blind = True
        task = engine.submit(publishing(outside))
        with crew(engine) as worker:
            worker.work(lambda: step_state(engine) == "unknown")
            engine.cancel(task)
            engine.sweep()
            assert not finished(engine)
            outside.blind = False
            tick(engine)
            worker.work(lambda: step_state(engine) == "cancelled")
            engine.sweep()
        assert ledger(engine)[0] == "confirmed"
        assert engine.one("SELECT state FROM stanchion.run")[0] == "cancelled"

    def test_a_run_that_was_cancelled_in_the_middle_of_a_request(self, engine: Engine, outside: Outside) -> None:
        outside.script.append("hang")
        task = engine.submit(publishing(outside))
        with crew(engine) as worker:
            worker.work(lambda: outside.executed)
            engine.cancel(task)
            engine.sweep(grace_ms=-1)
            assert step_state(engine) == "unknown"
            assert ledger(engine)[0] == "unknown"
            worker.work(lambda: step_state(engine) == "cancelled")
            engine.sweep()
        assert engine.one("SELECT state FROM stanchion.run")[0] == "cancelled"
        assert ledger(engine)[0] == "confirmed"


@pytest.mark.parametrize(
    ("what", "sql"),
    [
        ("payload", "UPDATE stanchion.operation SET payload = '2'"),
        ("receipt", "UPDATE stanchion.operation SET receipt = '2'"),
        ("hash", "UPDATE stanchion.operation SET payload_hash = decode(repeat('ff', 32), 'hex')"),
        ("back", "UPDATE stanchion.operation SET state = 'prepared', version = version + 1, confirmed_at = NULL"),
    ],
)
def test_what_was_confirmed_is_never_changed(engine: Engine, outside: Outside, what: str, sql: str) -> None:
    engine.submit(publishing(outside))
    with crew(engine) as worker:
        worker.work(lambda: finished(engine))
    engine.admin.execute("SET ROLE stanchion_engine")
    with pytest.raises(psycopg.Error):
        engine.admin.execute(sql)
    engine.admin.execute("RESET ROLE")


def test_an_operation_has_to_be_declared(engine: Engine, outside: Outside) -> None:
    publish: Operation[Any, Any] = outside.operation()
    wf = Workflow("forgetful")

    @wf.step()
    async def send(ctx: Ctx) -> dict[str, Any]:
        return await ctx.op(publish, PAGE, key="spring")

    engine.submit(wf)
    with crew(engine) as worker:
        worker.work(lambda: step_state(engine) == "failed")
    assert engine.one("SELECT error->>'code' FROM stanchion.attempt")[0] == "E-OP-01"
