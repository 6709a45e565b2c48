"""Budgets: nothing leaves that is not paid for, whoever sends it; what steps report ends a task that spent too much."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from kit.budgets import budget, spending
from kit.crew import crew
from kit.effects import PAGE, finished, ledger, publishing, step_state, tick
from kit.engine import Engine
from kit.isolated_flows import thrifty
from kit.outside import Outside

from stanchion.authority.ledger import Ledger
from stanchion.authority.operations import Operations
from stanchion.authority.tasks import Tasks
from stanchion.authority.workflows import Workflows
from stanchion.errors import Conflict, Rejected, Unprocessable
from stanchion.workflow import Ctx, Workflow

pytestmark = pytest.mark.usefixtures("agrees")


def kinds(engine: Engine, begins: str = "Budget") -> list[str]:
    return engine.all("SELECT kind FROM stanchion.event WHERE starts_with(kind, %s) ORDER BY event_id", begins)


def failure(engine: Engine) -> tuple[Any, ...]:
    return engine.one("SELECT error->>'code', error->>'why' FROM stanchion.attempt WHERE state = 'failed'")


def ended(engine: Engine) -> bool:
    engine.sweep()
    return finished(engine)


def sending(outside: Outside, *costs: Any, **options: Any) -> Workflow:
    """One step that sends one operation for each cost, and tells which of them the budget covered."""
    publish = outside.operation(**options)
    wf = Workflow("sending", operations=[publish])

    @wf.step(retries=0)
    async def send(ctx: Ctx) -> list[int]:
        covered: list[int] = []
        for number, cost in enumerate(costs):
            with suppress(Rejected):
                await ctx.op(publish, PAGE, key=f"k{number}", cost=cost)
                covered.append(number)
        return covered

    return wf


class TestOperations:
    def test_without_a_budget_nothing_is_written(self, engine: Engine, outside: Outside) -> None:
        engine.submit(publishing(outside))
        with crew(engine) as worker:
            worker.work(lambda: finished(engine))
        assert budget(engine) == []
        assert kinds(engine) == []

    def test_what_the_budget_does_not_cover_does_not_leave(self, engine: Engine, outside: Outside) -> None:
        engine.submit(publishing(outside, cost={"usd": 0.4}), budget={"usd": 0.3})
        with crew(engine) as worker:
            worker.work(lambda: step_state(engine) == "failed")
        assert failure(engine) == ("E-BUD-01", "0.3 usd allowed, 0 spent, 0.4 asked for")
        assert (ledger(engine), outside.requests) == (("prepared", 0, 0), 0)
        assert budget(engine) == [("usd", 0.3, 0.0)]
        (told,) = engine.one("SELECT body FROM stanchion.event WHERE kind = 'BudgetRefused'")
        assert {k: told[k] for k in ("unit", "allowed", "spent", "asked")} == {
            "unit": "usd", "allowed": 0.3, "spent": 0, "asked": 0.4,
        }  # fmt: skip
        assert engine.one("SELECT attempts::int FROM stanchion.step")[0] == 1, "it is not tried again"

    def test_the_last_of_it_may_be_spent(self, engine: Engine, outside: Outside) -> None:
        engine.submit(sending(outside, {"usd": 0.1}, {"usd": 0.2}, {"usd": 0.000001}, None), budget={"usd": 0.3})
        with crew(engine) as worker:
            worker.work(lambda: finished(engine))
        assert engine.one("SELECT body FROM stanchion.result")[0] == [0, 1, 3]
        assert budget(engine) == [("usd", 0.3, 0.3)]

    def test_every_unit_has_to_cover_it(self, engine: Engine, outside: Outside) -> None:
        engine.submit(
            sending(outside, {"usd": 1, "operations": 1}, {"usd": 1, "operations": 1}),
            budget={"usd": 5, "operations": 1},
        )
        with crew(engine) as worker:
            worker.work(lambda: finished(engine))
        assert engine.one("SELECT body FROM stanchion.result")[0] == [0]
        assert budget(engine) == [("operations", 1.0, 1.0), ("usd", 5.0, 1.0)]

    def test_a_cost_without_a_limit_is_counted(self, engine: Engine, outside: Outside) -> None:
        engine.submit(publishing(outside, cost={"usd": 0.4}))
        with crew(engine) as worker:
            worker.work(lambda: finished(engine))
        assert budget(engine) == [("usd", None, 0.4)]

    def test_a_further_request_costs_nothing(self, engine: Engine, outside: Outside) -> None:
        """It may have been done, and its key makes that harmless; it is paid once."""
        outside.script.append("never")
        engine.submit(publishing(outside, cost={"usd": 1}), budget={"usd": 1})
        with crew(engine) as worker:
            worker.work(lambda: finished(engine))
        assert ledger(engine) == ("confirmed", 2, 1)
        assert budget(engine) == [("usd", 1.0, 1.0)]
        assert kinds(engine) == ["BudgetSpent"]

    def test_what_was_not_sent_is_given_back(self, engine: Engine, outside: Outside) -> None:
        outside.script.append("not_sent")
        engine.submit(publishing(outside, cost={"usd": 1}), budget={"usd": 1})
        with crew(engine) as worker:
            worker.work(lambda: step_state(engine) == "retry_wait")
            assert budget(engine) == [("usd", 1.0, 0.0)]
            tick(engine)
            worker.work(lambda: finished(engine))
        assert budget(engine) == [("usd", 1.0, 1.0)]
        assert kinds(engine) == ["BudgetSpent", "BudgetReturned", "BudgetSpent"]

    def test_what_was_not_sent_leaves_an_earlier_request_paid(self, engine: Engine, outside: Outside) -> None:
        """The first one may have been done; that the second was not sent proves nothing about it."""
        outside.script += ["late", "not_sent"]
        engine.submit(publishing(outside, cost={"usd": 1}), budget={"usd": 1})
        with crew(engine) as worker:
            worker.work(lambda: step_state(engine) == "retry_wait")
            assert budget(engine) == [("usd", 1.0, 1.0)]
            outside.land()
            tick(engine)
            worker.work(lambda: finished(engine))
        assert budget(engine) == [("usd", 1.0, 1.0)]

    def test_what_was_refused_outside_is_given_back(self, engine: Engine, outside: Outside) -> None:
        outside.script.append("refused")
        engine.submit(publishing(outside, cost={"usd": 1}), budget={"usd": 1})
        with crew(engine) as worker:
            worker.work(lambda: step_state(engine) == "failed")
        assert budget(engine) == [("usd", 1.0, 0.0)]

    @pytest.mark.parametrize("done", [True, False])
    def test_in_doubt_it_stays_spent_until_somebody_tells(self, engine: Engine, outside: Outside, done: bool) -> None:
        outside.script.append("lost")
        outside.blind = True
        engine.submit(publishing(outside, cost={"usd": 1}), budget={"usd": 1})
        with crew(engine) as worker:
            worker.work(lambda: step_state(engine) == "unknown")
            assert budget(engine) == [("usd", 1.0, 1.0)]
            (operation,) = engine.all("SELECT operation_id FROM stanchion.operation")
            Operations(engine.service).tell(
                engine.tenant, operation, done=done, reason="r", proof="p", receipt={"id": "x"} if done else None, actor="ann"
            )  # fmt: skip
            assert budget(engine) == [("usd", 1.0, 1.0 if done else 0.0)]
            outside.blind = False
            worker.work(lambda: finished(engine))
        assert budget(engine) == [("usd", 1.0, 1.0)]

    def test_another_attempt_may_ask_for_less(self, engine: Engine, outside: Outside) -> None:
        """A cost is bound when it is charged, not when it was too much."""
        publish = outside.operation()
        wf = Workflow("cheaper", operations=[publish])

        @wf.step(retries=0)
        async def send(ctx: Ctx) -> dict[str, Any]:
            with pytest.raises(Rejected):
                await ctx.op(publish, PAGE, key="k", cost={"usd": 2})
            return await ctx.op(publish, PAGE, key="k", cost={"usd": 1})

        engine.submit(wf, budget={"usd": 1})
        with crew(engine) as worker:
            worker.work(lambda: finished(engine))
        assert budget(engine) == [("usd", 1.0, 1.0)]

    def test_undoing_is_never_held_back(self, engine: Engine, outside: Outside) -> None:
        undo = outside.operation("press.retract", cost={"usd": 5})
        book = outside.operation("press.book", undo=undo, cost={"usd": 1})
        wf = Workflow("saga", operations=[book], compensate="failed")

        @wf.step(retries=0)
        async def fail(ctx: Ctx) -> None:
            await ctx.op(book, PAGE, key="book")
            raise ValueError

        engine.submit(wf, budget={"usd": 1})
        with crew(engine) as worker:
            worker.work(lambda: ended(engine))
        assert engine.one("SELECT state FROM stanchion.operation WHERE kind = 'press.book'")[0] == "compensated"
        assert budget(engine) == [("usd", 1.0, 6.0)]


class TestReports:
    def test_what_is_left_is_told(self, engine: Engine) -> None:
        engine.submit(spending(0, 300, 0.5, 0), budget={"tokens": 1_000})
        with crew(engine) as worker:
            worker.work(lambda: finished(engine))
        assert engine.one("SELECT body FROM stanchion.result")[0] == [1_000, 700, 699.5, 699.5]
        assert budget(engine) == [("tokens", 1_000.0, 300.5)]

    def test_without_a_limit_it_is_counted(self, engine: Engine) -> None:
        engine.submit(spending(0, 300, 300))
        with crew(engine) as worker:
            worker.work(lambda: finished(engine))
        assert engine.one("SELECT body FROM stanchion.result")[0] == [None, None, None]
        assert budget(engine) == [("tokens", None, 600.0)]

    def test_a_task_that_spent_too_much_ends(self, engine: Engine) -> None:
        task = engine.submit(spending(600, 600, 600), budget={"tokens": 1_000})
        with crew(engine) as worker:
            worker.work(lambda: ended(engine))
        assert engine.task(task) == ("failed", "failed")
        assert failure(engine) == ("E-BUD-02", "1000 tokens allowed, 1200 spent")
        reason = engine.one("SELECT reason FROM stanchion.task")[0]
        assert (reason["code"], reason["what"].partition(": ")[2]) == ("E-BUD-02", "1000 tokens allowed, 1200 spent")
        assert budget(engine) == [("tokens", 1_000.0, 1_200.0)], "what was used is known, the third was not reported"

    def test_who_swallows_the_error_does_not_go_on(self, engine: Engine, outside: Outside) -> None:
        """The run is ending: nothing of it leaves any more, priced or not."""
        publish = outside.operation()
        wf = Workflow("stubborn", operations=[publish])

        @wf.step(retries=0)
        async def work(ctx: Ctx) -> None:
            with pytest.raises(Rejected):
                await ctx.spend("tokens", 2)
            await ctx.op(publish, PAGE, key="k")

        engine.submit(wf, budget={"tokens": 1})
        with crew(engine) as worker:
            worker.work(lambda: engine.one("SELECT state FROM stanchion.run")[0] == "cancelling")
            worker.work(lambda: ended(engine))
        assert outside.requests == 0

    def test_nothing_of_it_is_leased_any_more(self, engine: Engine) -> None:
        wf = Workflow("wide")

        @wf.step()
        def plan(ctx: Ctx) -> list[int]:
            return [1, 2, 3]

        @wf.step(after=plan, each=True, retries=0)
        def visit(ctx: Ctx, n: int) -> None:
            ctx.spend("tokens", 10).wait()

        engine.submit(wf, budget={"tokens": 5})
        hand = engine.worker()
        hand.finish(hand.take("plan")[0], [1, 2, 3])
        engine.expand()
        (first,) = hand.take("visit", limit=1)
        assert (
            Ledger(engine.worker_database, hand.leases.worker_id).spend(first, uuid4(), "tokens", 10).outcome == "over"
        )
        assert hand.take("visit") == []
        hand.fail(first)
        engine.sweep()
        assert engine.one("SELECT state, reason->>'code' FROM stanchion.task") == ("failed", "E-BUD-02")

    def test_what_a_failed_attempt_used_is_used(self, engine: Engine) -> None:
        wf = Workflow("again")

        @wf.step(retries=1, retry_delay="10ms", retry_cap="10ms")
        async def work(ctx: Ctx) -> None:
            await ctx.spend("tokens", 10)
            if ctx.attempt == 1:
                raise ValueError

        engine.submit(wf, budget={"tokens": 100})
        with crew(engine) as worker:
            worker.work(lambda: step_state(engine) == "retry_wait")
            tick(engine)
            worker.work(lambda: finished(engine))
        assert budget(engine) == [("tokens", 100.0, 20.0)]

    def test_a_stale_attempt_books_nothing(self, engine: Engine) -> None:
        engine.submit(spending(1), budget={"tokens": 100})
        hand = engine.worker(2_000)
        (lease,) = hand.take("work")
        engine.forward(3_600)
        engine.upkeep.reap()
        found = Ledger(engine.worker_database, hand.leases.worker_id).spend(lease, uuid4(), "tokens", 10)
        assert found.outcome == "stale"
        assert budget(engine) == [("tokens", 100.0, 0.0)]
        assert engine.one("SELECT attempted FROM stanchion.refused_write")[0] == "spend"

    def test_a_report_whose_answer_got_lost_is_one(self, engine: Engine) -> None:
        engine.submit(spending(1), budget={"tokens": 100})
        hand = engine.worker()
        (lease,) = hand.take("work")
        books, booking = Ledger(engine.worker_database, hand.leases.worker_id), uuid4()
        assert [books.spend(lease, booking, "tokens", 10).spent for _ in range(3)] == [Decimal(10)] * 3
        assert kinds(engine) == ["BudgetSpent"]

    def test_plain_functions_and_processes_report_too(self, engine: Engine) -> None:
        engine.submit(thrifty, budget={"tokens": 100})
        with crew(engine, targets=["kit.isolated_flows"]) as worker:
            worker.work(lambda: finished(engine))
        assert sorted(engine.all("SELECT body FROM stanchion.result")) == [88, 95]
        assert budget(engine) == [("tokens", 100.0, 12.0)]

    @pytest.mark.parametrize(
        ("unit", "amount"),
        [("tokens", -1), ("tokens", float("nan")), ("tokens", float("inf")), ("tokens", 1e15), ("Tokens", 1),
         ("", 1), ("x" * 33, 1), ("tokens", True), ("tokens", "many"), ("tokens", Decimal("1e999999")), (None, 1)],
    )  # fmt: skip
    def test_what_is_no_amount_is_refused(self, engine: Engine, unit: Any, amount: Any) -> None:
        wf = Workflow("odd")
        codes: list[str] = []

        @wf.step(retries=0)
        async def work(ctx: Ctx) -> None:
            with pytest.raises(Unprocessable) as refused:
                await ctx.spend(unit, amount)
            codes.append(refused.value.code)

        engine.submit(wf)
        with crew(engine) as worker:
            worker.work(lambda: finished(engine))
        assert codes == ["E-BUD-03"]
        assert budget(engine) == []

    def test_there_are_few_units(self, engine: Engine) -> None:
        wf = Workflow("units")

        @wf.step(retries=0)
        async def work(ctx: Ctx) -> None:
            for number in range(10):
                await ctx.spend(f"u{number}", 1)
            with pytest.raises(Unprocessable):
                await ctx.spend("one_more", 1)

        engine.submit(wf)
        with crew(engine) as worker:
            worker.work(lambda: finished(engine))
        assert len(budget(engine)) == 10


class TestRuns:
    """One budget for all runs of a task."""

    def retry(self, engine: Engine, task: Any, **budget: float) -> None:
        Tasks(engine.service, Workflows(engine.service)).retry(
            engine.tenant, task.task_id, reason="", actor="ann", budget=budget or None
        )

    def test_the_workflow_has_a_default(self, engine: Engine) -> None:
        wf = Workflow("limited", budget={"usd": 5, "tokens": 10})

        @wf.step()
        def only(ctx: Ctx) -> int:
            return 1

        engine.submit(wf)
        engine.submit(wf, budget={"usd": 2, "operations": 3})
        told = engine.all("SELECT array_agg(unit || ' ' || allowed ORDER BY unit) FROM stanchion.budget GROUP BY task_id ORDER BY task_id")  # fmt: skip
        assert told == [["tokens 10", "usd 5"], ["operations 3", "tokens 10", "usd 2"]]

    def test_another_run_goes_on_with_what_is_left(self, engine: Engine) -> None:
        task = engine.submit(spending(400, 300), budget={"tokens": 1_000})
        hand = engine.worker()
        hand.fail(*hand.take("work"))
        engine.sweep()
        self.retry(engine, task)
        with crew(engine) as worker:
            worker.work(lambda: engine.task(task)[0] == "completed")
        assert budget(engine) == [("tokens", 1_000.0, 700.0)]

    def test_what_was_overspent_needs_more(self, engine: Engine) -> None:
        task = engine.submit(spending(600, 600), budget={"tokens": 1_000})
        with crew(engine) as worker:
            worker.work(lambda: ended(engine))
            for more in ({}, {"usd": 5}, {"tokens": 1_100}):
                with pytest.raises(Conflict) as refused:
                    self.retry(engine, task, **more)
                assert (refused.value.code, budget(engine)) == ("E-BUD-02", [("tokens", 1_000.0, 1_200.0)])
            self.retry(engine, task, tokens=3_000)
            worker.work(lambda: engine.task(task)[0] == "completed")
        assert budget(engine) == [("tokens", 3_000.0, 2_400.0)]
        assert engine.one("SELECT detail->'budget' FROM stanchion.audit WHERE action = 'task.retry'")[0] == {"tokens": 3_000}  # fmt: skip

    def test_an_effect_of_an_earlier_run_is_paid(self, engine: Engine, outside: Outside) -> None:
        publish = outside.operation(cost={"usd": 1})
        wf = Workflow("paid", operations=[publish])
        fails = [True]

        @wf.step(retries=0)
        async def send(ctx: Ctx) -> dict[str, Any]:
            receipt = await ctx.op(publish, PAGE, key="k")
            if fails:
                raise ValueError
            return receipt

        task = engine.submit(wf, budget={"usd": 1})
        with crew(engine) as worker:
            worker.work(lambda: ended(engine))
            fails.clear()
            self.retry(engine, task)
            worker.work(lambda: engine.task(task)[0] == "completed")
        assert budget(engine) == [("usd", 1.0, 1.0)]
