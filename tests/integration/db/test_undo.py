"""Compensation: what was done outside is undone, the newest first, by operations of their own."""

from __future__ import annotations

from typing import Any

import pytest
from kit.crew import Crew, crew
from kit.effects import finished
from kit.engine import Engine
from kit.outside import Outside

from stanchion.workflow import Ctx, Workflow
from stanchion.workflow.operation import Call, Effect, Operation

pytestmark = pytest.mark.usefixtures("agrees")


class TestUndo:
    """Compensation: an operation of its own for each effect, the newest first."""

    def saga(self, outside: Outside, name: str, compensate: Any, *, fails: bool = True) -> Workflow:
        undo = outside.operation("press.retract")
        first = outside.operation("press.book", undo=undo)
        second = outside.operation("press.print", undo=undo)
        third = outside.operation("press.mail")
        wf = Workflow(name, operations=[first, second, third], compensate=compensate)

        @wf.step()
        async def book(ctx: Ctx) -> dict[str, Any]:
            return await ctx.op(first, {"what": "book"}, key="book")

        @wf.step(after=book)
        async def produce(ctx: Ctx, before: dict[str, Any]) -> dict[str, Any]:
            await ctx.op(third, {"what": "mail"}, key="mail")
            return await ctx.op(second, {"what": "print"}, key="print")

        @wf.step(after=produce, retries=0)
        def end(ctx: Ctx, before: dict[str, Any]) -> int:
            if fails:
                raise ValueError("the last step fails")
            return 1

        return wf

    def states(self, engine: Engine) -> dict[str, str]:
        return dict(engine.admin.execute("SELECT kind || ' ' || key, state FROM stanchion.operation").fetchall())

    def work(self, engine: Engine, worker: Crew) -> None:
        def done() -> bool:
            engine.sweep()
            return finished(engine)

        worker.work(done)

    def test_a_failed_run_is_undone_from_the_newest_on(self, engine: Engine, outside: Outside) -> None:
        engine.submit(self.saga(outside, "saga", "failed"))
        with crew(engine) as worker:
            self.work(engine, worker)
        state, reason = engine.one("SELECT state, reason FROM stanchion.run")
        assert state == "failed"
        assert {e["kind"]: e["state"] for e in reason["effects"]} == {
            "press.book": "compensated",
            "press.mail": "confirmed",
            "press.print": "compensated",
        }
        undone = [payload["payload"]["what"] for key, payload in outside.executed if "receipt" in payload]
        assert undone == ["print", "book"]
        assert engine.one("SELECT state FROM stanchion.task")[0] == "failed"

    def test_nothing_is_undone_unless_it_is_asked_for(self, engine: Engine, outside: Outside) -> None:
        engine.submit(self.saga(outside, "quiet", "cancelled"))
        with crew(engine) as worker:
            self.work(engine, worker)
        assert set(self.states(engine).values()) == {"confirmed"}
        assert len(outside.executed) == 3

    def test_what_undoes_may_name_the_type_of_its_payload(self, engine: Engine, outside: Outside) -> None:
        """`effect: Effect` comes as one, with what was sent and received."""
        seen: list[Effect] = []

        def retract(_call: Call, effect: Effect) -> str:
            seen.append(effect)
            return "retracted"

        undo = Operation("press.retract", do=retract, unsafe_no_check="it is a list")
        publish = outside.operation(undo=undo)
        wf = Workflow("typed", operations=[publish], compensate="failed")

        @wf.step(retries=0)
        async def send(ctx: Ctx) -> int:
            await ctx.op(publish, {"what": "page"}, key="page")
            raise ValueError("regret")

        engine.submit(wf)
        with crew(engine) as worker:
            self.work(engine, worker)
        assert [effect.payload for effect in seen] == [{"what": "page"}]
        assert self.states(engine)["press.publish page"] == "compensated"

    def test_a_lost_answer_while_undoing(self, engine: Engine, outside: Outside) -> None:
        outside.script += ["done", "done", "done", "lost", "never"]
        engine.submit(self.saga(outside, "unlucky", "always"))
        with crew(engine) as worker:
            self.work(engine, worker)
        assert len(outside.executed) == 5
        assert list(self.states(engine).values()).count("compensated") == 2

    def test_what_can_not_be_undone_is_told(self, engine: Engine, outside: Outside) -> None:
        outside.script += ["done", "done", "done", "refused"]
        engine.submit(self.saga(outside, "stuck", "always"))
        with crew(engine) as worker:
            self.work(engine, worker)
        effects = engine.one("SELECT reason->'effects' FROM stanchion.run")[0]
        assert [(e["kind"], e["state"]) for e in effects] == [
            ("press.book", "compensated"),
            ("press.mail", "confirmed"),
            ("press.print", "confirmed"),
        ]

    def test_a_worker_dies_while_undoing(self, engine: Engine, outside: Outside) -> None:
        outside.script += ["done", "done", "done", "hang"]
        engine.submit(self.saga(outside, "dying", "failed"))
        with crew(engine, ttl_ms=2_000) as killed:

            def four() -> bool:
                engine.sweep()
                return len(outside.executed) == 4

            killed.work(four)
            engine.forward(3_600)
            engine.upkeep.reap()
            with crew(engine) as worker:
                self.work(engine, worker)
        assert len(outside.executed) == 5
        assert list(self.states(engine).values()).count("compensated") == 2

    def test_a_person_undoes_an_effect_of_a_run_that_ended(self, engine: Engine, outside: Outside) -> None:
        engine.submit(self.saga(outside, "late", "never", fails=False))
        call = ("op_tell", "SELECT stanchion.compensate_operation(%s, %s, %s, %s)")
        with crew(engine) as worker:
            worker.work(lambda: finished(engine))
            operation = engine.one("SELECT operation_id FROM stanchion.operation WHERE kind = 'press.print'")[0]
            mail = engine.one("SELECT operation_id FROM stanchion.operation WHERE kind = 'press.mail'")[0]
            asked = engine.service.call(*call, (engine.tenant, operation, "a misprint", "ana"))
            assert engine.service.call(*call, (engine.tenant, operation, "a misprint", "ana")) == asked
            assert engine.service.call(*call, (engine.tenant, mail, "a misprint", "ana")) == [(None,)]
            worker.work(lambda: self.states(engine)["press.print print"] == "compensated")
            worker.work(lambda: not worker.foreman.held)
        assert engine.one("SELECT state FROM stanchion.run")[0] == "succeeded"
        assert len(outside.executed) == 4
