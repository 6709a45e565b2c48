"""What ends while a request is on its way: the run waits for what it did, and what replaces it does nothing twice."""

from __future__ import annotations

from typing import Any

import pytest
from kit.crew import crew
from kit.effects import PAGE, finished, ledger, publishing, step_state, tick
from kit.engine import Engine
from kit.outside import Outside

from stanchion.authority.ledger import Ledger
from stanchion.authority.operations import Operations
from stanchion.authority.tasks import Tasks
from stanchion.authority.workflows import Workflows
from stanchion.errors import Conflict
from stanchion.workflow import Ctx, First, Results, Workflow

pytestmark = pytest.mark.usefixtures("agrees")


def retry(engine: Engine, task: Any) -> None:
    Tasks(engine.service, Workflows(engine.service)).retry(engine.tenant, task.task_id, reason="test", actor="ann")


class TestReplaced:
    """The task gets a new run."""

    def test_not_while_the_old_one_is_in_doubt(self, engine: Engine, outside: Outside) -> None:
        """It is cancelled in the middle of a request: until that is known there is no other run, and then its receipt counts."""
        outside.script.append("hang")
        outside.blind = True
        task = engine.submit(publishing(outside))
        with crew(engine) as worker:
            worker.work(lambda: outside.executed)
            with pytest.raises(Conflict, match="E-TASK-07"):
                retry(engine, task)
            engine.cancel(task)
            engine.sweep(grace_ms=-1)
            assert (step_state(engine), ledger(engine)[0]) == ("unknown", "unknown")
            with pytest.raises(Conflict, match="E-TASK-07"):
                retry(engine, task)
            outside.blind = False
            tick(engine)
            worker.work(lambda: step_state(engine) == "cancelled")
            engine.sweep()
            assert ledger(engine)[0] == "confirmed"
            retry(engine, task)
            worker.work(lambda: engine.task(task)[0] == "completed")
        assert ledger(engine)[:2] == ("confirmed", 1)
        assert (len(outside.executed), outside.requests) == (1, 1)

    def test_what_was_certainly_not_done_is_sent_by_the_new_run(self, engine: Engine) -> None:
        """Cancelled, and lost on its way: after its deadline it is settled as not done; the new run asks for it anew."""
        outside = Outside(knows_keys=False)
        outside.script.append("never")
        task = engine.submit(publishing(outside, lands_within="2m"))
        with crew(engine) as worker:
            worker.work(lambda: step_state(engine) == "unknown")
            engine.cancel(task)
            engine.sweep()
            assert not finished(engine)
            tick(engine)
            worker.work(lambda: step_state(engine) == "cancelled")
            engine.sweep()
            assert (engine.task(task)[1], ledger(engine)[0]) == ("cancelled", "not_done")
            assert outside.executed == []
            retry(engine, task)
            worker.work(lambda: engine.task(task)[0] == "completed")
        assert ledger(engine)[:2] == ("confirmed", 2)
        assert len(outside.executed) == 1


class TestLeftOver:
    """A join is decided without the branch that has a request on its way."""

    def racing(self, outside: Outside) -> Workflow:
        publish = outside.operation(timeout="1s")
        wf = Workflow("racing", operations=[publish])

        @wf.step()
        def plan(ctx: Ctx) -> list[str]:
            return ["quick", "slow"]

        @wf.step(after=plan, each=True)
        async def send(ctx: Ctx, item: str) -> str:
            if item == "slow":
                await ctx.op(publish, PAGE, key=item)
            return item

        @wf.step(after=send, join=First(rest="cancel"))
        def winner(ctx: Ctx, pages: Results[str]) -> list[str]:
            return list(pages)

        return wf

    def test_the_run_waits_for_what_it_did(self, engine: Engine, outside: Outside) -> None:
        """The branch is left over, its effect was had: the ledger has it before the run ends."""
        outside.script.append("hang")
        task = engine.submit(self.racing(outside))
        with crew(engine) as worker:

            def decided() -> bool:
                engine.expand()
                engine.sweep(grace_ms=-1)
                return bool(outside.executed) and engine.barrier("winner")["state"] == "released"

            worker.work(decided)
            assert ledger(engine)[0] in ("dispatched", "unknown")
            assert not finished(engine)

            def ended() -> bool:
                tick(engine)
                engine.sweep(grace_ms=-1)
                return finished(engine)

            worker.work(ended)
        assert engine.task(task) == ("completed", "succeeded")
        assert ledger(engine)[:2] == ("confirmed", 1)
        assert len(outside.executed) == 1


class TestLateLandings:
    """A request that is held up lands after its run was cancelled."""

    def cancelled(self, engine: Engine, outside: Outside, **options: Any) -> Any:
        outside.script.append("late")
        task = engine.submit(publishing(outside, **options))
        with crew(engine) as worker:
            worker.work(lambda: step_state(engine) == "unknown")
            engine.cancel(task)
            engine.sweep()
        return task

    def test_before_its_deadline_it_is_found(self, engine: Engine) -> None:
        outside = Outside(knows_keys=False)
        self.cancelled(engine, outside, lands_within="2m")
        outside.land()
        tick(engine)
        with crew(engine) as worker:
            worker.work(lambda: step_state(engine) == "cancelled")
        assert ledger(engine)[0] == "confirmed"
        assert len(outside.executed) == 1

    def test_without_a_deadline_it_is_not_given_up(self, engine: Engine) -> None:
        """Nobody could say that it will not land: it stays unknown, and so does the run."""
        outside = Outside(knows_keys=False)
        self.cancelled(engine, outside)
        with crew(engine) as worker:
            for _ in range(5):
                tick(engine)
                worker.foreman.run_once()
        assert ledger(engine)[0] == "unknown"
        assert not finished(engine)
        outside.land()
        tick(engine)
        with crew(engine) as worker:
            worker.work(lambda: step_state(engine) == "cancelled")
        assert ledger(engine)[0] == "confirmed"

    def test_between_the_look_and_the_second_request(
        self, engine: Engine, outside: Outside, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Not found, so it is to be sent again under its key; the cancel comes first, and then the first one lands."""
        outside.script.append("late")
        task = engine.submit(publishing(outside))
        probed = Ledger.probed

        def cancelling(*given: Any, **options: Any) -> Any:
            state = probed(*given, **options)
            engine.cancel(task)
            monkeypatch.undo()
            return state

        monkeypatch.setattr(Ledger, "probed", cancelling)
        with crew(engine) as worker:
            worker.work(lambda: step_state(engine) in ("cancelled", "unknown"))
            engine.sweep()
            assert not finished(engine), ledger(engine)
            outside.land()
            tick(engine)
            worker.work(lambda: step_state(engine) == "cancelled")
        assert ledger(engine)[0] == "confirmed"
        assert len(outside.executed) == 1

    def test_between_the_look_and_the_next_attempt(self, engine: Engine, outside: Outside) -> None:
        """A probe of its own did not find it; the step is cancelled before it sends it again, and then the first one lands."""
        outside.script.append("late")
        outside.blind = True
        task = engine.submit(publishing(outside))
        with crew(engine) as worker:
            worker.work(lambda: step_state(engine) == "unknown")
            engine.pause(task)
            outside.blind = False
            tick(engine)
            worker.work(lambda: step_state(engine) == "ready")
            assert ledger(engine)[:2] == ("prepared", 1)
            engine.cancel(task)
            engine.sweep()
            assert (step_state(engine), ledger(engine)[0]) == ("unknown", "unknown")
            outside.land()
            tick(engine)
            worker.work(lambda: step_state(engine) == "cancelled")
            engine.sweep()
        assert engine.task(task) == ("cancelled", "cancelled")
        assert ledger(engine)[0] == "confirmed"
        assert len(outside.executed) == 1


class TestLeftBehind:
    """A step ends that had sent something, and was to send it again: it may have been done, and the ledger says so."""

    @pytest.mark.parametrize("then", ["never", "not_sent", "refused"])
    def test_its_attempts_are_used_up(self, engine: Engine, outside: Outside, then: str) -> None:
        """Whatever became of the requests after the first one; what it costs stays spent, and a person tells."""
        outside.script.extend(["late", *[then] * 5])
        publish = outside.operation(cost={"usd": 1})
        wf = Workflow("used_up", operations=[publish], budget={"usd": 5})

        @wf.step(retries=0)
        async def send(ctx: Ctx) -> dict[str, Any]:
            return await ctx.op(publish, PAGE, key="spring")

        task = engine.submit(wf)
        with crew(engine) as worker:
            worker.work(lambda: step_state(engine) == "failed")
        engine.sweep()
        assert engine.task(task)[0] == "failed"
        assert ledger(engine)[0] == "unknown"
        assert engine.one("SELECT spent::int FROM stanchion.budget")[0] == 1
        (effect,) = engine.one("SELECT reason->'effects' FROM stanchion.run")[0]
        assert effect["state"] == "unknown"
        outside.land()
        operation = engine.one("SELECT operation_id FROM stanchion.operation")[0]
        told = Operations(engine.service).tell(
            engine.tenant,
            operation,
            done=True,
            reason="it stands there",
            proof="seen",
            receipt={"id": "x"},
            actor="ann",
        )
        assert told == "confirmed"
        assert len(outside.executed) == 1

    def test_cancelled_while_it_waits_for_its_retry(self, engine: Engine, outside: Outside) -> None:
        """The run waits until it is known."""
        outside.script.extend(["late", "never", "never"])
        publish = outside.operation()
        wf = Workflow("waits", operations=[publish])

        @wf.step(retries=5, retry_delay="1h", retry_cap="1h")
        async def send(ctx: Ctx) -> dict[str, Any]:
            return await ctx.op(publish, PAGE, key="spring")

        task = engine.submit(wf)
        with crew(engine) as worker:
            worker.work(lambda: step_state(engine) == "retry_wait")
            engine.cancel(task)
            engine.sweep()
            assert (step_state(engine), ledger(engine)[0]) == ("unknown", "unknown")
            outside.land()
            tick(engine)
            worker.work(lambda: step_state(engine) == "cancelled")
            engine.sweep()
        assert engine.task(task)[0] == "cancelled"
        assert ledger(engine)[0] == "confirmed"
