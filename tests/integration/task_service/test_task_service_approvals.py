"""Approvals over the API: what waits for whom, what each may see and say, and that a vote is about what was shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg
import pytest
from task_service_kit import Api, Hand

from stanchion.authority.keys import ROLES, Keys
from stanchion.authority.leases import Question
from stanchion.authority.ledger import Intent, Ledger
from stanchion.contracts import ids
from stanchion.db.engine import Database
from stanchion.workflow.operation import Call, Operation

CANARY = "canary-4711"
PAGE = {"title": CANARY}
SignIn = Callable[..., Api]


def nothing(call: Call, payload: dict[str, Any]) -> dict[str, Any]:
    return payload


PUBLISH = Operation("press.publish", do=nothing, check=nothing, keeps_key="1d", needs_approval=True)


class Asked:
    """A task of tenant dev whose first step asks people."""

    def __init__(self, by: Api, hand: Hand, **policy: Any) -> None:
        self.made = by.submit("pair", {"topic": "x"})
        (lease,) = hand.lease_of(self.made)
        asked = {
            "question": f"Publish {CANARY}?",
            "summary": CANARY,
            "operation": PUBLISH.kind,
            "key": "spring",
            "resource": None,
            "people": [],
            "teams": [],
            "needs": 1,
            "four_eyes": True,
            "on_timeout": "reject",
            "on_rejected": "continue",
            "within_ms": 3_600_000,
        } | policy
        question = Question(ids.new_id(), asked, PAGE)
        assert hand.leases.ask(lease, question)
        self.uuid = question.approval_id
        self.id = ids.public(ids.APPROVAL, question.approval_id)
        self.path = f"/v1/approvals/{self.id}"

    def vote(self, who: Api, vote: str = "approve", status: int = 200, **body: Any) -> Any:
        """Somebody says something about what they are shown."""
        shown = who.get(self.path)["payload_hash"]
        return who.post(f"{self.path}/{vote}", {"payload_hash": shown, "comment": "read it"} | body, status)


@pytest.fixture
def olga(sign_in: SignIn) -> Api:
    """Who submits."""
    return sign_in("olga", "operator")


@pytest.fixture
def ann(sign_in: SignIn) -> Api:
    return sign_in("ann", "approver")


@pytest.fixture
def bob(sign_in: SignIn) -> Api:
    return sign_in("bob", "approver")


@pytest.fixture
def asked(olga: Api, hand: Hand) -> Asked:
    return Asked(olga, hand)


class TestLook:
    def test_one_approval(self, ann: Api, asked: Asked) -> None:
        found = ann.get(asked.path)
        assert (found["approval_id"], found["state"], found["node"]) == (asked.id, "requested", "first")
        assert (found["question"], found["payload"]) == (f"Publish {CANARY}?", PAGE)
        assert (found["operation_kind"], found["operation_key"]) == ("press.publish", "spring")
        assert found["requested_by"] == "person:olga"
        assert found["task_id"] == asked.made["task_id"]
        assert found["votes"] == []

    def test_without_the_right_to_see_payloads(self, sign_in: SignIn, ann: Api, asked: Asked) -> None:
        """Who decides, on which hash, and how it stands; not what is asked, nor what was said."""
        asked.vote(ann, "ask-back", comment=CANARY)
        found = sign_in("vic", "viewer").get(asked.path)
        assert CANARY not in str(found)
        assert found["withheld"] == ["question", "summary", "payload", "reason"]
        assert found["votes"][0]["vote"] == "ask_back"
        events = sign_in("vic").http.get(f"/v1/tasks/{asked.made['task_id']}/events?follow=false").text
        assert "ApprovalVoted" in events
        assert CANARY not in events

    def test_a_list_by_state_and_task(self, ann: Api, asked: Asked) -> None:
        def ids_of(**query: Any) -> list[str]:
            return [one["approval_id"] for one in ann.get("/v1/approvals", params=query)["items"]]

        task = asked.made["task_id"]
        assert ids_of(task=task) == ids_of(task=task, state="requested,granted") == [asked.id]
        assert ids_of(task=task, state="granted") == []
        ann.get("/v1/approvals", 422, params={"state": "approved"})

    def test_the_inbox_is_ones_own(self, api: Api, olga: Api, ann: Api, bob: Api, hand: Hand, asked: Asked) -> None:
        other = Asked(olga, hand, people=["bob"])

        def inbox(who: Api) -> list[str]:
            found = [one["approval_id"] for one in who.get("/v1/approvals/inbox")["items"]]
            return [one for one in found if one in (asked.id, other.id)]

        assert inbox(ann) == [asked.id]
        assert inbox(bob) == [asked.id, other.id]
        asked.vote(bob)
        assert (inbox(ann), inbox(bob)) == ([], [other.id])
        olga.get("/v1/approvals/inbox", 403)

    def test_why_it_waits(self, ann: Api, asked: Asked) -> None:
        reason = ann.get(f"/v1/why/{asked.made['task_id']}")["reasons"][0]
        assert reason["code"] == "W-APPROVAL"
        assert f"stanchion approval approve {asked.id}" in reason["fix"]
        assert reason["by_itself"] is False

    def test_another_tenant_sees_nothing(self, other: Api, asked: Asked) -> None:
        other.get(asked.path, 404)
        other.post(f"{asked.path}/revoke", {"reason": "x"}, 404)
        assert asked.id not in str(other.get("/v1/approvals"))


class TestDecide:
    def test_yes(self, ann: Api, asked: Asked) -> None:
        assert asked.vote(ann)["state"] == "granted"
        found = ann.get(asked.path)
        assert (found["decided_by"], found["votes"][0]["comment"]) == ("person:ann", "read it")
        step = ann.get(f"/v1/steps/{found['step_id']}")
        assert step["state"] == "succeeded"
        assert step["result"]["approved"] is True

    def test_no(self, ann: Api, bob: Api, asked: Asked) -> None:
        assert asked.vote(ann, "reject")["state"] == "rejected"
        assert asked.vote(bob, status=409)["code"] == "E-APR-01"

    def test_two_of_them(self, ann: Api, bob: Api, olga: Api, hand: Hand) -> None:
        asked = Asked(olga, hand, people=["ann", "bob"], needs=2)
        assert asked.vote(ann)["state"] == "requested"
        assert asked.vote(ann)["state"] == "requested"
        assert asked.vote(ann, "reject", 409)["code"] == "E-APR-05"
        assert asked.vote(bob)["state"] == "granted"

    def test_what_was_shown_is_what_is_approved(self, ann: Api, asked: Asked) -> None:
        """The hash of something else, or none, decides nothing."""
        assert asked.vote(ann, status=409, payload_hash="00" * 32)["code"] == "E-APR-04"
        ann.post(f"{asked.path}/approve", {}, 422)
        ann.post(f"{asked.path}/approve", {"payload_hash": "zz"}, 422)
        assert ann.get(asked.path)["state"] == "requested"

    def test_keys_decide_nothing(self, asked: Asked, url: str, database: Database, olga: Api) -> None:
        """Not even with all rights: somebody has to have read it."""
        tenant = UUID(olga.get("/v1/session")["tenant_id"])
        _, secret = Keys(database).create(tenant, f"all-{asked.id}", ROLES["admin"], actor="test")
        key = Api(url, secret)
        assert asked.vote(key, status=403)["code"] == "E-APR-03"
        key.close()

    def test_the_requester_does_not(self, sign_in: SignIn, hand: Hand) -> None:
        """Whatever role; with two eyes they may."""
        adam = sign_in("adam", "admin")
        assert Asked(adam, hand).vote(adam, status=403)["code"] == "E-APR-03"
        assert Asked(adam, hand, four_eyes=False).vote(adam)["state"] == "granted"

    def test_others_were_asked(self, ann: Api, olga: Api, hand: Hand) -> None:
        assert Asked(olga, hand, people=["bob"]).vote(ann, status=403)["code"] == "E-APR-03"

    def test_without_the_right(self, olga: Api, asked: Asked) -> None:
        assert asked.vote(olga, status=403)["code"] == "E-AUTH-03"

    def test_the_vote_is_passed_on(self, ann: Api, bob: Api, olga: Api, hand: Hand) -> None:
        asked = Asked(olga, hand, people=["ann"])
        asked.vote(ann, "delegate", 409, to="olga")
        asked.vote(ann, "delegate", to="bob")
        assert asked.vote(ann, status=403)["code"] == "E-APR-03"
        assert asked.vote(bob)["state"] == "granted"

    def test_what_is_asked_is_changed(self, ann: Api, bob: Api, asked: Asked) -> None:
        """Into a question of its own, for somebody else than who changed it; it keeps its shape."""
        shown = ann.get(asked.path)["payload_hash"]
        better = {**PAGE, next(iter(PAGE)): "better"}
        path = f"{asked.path}/edit"
        assert ann.post(path, {"payload_hash": shown, "payload": {**PAGE, "more": 1}}, 409)["code"] == "E-APR-10"
        assert ann.post(path, {"payload_hash": "00" * 32, "payload": better}, 409)["code"] == "E-APR-04"
        ann.post(path, {"payload_hash": shown}, 422)
        told = ann.post(path, {"payload_hash": shown, "payload": better, "comment": "better"})
        assert (told["state"], told["approval_id"]) == ("replaced", asked.id)
        assert ann.post(path, {"payload_hash": shown, "payload": better})["replaced_by"] == told["replaced_by"]
        assert ann.get(asked.path)["reason"] == "better"
        asked.path = f"/v1/approvals/{told['replaced_by']}"
        found = bob.get(asked.path)
        assert (found["payload"], found["edited_by"], found["replaces"]) == (better, "person:ann", asked.id)
        assert asked.vote(ann, status=403)["code"] == "E-APR-03"
        assert asked.vote(bob)["state"] == "granted"
        result = ann.get(f"/v1/steps/{found['step_id']}")["result"]
        assert (result["edited"], result["payload"]) == (True, better)

    def test_an_edit_needs_the_right(self, olga: Api, asked: Asked) -> None:
        body = {"payload_hash": olga.get(asked.path)["payload_hash"], "payload": PAGE}
        assert olga.post(f"{asked.path}/edit", body, 403)["code"] == "E-AUTH-03"

    def test_a_question_is_answered(self, ann: Api, olga: Api, sign_in: SignIn, asked: Asked) -> None:
        """By whoever asked for the approval too; it decides nothing."""
        asked.vote(ann, "ask-back", comment="which channel?")
        asked.vote(olga, "answer", 422, comment="")
        assert asked.vote(olga, "answer", comment="spring")["state"] == "requested"
        asked.vote(sign_in("vic", "viewer"), "answer", 403)
        said = [(vote["subject"], vote["vote"], vote["comment"]) for vote in ann.get(asked.path)["votes"]]
        assert said == [("person:ann", "ask_back", "which channel?"), ("person:olga", "answer", "spring")]

    def test_it_is_taken_back(self, ann: Api, asked: Asked) -> None:
        asked.vote(ann)
        ann.post(f"{asked.path}/revoke", {}, 422)
        assert ann.post(f"{asked.path}/revoke", {"reason": "a mistake"})["state"] == "revoked"
        assert ann.get(asked.path)["reason"] == "a mistake"

    def test_every_act_is_in_the_audit_log(self, ann: Api, sign_in: SignIn, asked: Asked) -> None:
        asked.vote(ann, "ask-back")
        asked.vote(ann)
        ann.post(f"{asked.path}/revoke", {"reason": "a mistake"})
        entries = sign_in("root", "admin").get("/v1/audit", params={"limit": 50})["items"]
        acts = [e["action"] for e in entries if e["target"] in (str(asked.uuid), asked.id)]
        assert sorted(acts) == ["approval.approve", "approval.ask_back", "approval.revoke"]


class TestBinding:
    """One bound field changed, of what comes from a worker: nothing leaves."""

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ({}, None),
            ({"payload": {**PAGE, "more": 1}}, "another payload"),
            ({"key": "summer"}, "another key"),
            ({"kind": "press.retract"}, "another kind of operation"),
            ({"approval": ids.new_id()}, "none"),
            ({"approval": None}, "none"),
        ],
    )
    def test_an_effect(self, ann: Api, hand: Hand, asked: Asked, change: dict[str, Any], why: str | None) -> None:
        asked.vote(ann)
        (lease,) = hand.lease_of(asked.made)
        given = {"kind": PUBLISH.kind, "key": "spring", "payload": PAGE, "approval": asked.uuid} | change
        told = self.sent(hand, lease, **given)
        assert (told.outcome, told.why) == (("dispatched", None) if why is None else ("unapproved", why))
        assert ann.get(asked.path)["state"] == ("spent" if why is None else "granted")

    def test_another_task(self, ann: Api, olga: Api, hand: Hand, asked: Asked) -> None:
        asked.vote(ann)
        (lease,) = hand.lease_of(olga.submit("single", {"x": 2}))
        told = self.sent(hand, lease, kind=PUBLISH.kind, key="spring", payload=PAGE, approval=asked.uuid)
        assert (told.outcome, told.why) == ("unapproved", "another task")

    @pytest.mark.parametrize("act", ["reject", "revoke", None])
    def test_what_was_not_granted(self, ann: Api, hand: Hand, asked: Asked, olga: Api, act: str | None) -> None:
        if act == "reject":
            asked.vote(ann, "reject")
        elif act == "revoke":
            ann.post(f"{asked.path}/revoke", {"reason": "a mistake"})
        leases = hand.lease_of(asked.made)
        assert len(leases) == (act is not None)
        for lease in leases:
            told = self.sent(hand, lease, kind=PUBLISH.kind, key="spring", payload=PAGE, approval=asked.uuid)
            assert (told.outcome, told.why) == ("unapproved", {"reject": "rejected", "revoke": "revoked"}[str(act)])

    def sent(self, hand: Hand, lease: Any, *, kind: str, key: str, payload: Any, approval: Any) -> Any:
        """What a dispatch of this says."""
        ledger = Ledger(hand.worker_db, hand.worker_id)
        operation = Operation(kind, do=nothing, check=nothing, keeps_key="1d", needs_approval=True)
        found = ledger.prepare(lease, Intent.of(operation, key, payload, approval=approval)).operation_id
        assert found is not None
        return ledger.dispatch(lease, found)


def test_webhooks_are_told(ann: Api, olga: Api, hand: Hand, look: psycopg.Connection[Any], sign_in: SignIn) -> None:
    """Of the request and of the decision, without what is asked."""
    (tenant,) = look.execute("SELECT tenant_id FROM stanchion.tenant WHERE name = 'dev'").fetchone() or (None,)
    look.execute(
        "INSERT INTO stanchion.webhook (webhook_id, tenant_id, url, events, master, created_by)"
        " VALUES (gen_random_uuid(), %s, 'https://example.org/in', '{approval.requested,approval.decided}', 'm', 't')",
        (tenant,),
    )
    asked = Asked(olga, hand)
    asked.vote(ann)
    told = look.execute(
        "SELECT type, body FROM stanchion.webhook_delivery WHERE subject = %s ORDER BY delivery_id", (str(asked.uuid),)
    ).fetchall()
    look.execute("DELETE FROM stanchion.webhook")
    assert [kind for kind, _ in told] == ["approval.requested", "approval.decided"]
    assert [body["state"] for _, body in told] == ["requested", "granted"]
    assert CANARY not in str(told)
