"""What an approval covers: nothing else leaves, whoever sends it, however often, whatever happens in between."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from kit.crew import Crew, crew
from kit.deciding import PAGE, Deciding, asked, asking, failure, sent, state_of
from kit.engine import Engine
from kit.outside import Outside
from kit.racing import race

from stanchion.authority.artifact_flips import stored
from stanchion.authority.artifacts import Artifacts
from stanchion.authority.leases import Lease
from stanchion.authority.ledger import Intent, Ledger
from stanchion.authority.objects import Objects
from stanchion.authority.tasks import Tasks
from stanchion.authority.workflows import Workflows
from stanchion.errors import Conflict
from stanchion.workflow import Ctx, Workflow
from stanchion.workflow.approval import Ask, Decision

pytestmark = pytest.mark.usefixtures("agrees")


@pytest.fixture
def outside() -> Outside:
    return Outside()


class TestBinding:
    """Anything else than what was shown does not leave."""

    @pytest.mark.parametrize(
        ("changed", "why"),
        [
            ({"sent": PAGE | {"title": "Another"}}, "the approval is for another payload"),
            ({"sent": PAGE | {"more": None}}, "the approval is for another payload"),
            ({"key": "summer"}, "the approval is for another key"),
        ],
    )
    def test_another_effect(
        self, engine: Engine, outside: Outside, people: Deciding, changed: dict[str, Any], why: str
    ) -> None:
        engine.submit(asking(outside, by="editors", **changed))
        with crew(engine) as worker:
            asked(engine, worker)
            people.say("ann")
            sent(engine, worker)
        assert failure(engine) == ("E-APR-08", why)
        assert outside.requests == 0
        assert people.state == "granted"
        assert engine.one("SELECT count(*) FROM stanchion.event WHERE kind = 'ApprovalRefused'")[0] == 1

    def test_another_order_of_the_same_values_is_the_same(
        self, engine: Engine, outside: Outside, people: Deciding
    ) -> None:
        """By the canonical form: 1 and 1.0 too."""
        engine.submit(asking(outside, by="editors", page={"a": 1, "b": 2.0}, sent={"b": 2, "a": 1.0}))
        with crew(engine) as worker:
            asked(engine, worker)
            people.say("ann")
            sent(engine, worker)
        assert len(outside.executed) == 1

    def test_two_effects(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        """The second is refused: it was approved once."""
        publish = outside.operation(needs_approval=True)
        wf = Workflow("twice", operations=[publish])

        @wf.approval(by="editors")
        def review(ctx: Ctx) -> Ask:
            return Ask("Publish it?", PAGE, publish)

        @wf.step(after=review, retries=0)
        async def send(ctx: Ctx, decision: Decision) -> None:
            await ctx.op(publish, PAGE, key="one", approval=decision)
            await ctx.op(publish, PAGE, key="two", approval=decision)

        engine.submit(wf)
        with crew(engine) as worker:
            asked(engine, worker)
            people.say("ann")
            sent(engine, worker)
        assert failure(engine) == ("E-APR-08", "it was spent on another operation")
        assert len(outside.executed) == 1

    @pytest.mark.parametrize("given", ["none", "forged", "of another kind", "of another task"])
    def test_no_approval_or_somebody_elses(
        self, engine: Engine, outside: Outside, people: Deciding, given: str
    ) -> None:
        """A Decision is plain data, which a step may make up: what counts is the row."""
        publish = outside.operation(needs_approval=True)
        other = outside.operation("press.retract")
        wf = Workflow("forging", operations=[publish, other])

        @wf.approval(by="editors")
        def review(ctx: Ctx) -> Ask:
            return Ask("Retract it?", PAGE, other) if given == "of another kind" else Ask("Publish?", PAGE, publish)

        @wf.step(after=review, retries=0)
        async def send(ctx: Ctx, decision: Decision) -> None:
            forged = Decision(str(uuid4()) if given == "forged" else str(foreign[-1]), True, "granted")
            approval = {"none": None, "of another kind": decision}.get(given, forged)
            await ctx.op(publish, PAGE, key="spring", approval=approval)

        foreign = [uuid4()]
        if given == "of another task":
            engine.submit(asking(outside, "before", by="editors"))
            with crew(engine) as worker:
                worker.work(lambda: engine.one("SELECT count(*) FROM stanchion.approval")[0] == 1)
            foreign.append(people.id)
            engine.admin.execute("DELETE FROM stanchion.timer")
            people.say("ann")
            engine.admin.execute("DELETE FROM stanchion.ready")
        engine.submit(wf)
        with crew(engine) as worker:
            before = 1 if given == "of another task" else 0
            worker.work(lambda: engine.one("SELECT count(*) FROM stanchion.approval")[0] > before)
            people.say("ann")
            worker.work(lambda: engine.all("SELECT error->>'code' FROM stanchion.attempt WHERE state = 'failed'") != [])
        assert failure(engine)[0] == "E-APR-08"
        assert outside.requests == 0

    def test_a_lost_answer_is_found_out_under_the_same_approval(
        self, engine: Engine, outside: Outside, people: Deciding
    ) -> None:
        outside.script.extend(["never", "lost"])
        engine.submit(asking(outside, by="editors"))
        with crew(engine) as worker:
            asked(engine, worker)
            people.say("ann")
            sent(engine, worker)
        assert len(outside.executed) == 1
        assert people.state == "spent"
        assert engine.one("SELECT sends::int FROM stanchion.operation")[0] == 2

    def test_a_new_run_uses_what_was_approved(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        """The decision is taken over with the step, and the effect is had once."""
        outside.script.append("refused")
        task = engine.submit(asking(outside, by="editors"))
        with crew(engine) as worker:
            asked(engine, worker)
            people.say("ann")
            sent(engine, worker)
            engine.sweep()
            Tasks(engine.service, Workflows(engine.service)).retry(
                engine.tenant, task.task_id, reason="test", actor="ann"
            )
            worker.work(lambda: len(engine.all("SELECT 1 FROM stanchion.run WHERE state = 'cancelling'")) == 1)
        assert people.state == "spent"
        assert outside.executed == []


class TestRetry:
    """A new run of the task takes a decision over, or asks again."""

    def retried(self, engine: Engine, outside: Outside, people: Deciding, spoil: Callable[[], object]) -> int:
        """A task that failed after its decision, and how many questions its next run comes to."""
        publish = outside.operation(needs_approval=True)
        wf = Workflow("retried", operations=[publish])
        broken = [True]

        @wf.approval(by="editors", within="1h")
        def review(ctx: Ctx) -> Ask:
            return Ask("Publish it?", PAGE, publish)

        @wf.step(after=review, retries=0)
        async def send(ctx: Ctx, decision: Decision) -> dict[str, Any]:
            if broken[0]:
                raise ValueError("before anything is sent")
            return await ctx.op(publish, PAGE, key="spring", approval=decision)

        task = engine.submit(wf)
        with crew(engine) as worker:
            asked(engine, worker)
            people.say("ann")
            sent(engine, worker)
            engine.sweep()
            spoil()
            broken[0] = False
            Tasks(engine.service, Workflows(engine.service)).retry(
                engine.tenant, task.task_id, reason="test", actor="ann"
            )
            settled = (
                "SELECT count(*) FROM stanchion.step s JOIN stanchion.task t ON t.run_id = s.run_id WHERE s.state = %s"
            )
            worker.work(
                lambda: (
                    engine.one(f"{settled} AND node = 'review'", "waiting")[0]
                    or engine.one(f"{settled} AND node = 'send'", "succeeded")[0]
                )
            )
            count = int(engine.one("SELECT count(*) FROM stanchion.approval")[0])
            if count == 2:
                people.say("bob")
                worker.work(lambda: engine.one(f"{settled} AND node = 'send'", "succeeded")[0])
        assert len(outside.executed) == 1
        return count

    def test_what_was_granted_is_taken_over(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        assert self.retried(engine, outside, people, lambda: None) == 1

    def test_what_has_expired_is_asked_for_anew(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        assert self.retried(engine, outside, people, lambda: engine.forward(3_601)) == 2

    def test_what_was_revoked_is_asked_for_anew(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        assert self.retried(engine, outside, people, people.revoke) == 2


class TestRecovery:
    """Whoever takes over sends under the same approval, and only while it holds."""

    def lost(self, engine: Engine, outside: Outside, people: Deciding, worker: Crew) -> None:
        """The request never arrived, and the look-up is away: nobody knows."""
        outside.script.append("never")
        outside.blind = True
        engine.submit(asking(outside, by="editors", within="1h"))
        asked(engine, worker)
        people.say("ann")
        worker.work(lambda: state_of(engine, "send") == "unknown")
        assert people.state == "spent"

    def found_out(self, engine: Engine, outside: Outside, worker: Crew, seconds: float) -> None:
        """The look-up is back after so long: it was not done."""
        outside.blind = False
        engine.forward(seconds)
        engine.fire()
        sent(engine, worker)

    def test_in_its_time(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        engine.register(asking(outside, by="editors", within="1h"))
        with crew(engine) as worker:
            self.lost(engine, outside, people, worker)
            self.found_out(engine, outside, worker, 600)
        assert len(outside.executed) == 1
        assert people.state == "spent"

    def test_not_after_it(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        engine.register(asking(outside, by="editors", within="1h"))
        with crew(engine) as worker:
            self.lost(engine, outside, people, worker)
            self.found_out(engine, outside, worker, 3_601)
        assert outside.executed == []
        assert "E-APR-08" in engine.all("SELECT error->>'code' FROM stanchion.attempt WHERE state = 'failed'")

    def test_not_once_it_was_revoked(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        engine.register(asking(outside, by="editors", within="1h"))
        with crew(engine) as worker:
            self.lost(engine, outside, people, worker)
            assert people.revoke() == "revoked"
            self.found_out(engine, outside, worker, 600)
        assert outside.executed == []
        assert "E-APR-08" in engine.all("SELECT error->>'code' FROM stanchion.attempt WHERE state = 'failed'")

    def test_another_worker(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        """The first one died between the commit and the request: the ledger says dispatched, nothing was sent."""
        engine.submit(asking(outside, by="editors"))
        hand = engine.worker()
        (lease,) = hand.take("review")
        hand.settle([hand.run(lease)])
        people.say("ann")
        (lease,) = hand.take("send")
        ledger = Ledger(engine.worker_database, hand.leases.worker_id)
        publish = engine.workflows["asking"].operations["press.publish"]
        found = ledger.prepare(lease, Intent.of(publish, "spring", PAGE, approval=people.id)).operation_id
        assert found is not None
        assert ledger.dispatch(lease, found).outcome == "dispatched"
        engine.forward(60)
        assert engine.upkeep.reap()
        with crew(engine) as worker:
            engine.forward(600)
            engine.fire()
            sent(engine, worker)
        assert len(outside.executed) == 1
        assert people.state == "spent"


class TestBetween:
    """A revocation and a dispatch at the same moment: the approval's row orders them."""

    @pytest.fixture
    def ready(self, engine: Engine, outside: Outside, people: Deciding) -> tuple[Ledger, Lease, UUID]:
        engine.submit(asking(outside, by="editors"))
        hand = engine.worker()
        (lease,) = hand.take("review")
        hand.settle([hand.run(lease)])
        people.say("ann")
        (lease,) = hand.take("send")
        ledger = Ledger(engine.worker_database, hand.leases.worker_id)
        publish = engine.workflows["asking"].operations["press.publish"]
        found = ledger.prepare(lease, Intent.of(publish, "spring", PAGE, approval=people.id)).operation_id
        assert found is not None
        return ledger, lease, found

    def blocked(self, engine: Engine) -> bool:
        return bool(
            engine.all("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()")
        )

    def test_revoked_first(
        self,
        engine: Engine,
        people: Deciding,
        ready: tuple[Ledger, Lease, UUID],
        database_url: str,
        eventually: Callable[..., Any],
    ) -> None:
        """The dispatch waits for it, and sees it."""
        ledger, lease, operation = ready
        with ThreadPoolExecutor(1) as pool, psycopg.connect(database_url) as other:
            other.execute("SELECT stanchion.revoke_approval(%s, %s, 'test', 'ann')", (engine.tenant, people.id))
            told = pool.submit(ledger.dispatch, lease, operation)
            eventually(lambda: self.blocked(engine))
            other.commit()
            assert told.result(10)[0::3] == ("unapproved", "revoked")
        assert engine.one("SELECT state FROM stanchion.operation")[0] == "prepared"

    def test_dispatched_first(
        self,
        engine: Engine,
        people: Deciding,
        ready: tuple[Ledger, Lease, UUID],
        database_url: str,
        eventually: Callable[..., Any],
    ) -> None:
        """The revocation waits for it, and keeps it from being sent once more."""
        ledger, lease, operation = ready
        with ThreadPoolExecutor(1) as pool, psycopg.connect(database_url) as other:
            other.execute(
                "SELECT stanchion.op_dispatch(%s, %s, %s, %s)",
                (ledger.worker_id, lease.step_id, lease.fence, operation),
            )
            told = pool.submit(people.revoke)
            eventually(lambda: self.blocked(engine))
            other.commit()
            assert told.result(10) == "revoked"
        assert engine.one("SELECT state FROM stanchion.operation")[0] == "dispatched"
        ledger.settle(lease, operation, "prepared", error={"code": "E-OP-09", "what": "not sent"})
        assert ledger.dispatch(lease, operation)[0::3] == ("unapproved", "revoked")


class TestVersions:
    """An approval is about the latest version, whose content was read before anybody was asked."""

    def test_the_version_that_was_approved(
        self, engine: Engine, people: Deciding, outside: Outside, tmp_path: Path
    ) -> None:
        task, hand = self.asked(engine, outside, tmp_path)
        people.say("ann")
        self.send(engine, hand)
        assert people.state == "spent"
        assert task

    def test_a_newer_one_is_another(self, engine: Engine, people: Deciding, outside: Outside, tmp_path: Path) -> None:
        """Whatever its content."""
        task, hand = self.asked(engine, outside, tmp_path)
        people.say("ann")
        self.upload(engine, task, tmp_path)
        self.send(engine, hand)
        assert failure(engine) == ("E-APR-08", "the approval is for another version")
        assert outside.requests == 0

    def test_a_newer_one_before_anybody_is_asked(
        self, engine: Engine, people: Deciding, outside: Outside, tmp_path: Path
    ) -> None:
        with pytest.raises(Conflict) as refused:
            self.asked(engine, outside, tmp_path, overtaken=True)
        assert refused.value.code == "E-APR-07"

    def test_content_that_is_not_what_its_row_says(
        self, engine: Engine, people: Deciding, outside: Outside, tmp_path: Path
    ) -> None:
        """Nobody is asked."""
        self.asked(engine, outside, tmp_path, damaged=True)
        assert engine.all("SELECT 1 FROM stanchion.approval") == []
        assert failure(engine)[0].startswith("E-OBJ-")

    def upload(self, engine: Engine, task: UUID, tmp_path: Path) -> UUID:
        """A version of the task's artifact."""
        store = Objects(tmp_path.as_uri()).of(engine.tenant)
        made = Artifacts(engine.service).upload(
            engine.tenant,
            task,
            "page",
            lambda: stored(store, [b"A page"]),
            media_type="text/plain",
            actor="test",
        )
        return made["version_id"]  # type: ignore[no-any-return]  # of a row

    def asked(
        self, engine: Engine, outside: Outside, tmp_path: Path, *, overtaken: bool = False, damaged: bool = False
    ) -> tuple[UUID, Any]:
        """People are asked about the task's artifact."""
        versions: list[UUID] = []
        publish = outside.operation(needs_approval=True)
        wf = Workflow("versions", operations=[publish])

        @wf.approval(by="editors", retries=0)
        def review(ctx: Ctx) -> Ask:
            return Ask("Publish it?", PAGE, publish, resource=str(versions[0]))

        @wf.step(after=review, retries=0)
        async def send(ctx: Ctx, decision: Decision) -> dict[str, Any]:
            return await ctx.op(publish, PAGE, key="spring", approval=decision)

        task = engine.submit(wf).task_id
        versions.append(self.upload(engine, task, tmp_path))
        if overtaken:
            self.upload(engine, task, tmp_path)
        if damaged:
            for path in tmp_path.rglob("*"):
                if path.is_file():
                    path.chmod(0o600)
                    path.write_bytes(b"B page")
        hand = engine.worker()
        hand.leases.objects = Objects(tmp_path.as_uri())
        (lease,) = hand.take("review")
        hand.settle([hand.run(lease)])
        return task, hand

    def send(self, engine: Engine, hand: Any) -> None:
        with crew(engine) as worker:
            sent(engine, worker)


class TestAtOnce:
    def test_two_approvers(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        """Both are counted, the approval is granted once, its step goes on once."""
        wf = asking(outside, by="editors", needs=2)
        for _ in range(10):
            engine.submit(wf)
        worker = engine.worker()
        for lease in worker.take("review"):
            worker.settle([worker.run(lease)])
        approvals = engine.all("SELECT approval_id FROM stanchion.approval")
        race(
            len(approvals),
            lambda n: people.say("ann", on=approvals[n]),
            lambda n: people.say("bob", on=approvals[n]),
        )
        assert engine.all("SELECT DISTINCT state FROM stanchion.approval") == ["granted"]
        assert len(engine.all("SELECT 1 FROM stanchion.event WHERE kind = 'StepAnswered'")) == len(approvals)
        engine.check_counts()

    def test_a_yes_and_a_no(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        """One of them decides it, the other is told that it is decided."""
        wf = asking(outside, by="editors")
        for _ in range(10):
            engine.submit(wf)
        worker = engine.worker()
        for lease in worker.take("review"):
            worker.settle([worker.run(lease)])
        approvals = engine.all("SELECT approval_id FROM stanchion.approval")

        def say(name: str, vote: Any) -> Callable[[int], str]:
            def one(n: int) -> str:
                try:
                    return people.say(name, vote, on=approvals[n])
                except Conflict as error:
                    return error.code

            return one

        answers = race(len(approvals), say("ann", "approve"), say("bob", "reject"))
        assert {"E-APR-01", *answers[0], *answers[1]} <= {"E-APR-01", "granted", "rejected"}
        votes = engine.one("SELECT count(*) FROM stanchion.approval_vote")[0]
        decided = engine.all("SELECT state FROM stanchion.approval")
        assert votes == len(approvals)
        assert set(decided) <= {"granted", "rejected"}
        engine.check_counts()


@pytest.mark.parametrize("login", ["stanchion_task_service", "stanchion_worker", "stanchion_orchestrator"])
@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE stanchion.approval SET state = 'granted', version = version + 1, decided_at = now()",
        "INSERT INTO stanchion.approval_vote (vote) VALUES ('approve')",
        "DELETE FROM stanchion.approval",
    ],
)
def test_no_service_writes_approvals_itself(
    engine: Engine, outside: Outside, people: Deciding, login: str, sql: str
) -> None:
    """They have functions, and no right on the tables beyond reading."""
    engine.submit(asking(outside, by="editors"))
    with crew(engine) as worker:
        asked(engine, worker)
    engine.admin.execute(f"SET ROLE {login}")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        engine.admin.execute(sql)
    engine.admin.execute("RESET ROLE")


BOUND = {
    "task_id": "gen_random_uuid()",
    "step_id": "gen_random_uuid()",
    "operation_kind": "'press.retract'",
    "operation_key": "'summer'",
    "payload_hash": "sha256('x')",
    "resource_id": "gen_random_uuid()",
    "people": "'{cat}'",
    "teams": "'{}'",
    "needs": "2",
    "four_eyes": "false",
    "requested_by": "'person:bob'",
    "expires_at": "now() + interval '1 year'",
    "question": "'Retract it?'",
    "payload": '\'{"title": "Another"}\'',
    "summary": "'nothing'",
    "on_timeout": "'fail'",
    "on_rejected": "'end'",
    "replaces": "gen_random_uuid()",
    "edited_by": "'person:bob'",
    "spent_by": "gen_random_uuid()",
}


@pytest.mark.parametrize("state", ["requested", "granted", "spent"])
@pytest.mark.parametrize("column", list(BOUND))
def test_not_one_field_changes_in_any_state(
    engine: Engine, outside: Outside, people: Deciding, column: str, state: str
) -> None:
    """Not even for the engine, which runs the functions."""
    engine.submit(asking(outside, by="editors"))
    with crew(engine) as worker:
        asked(engine, worker)
        if state != "requested":
            people.say("ann")
        if state == "spent":
            sent(engine, worker)
    assert people.state == state
    engine.admin.execute("SET ROLE stanchion_engine")
    try:
        with pytest.raises(psycopg.Error) as refused:
            engine.admin.execute(f"UPDATE stanchion.approval SET {column} = {BOUND[column]}")
        assert refused.value.sqlstate in ("ST002", "ST004", "23514")
    finally:
        engine.admin.execute("RESET ROLE")


@pytest.mark.parametrize("column", ["kind", "key", "payload_hash", "task_id", "needs_approval", "approval_id"])
def test_an_operation_is_not_made_to_fit(engine: Engine, outside: Outside, people: Deciding, column: str) -> None:
    """What it is never changes, and what it needs neither; the approval is taken off only to be refused."""
    engine.submit(asking(outside, by="editors", sent=PAGE | {"title": "Another"}))
    with crew(engine) as worker:
        asked(engine, worker)
        people.say("ann")
        sent(engine, worker)
    change = {"needs_approval": "false", "task_id": "gen_random_uuid()", "payload_hash": "sha256('x')"}
    engine.admin.execute("SET ROLE stanchion_engine")
    with pytest.raises(psycopg.Error) as refused:
        engine.admin.execute(
            f"UPDATE stanchion.operation SET {column} = {change.get(column, 'NULL')}, state = 'dispatched',"
            " version = version + 1, proof = fence, sends = sends + 1"
        )
    assert refused.value.sqlstate in ("ST002", "ST004", "23502")
    engine.admin.execute("RESET ROLE")
