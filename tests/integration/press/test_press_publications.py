"""Publishing, keys, deadlines, versions, retracting and looking up, without faults."""

from __future__ import annotations

import pytest
from kit.press import RECEIPT, Press, at_once, code_of, fresh, moment, payload


def test_a_publication_has_a_receipt(press: Press, channel: str, key: str) -> None:
    """The answer is 201 with a receipt, a request's name and the address of what was made."""
    answer = press.publish(channel, key)
    receipt = answer.json()
    assert answer.status_code == 201
    assert set(receipt) == RECEIPT
    assert (receipt["channel"], receipt["title"], receipt["key"]) == (channel, "On stars", key)
    assert answer.headers["Request-Id"].startswith("req_")
    assert answer.headers["Location"] == receipt["url"]
    assert press.get(receipt["url"])["id"] == receipt["id"]


def test_the_same_key_and_payload_is_done_once(press: Press, channel: str, key: str) -> None:
    """The second answer is 200 with the first receipt, and another request's name."""
    first, second = press.publish(channel, key), press.publish(channel, key)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()
    assert first.headers["Request-Id"] != second.headers["Request-Id"]
    assert press.done(key=key) == press.done(channel=channel) == 1
    assert press.outcomes(key=key) == ["published", "replayed"]


def test_a_payload_is_compared_by_what_it_says(press: Press, channel: str, key: str) -> None:
    """Neither the order of fields nor a null that says nothing makes another payload."""
    first = press.publish(channel, key)
    other = dict(reversed(payload(channel, body=None).items()))
    again = press.web.post("/publications", json=other, headers={"Idempotency-Key": key})
    assert again.status_code == 200
    assert again.json() == first.json()


@pytest.mark.parametrize(
    "change",
    [
        {"title": "On moons"},
        {"body": ""},
        {"artifact": {"sha256": "a" * 64, "version": 2}},
        {"artifact": {"sha256": "a" * 64, "version": "1"}},
        {"artifact": {"sha256": "b" * 64, "version": 1}},
    ],
)
def test_the_same_key_with_another_payload_is_refused(press: Press, channel: str, key: str, change: dict) -> None:
    """422, and nothing is done."""
    press.publish(channel, key)
    refused = press.publish(channel, key, **change)
    assert refused.status_code == 422
    assert code_of(refused) == "key_reused"
    assert press.done(channel=channel) == 1


def test_without_a_key_it_is_done_each_time(press: Press, channel: str) -> None:
    """Two requests without a key are two publications."""
    answers = [press.publish(channel) for _ in range(2)]
    assert [a.status_code for a in answers] == [201, 201]
    assert answers[0].json()["payload_hash"] == answers[1].json()["payload_hash"]
    assert press.done(channel=channel) == 2
    assert len(press.get("/publications", channel=channel)["items"]) == 2


def test_many_at_once_with_one_key_are_one_execution(press: Press, channel: str, key: str) -> None:
    """Of sixteen threads one is answered 201, the others 200, all with the same receipt."""

    def post(_number: int) -> tuple[int, str]:
        with press.client() as web:
            answer = press.publish(channel, key, web=web)
            return answer.status_code, answer.text

    answers = at_once(16, post)
    assert sorted(status for status, _ in answers) == [200] * 15 + [201]
    assert len({text for _, text in answers}) == 1
    assert press.done(key=key) == 1
    assert press.get("/requests", key=key)["count"] == 16


# -- deadlines --


def test_a_request_after_its_deadline_is_refused(press: Press, channel: str, key: str) -> None:
    """410, and nothing is done, even if the key was used."""
    headers = {"Request-Deadline": moment(-1)}
    for expected in (0, 1):
        refused = press.publish(channel, key, headers=headers)
        assert refused.status_code == 410
        assert code_of(refused) == "deadline_passed"
        assert press.done(key=key) == expected
        press.publish(channel, key)


def test_a_request_before_its_deadline_is_done(press: Press, channel: str) -> None:
    """With a time in any zone."""
    for deadline in (moment(3600), "2999-12-31T23:59:59Z", "2999-12-31T23:59:59.5-05:00"):
        assert press.publish(channel, headers={"Request-Deadline": deadline}).status_code == 201


# -- versions --


def test_a_channel_has_a_version_and_a_head(press: Press, channel: str) -> None:
    """Each doing moves it on; the head is the newest publication that is out."""
    assert press.get(f"/channels/{channel}") == {"name": channel, "version": 0, "head": None}
    first = press.publish(channel).json()["id"]
    second = press.publish(channel).json()["id"]
    assert press.get(f"/channels/{channel}") == {"name": channel, "version": 2, "head": second}
    press.web.delete(f"/publications/{second}")
    assert press.get(f"/channels/{channel}") == {"name": channel, "version": 3, "head": first}


def test_a_channel_that_moved_on_refuses(press: Press, channel: str) -> None:
    """412 when the version is another one, for publishing and for retracting."""
    first = press.publish(channel, headers={"If-Match": "0"})
    assert first.status_code == 201
    refused = press.publish(channel, headers={"If-Match": "0"})
    assert refused.status_code == 412
    assert code_of(refused) == "channel_moved_on"
    assert refused.json()["version"] == 1
    assert press.web.delete(first.json()["url"], headers={"If-Match": "0"}).status_code == 412
    etag = press.web.get(f"/channels/{channel}").headers["ETag"]
    assert press.publish(channel, headers={"If-Match": etag}).status_code == 201
    assert press.done(channel=channel) == 2


def test_a_known_key_is_answered_though_the_channel_moved_on(press: Press, channel: str, key: str) -> None:
    """What was done under a key is no new change, so there is nothing to check."""
    first = press.publish(channel, key, headers={"If-Match": "0"})
    again = press.publish(channel, key, headers={"If-Match": "0"})
    assert again.status_code == 200
    assert again.json() == first.json()


# -- retracting --


def test_a_retraction_is_done_once(press: Press, channel: str, key: str) -> None:
    """Again with its key, with another one or with none: the first receipt, and nothing is done."""
    one = press.publish(channel).json()
    first = press.web.delete(one["url"], headers={"Idempotency-Key": key})
    assert first.status_code == 200
    assert first.json()["retracted"] is True
    for headers in ({"Idempotency-Key": key}, {"Idempotency-Key": fresh("k")}, {}):
        again = press.web.delete(one["url"], headers=headers)
        assert again.status_code == 200
        assert again.json() == first.json()
    assert [e["work"] for e in press.get("/executions", channel=channel)["items"]] == ["publish", "retract"]
    assert press.get(one["url"])["retraction"] == first.json()
    assert press.get(f"/publications/by-key/{key}")["work"] == "retract"


def test_a_key_is_for_one_work(press: Press, channel: str, key: str) -> None:
    """The key of a publication can't retract it, nor can the key of one retraction do another."""
    one, other = press.publish(channel, key).json(), press.publish(channel).json()
    assert code_of(press.web.delete(one["url"], headers={"Idempotency-Key": key})) == "key_reused"
    retraction = fresh("k")
    assert press.web.delete(one["url"], headers={"Idempotency-Key": retraction}).status_code == 200
    assert press.web.delete(other["url"], headers={"Idempotency-Key": retraction}).status_code == 422
    assert press.get(other["url"])["retraction"] is None


def test_what_is_unknown_is_not_retracted(press: Press, key: str) -> None:
    """404, and the key is not used up."""
    unknown = press.web.delete("/publications/pub_none", headers={"Idempotency-Key": key})
    assert unknown.status_code == 404
    assert code_of(unknown) == "unknown_publication"
    assert press.publish(fresh(), key).status_code == 201


def test_a_retraction_after_its_deadline_is_refused(press: Press, channel: str) -> None:
    """410, and it stays out."""
    one = press.publish(channel).json()
    assert press.web.delete(one["url"], headers={"Request-Deadline": moment(-1)}).status_code == 410
    assert press.get(one["url"])["retraction"] is None


# -- looking up --


def test_a_publication_is_found_by_its_key(press: Press, channel: str, key: str) -> None:
    """The receipt, and that the key is inside of its retention."""
    assert code_of(press.web.get(f"/publications/by-key/{key}")) == "unknown_key"
    receipt = press.publish(channel, key).json()
    found = press.get(f"/publications/by-key/{key}")
    assert found["receipt"] == receipt
    assert found["work"] == "publish"
    assert found["inside_retention"] is True
    assert found["retention_seconds"] == 86_400


def test_a_key_may_look_like_a_path(press: Press, channel: str) -> None:
    """A key with slashes and percent signs is found as it is."""
    odd = f"run/{fresh()}/step%2F1?x#y"
    press.publish(channel, odd)
    quoted = odd.replace("%", "%25").replace("?", "%3F").replace("#", "%23")
    assert press.get(f"/publications/by-key/{quoted}")["receipt"]["key"] == odd


def test_a_publication_says_what_it_was_made_of(press: Press, channel: str) -> None:
    """Its body and its artifact, as they were posted."""
    artifact = {"sha256": "c" * 64, "version": "v7", "uri": "blob://c"}
    one = press.publish(channel, body="All of it.\n", artifact=artifact).json()
    shown = press.get(one["url"])
    assert (shown["body"], shown["artifact"], shown["retraction"]) == ("All of it.\n", artifact, None)
    assert code_of(press.web.get("/publications/pub_none")) == "unknown_publication"


def test_publications_are_listed_by_pages(press: Press, channel: str) -> None:
    """Oldest first, each once, of one channel, until there is no next."""
    made = [press.publish(channel).json()["id"] for _ in range(5)]
    press.publish(fresh())
    seen: list[str] = []
    after: dict[str, str] = {}
    for _ in range(3):
        page = press.get("/publications", channel=channel, limit=2, **after)
        seen += [one["id"] for one in page["items"]]
        after = {"after": page["next"]}
    assert page["next"] is None
    assert seen == made
    assert press.web.get("/publications", params={"after": "pub_none"}).status_code == 400


def test_executions_say_what_was_done(press: Press, channel: str, key: str) -> None:
    """Time, key, hash of the payload, and the request that it was done for."""
    answer = press.publish(channel, key)
    press.publish(channel, key)
    (row,) = press.get("/executions", key=key)["items"]
    assert row["payload_hash"] == answer.json()["payload_hash"]
    assert row["publication_id"] == answer.json()["id"]
    assert row["request_id"] == answer.headers["Request-Id"]
    assert row["at"] == answer.json()["at"]


def test_requests_are_listed_with_what_came_of_them(press: Press, channel: str, key: str) -> None:
    """Those too that were refused or could not be read."""
    press.publish(channel, key)
    press.publish(channel, key, title="Another")
    press.web.post("/publications", json={"channel": channel}, headers={"Idempotency-Key": key})
    press.web.get(f"/publications/by-key/{key}")
    rows = press.get("/requests", key=key)["items"]
    assert [(r["method"], r["outcome"], r["status"]) for r in rows] == [
        ("POST", "published", 201),
        ("POST", "key_reused", 422),
        ("POST", "bad_input", 400),
        ("GET", "found", 200),
    ]
    assert press.get("/requests", key=key, limit=1) == {"count": 4, "items": rows[-1:]}
