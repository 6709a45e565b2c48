"""Approvals: what was shown is what may leave, for those who were asked, in its time, once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from kit.crew import crew
from kit.deciding import Deciding, asked, asking, failure, sent, state_of
from kit.engine import Engine, Worker
from kit.flows import result
from kit.outside import Outside

from stanchion.authority.retention import Retention
from stanchion.db.engine import Database
from stanchion.db.grants import MAINTENANCE
from stanchion.errors import Conflict, NotAllowed, NotFound
from stanchion.workflow import Ctx, Results, Workflow
from stanchion.workflow.approval import Ask, Decision

pytestmark = pytest.mark.usefixtures("agrees")


@pytest.fixture
def outside() -> Outside:
    return Outside()


class TestDeciding:
    def test_an_approved_effect_is_had_once(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        engine.submit(asking(outside, by="editors", needs=2))
        with crew(engine) as worker:
            asked(engine, worker)
            assert people.say("ann") == "requested"
            assert people.say("bob") == "granted"
            sent(engine, worker)
        assert people.state == "spent"
        assert len(outside.executed) == 1
        decision = result(engine, "review")
        assert (decision["approved"], decision["outcome"]) == (True, "granted")
        assert decision["by"] == ["person:ann", "person:bob"]
        assert engine.one("SELECT state FROM stanchion.run")[0] == "succeeded"
        assert (
            engine.all("SELECT action FROM stanchion.audit WHERE action LIKE 'approval.%%'") == ["approval.approve"] * 2
        )
        told = engine.all("SELECT kind FROM stanchion.event WHERE kind LIKE 'Approval%%' ORDER BY event_id")
        assert told == ["ApprovalRequested", "ApprovalVoted", "ApprovalVoted", "ApprovalGranted", "ApprovalSpent"]

    def test_waiting_holds_no_lease(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        """Nor a row in ready; all that is due is the end of its time."""
        engine.submit(asking(outside, by="editors"))
        with crew(engine) as worker:
            asked(engine, worker)
            assert worker.foreman.held == {}
        assert engine.one("SELECT count(*) FROM stanchion.attempt WHERE ended_at IS NULL")[0] == 0
        assert engine.one("SELECT count(*) FROM stanchion.ready")[0] == 0
        assert engine.all("SELECT kind FROM stanchion.timer") == ["approval"]

    def test_one_no_is_enough(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        engine.submit(asking(outside, by="editors", needs=2))
        with crew(engine) as worker:
            asked(engine, worker)
            people.say("ann")
            assert people.say("bob", "reject") == "rejected"
            sent(engine, worker)
        assert result(engine, "send") == {"sent": False, "outcome": "rejected"}
        assert result(engine, "review")["reason"] == "read it"
        assert outside.requests == 0

    def test_asking_back_decides_nothing(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        engine.submit(asking(outside, by="editors"))
        with crew(engine) as worker:
            asked(engine, worker)
        assert people.say("ann", "ask_back") == "requested"
        assert people.say("ann", "ask_back") == "requested"
        assert people.say("ann") == "granted"

    @pytest.mark.parametrize(
        ("who", "code"), [("cat", "E-APR-03"), ("eve", "E-APR-03"), ("dan", "E-APR-03"), ("gus", "E-APR-03")]
    )
    def test_others_have_no_vote(self, engine: Engine, outside: Outside, people: Deciding, who: str, code: str) -> None:
        """Not an admin who was not asked, an editor who is no approver, one who was disabled, one of nowhere."""
        people.person("dan", "editors")
        engine.admin.execute("UPDATE stanchion.person SET disabled_at = now() WHERE name = 'dan'")
        people.people["gus"] = uuid4()
        engine.submit(asking(outside, by="editors"))
        with crew(engine) as worker:
            asked(engine, worker)
        with pytest.raises(NotAllowed) as refused:
            people.say(who)
        assert refused.value.code == code
        assert engine.one("SELECT count(*) FROM stanchion.approval_vote")[0] == 0

    def test_nobody_named_means_any_approver(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        engine.submit(asking(outside))
        with crew(engine) as worker:
            asked(engine, worker)
        assert people.say("cat") == "granted"

    def test_whoever_asks_does_not_decide(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        """Not before, and not when they come to be the requester of what they approved."""
        engine.submit(asking(outside, by=("person:ann", "person:bob")))
        engine.admin.execute("UPDATE stanchion.task SET submitted_by = 'person:ann'")
        with crew(engine) as worker:
            asked(engine, worker)
        with pytest.raises(NotAllowed, match="whoever asked"):
            people.say("ann")
        assert people.say("bob") == "granted"

    def test_with_two_eyes_they_may(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        engine.submit(asking(outside, by="person:ann", four_eyes=False))
        engine.admin.execute("UPDATE stanchion.task SET submitted_by = 'person:ann'")
        with crew(engine) as worker:
            asked(engine, worker)
        assert people.say("ann") == "granted"

    def test_a_vote_counts_once(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        engine.submit(asking(outside, by="editors", needs=2))
        with crew(engine) as worker:
            asked(engine, worker)
        assert people.say("ann") == "requested"
        assert people.say("ann") == "requested"
        assert engine.one("SELECT count(*) FROM stanchion.approval_vote")[0] == 1
        with pytest.raises(Conflict, match="has said approve already"):
            people.say("ann", "reject")

    def test_what_was_decided_stays(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        engine.submit(asking(outside, by="editors"))
        with crew(engine) as worker:
            asked(engine, worker)
        people.say("ann", "reject")
        assert people.say("ann", "reject") == "rejected"
        with pytest.raises(Conflict, match="is rejected"):
            people.say("bob")

    def test_a_vote_is_about_what_was_shown(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        engine.submit(asking(outside, by="editors"))
        with crew(engine) as worker:
            asked(engine, worker)
        with pytest.raises(Conflict) as refused:
            people.say("ann", hash_=bytes(32))
        assert refused.value.code == "E-APR-04"
        assert people.state == "requested"

    def test_anelsewhere_finds_nothing(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        (elsewhere,) = engine.one("SELECT stanchion.create_tenant('globex')")
        engine.submit(asking(outside, by="editors"))
        with crew(engine) as worker:
            asked(engine, worker)
        with pytest.raises(NotFound):
            people.approvals.vote(elsewhere, people.id, people.people["ann"], "approve", payload_hash=bytes(32))
        with pytest.raises(NotFound):
            people.approvals.get(elsewhere, people.id)
        assert people.approvals.inbox(elsewhere, people.people["ann"], limit=10) == []


class TestDelegation:
    def test_the_vote_goes_to_somebody_else(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        """Who was not asked may decide then, and who passed it on may not."""
        engine.submit(asking(outside, by=("person:ann", "person:bob"), needs=2))
        with crew(engine) as worker:
            asked(engine, worker)
        assert people.say("ann", "delegate", to="cat") == "requested"
        with pytest.raises(NotAllowed, match="passed on"):
            people.say("ann")
        assert people.say("cat") == "requested"
        assert people.say("bob") == "granted"

    @pytest.mark.parametrize("to", ["ann", "eve", "bob", "nobody"])
    def test_not_to_everybody(self, engine: Engine, outside: Outside, people: Deciding, to: str) -> None:
        """Not to oneself, to one who is no approver, to one who has voted, to one who is not there."""
        engine.submit(asking(outside, by="editors", needs=2))
        with crew(engine) as worker:
            asked(engine, worker)
        people.say("bob")
        with pytest.raises(Conflict) as refused:
            people.say("ann", "delegate", to=to)
        assert refused.value.code == "E-APR-06"

    def test_the_inbox_follows(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        engine.submit(asking(outside, by=("person:ann", "team:editors")))
        with crew(engine) as worker:
            asked(engine, worker)

        def inbox(name: str) -> int:
            return len(people.approvals.inbox(engine.tenant, people.people[name], limit=10))

        assert [inbox(name) for name in ("ann", "bob", "cat", "eve")] == [1, 1, 0, 0]
        people.say("ann", "delegate", to="cat")
        assert [inbox(name) for name in ("ann", "bob", "cat", "eve")] == [0, 1, 1, 0]
        people.say("cat")
        assert [inbox(name) for name in ("ann", "bob", "cat", "eve")] == [0, 0, 0, 0]


class TestTime:
    def test_silence_is_a_no(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        engine.submit(asking(outside, by="editors", within="1h"))
        with crew(engine) as worker:
            asked(engine, worker)
            engine.forward(3_599)
            engine.fire()
            assert people.state == "requested"
            engine.forward(2)
            engine.fire()
            assert people.state == "expired"
            sent(engine, worker)
        assert result(engine, "send") == {"sent": False, "outcome": "expired"}

    def test_or_a_failure(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        """Reopened, the step asks again: another approval, with a time of its own."""
        engine.submit(asking(outside, by="editors", within="1h", timeout="fail"))
        with crew(engine) as worker:
            asked(engine, worker)
            engine.forward(3_601)
            engine.fire()
        assert state_of(engine, "review") == "failed"
        assert engine.one("SELECT state, outcome FROM stanchion.run") == ("cancelling", "failed")

    def test_a_vote_at_the_boundary_comes_too_late(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        """Also before the timer has fired: the clock of the database decides."""
        engine.submit(asking(outside, by="editors", within="1h"))
        with crew(engine) as worker:
            asked(engine, worker)
        engine.forward(3_601)
        with pytest.raises(Conflict) as refused:
            people.say("ann")
        assert refused.value.code == "E-APR-02"
        assert people.state == "requested"

    def test_what_was_granted_in_time_is_used_in_time(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        engine.submit(asking(outside, by="editors", within="1h"))
        with crew(engine) as worker:
            asked(engine, worker)
            people.say("ann")
            engine.forward(3_601)
            sent(engine, worker)
        assert failure(engine) == ("E-APR-08", "the approval is expired")
        assert people.state == "expired"
        assert outside.requests == 0


class TestRevoking:
    def test_before_it_is_decided(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        engine.submit(asking(outside, by="editors"))
        with crew(engine) as worker:
            asked(engine, worker)
            assert people.revoke() == "revoked"
            assert people.revoke() == "revoked"
            sent(engine, worker)
        assert result(engine, "send") == {"sent": False, "outcome": "revoked"}

    def test_before_it_is_used(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        engine.submit(asking(outside, by="editors"))
        with crew(engine) as worker:
            asked(engine, worker)
            people.say("ann")
            people.revoke()
            sent(engine, worker)
        assert failure(engine) == ("E-APR-08", "the approval is revoked")
        assert outside.requests == 0

    def test_between_the_request_and_the_next(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        """What was sent and is certainly not done is not sent again."""
        outside.script.append("not_sent")
        engine.submit(asking(outside, by="editors"))
        with crew(engine) as worker:
            asked(engine, worker)
            people.say("ann")
            worker.work(lambda: state_of(engine, "send") == "retry_wait")
            assert people.state == "spent"
            people.revoke()
            engine.forward(60)
            engine.fire()
            worker.work(lambda: state_of(engine, "send") == "failed")
        assert engine.all("SELECT error->>'code' FROM stanchion.attempt WHERE state = 'failed' ORDER BY number") == [
            "E-OP-09",
            "E-APR-08",
        ]
        assert outside.executed == []

    def test_not_after_it_happened(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        engine.submit(asking(outside, by="editors"))
        with crew(engine) as worker:
            asked(engine, worker)
            people.say("ann")
            sent(engine, worker)
        with pytest.raises(Conflict, match="has happened"):
            people.revoke()

    def test_an_approver_who_may_no_longer_counts_no_longer(
        self, engine: Engine, outside: Outside, people: Deciding
    ) -> None:
        engine.submit(asking(outside, by="editors"))
        with crew(engine) as worker:
            asked(engine, worker)
            people.say("ann")
            engine.admin.execute("UPDATE stanchion.person SET role = 'viewer' WHERE name = 'ann'")
            sent(engine, worker)
        assert failure(engine) == ("E-APR-08", "who approved it may not any more")
        assert outside.requests == 0

    def test_nor_one_who_left_the_team(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        engine.submit(asking(outside, by="editors"))
        with crew(engine) as worker:
            asked(engine, worker)
            people.say("ann")
            engine.admin.execute("DELETE FROM stanchion.team_member WHERE person_id = %s", (people.people["ann"],))
            sent(engine, worker)
        assert failure(engine) == ("E-APR-08", "who approved it may not any more")

    def test_a_cancelled_run_takes_its_question_back(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        task = engine.submit(asking(outside, by="editors"))
        with crew(engine) as worker:
            asked(engine, worker)
        engine.cancel(task)
        engine.sweep()
        assert people.state == "revoked"
        assert engine.task(task) == ("cancelled", "cancelled")
        with pytest.raises(Conflict, match="is revoked"):
            people.say("ann")


class TestBranches:
    """A question for each branch: they wait, are answered and are left over one by one."""

    def fan(self, engine: Engine, join: Any, *items: str) -> Worker:
        """plan -> review (asks, each) -> gather; all are asked."""
        wf = Workflow("branches")

        @wf.step()
        def plan(ctx: Ctx) -> list[str]:
            return list(items)

        @wf.approval(after=plan, each=True, by="editors")
        def review(ctx: Ctx, item: str) -> Ask:
            return Ask(f"May {item}?", item)

        @wf.step(after=review, join=join)
        def gather(ctx: Ctx, decisions: Results[Decision]) -> list[str]:
            return [decision.outcome for decision in decisions]

        engine.submit(wf)
        worker = engine.worker()
        worker.work(until=lambda: engine.one("SELECT count(*) FROM stanchion.approval")[0] == len(items))
        return worker

    def test_each_has_its_answer(self, engine: Engine, people: Deciding) -> None:
        worker = self.fan(engine, "all", "a", "b", "c")
        for approval, vote in zip(
            engine.all("SELECT approval_id FROM stanchion.approval ORDER BY payload"),
            ("approve", "reject", "approve"),
            strict=True,
        ):
            people.say("ann", vote, on=approval)  # type: ignore[arg-type]  # words of the tuple
        worker.work()
        assert result(engine, "gather") == ["granted", "rejected", "granted"]
        engine.check_counts()

    def test_what_a_join_leaves_over_is_asked_no_more(self, engine: Engine, people: Deciding) -> None:
        """It was decided without them: nobody waits for an answer."""
        worker = self.fan(engine, "first", "a", "b", "c")
        people.say("ann", on=engine.all("SELECT approval_id FROM stanchion.approval WHERE payload = '\"b\"'")[0])
        worker.work()
        assert result(engine, "gather") == ["granted"]
        assert engine.all("SELECT state FROM stanchion.approval ORDER BY payload") == ["revoked", "granted", "revoked"]
        assert engine.one("SELECT state FROM stanchion.run")[0] == "succeeded"
        engine.check_counts()


def test_retention_takes_them_with_their_task(
    engine: Engine, outside: Outside, people: Deciding, db: Callable[[str], Database]
) -> None:
    """What was shown first, then the rows; the audit log keeps the hashes of what was decided."""
    engine.submit(asking(outside, by="editors"))
    with crew(engine) as worker:
        asked(engine, worker)
        people.say("ann")
        sent(engine, worker)
        worker.work(lambda: engine.one("SELECT ended_at IS NOT NULL FROM stanchion.task")[0])
    retention = Retention(db(MAINTENANCE))
    engine.forward(100 * 86_400)
    assert retention.remove_payloads(timedelta(days=90)) == 1
    assert engine.one("SELECT payload, summary, state FROM stanchion.approval") == (None, None, "spent")
    assert retention.remove_history(timedelta(days=90)) == 1
    assert engine.one("SELECT count(*) FROM stanchion.approval")[0] == 0
    assert engine.one("SELECT count(*) FROM stanchion.approval_vote")[0] == 0
    assert engine.one("SELECT detail->>'hash' FROM stanchion.audit WHERE action = 'approval.approve'")[0]
