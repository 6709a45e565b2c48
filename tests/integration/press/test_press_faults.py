"""What each fault does to the asker, and what it leaves done."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from kit.press import NO_ANSWER, RECEIPT, Press, at_once, code_of, fresh, moment


def test_drop_reply_does_the_work_and_answers_nothing(press: Press, channel: str, key: str) -> None:
    """The asker can't tell; the look-up can, and sending again does nothing."""
    press.fault("drop_reply", channel=channel)
    with pytest.raises(NO_ANSWER):
        press.publish(channel, key)
    assert press.done(key=key) == 1
    (row,) = press.get("/requests", key=key)["items"]
    assert (row["fault"], row["outcome"], row["status"]) == ("drop_reply", "published", None)
    assert press.publish(channel, key).json() == press.get(f"/publications/by-key/{key}")["receipt"]
    assert press.done(key=key) == 1


@pytest.mark.parametrize(("kind", "status", "code"), [("refuse", 503, "refused"), ("rate_limit", 429, "rate_limited")])
@pytest.mark.parametrize(("more", "after"), [({}, "1"), ({"seconds": 6.5}, "7")])
def test_a_refusal_does_nothing(press: Press, kind: str, status: int, code: str, more: dict, after: str) -> None:
    """It says when to come again, and the key is not used up."""
    channel, key = fresh(), fresh("k")
    press.fault(kind, channel=channel, **more)
    refused = press.publish(channel, key)
    assert refused.status_code == status
    assert code_of(refused) == code
    assert refused.headers["Retry-After"] == after
    assert press.done(channel=channel) == 0
    assert press.publish(channel, key).status_code == 201


def test_error_after_does_the_work_and_says_that_it_failed(press: Press, channel: str, key: str) -> None:
    """500, and the work is done."""
    press.fault("error_after", channel=channel)
    failed = press.publish(channel, key)
    assert failed.status_code == 500
    assert code_of(failed) == "failed_after"
    assert press.done(key=key) == 1
    assert press.publish(channel, key).status_code == 200


def test_bad_answer_does_the_work_and_answers_no_receipt(press: Press, channel: str, key: str) -> None:
    """200 with a body that has nothing of a receipt."""
    press.fault("bad_answer", channel=channel)
    odd = press.publish(channel, key)
    assert odd.status_code == 200
    assert not RECEIPT & set(odd.json())
    assert press.done(key=key) == 1


def test_delay_waits_and_then_does_it(press: Press, channel: str, key: str) -> None:
    """Another request with the same key overtakes it, and then it is the second one."""
    press.fault("delay", seconds=0.3, key=key)
    slow, quick = at_once(2, lambda number: _publish_by(press, number, channel, key))
    assert {slow.status_code, quick.status_code} == {200, 201}
    assert slow.json() == quick.json()
    assert press.done(key=key) == 1
    assert press.fired() == [1]


def _publish_by(press: Press, _number: int, channel: str, key: str) -> Any:
    with press.client() as web:
        return press.publish(channel, key, web=web)


MARGINS = (1.0, 2.0, 4.0, 8.0)
"""Seconds for a request to come before its deadline: a busy machine may need more than the first."""


def test_what_is_taken_up_after_its_deadline_is_not_done(press: Press, channel: str, key: str) -> None:
    """A request that came in time and was delayed beyond its deadline is refused with 410."""
    for margin in MARGINS:
        press.web.delete("/faults")
        press.fault("delay", seconds=margin + 0.1, channel=channel)
        refused = press.publish(channel, key, headers={"Request-Deadline": moment(margin)})
        assert refused.status_code == 410
        if press.fired() == [1]:
            break
    assert press.fired() == [1]
    assert press.done(channel=channel) == 0


def test_a_late_request_is_done_when_nobody_waits(
    press: Press, channel: str, key: str, eventually: Callable[..., Any]
) -> None:
    """The connection is cut, and the work is done afterwards."""
    press.fault("late", seconds=0.2, channel=channel)
    with pytest.raises(NO_ANSWER):
        press.publish(channel, key)
    eventually(lambda: press.done(key=key) == 1)
    (row,) = press.get("/requests", key=key)["items"]
    assert (row["fault"], row["outcome"], row["status"]) == ("late", "published", None)


def test_a_late_request_finds_its_key_used(
    press: Press, channel: str, key: str, eventually: Callable[..., Any]
) -> None:
    """When the asker has sent it again meanwhile, the late one does nothing."""
    press.fault("late", seconds=1, channel=channel)
    with pytest.raises(NO_ANSWER):
        press.publish(channel, key)
    press.publish(channel, key)
    eventually(lambda: "late" not in press.outcomes(key=key))
    assert sorted(press.outcomes(key=key)) == ["published", "replayed"]
    assert press.done(key=key) == 1


def test_a_late_request_without_key_is_a_second_doing(
    press: Press, channel: str, eventually: Callable[..., Any]
) -> None:
    """What the key is there for."""
    press.fault("late", seconds=0.2, channel=channel)
    with pytest.raises(NO_ANSWER):
        press.publish(channel)
    press.publish(channel)
    eventually(lambda: press.done(channel=channel) == 2)


def test_a_late_request_keeps_its_deadline(press: Press, channel: str, eventually: Callable[..., Any]) -> None:
    """One that arrives after it is refused, though nobody hears that."""
    for margin in MARGINS:
        press.web.delete("/faults")
        press.fault("late", seconds=margin + 0.1, channel=channel)
        with suppress(*NO_ANSWER):
            press.publish(channel, headers={"Request-Deadline": moment(margin)})
        if press.fired() == [1]:
            break
    assert press.fired() == [1]
    eventually(lambda: set(press.outcomes(channel=channel)) == {"deadline_passed"})
    assert press.get("/requests", channel=channel)["items"][-1]["fault"] == "late"
    assert press.done(channel=channel) == 0


def test_a_late_retraction_is_done(press: Press, channel: str, eventually: Callable[..., Any]) -> None:
    """A compensation can be late too."""
    one = press.publish(channel).json()
    press.fault("late", seconds=0.1, channel=channel, method="DELETE")
    with pytest.raises(NO_ANSWER):
        press.web.delete(one["url"])
    eventually(lambda: press.get(one["url"])["retraction"])


def test_forget_keys_lets_the_same_key_do_it_again(press: Press, channel: str, key: str) -> None:
    """The next request finds no key, and the work is done a second time."""
    first = press.publish(channel, key).json()
    press.fault("forget_keys")
    second = press.publish(channel, key)
    assert second.status_code == 201
    assert second.json()["id"] != first["id"]
    assert press.done(key=key) == 2


def test_forget_keys_is_seen_by_a_look_up(press: Press, channel: str, key: str) -> None:
    """Keys are forgotten before the next request of any kind; the publication stays."""
    first = press.publish(channel, key).json()
    press.fault("forget_keys")
    assert press.web.get(f"/publications/by-key/{key}").status_code == 404
    assert press.get(first["url"])["key"] == key


# -- which requests --


def test_a_fault_is_for_the_requests_that_it_names(press: Press, key: str) -> None:
    """A channel, a key and a method must all be those of the request."""
    mine, other = fresh(), fresh()
    press.fault("refuse", channel=mine, key=key, method="POST")
    assert press.publish(other, key).status_code == 201
    assert press.publish(mine, fresh("k")).status_code == 201
    made = press.publish(mine).json()
    assert press.web.delete(made["url"], headers={"Idempotency-Key": key}).status_code == 422
    assert press.fired() == [0]
    assert press.publish(mine, key).status_code == 503
    assert press.fired() == [1]


def test_a_retraction_is_matched_by_the_channel_of_its_publication(press: Press, channel: str) -> None:
    """Though the request does not name it."""
    one = press.publish(channel).json()
    press.fault("drop_reply", channel=channel, method="DELETE")
    with pytest.raises(NO_ANSWER):
        press.web.delete(one["url"])
    assert press.get(one["url"])["retraction"]


def test_look_ups_meet_a_fault_only_when_it_names_them(press: Press, channel: str, key: str) -> None:
    """A fault without a method leaves look-ups alone."""
    press.publish(channel, key)
    press.fault("refuse")
    assert press.web.get(f"/publications/by-key/{key}").status_code == 200
    press.fault("refuse", method="GET", key=key)
    press.fault("drop_reply", method="GET", channel=channel)
    assert press.web.get(f"/publications/by-key/{key}").status_code == 503
    assert press.web.get(f"/publications/by-key/{key}").status_code == 200
    with pytest.raises(NO_ANSWER):
        press.web.get(f"/channels/{channel}")
    assert press.fired() == [0, 1, 1]


def test_the_oldest_fault_comes_first(press: Press, channel: str) -> None:
    """One fault for each request, in the order in which they were told."""
    press.fault("refuse", channel=channel)
    press.fault("rate_limit", channel=channel, times=2)
    assert [press.publish(channel).status_code for _ in range(4)] == [503, 429, 429, 201]


def test_what_can_not_be_read_uses_up_no_fault(press: Press, channel: str) -> None:
    """Neither does a request whose deadline has passed."""
    press.fault("refuse")
    press.web.post("/publications", json={"channel": channel})
    press.publish(channel, headers={"Request-Deadline": moment(-1)})
    assert press.fired() == [0]


def test_a_fault_fires_exactly_its_times(press: Press, channel: str) -> None:
    """With sixteen requests at once, five are refused, and eleven are done."""
    press.fault("refuse", channel=channel, times=5)
    answers = at_once(16, lambda number: _publish_by(press, number, channel, fresh("k")))
    assert sorted(a.status_code for a in answers) == [201] * 11 + [503] * 5
    assert press.fired() == [5]
    assert press.done(channel=channel) == 11


def test_faults_are_listed_and_cleared(press: Press, channel: str, key: str) -> None:
    """As they were told, with how often they have fired."""
    press.fault("late", seconds=3, times=2, channel=channel, key=key, method="POST")
    (shown,) = press.get("/faults")["items"]
    assert {name: shown[name] for name in ("kind", "times", "fired", "seconds", "match")} == {
        "kind": "late",
        "times": 2,
        "fired": 0,
        "seconds": 3.0,
        "match": {"channel": channel, "key": key, "method": "POST"},
    }
    assert press.web.delete("/faults").json() == {"cleared": 1}
    assert press.get("/faults")["items"] == []
    assert press.publish(channel, key).status_code == 201
