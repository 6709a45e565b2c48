"""Submitting over HTTP: one task a key, whatever comes twice; what can't be right is refused with its place."""

from __future__ import annotations

import gzip
from concurrent.futures import ThreadPoolExecutor

import pytest
from task_service_kit import Api, Hand

from stanchion.contracts import limits


class TestSubmit:
    """One task."""

    def test_a_task_is_there_once_it_is_accepted(self, api: Api) -> None:
        """201 with ids in their public form; the task can be read at once, its first step is ready."""
        made = api.submit("pair", {"topic": "cats"}, tags=["a", "b"], priority=3, goal="know more")
        assert made["duplicate"] is False
        assert made["state"] == "accepted"
        task = api.get(f"/v1/tasks/{made['task_id']}")
        assert (task["workflow"], task["version"], task["tags"], task["priority"]) == ("pair", 1, ["a", "b"], 3)
        assert task["input"] == {"topic": "cats"}
        assert [node["name"] for node in task["nodes"]] == ["first", "second"]
        assert task["nodes"][0]["counts"] == {"ready": 1}
        assert task["nodes"][1]["counts"] == {"pending": 1}
        assert task["nodes"][1]["barrier"]["expected"] == 1

    def test_the_same_key_and_payload_is_the_same_task(self, api: Api) -> None:
        """200 and the same ids, also by the header, also with the keys of the payload in another order."""
        body = {"workflow": "pair", "input": {"topic": "dogs"}, "idempotency_key": "dogs-1", "priority": 1}
        one = api.post("/v1/tasks", body, 201)
        two = api.post("/v1/tasks", dict(reversed(body.items())), 200)
        bare = {name: value for name, value in body.items() if name != "idempotency_key"}
        three = api.post("/v1/tasks", bare, 200, headers={"idempotency-key": "dogs-1"})
        assert two["duplicate"]
        assert three["duplicate"]
        assert {x["task_id"] for x in (one, two, three)} == {one["task_id"]}

    def test_the_same_key_with_another_payload_is_refused(self, api: Api) -> None:
        """422 E-IDEM-01, and nothing is started."""
        api.submit("pair", {"topic": "x"}, idempotency_key="taken")
        problem = api.submit("pair", {"topic": "y"}, 422, idempotency_key="taken")
        assert problem["code"] == "E-IDEM-01"
        assert problem["where"] == "$.idempotency_key"

    def test_twenty_at_once_with_one_key_make_one_task(self, api: Api) -> None:
        """Every answer is a success and names the same task."""
        body = {"workflow": "single", "input": {"x": 1}, "idempotency_key": "race"}
        with ThreadPoolExecutor(10) as pool:
            answers = list(pool.map(lambda _: api.http.post("/v1/tasks", json=body), range(20)))
        assert {a.status_code for a in answers} <= {200, 201}
        assert sum(a.status_code == 201 for a in answers) == 1
        assert len({a.json()["task_id"] for a in answers}) == 1

    def test_a_key_still_names_its_task_when_that_has_ended(self, api: Api, hand: Hand) -> None:
        """Sending again after the end gives the ended task."""
        made = api.submit("single", {"x": 5}, idempotency_key="ended")
        hand.run(lambda lease: 5)
        assert api.submit("single", {"x": 5}, 200, idempotency_key="ended")["state"] == "completed"
        assert made["task_id"] == api.submit("single", {"x": 5}, 200, idempotency_key="ended")["task_id"]

    def test_tenants_do_not_share_keys(self, api: Api, other: Api) -> None:
        """The same key in another tenant is another task."""
        mine = api.submit("single", {}, idempotency_key="shared")
        theirs = other.submit("single", {}, idempotency_key="shared")
        assert mine["task_id"] != theirs["task_id"]

    @pytest.mark.parametrize("key", ["", " ", "\t", "\u0000", "x" * 201, "x" * 10_000, 5, {}, True])
    def test_a_bad_key_is_refused(self, api: Api, key: object) -> None:
        """Empty, blank, over-long, with control characters, or no text."""
        problem = api.submit("single", {}, 422, idempotency_key=key)
        assert problem["code"] in ("E-DATA-12", "E-DATA-03", "E-DATA-15")

    def test_two_keys_are_refused_when_they_differ(self, api: Api) -> None:
        """Header and field must name one key; a header that comes twice names none."""
        body = {"workflow": "single", "input": {}, "idempotency_key": "a"}
        assert api.post("/v1/tasks", body, 422, headers={"idempotency-key": "b"})["code"] == "E-DATA-12"
        twice = [("idempotency-key", "a"), ("idempotency-key", "a")]
        assert api.post("/v1/tasks", body, 422, headers=twice)["code"] == "E-DATA-12"
        assert api.post("/v1/tasks", body, 201, headers={"idempotency-key": "a"})["duplicate"] is False

    def test_composed_and_decomposed_accents_are_one_key(self, api: Api) -> None:
        """Keys are compared by their NFC form, everything else is exact."""
        one = api.submit("single", {}, idempotency_key="caf\u00e9")
        assert api.submit("single", {}, 200, idempotency_key="cafe\u0301")["task_id"] == one["task_id"]
        body = {"workflow": "single", "input": {}}
        header = {"idempotency-key": "caf\u00e9".encode()}
        assert api.post("/v1/tasks", body, 200, headers=header)["task_id"] == one["task_id"]
        assert api.submit("single", {}, 201, idempotency_key="CAF\u00e9")["task_id"] != one["task_id"]

    def test_a_key_belongs_to_submissions_only(self, api: Api) -> None:
        """Another route with an Idempotency-Key is refused, not silently without it."""
        made = api.submit("single", {})
        path = f"/v1/tasks/{made['task_id']}/cancel"
        assert api.post(path, {}, 422, headers={"idempotency-key": "k"})["code"] == "E-DATA-12"
        assert api.get(f"/v1/tasks/{made['task_id']}")["state"] == "accepted"

    @pytest.mark.parametrize(
        ("body", "code", "where"),
        [
            ({"workflow": "nowhere"}, "E-TASK-01", "$.workflow"),
            ({"workflow": "pair", "version": 9, "input": {"topic": "x"}}, "E-TASK-01", "$.workflow"),
            ({"workflow": "pair", "input": {}}, "E-TASK-02", "$.input"),
            ({"workflow": "pair", "input": {"topic": "x", "more": 1}}, "E-TASK-02", "$.input"),
            ({"workflow": "pair", "input": [1]}, "E-TASK-02", "$.input"),
            ({"workflow": "pair", "input": {"topic": 5}}, "E-TASK-02", "$.input.topic"),
            ({"workflow": "single", "input": {"x": "5"}}, "E-TASK-02", "$.input.x"),
            ({"workflow": "single", "input": {"x": None}}, "E-TASK-02", "$.input.x"),
            ({"workflow": "pair", "input": {"topic": "x"}, "deadlin": "z"}, "E-DATA-15", "$.deadlin"),
            ({"workflow": "pair", "input": {"topic": "x"}, "tenant_id": "z"}, "E-DATA-15", "$.tenant_id"),
            ({"workflow": "pair", "input": {"topic": "x"}, "priority": 1000}, "E-DATA-15", "$.priority"),
            ({"workflow": "pair", "input": {"topic": "x"}, "priority": "1"}, "E-DATA-15", "$.priority"),
            ({"workflow": "pair", "input": {"topic": "x"}, "tags": ["x" * 3000]}, "E-DATA-15", "$.tags[0]"),
            ({"workflow": "pair", "input": {"topic": "x"}, "tags": ["t"] * 33}, "E-DATA-15", "$.tags"),
            ({"workflow": "x" * 9000}, "E-DATA-15", "$.workflow"),
            ({}, "E-DATA-15", "$.workflow"),
        ],
    )
    def test_what_can_not_be_right_is_refused_with_its_place(
        self, api: Api, body: object, code: str, where: str
    ) -> None:
        """422 with the code and the JSON path."""
        problem = api.post("/v1/tasks", body, 422)
        assert (problem["code"], problem["where"]) == (code, where)

    @pytest.mark.parametrize(
        "deadline",
        [
            "2030-01-01T00:00:00",
            "2030-01-01",
            1893456000,
            "0001-01-01T00:00:00Z",
            "1582-10-10T00:00:00Z",
            "10000-01-01T00:00:00Z",
            "294276-12-31T00:00:00Z",
            "infinity",
            "2016-12-31T23:59:60Z",
            "2030-13-01T00:00:00Z",
            "",
        ],
    )
    def test_a_time_that_is_none_is_refused(self, api: Api, deadline: object) -> None:
        """Without an offset, outside the years, or no time at all: 422 E-DATA-13."""
        problem = api.submit("single", {}, 422, deadline=deadline)
        assert (problem["code"], problem["where"]) == ("E-DATA-13", "$.deadline")

    def test_times_keep_their_moment(self, api: Api) -> None:
        """An offset is a way to write a moment; the end of the allowed years is kept exactly."""
        made = api.submit("single", {}, deadline="2040-06-01T12:00:00+05:45")
        assert api.get(f"/v1/tasks/{made['task_id']}")["deadline_at"] == "2040-06-01T06:15:00Z"
        made = api.submit("single", {}, deadline="9999-12-31T23:59:59Z")
        assert api.get(f"/v1/tasks/{made['task_id']}")["deadline_at"] == "9999-12-31T23:59:59Z"

    def test_a_deadline_in_the_past_is_refused_but_not_for_a_repeated_submission(self, api: Api, look: object) -> None:
        """A client that repeats its call after the deadline gets its task; a new one can't be in time any more."""
        assert api.submit("single", {}, 422, deadline="2020-01-01T00:00:00Z")["code"] == "E-TASK-03"
        made = api.submit("single", {}, deadline="2040-01-01T00:00:00Z", idempotency_key="late")
        problem = api.submit("single", {}, 422, deadline="2020-01-01T00:00:00Z", idempotency_key="late")
        assert problem["code"] == "E-IDEM-01"
        assert made["task_id"]


class TestHostileBodies:
    """Bodies that bring others down."""

    @pytest.mark.parametrize(
        ("raw", "code"),
        [
            (b"", "E-DATA-15"),
            (b"\x8d", "E-DATA-02"),
            (b"{", "E-DATA-01"),
            (b'"text"', "E-DATA-15"),
            (b"null", "E-DATA-15"),
            (b'{"workflow": "pair", "workflow": "fan"}', "E-DATA-07"),
            (b'{"workflow": "pair", "input": {"topic": NaN}}', "E-DATA-05"),
            (b'{"workflow": "pair", "input": {"topic": 1e999}}', "E-DATA-05"),
            (b'{"workflow": "pair", "input": {"topic": 3544790567247868102}}', "E-DATA-06"),
            (b'{"workflow": "pair", "input": {"topic": ' + b"9" * 400 + b"}}", "E-DATA-06"),
            (b'{"workflow": "pair", "input": {"topic": "a\\u0000b"}}', "E-DATA-03"),
            (b'{"workflow": "pair", "input": {"topic": "\\ud800"}}', "E-DATA-04"),
            (b'{"workflow": "pair", "input": {"a\\u0000": 1}}', "E-DATA-03"),
        ],
    )
    def test_what_is_no_payload_is_named(self, api: Api, raw: bytes, code: str) -> None:
        """422, the code of what is wrong, and no parser's text."""
        problem = api._checked(api.http.post("/v1/tasks", content=raw), 422)
        assert problem["code"] == code

    @pytest.mark.parametrize("depth", [65, 200, 1_000, 100_000])
    @pytest.mark.parametrize(("opens", "closes"), [(b"[", b"]"), (b'{"a":', b"}")])
    def test_deep_nesting_is_refused(self, api: Api, depth: int, opens: bytes, closes: bytes) -> None:
        """422 E-DATA-08 at any depth beyond the limit; the server never recurses into it."""
        inner = opens * depth + b"1" + closes * depth
        body = b'{"workflow": "pair", "input": {"topic": ' + inner + b"}}"
        assert api._checked(api.http.post("/v1/tasks", content=body), 422)["code"] == "E-DATA-08"

    def test_texts_of_all_planes_round_trip(self, api: Api) -> None:
        """Emoji with joiners, right-to-left text and 4-byte characters come back as they went in."""
        text = "👩🏽‍🚀 שלום 𐍈 \u202e x"
        made = api.submit("pair", {"topic": text}, tags=["שלום"])
        assert api.get(f"/v1/tasks/{made['task_id']}")["input"]["topic"] == text
        found = api.get("/v1/tasks", params={"tag": "שלום"})
        assert [task["task_id"] for task in found["items"]] == [made["task_id"]]

    def test_numbers_come_back_as_every_reader_reads_them(self, api: Api) -> None:
        """The largest exact integer and a huge double keep their values."""
        numbers = [2**53 - 1, -(2**53 - 1), 1e300, 0.1, 1e-300]
        made = api.submit("pair", {"topic": "n"}, constraints={"numbers": numbers})
        assert api.get(f"/v1/tasks/{made['task_id']}")["constraints"]["numbers"] == numbers

    def test_a_large_input_goes_by_reference(self, api: Api) -> None:
        """Above 64 KiB the value is stored apart, and read whole by its own route."""
        text = "x" * 900_000
        made = api.submit("pair", {"topic": text})
        task = api.get(f"/v1/tasks/{made['task_id']}")
        assert task["input"] is None
        assert task["input_is_large"]
        assert api.get(f"/v1/tasks/{made['task_id']}/input")["input"] == {"topic": text}

    def test_an_encoded_body_is_refused_as_such(self, api: Api) -> None:
        """415: unpacked it could be of any size, and as it stands it would be told to be no JSON."""
        answer = api.http.post("/v1/tasks", content=gzip.compress(b"{}"), headers={"content-encoding": "gzip"})
        assert (answer.status_code, answer.json()["code"]) == (415, "E-HTTP-04")
        body = b'{"workflow": "pair", "input": {"topic": "t"}}'
        assert api.http.post("/v1/tasks", content=body, headers={"content-encoding": "Identity"}).status_code == 201

    def test_what_is_too_large_is_refused(self, api: Api) -> None:
        """413 with the limit, for the whole body and for one value."""
        assert api.submit("pair", {"topic": "x" * (8 * 1024 * 1024)}, 413)["code"] == "E-SIZE-01"
        assert api.submit("pair", {"topic": "x" * (20 * 1024 * 1024)}, 413)["limit"] == 8 * 1024 * 1024 + 64 * 1024
        assert api.submit("pair", {"topic": "x"}, 413, constraints={"a": "x" * 70_000})["code"] == "E-SIZE-01"


class TestBulk:
    """Many tasks in one request."""

    def test_each_item_has_its_own_answer(self, api: Api) -> None:
        """What is wrong with one item does not touch the others; the order is kept."""
        items = [
            {"workflow": "single", "input": {"x": 1}, "idempotency_key": "bulk-1"},
            {"workflow": "nowhere"},
            {"workflow": "single", "input": {"x": 2}},
            "no object",
            {"workflow": "single", "input": {"x": 1}, "idempotency_key": "bulk-1"},
            {"workflow": "single", "input": {"x": 3}, "idempotency_key": "bulk-1"},
        ]
        answers = api.post("/v1/tasks/bulk", {"tasks": items})["items"]
        assert [answer["status"] for answer in answers] == [201, 422, 201, 422, 200, 422]
        assert answers[0]["task_id"] == answers[4]["task_id"]
        assert [a["problem"]["code"] for a in answers if a["problem"]] == ["E-TASK-01", "E-DATA-15", "E-IDEM-01"]
        assert answers[3]["problem"]["where"] == "$.tasks[3]"

    def test_a_thousand_go_in_one_request_and_more_do_not(self, api: Api) -> None:
        """1,000 are accepted, 1,001 are refused whole."""
        items = [{"workflow": "single", "input": {"x": n}} for n in range(1_000)]
        answers = api.post("/v1/tasks/bulk", {"tasks": items})["items"]
        assert {answer["status"] for answer in answers} == {201}
        assert len({answer["task_id"] for answer in answers}) == 1_000
        assert api.post("/v1/tasks/bulk", {"tasks": [*items, items[0]]}, 413)["code"] == "E-SIZE-01"

    def test_equal_inputs_too_large_for_a_row_are_stored_once(self, api: Api) -> None:
        """Several tasks with the same large input in one bulk are all accepted, and each has it."""
        topic = "x" * (limits.INLINE_BYTES + 1)
        items = [{"workflow": "pair", "input": {"topic": topic}, "priority": n} for n in (1, 2)]
        answers = api.post("/v1/tasks/bulk", {"tasks": items})["items"]
        assert [answer["status"] for answer in answers] == [201, 201]
        for answer in answers:
            assert api.get(f"/v1/tasks/{answer['task_id']}/input")["input"] == {"topic": topic}

    def test_an_empty_bulk_is_nothing(self, api: Api) -> None:
        """No items, no answers."""
        assert api.post("/v1/tasks/bulk", {"tasks": []})["items"] == []
