"""Budgets are kept by the database: under concurrent branches, past its functions, and by the check of its events."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kit.budgets import budget, spending
from kit.crew import crew
from kit.effects import PAGE, finished, publishing
from kit.engine import Engine
from kit.outside import Outside
from kit.racing import deadlocks, race

from stanchion.authority.check import check
from stanchion.authority.leases import Lease
from stanchion.authority.ledger import Intent, Ledger
from stanchion.authority.retention import Retention
from stanchion.db.engine import Database
from stanchion.db.grants import MAINTENANCE
from stanchion.workflow import Ctx, Workflow

pytestmark = pytest.mark.usefixtures("agrees")


class TestPastTheFunctions:
    """Under the role that the functions run as: nothing is dispatched past the budget, and sums follow the bookings."""

    @pytest.fixture
    def prepared(self, engine: Engine, outside: Outside) -> Callable[..., None]:
        engine.submit(publishing(outside, cost={"usd": 2}), budget={"usd": 1})
        hand = engine.worker(600_000)
        (lease,) = hand.take("send")
        publish = engine.workflows["publishing"].operations["press.publish"]
        Ledger(engine.worker_database, hand.leases.worker_id).prepare(lease, Intent.of(publish, "spring", PAGE))
        operation, task, run = engine.one("SELECT operation_id, task_id, run_id FROM stanchion.operation")
        names = {"op": operation, "task": task, "run": run, "step": lease.step_id, "tenant": engine.tenant, "other": UUID(int=7)}  # fmt: skip

        def refused(sql: str, words: str) -> None:
            engine.admin.execute("SET ROLE stanchion_engine")
            try:
                with pytest.raises(psycopg.Error, match=words):
                    engine.admin.execute(sql, names)
            finally:
                engine.admin.execute("RESET ROLE")

        return refused

    BOOK = "INSERT INTO stanchion.spending (tenant_id, spending_id, task_id, run_id, step_id, operation_id, unit, amount) VALUES (%(tenant)s, uuidv7(), "  # fmt: skip

    @pytest.mark.parametrize(
        ("sql", "words"),
        [
            ("UPDATE stanchion.operation SET state = 'dispatched', version = 1, proof = 1, sends = 1, dispatched_at = now()", "once it is charged"),
            ("UPDATE stanchion.operation SET state = 'dispatched', version = 1, proof = 1, sends = 1, cost = NULL", "only while it is prepared"),
            (BOOK + "%(task)s, %(run)s, %(step)s, %(op)s, 'usd', 2)", "within the budget"),
            (BOOK + "%(other)s, %(run)s, %(step)s, %(op)s, 'usd', 2)", "the task that sends it"),
            (BOOK + "%(task)s, %(run)s, %(step)s, %(op)s, 'usd', -1)", "given back once"),
            (BOOK + "%(task)s, %(run)s, %(step)s, NULL, 'usd', -1)", "never_falls_below_zero"),
            (BOOK + "%(task)s, %(run)s, %(step)s, NULL, 'usd', 'NaN')", "never_falls_below_zero"),
            ("UPDATE stanchion.budget SET spent = 0.5", "follows from what was booked"),
            ("UPDATE stanchion.budget SET allowed = 5", "before a run begins"),
            ("UPDATE stanchion.budget SET unit = 'eur'", "stays that of its task"),
            ("DELETE FROM stanchion.budget", "permission denied"),
            ("DELETE FROM stanchion.spending", "permission denied"),
            ("UPDATE stanchion.spending SET amount = 1", "permission denied"),
        ],
    )  # fmt: skip
    def test_direct_statements(self, engine: Engine, prepared: Callable[..., None], sql: str, words: str) -> None:
        prepared(sql, words)
        assert budget(engine) == [("usd", 1.0, 0.0)]

    def test_a_login_of_a_service_writes_nothing(self, engine: Engine) -> None:
        for login in ("stanchion_worker", "stanchion_task_service", "stanchion_orchestrator", "stanchion_maintenance"):
            for table in ("budget", "spending"):
                rights = engine.one(
                    "SELECT has_table_privilege(%s, %s, 'INSERT, UPDATE, DELETE')", login, f"stanchion.{table}"
                )
                assert rights == (False,), (login, table)


def test_the_check_finds_a_forged_budget(engine: Engine, database_url: str) -> None:
    """From the events alone: a limit, a sum and a booking that are not what they tell."""
    engine.submit(spending(5), budget={"tokens": 10})
    with crew(engine) as worker:
        worker.work(lambda: finished(engine))
    root = Database(database_url, name="check")
    for change, back, field in (
        ("UPDATE stanchion.budget SET allowed = 20", "UPDATE stanchion.budget SET allowed = 10", "allowed"),
        ("UPDATE stanchion.budget SET spent = 4", "UPDATE stanchion.budget SET spent = 5", "spent"),
        ("UPDATE stanchion.spending SET amount = 4", "UPDATE stanchion.spending SET amount = 5", "booked"),
    ):
        for sql, wanted in ((change, {field}), (back, set())):
            with engine.admin.transaction():
                engine.admin.execute("SET LOCAL session_replication_role = replica")
                engine.admin.execute(sql)
            found = {difference.field for difference in check(root)}
            assert (found >= wanted, bool(found)) == (True, bool(wanted)), (sql, found)
    root.close()


class TestMeetings:
    """At the same moment, on a real PostgreSQL."""

    @settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.data())
    def test_branches_never_spend_more_than_there_is(
        self, engine: Engine, outside: Outside, data: st.DataObject
    ) -> None:
        """Whatever each costs and comes to, what left is what was paid for, and no more than may be."""
        costs = data.draw(st.lists(st.integers(1, 9), min_size=6, max_size=6), label="costs of branches")
        ends = data.draw(
            st.lists(st.sampled_from(["confirmed", "prepared", "refused", "unknown"]), min_size=6, max_size=6)
        )
        limit = data.draw(st.integers(1, 40), label="limit")
        operation = outside.operation()
        wf = Workflow(f"wide_{uuid4().hex[:8]}", operations=[operation])
        for number in range(6):
            wf.step(retries=0)(_named(f"branch{number}"))
        task = engine.submit(wf, budget={"usd": limit})
        hand = engine.worker(600_000)
        leases = hand.take(*wf.steps)
        books = [Ledger(engine.worker_database, hand.leases.worker_id) for _ in leases]

        def act(number: int) -> Callable[[int], Any]:
            def one(_: int) -> tuple[str, str]:
                intent = Intent.of(operation, f"k{number}", PAGE, cost={"usd": costs[number]})
                found = books[number].prepare(leases[number], intent).operation_id
                assert found is not None
                said = books[number].dispatch(leases[number], found).outcome
                if said == "dispatched":
                    books[number].settle(leases[number], found, ends[number], receipt={"id": "x"})  # type: ignore[arg-type]  # one of the literals
                return said, ends[number]

            return one

        said = [answer for (answer,) in race(1, *(act(n) for n in range(6)))]
        assert {outcome for outcome, _ in said} <= {"dispatched", "over_budget"}
        kept = sum(
            c
            for c, (outcome, end) in zip(costs, said, strict=True)
            if outcome == "dispatched" and end in ("confirmed", "unknown")
        )
        (spent,) = engine.one("SELECT spent FROM stanchion.budget WHERE task_id = %s", task.task_id)
        assert spent == kept <= limit
        lowest, highest = engine.one(
            "SELECT min(s), max(s) FROM (SELECT sum((CASE kind WHEN 'BudgetSpent' THEN 1 ELSE -1 END) * (body->>'amount')::numeric)"
            " OVER (ORDER BY event_id) AS s FROM stanchion.event WHERE run_id = %s AND kind IN ('BudgetSpent', 'BudgetReturned')) x",
            task.run_id,
        )
        assert lowest is None or 0 <= lowest <= highest <= limit
        refused = [c for c, (outcome, _) in zip(costs, said, strict=True) if outcome == "over_budget"]
        assert not refused or sum(costs) > limit
        assert deadlocks(engine) == 0

    def test_reports_and_sends_of_several_units(self, engine: Engine, outside: Outside) -> None:
        """Reports, charges, returns and the end of an overspent run lock in one order."""
        operation = outside.operation()
        wf = Workflow("several", operations=[operation])
        for number in range(4):
            wf.step(retries=0)(_named(f"branch{number}"))
        tasks = [engine.submit(wf, budget={"a": 12, "b": 12}) for _ in range(12)]
        hand = engine.worker(600_000)
        by_task: dict[UUID, list[Lease]] = {}
        for lease in hand.take():
            by_task.setdefault(lease.task_id, []).append(lease)
        books = Ledger(engine.worker_database, hand.leases.worker_id)

        def send(branch: int) -> Callable[[int], Any]:
            def one(turn: int) -> None:
                lease = by_task[tasks[turn].task_id][branch]
                intent = Intent.of(operation, f"k{branch}", PAGE, cost={"b": 3, "a": 4})
                found = books.prepare(lease, intent).operation_id
                assert found is not None
                if books.dispatch(lease, found).outcome == "dispatched":
                    books.settle(lease, found, "prepared")

            return one

        def report(branch: int) -> Callable[[int], Any]:
            def one(turn: int) -> None:
                lease = by_task[tasks[turn].task_id][branch]
                for unit in ("b", "a", "c") if branch else ("a", "b", "c"):
                    books.spend(lease, uuid4(), unit, 5)

            return one

        race(len(tasks), send(0), send(1), report(2), report(3))
        assert deadlocks(engine) == 0
        assert engine.one("SELECT min(spent), max(spent) FROM stanchion.budget") == (10, 10)


def _named(name: str) -> Callable[[Ctx], int]:
    def branch(ctx: Ctx) -> int:
        return 1

    branch.__name__ = branch.__qualname__ = name
    return branch


def test_retention_takes_budgets_with_their_tasks(engine: Engine, db: Callable[[str], Database]) -> None:
    """And nothing of the tasks that stay."""
    for _ in range(2):
        engine.submit(spending(5), budget={"tokens": 10})
        with crew(engine) as worker:
            worker.work(lambda: engine.all("SELECT FROM stanchion.task WHERE ended_at IS NULL") == [])
        engine.forward(100 * 86_400)
    retention = Retention(db(MAINTENANCE))
    assert retention.remove_payloads(timedelta(days=150)) == 1
    assert retention.remove_history(timedelta(days=150)) == 1
    assert engine.all("SELECT spent FROM stanchion.budget") == [5]
    assert engine.all("SELECT amount FROM stanchion.spending") == [5]


def test_an_effect_of_the_tenant_is_paid_by_the_task_that_sends_it(engine: Engine, outside: Outside) -> None:
    """And what is given back goes to the one that paid."""
    publish = outside.operation(scope="tenant", cost={"usd": 1})
    wf = Workflow("shared", operations=[publish])

    @wf.step(retries=0)
    async def send(ctx: Ctx) -> dict[str, Any]:
        return await ctx.op(publish, PAGE, key="k")

    outside.script += ["not_sent", "done", "done"]
    states = []
    for _ in range(3):
        task = engine.submit(wf, budget={"usd": 1})
        with crew(engine) as worker:
            worker.work(lambda: engine.sweep() or engine.all("SELECT FROM stanchion.task WHERE ended_at IS NULL") == [])
        states.append(engine.task(task)[0])
    assert states == ["failed", "completed", "completed"]
    assert engine.all("SELECT spent FROM stanchion.budget ORDER BY task_id") == [0, 1, 0]


def test_who_forgets_to_wait_is_told(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing else would: money that was not reported is not missed by anybody."""
    wf = Workflow("careless")

    @wf.step(retries=0)
    async def work(ctx: Ctx) -> None:
        ctx.spend("tokens", 5)

    engine.submit(wf)
    with crew(engine) as worker:
        worker.work(lambda: finished(engine))
    assert "pending.forgotten" in "".join(capsys.readouterr())
    assert budget(engine) == []
