"""What a decision makes of the task: it awaits approval, runs on, or ends with somebody's no; and edits by approvers."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from kit.crew import crew
from kit.deciding import PAGE, Deciding, asked, asking, failure, sent, state_of
from kit.engine import Engine, Worker
from kit.flows import result
from kit.outside import Outside

from stanchion.authority.approvals import shape_fault
from stanchion.authority.tasks import Tasks
from stanchion.authority.workflows import Workflows
from stanchion.contracts import ids
from stanchion.errors import Conflict, NotAllowed, Rejected
from stanchion.workflow import Ctx, Results, Workflow
from stanchion.workflow.approval import Ask, Decision

pytestmark = pytest.mark.usefixtures("agrees")


def story(engine: Engine) -> list[str]:
    """The kinds of the task's events, but for its birth."""
    return engine.all("SELECT kind FROM stanchion.event WHERE kind LIKE 'Task%%' ORDER BY event_id")[1:]


def published(engine: Engine) -> list[tuple[str, Any]]:
    """What the outbox says about approvals and the end of the task, in the order of its numbers."""
    rows = engine.admin.execute(
        "SELECT type, body::jsonb->>'state' FROM stanchion.outbox WHERE topic = 'stanchion.events.v1'"
        " AND (type LIKE 'Approval%' OR type LIKE 'Task%') AND type <> 'TaskAccepted' ORDER BY sequence"
    ).fetchall()
    return [(row[0], row[1]) for row in rows]


def end(engine: Engine, task: Any) -> tuple[str, str]:
    """How the task and its run ended, once what is left of it was swept."""
    engine.sweep()
    return engine.task(task)


class TestStates:
    def test_a_task_awaits_approval_and_runs_on(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        task = engine.submit(asking(outside, by="editors"))
        with crew(engine) as worker:
            asked(engine, worker)
            assert engine.task(task)[0] == "awaiting_approval"
            people.say("ann")
            assert engine.task(task)[0] == "running"
            sent(engine, worker)
        assert story(engine) == ["TaskStarted", "TaskAwaitingApproval", "TaskAnswered", "TaskCompleted"]
        assert [kind for kind, _ in published(engine)] == ["ApprovalRequested", "ApprovalDecided", "TaskCompleted"]

    def test_one_that_is_asked_several_things_waits_for_the_last(self, engine: Engine, people: Deciding) -> None:
        wf = Workflow("many")

        @wf.step()
        def plan(ctx: Ctx) -> list[str]:
            return ["a", "b", "c"]

        @wf.approval(after=plan, each=True, by="editors")
        def review(ctx: Ctx, item: str) -> Ask:
            return Ask(f"May {item}?", item)

        @wf.step(after=review, join="all")
        def gather(ctx: Ctx, decisions: Results[Decision]) -> list[bool]:
            return [decision.approved for decision in decisions]

        task = engine.submit(wf)
        worker = engine.worker()
        worker.work(until=lambda: engine.one("SELECT count(*) FROM stanchion.approval")[0] == 3)
        for number, approval in enumerate(engine.all("SELECT approval_id FROM stanchion.approval ORDER BY payload")):
            assert engine.task(task)[0] == "awaiting_approval"
            people.say("ann", "reject" if number == 1 else "approve", on=approval)
        assert engine.task(task)[0] == "running", "in a branch a no does not end the task"
        worker.work()
        assert result(engine, "gather") == [True, False, True]
        assert story(engine) == ["TaskStarted", "TaskAwaitingApproval", "TaskAnswered", "TaskCompleted"]

    def test_questions_that_a_join_leaves_over_are_waited_for_no_more(self, engine: Engine, people: Deciding) -> None:
        wf = Workflow("first")

        @wf.step()
        def plan(ctx: Ctx) -> list[str]:
            return ["a", "b"]

        @wf.approval(after=plan, each=True, by="editors")
        def review(ctx: Ctx, item: str) -> Ask:
            return Ask(f"May {item}?", item)

        @wf.step(after=review, join="first")
        def gather(ctx: Ctx, decisions: Results[Decision]) -> int:
            return len(decisions)

        task = engine.submit(wf)
        worker: Worker = engine.worker()
        worker.work(until=lambda: engine.one("SELECT count(*) FROM stanchion.approval")[0] == 2)
        people.say("ann", on=engine.all("SELECT approval_id FROM stanchion.approval ORDER BY payload")[0])
        worker.work()
        engine.sweep()
        assert engine.task(task)[0] == "completed"
        assert sorted(state for kind, state in published(engine) if kind == "ApprovalDecided") == ["granted", "revoked"]


class TestNo:
    @pytest.mark.parametrize("how", ["reject", "revoke", "expire"])
    def test_it_ends_the_task(self, engine: Engine, outside: Outside, people: Deciding, how: str) -> None:
        """As rejected, with who and why; nothing that comes after it starts."""
        task = engine.submit(asking(outside, by="editors", within="1h", rejected="end"))
        with crew(engine) as worker:
            asked(engine, worker)
            if how == "reject":
                people.say("ann", "reject")
            elif how == "revoke":
                people.revoke()
            else:
                engine.forward(3_601)
                engine.fire()
            assert engine.task(task)[0] == "awaiting_approval", "until all of it has ended"
            assert end(engine, task) == ("rejected", "cancelled")
        assert state_of(engine, "send") == "cancelled"
        assert state_of(engine, "review") == "succeeded"
        assert outside.executed == []
        reason = engine.one("SELECT reason FROM stanchion.task")[0]
        assert reason["code"] == "E-APR-09"
        assert reason["outcome"] == people.state
        assert story(engine) == ["TaskStarted", "TaskAwaitingApproval", "TaskRejected"]
        assert [kind for kind, _ in published(engine)] == ["ApprovalRequested", "ApprovalDecided", "TaskRejected"]
        engine.check_counts()

    def test_silence_that_fails_the_step_fails_the_task(
        self, engine: Engine, outside: Outside, people: Deciding
    ) -> None:
        task = engine.submit(asking(outside, by="editors", within="1h", timeout="fail", rejected="end"))
        with crew(engine) as worker:
            asked(engine, worker)
        engine.forward(3_601)
        engine.fire()
        assert end(engine, task) == ("failed", "failed")
        assert story(engine) == ["TaskStarted", "TaskAwaitingApproval", "TaskAnswered", "TaskFailed"]

    def test_a_cancelled_one_is_cancelled(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        task = engine.submit(asking(outside, by="editors", rejected="end"))
        with crew(engine) as worker:
            asked(engine, worker)
        assert engine.cancel(task) == "cancelling"
        assert end(engine, task) == ("cancelled", "cancelled")
        assert people.state == "revoked"

    def test_a_retry_asks_again(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        task = engine.submit(asking(outside, by="editors", rejected="end"))
        with crew(engine) as worker:
            asked(engine, worker)
            people.say("ann", "reject")
            assert end(engine, task)[0] == "rejected"
            Tasks(engine.service, Workflows(engine.service)).retry(
                engine.tenant, task.task_id, reason="another try", actor="test"
            )
            worker.work(lambda: engine.one("SELECT count(*) FROM stanchion.approval")[0] == 2)
            assert engine.task(task)[0] == "awaiting_approval"
            people.say("ann")
            worker.work(lambda: engine.task(task)[0] == "completed")
        assert len(outside.executed) == 1


def editing(outside: Outside, **policy: Any) -> Workflow:
    """Asks about a page, and sends what was approved."""
    publish = outside.operation(needs_approval=True)
    wf = Workflow("editing", operations=[publish])

    @wf.approval(**policy)
    def review(ctx: Ctx) -> Ask:
        return Ask("Publish it?", PAGE, publish, key="spring")

    @wf.step(after=review)
    async def send(ctx: Ctx, decision: Decision) -> dict[str, Any]:
        return await ctx.op(publish, decision.applied_to(PAGE), key="spring", approval=decision)

    return wf


class TestEdits:
    BETTER = PAGE | {"title": "A better page"}

    def edit(self, people: Deciding, who: str, changed: Any, on: UUID | None = None) -> UUID:
        approval = on or people.id
        shown = people.engine.one("SELECT payload_hash FROM stanchion.approval WHERE approval_id = %s", approval)[0]
        return people.approvals.edit(
            people.engine.tenant, approval, people.people[who], changed, payload_hash=shown, comment="shorter"
        )

    def test_what_is_changed_needs_an_approval_of_its_own(
        self, engine: Engine, outside: Outside, people: Deciding
    ) -> None:
        """By somebody else than who changed it; what was changed is what leaves."""
        task = engine.submit(editing(outside, by="editors"))
        with crew(engine) as worker:
            asked(engine, worker)
            first = people.id
            second = self.edit(people, "ann", self.BETTER)
            assert second == people.id != first
            assert self.edit(people, "ann", self.BETTER, on=first) == second, "asked again, since the answer got lost"
            assert engine.one("SELECT state, decided_by FROM stanchion.approval WHERE approval_id = %s", first) == (
                "replaced",
                "person:ann",
            )
            assert engine.task(task)[0] == "awaiting_approval"
            with pytest.raises(NotAllowed, match=r"E-APR-03|whoever asked"):
                people.say("ann")
            with pytest.raises(Conflict, match="is replaced"):
                people.say("bob", on=first)
            assert people.say("bob") == "granted"
            worker.work(lambda: engine.task(task)[0] == "completed")
        assert [payload for _, payload in outside.executed] == [self.BETTER]
        decision = result(engine, "review")
        assert (decision["edited"], decision["payload"], decision["by"]) == (True, self.BETTER, ["person:bob"])

    def test_what_was_shown_before_an_edit_is_not_approved(
        self, engine: Engine, outside: Outside, people: Deciding
    ) -> None:
        engine.submit(asking(outside, by="editors"))
        with crew(engine) as worker:
            asked(engine, worker)
            self.edit(people, "ann", self.BETTER)
            people.say("bob")
            sent(engine, worker)
        assert failure(engine)[0] == "E-APR-08"
        assert outside.executed == []

    def test_time_ends_for_the_changed_one_too(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        task = engine.submit(editing(outside, by="editors", within="1h"))
        with crew(engine) as worker:
            asked(engine, worker)
        engine.forward(1_800)
        self.edit(people, "ann", self.BETTER)
        engine.forward(1_801)
        engine.fire()
        assert end(engine, task)[0] == "rejected"
        assert engine.all("SELECT state FROM stanchion.approval ORDER BY approval_id") == ["replaced", "expired"]

    @pytest.mark.parametrize(
        ("changed", "where"),
        [
            ({"title": "A page"}, r"\$\.channel"),
            (PAGE | {"more": 1}, r"\$\.more"),
            (PAGE | {"title": 7}, r"\$\.title"),
            (PAGE | {"title": True}, r"\$\.title"),
            ([PAGE], r"\$"),
            (PAGE, "nothing of the payload"),
        ],
    )
    def test_another_shape_is_refused(
        self, engine: Engine, outside: Outside, people: Deciding, changed: Any, where: str
    ) -> None:
        engine.submit(editing(outside, by="editors"))
        with crew(engine) as worker:
            asked(engine, worker)
        with pytest.raises(Conflict, match=where):
            self.edit(people, "ann", changed)
        assert people.state == "requested"

    @pytest.mark.parametrize(
        ("shown", "changed", "where"),
        [
            ([1, 2], [3], None),
            ([1], [{"a": 1}], "$[0]"),
            ([{"a": 1}], [{"a": 2}, {"b": 1}], "$[1]"),
            ([], ["anything"], None),
            ({"a": None}, {"a": [1]}, None),
        ],
    )
    def test_items_of_lists_are_like_those_before(self, shown: Any, changed: Any, where: str | None) -> None:
        assert shape_fault(shown, changed) == where

    def test_a_number_that_could_not_be_sent_is_refused(
        self, engine: Engine, outside: Outside, people: Deciding
    ) -> None:
        """The database keeps 1e16 as a whole number, which no payload may hold."""
        page = {"title": "A page", "price": 1.5}
        engine.submit(asking(outside, page=page, by="editors"))
        with crew(engine) as worker:
            asked(engine, worker)
        with pytest.raises(Rejected, match=r"E-DATA-06|whole number"):
            self.edit(people, "ann", page | {"price": 1e16})
        assert self.edit(people, "ann", page | {"price": 2.0})

    def test_an_edit_leaves_somebody_who_may_approve_it(
        self, engine: Engine, outside: Outside, people: Deciding
    ) -> None:
        engine.submit(editing(outside, by=("person:ann", "person:bob"), needs=2))
        with crew(engine) as worker:
            asked(engine, worker)
        with pytest.raises(Conflict, match="nobody would be left"):
            self.edit(people, "ann", self.BETTER)
        assert people.state == "requested"
        assert engine.one("SELECT count(*) FROM stanchion.approval")[0] == 1

    @pytest.mark.parametrize("who", ["cat", "eve"])
    def test_others_change_nothing(self, engine: Engine, outside: Outside, people: Deciding, who: str) -> None:
        engine.submit(editing(outside, by="editors"))
        with crew(engine) as worker:
            asked(engine, worker)
        with pytest.raises(NotAllowed):
            self.edit(people, who, self.BETTER)


def test_a_question_is_answered_and_decides_nothing(engine: Engine, outside: Outside, people: Deciding) -> None:
    """By an operator, who may not decide; a viewer answers nothing."""
    people.person("vic", role="viewer")
    engine.submit(asking(outside, by="editors"))
    with crew(engine) as worker:
        asked(engine, worker)
    assert people.say("ann", "ask_back") == "requested"
    assert people.say("eve", "answer") == "requested"
    with pytest.raises(NotAllowed):
        people.say("vic", "answer")
    assert people.say("ann") == "granted"
    votes = engine.all("SELECT vote FROM stanchion.approval_vote ORDER BY number")
    assert votes == ["ask_back", "answer", "approve"]


class TestDelegating:
    def test_it_leaves_enough_who_may_approve(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        """Whoever passes on to somebody who is asked anyway makes one vote of two."""
        engine.submit(asking(outside, by=("person:ann", "person:bob"), needs=2))
        with crew(engine) as worker:
            asked(engine, worker)
        with pytest.raises(Conflict, match="too few would be left"):
            people.say("ann", "delegate", to="bob")
        assert people.say("ann") == "requested"
        assert people.say("bob") == "granted"

    def test_it_is_repeated_when_its_answer_got_lost(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        engine.submit(asking(outside, by="person:ann"))
        with crew(engine) as worker:
            asked(engine, worker)
        assert people.say("ann", "delegate", to="bob") == "requested"
        assert people.say("ann", "delegate", to="bob") == "requested"
        assert engine.one("SELECT count(*) FROM stanchion.approval_vote")[0] == 1

    def test_it_is_worth_what_its_giver_is(self, engine: Engine, outside: Outside, people: Deciding) -> None:
        """Disabled since: what was passed on does not count when the effect is to leave."""
        engine.submit(asking(outside, by="person:ann"))
        with crew(engine) as worker:
            asked(engine, worker)
            people.say("ann", "delegate", to="bob")
            assert people.say("bob") == "granted"
            engine.admin.execute("UPDATE stanchion.person SET disabled_at = now() WHERE name = 'ann'")
            sent(engine, worker)
        assert failure(engine)[0] == "E-APR-08"
        assert outside.executed == []


@pytest.mark.parametrize("lapse", ["revoked", "expired"])
def test_one_operation_may_need_a_second_approval(
    engine: Engine, outside: Outside, people: Deciding, lapse: str
) -> None:
    """The first was used and nothing left; it lapsed, the task is retried and asks again, and that yes is worth one."""
    outside.script.append("not_sent")
    publish = outside.operation(needs_approval=True)
    wf = Workflow("twice", operations=[publish])

    @wf.approval(by="editors", within="1h")
    def review(ctx: Ctx) -> Ask:
        return Ask("Publish it?", PAGE, publish, key="spring")

    @wf.step(after=review, retries=0)
    async def send(ctx: Ctx, decision: Decision) -> dict[str, Any]:
        return await ctx.op(publish, PAGE, key="spring", approval=decision)

    task = engine.submit(wf)
    with crew(engine) as worker:
        asked(engine, worker)
        people.say("ann")
        sent(engine, worker)
        assert end(engine, task)[0] == "failed"
        assert people.state == "spent"
        if lapse == "revoked":
            people.revoke()
        else:
            engine.forward(3_601)
        Tasks(engine.service, Workflows(engine.service)).retry(engine.tenant, task.task_id, reason="x", actor="test")
        worker.work(lambda: people.state == "requested")
        people.say("bob")
        worker.work(lambda: engine.task(task)[0] == "completed")
    assert len(outside.executed) == 1


def test_an_approval_is_for_the_task_that_asked(engine: Engine, outside: Outside, people: Deciding) -> None:
    """One key for the whole tenant: another task that takes the operation over can't send with the first one's yes."""
    publish = outside.operation(needs_approval=True, scope="tenant")
    first, other = (Workflow(name, operations=[publish]) for name in ("first", "other"))
    outside.script.append("not_sent")

    @first.approval(by="editors")
    def review(ctx: Ctx) -> Ask:
        return Ask("Publish it?", PAGE, publish, key="spring")

    @first.step(after=review, retries=9, retry_delay="1h", retry_cap="1h")
    async def send(ctx: Ctx, decision: Decision) -> dict[str, Any]:
        return await ctx.op(publish, PAGE, key="spring", approval=decision)

    @other.step(retries=0)
    async def steal(ctx: Ctx, approval: str) -> dict[str, Any]:
        return await ctx.op(publish, PAGE, key="spring", approval=Decision(approval, True, "granted"))

    task = engine.submit(first)
    engine.register(other)
    with crew(engine) as worker:
        asked(engine, worker)
        people.say("ann")
        worker.work(lambda: state_of(engine, "send") == "retry_wait")
        engine.cancel(task)
        engine.sweep()
        engine.submit(other, input={"approval": ids.public(ids.APPROVAL, people.id)})
        worker.work(lambda: state_of(engine, "steal") in ("succeeded", "failed"))
    whys = engine.all("SELECT error->>'why' FROM stanchion.attempt WHERE error->>'code' = 'E-APR-08'")
    assert whys == ["the approval is for another task"]
    assert outside.executed == []
