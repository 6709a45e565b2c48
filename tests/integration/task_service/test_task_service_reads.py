"""Looking at tasks: lists, the graph in counts, results; every number read from the database, a page at a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from task_service_kit import Api, Hand

from stanchion.authority import blobs
from stanchion.authority.leases import Done
from stanchion.contracts import ids

Look = psycopg.Connection[tuple[Any, ...]]


def node_of(task: Any, name: str) -> Any:
    """One node of a task's answer."""
    return next(node for node in task["nodes"] if node["name"] == name)


def all_pages(api: Api, path: str, **params: Any) -> list[Any]:
    """Every item of a list, page by page."""
    items: list[Any] = []
    cursor = None
    while True:
        page = api.get(path, params={**params, **({"cursor": cursor} if cursor else {})})
        items += page["items"]
        cursor = page["next"]
        if cursor is None:
            return items


class TestLists:
    """GET /v1/tasks."""

    def test_pages_hold_every_task_once_newest_first(self, api: Api) -> None:
        """Keyset paging: no task twice and none left out, also when tasks come in between."""
        made = [api.submit("single", {"x": n}, tags=["paged"])["task_id"] for n in range(25)]
        first_page = api.get("/v1/tasks", params={"tag": "paged", "limit": 10})
        api.submit("single", {"x": 99}, tags=["paged"])
        rest = api.get("/v1/tasks", params={"tag": "paged", "limit": 100, "cursor": first_page["next"]})
        assert [task["task_id"] for task in first_page["items"] + rest["items"]] == made[::-1]
        assert rest["next"] is None

    def test_filters_are_joined_by_and(self, api: Api) -> None:
        """State, workflow, tags and time of submission, alone and together."""
        start = datetime.now(UTC) - timedelta(seconds=1)
        made = api.submit("pair", {"topic": "f"}, tags=["x", "filtered"])["task_id"]
        api.submit("single", {}, tags=["filtered"])
        wanted = {"tag": "filtered,x", "workflow": "pair", "state": "accepted,running"}
        found = api.get("/v1/tasks", params={**wanted, "submitted_after": start.isoformat()})
        assert [task["task_id"] for task in found["items"]] == [made]
        assert api.get("/v1/tasks", params={**wanted, "state": "failed"})["items"] == []
        later = (datetime.now(UTC) + timedelta(days=1)).isoformat()
        assert api.get("/v1/tasks", params={**wanted, "submitted_after": later})["items"] == []

    @pytest.mark.parametrize(
        "params",
        [
            {"stat": "running"},
            {"sort": "(CASE WHEN 1=1 THEN task_id ELSE state END)"},
            {"order": "desc"},
            {"state": "sleeping"},
            {"state": "running;select pg_sleep(5)"},
            {"limit": 0},
            {"limit": 1001},
            {"limit": "ten"},
            {"cursor": "x"},
            {"cursor": "tsk_x' OR 1=1 --"},
            {"submitted_after": "yesterday"},
            {"submitted_after": "2030-01-01"},
            {"workflow": ""},
            {"workflow": "\x00"},
            {"workflow": "x" * 300},
            {"tag": "\n"},
            [("limit", "1"), ("limit", "2")],
        ],
    )
    def test_a_parameter_that_is_not_understood_is_refused(self, api: Api, params: Any) -> None:
        """422, and no word of the database in the answer; never a filter that was silently left out."""
        problem = api.get("/v1/tasks", 422, params=params)
        assert problem["code"] in ("E-DATA-15", "E-DATA-11", "E-DATA-13")
        assert "select" not in str(problem).lower().replace("select pg_sleep", "")

    @pytest.mark.parametrize("value", ["a'b", 'a"b', "a'') OR 1=1 --", "%", "_", "\\", "a.b[0]", "{}", "é"])
    def test_odd_values_are_values(self, api: Api, value: str) -> None:
        """Quotes, wildcards and comments are bound: they match themselves and nothing else."""
        made = api.submit("single", {}, tags=[value])["task_id"]
        assert [task["task_id"] for task in api.get("/v1/tasks", params={"tag": value})["items"]] == [made]
        assert api.get("/v1/tasks", params={"workflow": value})["items"] == []


class TestGraph:
    """GET /v1/tasks/{id}."""

    def test_counts_follow_the_children(self, api: Api, hand: Hand) -> None:
        """Per node: how many steps in which state, the barrier's arrivals, attempts; also while slots hold them."""
        made = api.submit("fan", {"count": 40})
        hand.complete(hand.lease_of(made), lambda lease: list(range(40)))
        leases = hand.lease_of(made)
        assert len(leases) == 40
        hand.complete(leases[:30], lambda lease: lease.idx)
        hand.fail(leases[30:33])
        task = api.get(f"/v1/tasks/{made['task_id']}")
        assert task["state"] == "running"
        children = node_of(task, "work")
        assert children["kind"] == "fan"
        assert children["total"] == 40
        assert children["counts"] == {"succeeded": 30, "failed": 3, "leased": 7}
        assert children["attempts"] == 40
        barrier = node_of(task, "total")["barrier"]
        assert barrier["state"] == "waiting"
        assert {name: barrier[name] for name in ("rule", "need", "expected", "arrived", "failed", "skipped")} == {
            "rule": "all",
            "need": 40,
            "expected": 40,
            "arrived": 30,
            "failed": 3,
            "skipped": 0,
        }
        hand.complete(leases[33:], lambda lease: lease.idx)

    def test_steps_and_attempts_can_be_read_one_by_one(self, api: Api, hand: Hand) -> None:
        """The list by node and state, and each step with its attempts, input and result."""
        made = api.submit("strict", {"count": 3})
        hand.run(lambda lease: [10, 20, 30] if lease.node == "begin" else lease.node)
        path = f"/v1/tasks/{made['task_id']}/steps"
        steps = all_pages(api, path, node="part", state="succeeded", limit=2)
        assert sorted(step["index"] for step in steps) == [0, 1, 2]
        step = api.get(f"/v1/steps/{steps[1]['step_id']}")
        assert step["task_id"] == made["task_id"]
        assert (step["input"], step["result"]) == ([10, 20, 30][step["index"]], "part")
        assert [attempt["state"] for attempt in step["attempt_list"]] == ["succeeded"]
        assert step["attempt_list"][0]["fence"] == 1
        joined = all_pages(api, path, node="whole")[0]
        found = api.get(f"/v1/steps/{joined['step_id']}")
        assert [(b["kind"], b["state"]) for b in found["waits_for"]] == [("gather", "released")]

    def test_a_refused_write_is_shown(self, api: Api, hand: Hand) -> None:
        """A write with an old fence changed nothing, and stands beside the step and its node."""
        made = api.submit("single", {"x": 1}, tags=["refused"])
        lease = hand.lease_of(made)[0]
        hand.leases.give_back([lease], "test")
        again = hand.lease_of(made)
        assert hand.leases.complete([Done(lease, 1)], 0)[0] == set()
        hand.complete(again, lambda x: 2)
        step = api.get(f"/v1/steps/{ids.public('stp', lease.step_id)}")
        assert step["result"] == 2
        assert [(w["fence"], w["current_fence"], w["attempted"]) for w in step["refused_writes"]] == [
            (1, 2, "complete")
        ]
        task = api.get(f"/v1/tasks/{step['task_id']}")
        assert node_of(task, "only")["refused_writes"] == 1
        assert node_of(task, "only")["attempts"] == 2

    def test_a_node_began_when_there_was_something_to_do(self, api: Api, hand: Hand) -> None:
        """Not when its step was planned: a step that waits takes no time."""
        made = api.submit("pair", {"topic": "t"})
        path = f"/v1/tasks/{made['task_id']}"
        assert node_of(api.get(path), "second")["first_at"] is None
        hand.complete(hand.lease_of(made), lambda lease: "text")
        task = api.get(path)
        assert node_of(task, "first")["first_at"] < node_of(task, "first")["last_at"]
        assert node_of(task, "second")["first_at"] >= node_of(task, "first")["last_at"]


class TestResult:
    """GET /v1/tasks/{id}/result."""

    def test_no_result_before_the_end(self, api: Api) -> None:
        """409 with the state."""
        made = api.submit("pair", {"topic": "r"})
        problem = api.get(f"/v1/tasks/{made['task_id']}/result", 409)
        assert (problem["code"], problem["state"]) == ("E-TASK-07", "accepted")

    def test_the_result_of_the_one_end(self, api: Api, hand: Hand) -> None:
        """The last step's value, as it is."""
        made = api.submit("pair", {"topic": "r"})
        hand.run(lambda lease: {"by": lease.node})
        outcome = api.get(f"/v1/tasks/{made['task_id']}/result")
        assert (outcome["state"], outcome["result"]) == ("completed", {"by": "second"})

    def test_several_ends_are_an_object(self, api: Api, hand: Hand) -> None:
        """By the names of the nodes that nothing comes after."""
        made = api.submit("two_ends", {})
        hand.run(lambda lease: lease.node)
        assert api.get(f"/v1/tasks/{made['task_id']}/result")["result"] == {"up": "up", "down": "down"}

    def test_a_failed_task_gives_its_reason(self, api: Api, hand: Hand) -> None:
        """200: it has ended, without a result; the reason says which step and why."""
        made = api.submit("single", {"x": 1})
        hand.run(lambda lease: ValueError())
        outcome = api.get(f"/v1/tasks/{made['task_id']}/result")
        assert (outcome["state"], outcome["result"]) == ("failed", None)
        assert outcome["reason"]["code"].startswith("E-STEP")
        assert "only" in outcome["reason"]["what"]

    def test_a_large_result_is_read_from_where_it_is(self, api: Api, hand: Hand) -> None:
        """A value above 64 KiB stands in a blob; the answer has it all the same."""
        value = {"text": "y" * 300_000}
        made = api.submit("single", {"x": 1})
        leases = hand.lease_of(made)
        _, sha256, packed, size = blobs.pack(value, "$")
        assert sha256 is not None
        assert packed is not None
        for lease in leases:
            blobs.put(hand.worker_db, [(lease.tenant_id, sha256, size, packed)])
        hand.leases.complete([Done(lease, None, sha256) for lease in leases], 0)
        assert api.get(f"/v1/tasks/{made['task_id']}/result")["result"] == value

    def test_what_retention_removed_is_said_to_be_gone(self, api: Api, hand: Hand, look: Look) -> None:
        """409 E-TASK-08 for input, result and retry; the task itself, its steps and events stay."""
        made = api.submit("single", {"x": 1})
        hand.complete(hand.lease_of(made), lambda lease: 1)
        look.execute("SELECT stanchion.remove_payloads(interval '0', 1000000)")
        path = f"/v1/tasks/{made['task_id']}"
        assert api.get(f"{path}/result", 409)["code"] == "E-TASK-08"
        assert api.get(f"{path}/input", 409)["code"] == "E-TASK-08"
        assert api.get(path)["payload_removed_at"] is not None
        assert api.get(f"{path}/steps")["items"][0]["state"] == "succeeded"


class TestCancel:
    """POST /v1/tasks/{id}/cancel."""

    def test_a_cancelled_task_runs_nothing_more(self, api: Api, hand: Hand) -> None:
        """202, then the sweep ends it; asking again is no error; a reason stands in the answer."""
        made = api.submit("pair", {"topic": "c"})
        path = f"/v1/tasks/{made['task_id']}/cancel"
        assert api.post(path, {"reason": "not needed"}, 202)["state"] == "cancelling"
        assert api.post(path, None, 202)["state"] == "cancelling"
        assert hand.lease_of(made) == []
        hand.sweep()
        assert api.post(path, {}, 202)["state"] == "cancelled"
        task = api.get(f"/v1/tasks/{made['task_id']}")
        assert task["state"] == "cancelled"
        assert task["reason"]["why"] == "not needed"
        assert task["nodes"][0]["counts"] == {"cancelled": 1}

    def test_what_has_ended_is_not_cancelled(self, api: Api, hand: Hand) -> None:
        """409 E-TASK-05 with the state."""
        made = api.submit("single", {"x": 1})
        hand.run(lambda lease: 1)
        problem = api.post(f"/v1/tasks/{made['task_id']}/cancel", {}, 409)
        assert (problem["code"], problem["state"]) == ("E-TASK-05", "completed")

    def test_a_reason_is_a_short_text(self, api: Api) -> None:
        """1,000 characters at most, no other fields."""
        made = api.submit("single", {"x": 1})
        path = f"/v1/tasks/{made['task_id']}/cancel"
        assert api.post(path, {"reason": "x" * 1001}, 422)["where"] == "$.reason"
        assert api.post(path, {"reason": "a\u0000"}, 422)["code"] == "E-DATA-03"
        assert api.post(path, {"state": "completed"}, 422)["where"] == "$.state"
