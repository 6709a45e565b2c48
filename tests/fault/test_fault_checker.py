"""The checker itself: a good history passes, and each bad one is flagged by the check that is there for it.

The histories are damaged by hand, with all triggers off: what the database refuses on the way can't be the reason that
nothing bad is ever found.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from kit.databases import Databases
from kit.engine import Admin, Engine
from psycopg import sql

import stanchion.testing.checker as package
from stanchion.authority.held_artifacts import HeldArtifacts
from stanchion.authority.ledger import Intent, Ledger
from stanchion.db.engine import Database, login_url
from stanchion.objects import Stored
from stanchion.testing.checker import CHECKS, check, ends, report
from stanchion.testing.history import Execution
from stanchion.workflow import AtLeast, Ctx, Results, Workflow
from stanchion.workflow.operation import Call, Operation


def nothing(call: Call, payload: int) -> int:
    """An effect that the tests only speak of."""
    return payload


STAMP = Operation("outside.stamp", do=nothing, check=nothing, keeps_key="1d")


def story() -> Workflow:
    """plan -> three children -> a join of all and a join of sums -> last."""
    wf = Workflow("story")

    @wf.step()
    def plan(ctx: Ctx) -> list[str]:
        return list("abc")

    @wf.step(after=plan, each=True)
    def child(ctx: Ctx, item: str) -> str:
        return item

    @wf.step(after=child, join="all")
    def gather(ctx: Ctx, items: Results[str]) -> int:
        return len(items)

    @wf.step(after=child, join=AtLeast(3))
    def count(ctx: Ctx, items: Results[str]) -> int:
        return len(items)

    @wf.step(after=gather)
    def last(ctx: Ctx, number: int) -> int:
        return number

    return wf


class Told:
    """A history in which one child failed once and one was lost once, and what user code noted of it."""

    def __init__(self, engine: Engine, url: str, *, to_the_end: bool) -> None:
        self.engine = engine
        self.url = url
        self.admin: Admin = engine.admin
        self.executions: list[Execution] = []
        self.task = engine.submit(story())
        worker = engine.worker()
        (planning,) = self._take(worker, "plan")
        held = HeldArtifacts(worker.leases.database, worker.leases.worker_id)
        for content in (b"one", b"two"):
            version = held.begin(planning, "notes.txt", "text/plain", [])
            held.flip(planning, version, Stored(hashlib.sha256(content).digest(), len(content)))
        worker.finish(planning, list("abc"))
        engine.expand()
        one, two, three = self._take(worker, "child")
        worker.fail(one, final=False, delay_ms=0)
        if not to_the_end:
            return  # one waits for its retry, two are leased
        engine.fire()
        worker.finish(three, "c")
        self.admin.execute(
            "UPDATE stanchion.attempt SET lease_until = now() - interval '1 hour' WHERE step_id = %s", (two.step_id,)
        )
        engine.upkeep.reap()
        for lease in self._take(worker, "child"):
            worker.finish(lease, "x")
        for node in ("gather", "count"):
            self._finish(worker, node, 3)
        self._affect(worker)
        self.admin.execute("DELETE FROM stanchion.outbox")  # a relay would have sent it

    def _affect(self, worker: Any) -> None:
        """The last step has an effect, whose answer is lost and which is asked after by a probe."""
        ledger = Ledger(self.engine.worker_database, worker.leases.worker_id)
        (lease,) = self._take(worker, "last")
        operation = ledger.prepare(lease, Intent.of(STAMP, "one", 1)).operation_id
        assert operation is not None
        ledger.dispatch(lease, operation)
        ledger.settle(lease, operation, "unknown")
        ledger.end_in_doubt(lease, {"code": "E-OP-10"}, 0)
        (probe,) = worker.take("last")
        assert ledger.probed(probe, operation, "done", receipt=1) == "confirmed"
        assert ledger.end_probe(probe)
        self._finish(worker, "last", 3)

    def _take(self, worker: Any, node: str) -> list[Any]:
        leases = worker.take(node)
        self.executions += [Execution(x.step_id, x.fence, x.node, x.idx, x.number, 1, 0.0) for x in leases]
        return leases

    def _finish(self, worker: Any, node: str, value: Any) -> None:
        for lease in self._take(worker, node):
            worker.finish(lease, value)

    @contextmanager
    def damaged(self, statement: str) -> Iterator[None]:
        """Within the block the history is as these statements leave it, past every trigger."""
        with self.admin.transaction(force_rollback=True):
            self.admin.execute("SET LOCAL session_replication_role = replica")
            for one in statement.split(";"):
                changed = self.admin.execute(sql.SQL(one)).rowcount  # type: ignore[arg-type]  # a constant of this file
                assert changed != 0, f"nothing was damaged by {one}"
            yield

    def flagged(self, *, settled: bool = True) -> set[str]:
        """The checks that found something."""
        return {f.check for f in check(self.admin, executions=self.executions, settled=settled)}


@pytest.fixture(scope="module")
def both(databases: Databases) -> Iterator[tuple[Told, Told]]:
    """A history that is over and one in the middle, each in a database of its own."""
    with ExitStack() as opened:
        yield _told(opened, databases, to_the_end=True), _told(opened, databases, to_the_end=False)


def _told(opened: ExitStack, databases: Databases, *, to_the_end: bool) -> Told:
    url = databases.create()
    opened.callback(databases.drop, url)
    admin = opened.enter_context(psycopg.connect(url, autocommit=True))
    (tenant,) = admin.execute("SELECT stanchion.create_tenant('acme')").fetchone() or (None,)

    def under(login: str) -> Database:
        database = Database(login_url(url, login), name=f"test {login}")
        opened.callback(database.close)
        return database

    return Told(Engine(under, admin, tenant), url, to_the_end=to_the_end)


@pytest.fixture
def good(both: tuple[Told, Told]) -> Told:
    """A history that is over."""
    return both[0]


@pytest.fixture
def unfinished(both: tuple[Told, Told]) -> Told:
    """A history in the middle."""
    return both[1]


def test_a_good_history_passes(good: Told) -> None:
    """A run with a failed and a lost attempt, as the engine does it, is beyond reproach."""
    found = check(good.admin, executions=good.executions)
    assert not found, report(found)


def test_a_good_history_in_the_middle_passes(unfinished: Told) -> None:
    """While something is leased and something waits for a retry, all invariants hold; only the end is missing."""
    assert unfinished.flagged(settled=False) == set()
    assert unfinished.flagged() == {"everything_ended"}


STEP = "(SELECT step_id FROM stanchion.step WHERE node = '{node}' AND idx = {idx} AND kind = 'step')"
A, B, C = (STEP.format(node="child", idx=n) for n in range(3))
GATHER, COUNT, LAST = (STEP.format(node=n, idx=0) for n in ("gather", "count", "last"))
COLUMNS = "tenant_id, xid, run_id, step_id, fence, version, at, kind, actor, body"


def moved(where: str, before: str) -> str:
    """Move an event in the log to just before another one."""
    return (
        f"INSERT INTO stanchion.event (event_id, {COLUMNS}) OVERRIDING SYSTEM VALUE"
        f" SELECT -1, {COLUMNS} FROM stanchion.event WHERE {where};"
        f" DELETE FROM stanchion.event WHERE {where} AND event_id > 0;"
        f" UPDATE stanchion.event SET run_id = run_id WHERE {before}"
    )


DAMAGE = {
    "a transition that is not there": (
        "legal_transitions",
        f"DELETE FROM stanchion.event WHERE step_id = {LAST} AND kind = 'StepLeased'",
    ),
    "a step that ended otherwise": (
        "legal_transitions",
        f"UPDATE stanchion.step SET state = 'failed' WHERE step_id = {C}",
    ),
    "a run that ended otherwise": (
        "legal_transitions",
        "UPDATE stanchion.event SET kind = 'RunCancelled' WHERE kind = 'RunSucceeded'",
    ),
    "a task that ended twice": (
        "legal_transitions",
        f"INSERT INTO stanchion.event ({COLUMNS}) SELECT {COLUMNS} FROM stanchion.event WHERE kind = 'TaskCompleted'",
    ),
    "a barrier of another state": (
        "legal_transitions",
        "UPDATE stanchion.event SET kind = 'BarrierFailed' WHERE kind = 'BarrierReleased'",
    ),
    "a hole in the versions of a step": (
        "versions_without_holes",
        f"UPDATE stanchion.event SET version = version + 1 WHERE step_id = {A} AND kind = 'StepSucceeded'",
    ),
    "a change that nobody recorded": (
        "versions_without_holes",
        f"UPDATE stanchion.step SET version = version + 1 WHERE step_id = {B}",
    ),
    "a change of a run that nobody recorded": (
        "versions_without_holes",
        "UPDATE stanchion.run SET version = version + 1",
    ),
    "a change of a task that nobody recorded": (
        "versions_without_holes",
        "UPDATE stanchion.task SET version = version + 1",
    ),
    "an event of a new kind": (
        "every_event_is_known",
        "UPDATE stanchion.event SET kind = 'StepTeleported' WHERE kind = 'FanExpanding'",
    ),
    "a fence that nobody was given": (
        "a_fence_for_each_lease",
        f"UPDATE stanchion.step SET fence = fence + 1 WHERE step_id = {A}",
    ),
    "a fence given twice": (
        "a_fence_for_each_lease",
        f"UPDATE stanchion.event SET fence = 1 WHERE step_id = {B} AND kind = 'StepLeased' AND fence = 2",
    ),
    "a write by the fence before": (
        "nothing_by_an_old_fence",
        f"UPDATE stanchion.event SET fence = 1 WHERE step_id = {B} AND kind = 'StepSucceeded'",
    ),
    "an attempt that is missing": (
        "attempts_match_leases",
        f"DELETE FROM stanchion.attempt WHERE step_id = {B} AND fence = 1",
    ),
    "an attempt that never ended": (
        "attempts_match_leases",
        f"UPDATE stanchion.attempt SET state = 'running', ended_at = NULL WHERE step_id = {C}",
    ),
    "an attempt that ended otherwise": (
        "attempts_match_leases",
        f"UPDATE stanchion.attempt SET state = 'failed' WHERE step_id = {B} AND fence = 1",
    ),
    "a loss that was not counted": (
        "attempts_within_budget",
        f"UPDATE stanchion.attempt SET counted = false WHERE step_id = {B} AND fence = 1",
    ),
    "a number given twice": (
        "attempts_within_budget",
        f"UPDATE stanchion.attempt SET number = 1 WHERE step_id = {B} AND fence = 2",
    ),
    "more attempts than there may be": (
        "attempts_within_budget",
        "ALTER TABLE stanchion.step DROP CONSTRAINT attempts_stay_within_the_budget;"
        f" UPDATE stanchion.step SET max_attempts = 1 WHERE step_id = {B}",
    ),
    "a success without a result": ("one_result_for_each_success", f"DELETE FROM stanchion.result WHERE step_id = {C}"),
    "a result of a stale fence": (
        "one_result_for_each_success",
        f"UPDATE stanchion.result SET fence = 1 WHERE step_id = {B}",
    ),
    "two successes": (
        "one_result_for_each_success",
        f"INSERT INTO stanchion.event ({COLUMNS}) SELECT {COLUMNS} FROM stanchion.event"
        f" WHERE step_id = {C} AND kind = 'StepSucceeded'",
    ),
    "a refusal of what was accepted": (
        "refusals_were_due",
        "INSERT INTO stanchion.refused_write (tenant_id, run_id, step_id, fence, current_fence, attempted, why)"
        f" SELECT tenant_id, run_id, step_id, fence, fence, 'complete', 'x' FROM stanchion.step WHERE step_id = {B}",
    ),
    "a release without its row": (
        "released_once",
        "DELETE FROM stanchion.barrier_release WHERE barrier_id = (SELECT barrier_id FROM stanchion.barrier WHERE kind = 'gather' LIMIT 1)",
    ),
    "a barrier that opened twice": (
        "released_once",
        f"INSERT INTO stanchion.event ({COLUMNS}) SELECT {COLUMNS} FROM stanchion.event WHERE kind = 'BarrierReleased'",
    ),
    "a release with too few": (
        "released_after_enough",
        "UPDATE stanchion.barrier_release SET included = 2 WHERE included = 3",
    ),
    "a release before its last child": (
        "released_after_enough",
        moved(
            "kind = 'BarrierReleased' AND (body->>'expected')::int = 3 AND body->>'rule' = 'all'",
            "kind = 'StepSucceeded'",
        ),
    ),
    "a join that started before it was released": (
        "held_until_released",
        moved(f"step_id = {GATHER} AND kind = 'StepLeased'", "kind = 'BarrierReleased'"),
    ),
    "a count of sums that is off": (
        "counts_are_recounts",
        "UPDATE stanchion.barrier SET succeeded = 2 WHERE rule = 'at_least'",
    ),
    "a count of slots that is off": (
        "counts_are_recounts",
        "UPDATE stanchion.barrier SET slots = 1 WHERE rule = 'all' AND kind = 'gather';"
        "INSERT INTO stanchion.barrier_slot (tenant_id, barrier_id, slot, remaining)"
        " SELECT tenant_id, barrier_id, 0, 1 FROM stanchion.barrier WHERE rule = 'all' AND kind = 'gather'",
    ),
    "a child that stands there twice": (
        "each_child_once",
        f"UPDATE stanchion.step SET idx = 0 WHERE step_id = {B}",
    ),
    "a child that was never born": ("each_child_once", f"DELETE FROM stanchion.step WHERE step_id = {B}"),
    "a version that was never promoted": (
        "versions_lived_legally",
        "DELETE FROM stanchion.event WHERE kind = 'ArtifactAvailable'",
    ),
    "a version with other content": (
        "versions_lived_legally",
        "UPDATE stanchion.artifact_version SET sha256 = sha256('other') WHERE number = 1",
    ),
    "a version that is gone": ("versions_lived_legally", "DELETE FROM stanchion.artifact_version WHERE number = 1"),
    "a version that a stale worker promoted": (
        "promoted_by_the_holder",
        "UPDATE stanchion.event SET event_id = DEFAULT WHERE kind = 'ArtifactAvailable' AND body->>'number' = '2'",
    ),
    "a hole in the numbers of versions": (
        "numbers_without_holes",
        "UPDATE stanchion.artifact_version SET number = 3 WHERE number = 2",
    ),
    "an operation that nobody prepared": (
        "operations_by_their_events",
        "DELETE FROM stanchion.event WHERE kind = 'OperationPrepared'",
    ),
    "an operation that was sent unrecorded": (
        "operations_by_their_events",
        "UPDATE stanchion.operation SET sends = sends + 1",
    ),
    "an operation that changed by itself": (
        "operations_by_their_events",
        "UPDATE stanchion.operation SET state = 'refused', confirmed_at = NULL",
    ),
    "an approval that nobody requested": (
        "approvals_by_their_events",
        "INSERT INTO stanchion.approval (tenant_id, approval_id, task_id, run_id, step_id, fence, node, state, question,"
        " payload_hash, needs, four_eyes, on_timeout, on_rejected, requested_by) SELECT s.tenant_id, gen_random_uuid(), r.task_id,"
        " s.run_id, s.step_id, s.fence, s.node, 'requested', '?', sha256(''), 1, true, 'reject', 'end', 'test'"
        " FROM stanchion.step s JOIN stanchion.run r ON r.run_id = s.run_id WHERE s.node = 'last'",
    ),
    "an effect that left under no approval": (
        "what_left_was_approved",
        "UPDATE stanchion.event SET body = body || jsonb_build_object('approval', gen_random_uuid())"
        " WHERE kind = 'OperationPrepared'",
    ),
    "a sum that nobody booked": (
        "budgets_by_their_events",
        "INSERT INTO stanchion.budget (tenant_id, task_id, unit, spent)"
        " SELECT tenant_id, task_id, 'usd', 7 FROM stanchion.task",
    ),
    "an effect beyond the budget": (
        "budgets_by_their_events",
        "INSERT INTO stanchion.event (tenant_id, run_id, kind, body) SELECT tenant_id, run_id, 'TaskRetried',"
        ' \'{"budget": {"usd": 1}}\' FROM stanchion.task;'
        " INSERT INTO stanchion.event (tenant_id, run_id, kind, body) SELECT o.tenant_id, o.run_id, 'BudgetSpent',"
        " jsonb_build_object('unit', 'usd', 'amount', 2, 'operation', o.operation_id) FROM stanchion.operation o",
    ),
    "a doubt that a step forgot": (
        "doubts_are_known",
        "UPDATE stanchion.operation SET state = 'unknown', confirmed_at = NULL",
    ),
    "a run that ended in doubt": (
        "nothing_in_doubt_at_the_end",
        "UPDATE stanchion.operation SET state = 'dispatched', confirmed_at = NULL",
    ),
    "a ready row of a step that has ended": (
        "ready_means_ready",
        "INSERT INTO stanchion.ready (step_id, tenant_id, workflow, workflow_version, node, queue, priority)"
        " SELECT step_id, tenant_id, workflow, workflow_version, node, queue, priority"
        f" FROM stanchion.step WHERE step_id = {A}",
    ),
    "a step that lives on after its run": (
        "open_is_what_is_open",
        f"UPDATE stanchion.step SET state = 'running' WHERE step_id = {C}",
    ),
    "a task that does not follow its run": ("task_follows_its_run", "UPDATE stanchion.task SET state = 'failed'"),
    "a task whose run is another's": ("task_follows_its_run", "UPDATE stanchion.task SET run_id = task_id"),
    "a message that was never sent": (
        "everything_ended",
        "INSERT INTO stanchion.outbox (part, tenant_id, topic, key, type, correlation_id, body)"
        " SELECT 0, tenant_id, 't', 'k', 'X', run_id::text, '{}' FROM stanchion.run",
    ),
    "a timer that is left": (
        "everything_ended",
        "INSERT INTO stanchion.timer (tenant_id, kind, due_at, run_id, target_id)"
        " SELECT tenant_id, 'retry', now(), run_id, run_id FROM stanchion.run",
    ),
}

UNFINISHED = {
    "a ready step that nobody can find": (
        "ready_means_ready",
        f"UPDATE stanchion.step SET state = 'ready' WHERE step_id = {A}",
    ),
    "a retry that is never due": ("waiting_has_an_end", f"DELETE FROM stanchion.timer WHERE target_id = {A}"),
    "a count of what is open that is off": ("open_is_what_is_open", "UPDATE stanchion.run SET open = open + 1"),
    "two open attempts": (
        "attempts_match_leases",
        f"DROP INDEX stanchion.attempt_one_open; UPDATE stanchion.attempt SET ended_at = NULL, state = 'running' WHERE step_id = {A}",
    ),
}


@pytest.mark.parametrize("story", DAMAGE)
def test_a_damaged_history_is_flagged(story: str, good: Told) -> None:
    """Each damage is found by the check that is there for it."""
    name, statement = DAMAGE[story]
    with good.damaged(statement):
        assert name in good.flagged()


@pytest.mark.parametrize("story", UNFINISHED)
def test_damage_in_the_middle_is_flagged(story: str, unfinished: Told) -> None:
    """The same while the history goes on."""
    name, statement = UNFINISHED[story]
    with unfinished.damaged(statement):
        assert name in unfinished.flagged(settled=False)


def test_executions_that_were_not_granted_are_flagged(good: Told) -> None:
    """Code that ran under no fence of ours, twice under one, or not at all although its result was accepted."""
    noted = list(good.executions)
    for bad in (
        [*noted, replace(noted[-1], fence=9)],
        [*noted, replace(noted[-1], step_id=uuid4())],
        [*noted, noted[-1]],
        [*noted[:-1], replace(noted[0], node="last", fence=1)],
    ):
        found = {f.check for f in check(good.admin, executions=bad)}
        assert found == {"executions_were_granted"}, bad[-1]


def test_a_session_in_a_transaction_is_flagged(good: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sits in a transaction holds up everybody else."""
    monkeypatch.setattr(ends, "_IDLE_SECONDS_MOST", 0.0)
    with psycopg.connect(good.url) as connection:
        connection.execute("SELECT 1")
        assert good.flagged() == {"no_session_hangs"}
        connection.rollback()


def test_every_check_has_its_bad_history() -> None:
    """A check that nothing can trip checks nothing."""
    elsewhere = {"executions_were_granted", "no_session_hangs"}
    assert {name for name, _ in (DAMAGE | UNFINISHED).values()} | elsewhere == set(CHECKS)


def test_the_checker_shares_no_rules_with_the_engine() -> None:
    """It imports neither the state machines nor anything of the database: a wrong table there must not pass twice."""
    for path in Path(package.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [a.name for a in getattr(node, "names", ()) if isinstance(node, ast.Import)]
            )
            assert not [n for n in names if n.startswith("stanchion.") and not n.startswith("stanchion.testing")], path
