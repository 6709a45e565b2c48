"""Effects outside over the API: the ledger, what a person says about it, and what others may not see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from task_service_kit import Api, Hand

from stanchion.authority.ledger import Intent, Ledger
from stanchion.contracts import ids
from stanchion.workflow.operation import Call, Operation


def nothing(call: Call, payload: dict[str, Any]) -> dict[str, Any]:
    return payload


RETRACT = Operation("press.retract", do=nothing, check=nothing, keeps_key="1d")
PUBLISH = Operation("press.publish", do=nothing, check=nothing, keeps_key="1d", undo=RETRACT)
MAIL = Operation("mail.send", do=nothing, unsafe_no_check="test")


CANARY = "canary-4711"


class Doubt:
    """A task whose only step has sent something, and nobody knows what became of it."""

    def __init__(
        self, api: Api, hand: Hand, operation: Any = PUBLISH, settled: str = "unknown", error: Any = None
    ) -> None:
        self.made = api.submit("single", {"x": 1})
        (self.lease,) = hand.lease_of(self.made)
        self.ledger = Ledger(hand.worker_db, hand.worker_id)
        intent = Intent.of(operation, "spring", {"title": "secret"})
        found = self.ledger.prepare(self.lease, intent).operation_id
        assert found is not None
        self.ledger.dispatch(self.lease, found)
        receipt = {"id": 17}
        self.ledger.settle(self.lease, found, settled, receipt=receipt, error=error)  # type: ignore[arg-type]  # a state
        if settled == "unknown":
            self.ledger.end_in_doubt(self.lease, {"code": "E-OP-10", "what": "lost"}, None)
        self.id = ids.public(ids.OPERATION, found)
        self.path = f"/v1/operations/{self.id}"


@pytest.fixture
def doubt(api: Api, hand: Hand) -> Doubt:
    return Doubt(api, hand)


class TestLook:
    def test_one_operation(self, api: Api, doubt: Doubt) -> None:
        found = api.get(doubt.path)
        assert (found["operation_id"], found["state"], found["kind"]) == (doubt.id, "unknown", "press.publish")
        assert (found["sends"], found["reach"], found["can_query"]) == (1, "compensatable", True)
        assert found["payload"] == {"title": "secret"}
        assert found["task_id"] == doubt.made["task_id"]
        assert len(found["payload_hash"]) == 64

    def test_a_list_by_state_kind_and_task(self, api: Api, doubt: Doubt) -> None:
        def ids_of(**query: Any) -> list[str]:
            return [one["operation_id"] for one in api.get("/v1/operations", params=query)["items"]]

        task = doubt.made["task_id"]
        assert ids_of(task=task) == [doubt.id]
        assert ids_of(task=task, state="unknown,confirmed") == [doubt.id]
        assert ids_of(task=task, state="confirmed") == []
        assert ids_of(task=task, kind="mail.send") == []
        assert "payload" not in api.get("/v1/operations", params={"task": task})["items"][0]

    def test_pages(self, api: Api, hand: Hand) -> None:
        made = [Doubt(api, hand).id for _ in range(3)]
        first = api.get("/v1/operations", params={"limit": 2})
        assert [one["operation_id"] for one in first["items"]] == made[:0:-1]
        second = api.get("/v1/operations", params={"limit": 1, "cursor": first["next"]})
        assert second["items"][0]["operation_id"] == made[0]

    @pytest.mark.parametrize("query", [{"state": "gone"}, {"task": "run_1"}, {"cursor": "x"}, {"limit": 0}])
    def test_a_bad_query(self, api: Api, query: dict[str, Any]) -> None:
        api.get("/v1/operations", 422, params=query)

    def test_an_unknown_one(self, api: Api) -> None:
        assert api.get(f"/v1/operations/{ids.public(ids.OPERATION, ids.new_id())}", 404)["code"] == "E-FIND-01"
        assert api.get("/v1/operations/tsk_1", 422)["code"] == "E-DATA-11"


class TestTell:
    GIVEN = {"reason": "it is on the page", "proof": "https://press/17"}  # noqa: RUF012 - read only

    def test_it_was_done(self, api: Api, doubt: Doubt) -> None:
        answer = api.post(f"{doubt.path}/mark-done", {**self.GIVEN, "receipt": {"id": 17}})
        assert answer["state"] == "confirmed"
        found = api.get(doubt.path)
        assert found["receipt"] == {"id": 17}
        assert found["settled_by"]
        assert found["probed"][-1]["detail"] == self.GIVEN
        assert api.get(f"/v1/steps/{ids.public(ids.STEP, doubt.lease.step_id)}")["state"] == "ready"

    def test_it_was_not_done(self, api: Api, doubt: Doubt) -> None:
        assert api.post(f"{doubt.path}/mark-not-done", self.GIVEN)["state"] == "prepared"

    def test_what_is_known_is_not_told_again(self, api: Api, doubt: Doubt) -> None:
        api.post(f"{doubt.path}/mark-done", self.GIVEN)
        refused = api.post(f"{doubt.path}/mark-not-done", self.GIVEN, 409)
        assert refused["code"] == "E-OP-13"
        assert api.get(doubt.path)["state"] == "confirmed"

    @pytest.mark.parametrize(
        "body",
        [{}, {"reason": "x"}, {"proof": "x"}, {"reason": "", "proof": "x"}, {"reason": "x" * 1_001, "proof": "x"}],
    )
    def test_a_reason_and_a_proof_are_needed(self, api: Api, doubt: Doubt, body: dict[str, Any]) -> None:
        api.post(f"{doubt.path}/mark-done", body, 422)
        assert api.get(doubt.path)["state"] == "unknown"

    def test_a_probe_now(self, api: Api, hand: Hand, doubt: Doubt) -> None:
        assert api.post(f"{doubt.path}/reconcile", None, 202)["state"] == "unknown"
        (lease,) = hand.lease_of(doubt.made)
        assert lease.outcome == "probe"
        hand.leases.give_back([lease], "test")


class TestUndo:
    def test_a_confirmed_effect(self, api: Api, hand: Hand) -> None:
        done = Doubt(api, hand, settled="confirmed")
        answer = api.post(f"{done.path}/compensate", {"reason": "a misprint"}, 202)
        assert answer["step_id"].startswith("stp_")
        again = api.post(f"{done.path}/compensate", {"reason": "a misprint"}, 202)
        assert again == answer

    def test_what_can_not_be_undone(self, api: Api, hand: Hand, doubt: Doubt) -> None:
        assert api.post(f"{doubt.path}/compensate", {"reason": "x"}, 409)["code"] == "E-OP-15"
        mail = Doubt(api, hand, MAIL, "confirmed")
        assert "declares no undo" in api.post(f"{mail.path}/compensate", {"reason": "x"}, 409)["detail"]


class TestWhy:
    def test_only_a_person_can_tell(self, api: Api, doubt: Doubt) -> None:
        reasons = api.get(f"/v1/tasks/{doubt.made['task_id']}/why")["reasons"]
        told = next(reason for reason in reasons if reason["code"] == "W-UNKNOWN-NOCHECK")
        assert doubt.id in " ".join(told["fix"])
        assert told["by_itself"] is False

    def test_it_is_asked_after(self, api: Api, doubt: Doubt) -> None:
        api.post(f"{doubt.path}/reconcile", None, 202)
        codes = [r["code"] for r in api.get(f"/v1/tasks/{doubt.made['task_id']}/why")["reasons"]]
        assert "W-UNKNOWN" in codes
        assert "W-UNKNOWN-NOCHECK" not in codes


class TestRights:
    def test_another_tenant_sees_nothing(self, other: Api, doubt: Doubt) -> None:
        """And can't tell one that is there from one that is not."""

        def told(path: str) -> dict[str, Any]:
            problem = other.get(path, 404)
            return {name: problem[name] for name in ("code", "detail", "title")}

        assert told(doubt.path) == told(f"/v1/operations/{ids.public(ids.OPERATION, ids.new_id())}")
        for act in ("reconcile", "mark-done", "mark-not-done", "compensate"):
            body = {"reason": "x", "proof": "x"} if act.startswith("mark") else {"reason": "x"}
            other.post(f"{doubt.path}/{act}", None if act == "reconcile" else body, 404)
        assert other.get("/v1/operations")["items"] == []

    def test_rights(self, make_api: Callable[..., Api], doubt: Doubt) -> None:
        """Who may look may not settle, and does not see what was sent."""
        viewer = make_api("gamma", "viewer")
        assert viewer.get("/v1/operations")["items"] == []
        for act in ("reconcile", "mark-done", "mark-not-done", "compensate"):
            assert viewer.post(f"{doubt.path}/{act}", {"reason": "x", "proof": "x"}, 403)["code"] == "E-AUTH-03"

    def test_a_viewer_sees_no_payload_and_is_told(
        self, make_api: Callable[..., Api], api: Api, hand: Hand, doubt: Doubt
    ) -> None:
        """What was sent and received, texts of errors, what probes and people said: in the ledger and in events."""
        api.post(f"{doubt.path}/mark-done", {"reason": CANARY, "proof": CANARY, "receipt": {"id": CANARY}})
        refused = Doubt(api, hand, settled="refused", error={"code": "E-OP-06", "what": CANARY})
        viewer = make_api("acme", "viewer")
        for path in (doubt.path, refused.path, "/v1/operations"):
            shown = str(viewer.get(path))
            assert CANARY not in shown, path
            assert "secret" not in shown, path
        found = viewer.get(doubt.path)
        assert found["withheld"] == ["payload", "receipt"]
        assert (found["key"], found["probed"][-1]["verdict"]) == ("spring", "done")
        assert found["probed"][-1]["detail"] == {"withheld": True}
        assert viewer.get(refused.path)["error"]["withheld"] is True
        for one, kind in ((doubt, "OperationConfirmed"), (refused, "OperationRefused")):
            path = f"/v1/tasks/{one.made['task_id']}/events"
            events = viewer.http.get(path, params={"follow": "false"}).text
            assert kind in events
            assert '"key":"spring"' in events
            assert CANARY not in events
            assert CANARY in api.http.get(path, params={"follow": "false"}).text
            assert CANARY in str(api.get(one.path))
            assert api.get(one.path)["withheld"] == []

    def test_acts_are_in_the_audit_log(self, make_api: Callable[..., Api], hand: Hand) -> None:
        """Who settled, asked or undid, with the reason."""
        boss = make_api("ledger", "platform")
        told = Doubt(boss, hand)
        boss.post(f"{told.path}/reconcile", None, 202)
        boss.post(f"{told.path}/mark-done", {"reason": "seen", "proof": "https://press/17"})
        boss.post(f"{told.path}/compensate", {"reason": "a misprint"}, 202)
        boss.post(f"{Doubt(boss, hand).path}/mark-not-done", {"reason": "gone", "proof": "x"})
        found = {entry["action"]: entry for entry in boss.get("/v1/audit", params={"limit": 1000})["items"]}
        acts = {"operation.reconcile", "operation.mark_done", "operation.compensate", "operation.mark_not_done"}
        assert found.keys() >= acts
        assert {found[act]["actor"] for act in acts} == {found["task.submit"]["actor"]}
        assert found["operation.mark_done"]["detail"] == {"reason": "seen", "proof": "https://press/17"}
        assert boss.get("/v1/audit/verify")["intact"]
