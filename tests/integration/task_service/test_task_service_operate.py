"""Acts on tasks that are there: pause, reopen, open a join, retry; and why something does not move."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import psycopg
from task_service_kit import Api, Hand, seen, seen_as, uuid_of

from stanchion.authority.keys import Keys
from stanchion.authority.leases import Failure, Leases, Reach
from stanchion.authority.why_codes import WHY
from stanchion.contracts import ids
from stanchion.contracts.actions import ACTIONS
from stanchion.contracts.ids import new_id
from stanchion.db.engine import Database
from stanchion.testing.checker import check, report


def node_of(task: Any, name: str) -> Any:
    """One node of a task's answer."""
    return next(node for node in task["nodes"] if node["name"] == name)


def codes(why: Any) -> list[str]:
    """The codes of an answer, in order; without that of the relay, which is not there."""
    for reason in why["reasons"]:
        assert reason["by_itself"] is WHY[reason["code"]].by_itself
        assert reason["text"]
        assert reason["next"]
        assert reason["evidence"]
    return [reason["code"] for reason in why["reasons"] if reason["code"] != "W-RELAY-DOWN"]


def reason_of(why: Any, code: str) -> Any:
    """The reason with this code."""
    return next(reason for reason in why["reasons"] if reason["code"] == code)


def held(api: Api, hand: Hand, count: int = 6, bad: int = 2) -> Any:
    """A task whose join is held by failed children."""
    made = api.submit("fan", {"count": count})
    hand.complete(hand.lease_of(made), lambda lease: list(range(count)))
    leases = hand.lease_of(made)
    hand.fail(leases[:bad])
    hand.complete(leases[bad:], lambda lease: lease.idx)
    return made


class TestPause:
    """Pause and resume."""

    def test_a_paused_task_starts_nothing(self, api: Api, hand: Hand) -> None:
        """What is ready stays so until it is resumed; both may be said twice."""
        made = api.submit("pair", {"topic": "p"})
        path = f"/v1/tasks/{made['task_id']}"
        assert api.post(f"{path}/pause", {"reason": "lunch"})["paused"] is True
        assert api.post(f"{path}/pause")["paused"] is True
        assert api.get(path)["paused_at"] is not None
        assert hand.lease_of(made) == []
        assert codes(api.get(f"{path}/why"))[0] == "W-PAUSED"
        assert api.post(f"{path}/resume")["paused"] is False
        assert len(hand.lease_of(made)) == 1

    def test_what_has_ended_is_not_paused(self, api: Api, hand: Hand) -> None:
        """409 E-TASK-05."""
        made = api.submit("single", {"x": 1})
        hand.complete(hand.lease_of(made), lambda lease: 1)
        assert api.post(f"/v1/tasks/{made['task_id']}/pause", {}, 409)["code"] == "E-TASK-05"


class TestReopen:
    """POST /v1/steps/reopen and POST /v1/barriers/{id}/open."""

    def test_failed_children_are_reopened_one_by_one(self, api: Api, hand: Hand) -> None:
        """By id, with an edited input; what is not failed is named with its reason; then the join opens."""
        made = held(api, hand)
        steps = api.get(f"/v1/tasks/{made['task_id']}/steps", params={"node": "work"})["items"]
        failed = [step["step_id"] for step in steps if step["state"] == "failed"]
        well = next(step["step_id"] for step in steps if step["state"] == "succeeded")
        answer = api.post("/v1/steps/reopen", {"steps": [failed[0], well], "input": 77, "reason": "fixed"})
        assert answer["reopened"] == [failed[0]]
        assert [(x["step_id"], x["state"]) for x in answer["refused"]] == [(well, "succeeded")]
        assert api.get(f"/v1/steps/{failed[0]}")["input"] == 77
        assert api.post("/v1/steps/reopen", {"steps": [failed[1]], "reason": "too"})["reopened"] == [failed[1]]
        hand.complete(hand.lease_of(made), lambda lease: lease.input)
        joined = hand.lease_of(made)
        assert [lease.node for lease in joined] == ["total"]
        hand.complete(joined, lambda lease: 1)
        assert api.get(f"/v1/tasks/{made['task_id']}")["state"] == "completed"

    def test_failed_children_are_reopened_by_their_node(self, api: Api, hand: Hand) -> None:
        """All failed ones of a node, as many at a time as the limit says."""
        made = held(api, hand, 8, 3)
        body = {"task_id": made["task_id"], "node": "work", "state": "failed", "limit": 2, "reason": "again"}
        answer = api.post("/v1/steps/reopen", body)
        assert (len(answer["reopened"]), answer["more"]) == (2, True)
        answer = api.post("/v1/steps/reopen", body)
        assert (len(answer["reopened"]), answer["more"]) == (1, False)
        assert node_of(api.get(f"/v1/tasks/{made['task_id']}"), "work")["counts"] == {"succeeded": 5, "ready": 3}

    def test_what_can_not_be_reopened_is_refused(self, api: Api, other: Api, hand: Hand) -> None:
        """409 when none can be, 404 for what is not there, 422 for what says nothing or two things."""
        made = api.submit("single", {"x": 1})
        hand.fail(hand.lease_of(made))
        step = api.get(f"/v1/tasks/{made['task_id']}/steps")["items"][0]["step_id"]
        assert api.post("/v1/steps/reopen", {"steps": [step], "reason": "r"}, 409)["code"] == "E-TASK-06"
        assert other.post("/v1/steps/reopen", {"steps": [step], "reason": "r"}, 404)["code"] == "E-FIND-01"
        for body in (
            {"reason": "r"},
            {"steps": [step]},
            {"steps": [step], "reason": ""},
            {"steps": [step], "task_id": made["task_id"], "node": "only", "reason": "r"},
            {"task_id": made["task_id"], "reason": "r"},
            {"steps": ["x"], "reason": "r"},
            {"steps": [step], "reason": "r", "state": "succeeded"},
        ):
            assert api.post("/v1/steps/reopen", body, 422)["code"] in ("E-DATA-15", "E-DATA-11")

    def test_a_join_is_opened_without_the_failed(self, api: Api, other: Api, hand: Hand) -> None:
        """By a person, for a reason, and only when nothing but failed children is missing."""
        made = api.submit("fan", {"count": 4})
        hand.complete(hand.lease_of(made), lambda lease: list(range(4)))
        leases = hand.lease_of(made)
        hand.fail(leases[:1])
        barrier = node_of(api.get(f"/v1/tasks/{made['task_id']}"), "total")["barrier"]["barrier_id"]
        path = f"/v1/barriers/{barrier}/open"
        assert api.post(path, {"reason": "now"}, 409)["code"] == "E-JOIN-22"
        hand.complete(leases[1:], lambda lease: lease.idx)
        assert api.post(path, {}, 422)["where"] == "$.reason"
        assert other.post(path, {"reason": "mine"}, 404)["code"] == "E-FIND-01"
        assert api.post(path, {"reason": "good enough"})["state"] == "released"
        assert api.post(path, {"reason": "again"}, 409)["code"] == "E-JOIN-22"
        barrier = node_of(api.get(f"/v1/tasks/{made['task_id']}"), "total")["barrier"]
        assert (barrier["state"], barrier["included"], barrier["failed"]) == ("released", 3, 1)
        assert [lease.node for lease in hand.lease_of(made)] == ["total"]


class TestRetry:
    """POST /v1/tasks/{id}/retry."""

    def test_a_retry_takes_over_what_succeeded(self, api: Api, hand: Hand) -> None:
        """A new run names the old one; its first step is there already, the failed one runs with its result."""
        made = api.submit("pair", {"topic": "t"})
        path = f"/v1/tasks/{made['task_id']}"
        hand.complete(hand.lease_of(made), lambda lease: "read")
        hand.leases.fail([Failure(lease, {"what": "x"}, True, 0) for lease in hand.lease_of(made)])
        hand.sweep()
        failed = api.get(path)
        assert failed["state"] == "failed"
        steps = {step["node"]: step["step_id"] for step in api.get(f"{path}/steps")["items"]}
        assert failed["reason"]["step"] == steps["second"]  # in the form that every other call takes
        retried = api.post(f"{path}/retry", {"reason": "fixed"}, 201)
        assert retried["kept"] == ["first"]
        task = api.get(path)
        assert (task["state"], task["run_id"]) == ("accepted", retried["run_id"])
        assert [(run["number"], run["retry_of"]) for run in task["runs"]] == [(2, made["run_id"]), (1, None)]
        assert node_of(task, "first")["counts"] == {"succeeded": 1}
        assert node_of(task, "first")["attempts"] == 0
        leases = hand.lease_of(made)
        assert [(lease.node, lease.inputs) for lease in leases] == [("second", [{"b": "read", "h": None}])]
        hand.complete(leases, lambda lease: "done")
        assert api.get(f"{path}/result")["result"] == "done"
        kinds = [e["type"] for e in _events(api, path)]
        assert "StepAdopted" in kinds
        assert kinds.index("TaskRetried") > kinds.index("TaskFailed")

    def test_children_that_succeeded_are_taken_over(self, api: Api, hand: Hand) -> None:
        """Of a fan-out only what failed, or was not reached, runs again; the join reads old and new results alike."""
        made = api.submit("strict", {"count": 130})
        hand.complete(hand.lease_of(made), lambda lease: list(range(130)))
        leases = hand.lease_of(made)
        hand.complete(leases[:100], lambda lease: lease.input * 10)
        hand.fail(leases[100:101])
        for _ in range(3):
            hand.sweep()
        path = f"/v1/tasks/{made['task_id']}"
        assert api.get(path)["state"] == "failed"
        assert api.post(f"{path}/retry", {}, 201)["kept"] == ["begin"]
        again = hand.lease_of(made)
        assert sorted(lease.idx for lease in again) == sorted(lease.idx for lease in leases[100:])
        task = api.get(path)
        assert node_of(task, "part")["counts"] == {"succeeded": 100, "leased": 30}
        assert node_of(task, "whole")["barrier"]["arrived"] == 100
        hand.complete(again, lambda lease: lease.input * 10)
        joined = hand.lease_of(made)[0]
        assert joined.node == "whole"
        assert joined.sources is not None
        rows = hand.leases.results_page(joined, joined.sources[0], "part", -1, 1000)
        assert [row[2] for row in rows] == [n * 10 for n in range(130)]
        hand.complete([joined], lambda lease: 1)
        hand.complete(hand.lease_of(made), lambda lease: "published")
        assert api.get(f"{path}/result")["result"] == "published"

    def test_a_spent_fan_out_is_not_made_again(self, api: Api, hand: Hand) -> None:
        """When the join itself is taken over nobody reads its children: the run goes on right behind it."""
        made = api.submit("strict", {"count": 3})
        outcome: dict[str, Any] = {"begin": [1, 2, 3], "part": 1, "whole": 6, "publish": RuntimeError()}
        hand.run(lambda lease: outcome[lease.node], made)
        path = f"/v1/tasks/{made['task_id']}"
        assert api.get(path)["state"] == "failed"
        assert api.post(f"{path}/retry", {}, 201)["kept"] == ["begin", "part", "whole"]
        leases = hand.lease_of(made)
        assert [(lease.node, lease.inputs) for lease in leases] == [("publish", [{"b": 6, "h": None}])]
        task = api.get(path)
        assert node_of(task, "part")["total"] == 0
        assert node_of(task, "part")["fans"] == {"succeeded": 1}
        hand.complete(leases, lambda lease: "late")
        assert api.get(path)["state"] == "completed"

    def test_a_cancelled_task_can_be_retried_more_than_once(self, api: Api, hand: Hand) -> None:
        """Each retry takes over from the run before it, adopted results included."""
        made = api.submit("pair", {"topic": "t"})
        path = f"/v1/tasks/{made['task_id']}"
        hand.complete(hand.lease_of(made), lambda lease: "kept")
        for number in (2, 3):
            api.post(f"{path}/cancel", {}, 202)
            hand.sweep()
            assert api.get(path)["state"] == "cancelled"
            api.post(f"{path}/retry", {}, 201)
            assert api.get(path)["runs"][0]["number"] == number
        hand.complete(hand.lease_of(made), lambda lease: lease.inputs[0]["b"] if lease.inputs else None)
        assert api.get(f"{path}/result")["result"] == "kept"

    def test_only_what_ended_badly_is_retried(self, api: Api, hand: Hand) -> None:
        """409 E-TASK-07 while it goes on, E-TASK-09 once it is done; two retries at once make one run."""
        made = api.submit("single", {"x": 1})
        path = f"/v1/tasks/{made['task_id']}"
        assert api.post(f"{path}/retry", {}, 409)["code"] == "E-TASK-07"
        hand.fail(hand.lease_of(made))
        hand.sweep()
        api.post(f"{path}/retry", {}, 201)
        assert api.post(f"{path}/retry", {}, 409)["state"] == "accepted"
        hand.complete(hand.lease_of(made), lambda lease: 1)
        assert api.post(f"{path}/retry", {}, 409)["code"] == "E-TASK-09"


class TestWhy:
    """GET /v1/tasks/{id}/why and /v1/why/{id}."""

    def test_without_a_worker_it_says_so(self, api: Api, hand: Hand) -> None:
        """No worker of this queue and version: first in the list, with the command that starts one."""
        made = api.submit("single", {"x": 1})
        why = api.get(f"/v1/tasks/{made['task_id']}/why")
        assert codes(why)[0] == "W-NO-WORKER"
        assert "stanchion worker run" in reason_of(why, "W-NO-WORKER")["fix"][0]
        assert "none serves this queue" in reason_of(why, "W-NO-WORKER")["text"]

    def test_with_busy_workers_it_is_a_queue(self, api: Api, hand: Hand) -> None:
        """The place in the queue counts the own tenant's steps, and those that are more urgent."""
        seen_as(hand.leases, "hand", running=8)
        earlier = [api.submit("single", {"x": n}, priority=5) for n in range(3)]
        made = api.submit("single", {"x": 1}, deadline="2040-01-01T00:00:00Z")
        why = api.get(f"/v1/tasks/{made['task_id']}/why")
        assert codes(why) == ["W-CAPACITY", "W-PRIORITY", "W-DEADLINE"]
        assert reason_of(why, "W-CAPACITY")["details"]["ahead"] >= 3
        assert "8 of 8 slots busy" in reason_of(why, "W-CAPACITY")["text"]
        assert reason_of(why, "W-PRIORITY")["details"]["higher"] == len(earlier)
        assert any("other tenants" in what for what in why["unchecked"])

    def test_a_held_lease_and_a_lost_one(self, api: Api, hand: Hand, admin_url: str) -> None:
        """Who holds it until when; and, once it has run out, that it is to be taken back."""
        seen(hand)
        made = api.submit("single", {"x": 1})
        leases = hand.lease_of(made)
        why = api.get(f"/v1/tasks/{made['task_id']}/why")
        assert codes(why) == ["W-LEASE"]
        assert reason_of(why, "W-LEASE")["details"]["worker"] == "hand"
        hand.leases.give_back(leases, "test")
        short = Hand(admin_url, ttl_ms=1)
        try:
            short.lease_of(made)
            assert codes(api.get(f"/v1/tasks/{made['task_id']}/why")) == ["W-LEASE-LOST"]
        finally:
            short.close()

    def test_messages_that_nobody_publishes_are_named(self, api: Api, eventually: Callable[..., Any]) -> None:
        """Once the oldest is some seconds old: no relay is at work."""
        made = api.submit("single", {"x": 1})
        path = f"/v1/tasks/{made['task_id']}/why"
        eventually(lambda: "W-RELAY-DOWN" in [reason["code"] for reason in api.get(path)["reasons"]], 20)

    def test_a_join_says_what_it_waits_for(self, api: Api, hand: Hand) -> None:
        """How many of how many; and with on_failed=hold who holds it and how to go on, before anything that passes."""
        made = held(api, hand)
        why = api.get(f"/v1/tasks/{made['task_id']}/why")
        assert codes(why)[0] == "W-HELD"
        held_by = why["reasons"][0]
        assert "has 4 of 6; 2 failed steps hold it" in held_by["text"]
        assert [line.split()[2] for line in held_by["fix"]] == ["reopen", "open-barrier"]
        barrier = held_by["details"]["barrier"]
        assert codes(api.get(f"/v1/why/{barrier}")) == ["W-HELD"]
        step = next(s for s in api.get(f"/v1/tasks/{made['task_id']}/steps", params={"node": "total"})["items"])
        assert codes(api.get(f"/v1/why/{step['step_id']}")) == ["W-HELD"]

    def test_a_retry_says_when(self, api: Api, hand: Hand) -> None:
        """The time of the next attempt."""
        made = api.submit("pair", {"topic": "t"})
        leases = hand.lease_of(made)
        hand.leases.fail([Failure(lease, {"what": "x"}, False, 60_000) for lease in leases])
        why = api.get(f"/v1/tasks/{made['task_id']}/why")
        assert "W-RETRY" in codes(why)
        assert reason_of(why, "W-RETRY")["until"] is not None
        step = ids.public(ids.STEP, leases[0].step_id)
        assert codes(api.get(f"/v1/why/{step}")) == ["W-RETRY"]

    def test_a_fan_out_waits_to_be_planned(self, api: Api, hand: Hand) -> None:
        """Between the list and its children stands the orchestrator."""
        made = api.submit("fan", {"count": 2})
        hand.complete(hand.lease_of(made), lambda lease: [1, 2])
        assert "W-PLANNING" in codes(api.get(f"/v1/tasks/{made['task_id']}/why"))

    def test_a_fan_out_that_nobody_plans_does_not_pass_by_itself(
        self, api: Api, hand: Hand, look: psycopg.Connection[Any]
    ) -> None:
        """A minute after it was due the orchestrator is at fault: where to look, and how to end it."""
        made = api.submit("fan", {"count": 2})
        hand.complete(hand.lease_of(made), lambda lease: [1, 2])
        look.execute(
            "UPDATE stanchion.timer SET due_at = due_at - interval '2 min' WHERE kind = 'expand' AND run_id = %s",
            (uuid_of(made["run_id"]),),
        )
        reason = reason_of(api.get(f"/v1/tasks/{made['task_id']}/why"), "W-STALLED")
        assert reason["by_itself"] is False
        assert made["task_id"] in reason["fix"][-1]

    def test_what_is_offered_and_never_taken_does_not_pass_by_itself(
        self, api: Api, hand: Hand, look: psycopg.Connection[Any]
    ) -> None:
        """While slots are free; with all of them busy it is a queue."""
        made = api.submit("single", {"x": 1})
        look.execute(
            "UPDATE stanchion.ready SET offers = 5, offered_at = stanchion.clock() WHERE step_id IN"
            " (SELECT step_id FROM stanchion.step WHERE run_id = %s)",
            (uuid_of(made["run_id"]),),
        )
        for running, code in ((3, "W-UNTAKEN"), (8, "W-CAPACITY")):
            seen_as(hand.leases, "hand", running)
            why = api.get(f"/v1/tasks/{made['task_id']}/why")
            assert codes(why)[0] == code
        look.execute("UPDATE stanchion.ready SET offers = 1")

    def test_a_worker_of_other_tenants_serves_nobody_here(
        self, hand: Hand, database: Database, make_api: Callable[..., Api]
    ) -> None:
        """Although it has the workflow and the queue."""
        mine = make_api("kappa")
        made = mine.submit("single", {"x": 1})
        seen_as(hand.leases, "hand", state="gone")
        reach = Reach([Keys(database).create_tenant("lambda")], hand.leases.reach.definitions, hand.leases.reach.queues)
        seen_as(Leases(hand.worker_db, new_id(), reach, 30_000), "of-lambda")
        assert codes(mine.get(f"/v1/tasks/{made['task_id']}/why")) == ["W-NO-WORKER"]
        seen(hand)

    def test_what_ended_badly_says_why_and_how_to_go_on(self, api: Api, hand: Hand) -> None:
        """The reason, and retry; what ended well is done."""
        made = api.submit("single", {"x": 1})
        hand.fail(hand.lease_of(made))
        hand.sweep()
        why = api.get(f"/v1/tasks/{made['task_id']}/why")
        assert codes(why) == ["W-DEAD"]
        assert why["reasons"][0]["fix"] == [f"stanchion task retry {made['task_id']}"]
        assert codes(api.get(f"/v1/why/{made['run_id']}")) == ["W-DEAD"]
        well = api.submit("single", {"x": 1})
        hand.complete(hand.lease_of(well), lambda lease: 1)
        assert codes(api.get(f"/v1/tasks/{well['task_id']}/why")) == ["W-DONE"]

    def test_what_people_can_do_is_told_as_actions(self, api: Api, hand: Hand) -> None:
        """By name, with target and what is known already: the request that a button makes does what the line says."""
        made = held(api, hand)
        reason = reason_of(api.get(f"/v1/tasks/{made['task_id']}/why"), "W-HELD")
        reopen, opening = reason["actions"]
        assert (reopen["name"], reopen["target"], reopen["given"]) == ("task.reopen", made["task_id"], {"node": "work"})
        assert reason["fix"] == [reopen["command"], opening["command"]]
        assert {"kind": "barrier", "id": opening["target"]} in reason["evidence"]
        assert reason["next"] == "Nothing, until somebody acts."
        action = ACTIONS[opening["name"]]
        path = action.path.replace("{id}", opening["target"])
        assert api.post(path, opening["given"] | {"reason": "good enough"})["state"] == "released"

    def test_without_payloads_the_words_of_others_are_withheld(
        self, api: Api, hand: Hand, make_api: Callable[..., Api]
    ) -> None:
        """An error's text, and why somebody cancelled; codes, times and ways out stay."""
        viewer = make_api("acme", "viewer")
        failed = api.submit("single", {"x": 1})
        hand.fail(hand.lease_of(failed))
        hand.sweep()
        cancelled = api.submit("single", {"x": 1})
        api.post(f"/v1/tasks/{cancelled['task_id']}/cancel", {"reason": "the customer is Jane"}, 202)
        for made, word in ((failed, "it broke"), (cancelled, "Jane")):
            whole = api.get(f"/v1/tasks/{made['task_id']}/why")
            part = viewer.get(f"/v1/tasks/{made['task_id']}/why")
            assert word in json.dumps(whole)
            assert word not in json.dumps(part)
            assert codes(part) == codes(whole)
            assert [r["fix"] for r in part["reasons"]] == [r["fix"] for r in whole["reasons"]]

    def test_any_id_will_do_and_no_foreign_one(self, api: Api, other: Api) -> None:
        """Task, run, step, in public or bare form; 404 for another tenant's, 422 for what is no id."""
        made = api.submit("pair", {"topic": "x"})
        step = api.get(f"/v1/tasks/{made['task_id']}/steps")["items"][0]["step_id"]
        for given, kind in ((made["task_id"], "task"), (made["run_id"], "run"), (step, "step")):
            assert api.get(f"/v1/why/{given}")["kind"] == kind
            assert api.get(f"/v1/why/{uuid_of(given)}")["kind"] == kind
            assert other.get(f"/v1/why/{given}", 404)["code"] == "E-FIND-01"
        assert api.get(f"/v1/why/{new_id()}", 404)["code"] == "E-FIND-01"
        for wrong in ("x", "tsk_x", "wrk_00000000000000000000000000", "%00"):
            assert api.get(f"/v1/why/{wrong}", 422)["code"] == "E-DATA-11"


def _events(api: Api, path: str) -> list[Any]:
    text = api.http.get(f"{path}/events", params={"follow": "false"}).text
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


def test_the_history_of_all_this_holds(look: psycopg.Connection[Any]) -> None:
    """Whatever was paused, reopened, opened and retried above: an independent judge finds nothing that can't be."""
    found = check(look, settled=False)
    assert not found, report(found)
