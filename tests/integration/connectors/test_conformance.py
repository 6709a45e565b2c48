"""The suite for authors of connectors: it passes the press, and finds what a bad connector gets wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kit.outside import Outside
from kit.press import Press

from stanchion.connectors.host_guard import HostGuard
from stanchion.connectors.http import Http
from stanchion.testing.conformance import prove
from stanchion.workflow.operation import AnyOperation, Call, NotSent, Operation, Refused

PAGES = [{"title": "a"}, {"title": "b"}]


def test_the_press_through_the_http_connector(press: Press, channel: str) -> None:
    host = Http(press.url, guard=HostGuard(press.url, failures=1_000_000))
    artifact = {"sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "version": 1}
    where: Callable[[Any], str] = lambda effect: f"/publications/{effect['receipt']['body']['id']}"  # noqa: E731 - used twice below
    retract = host.operation(
        "press.retract",
        "DELETE",
        where,
        body=lambda _effect: None,
        lookup=where,
        found=lambda receipt: receipt["body"]["retraction"] is not None,
        keeps_key="1d",
    )
    publish = host.operation(
        "press.publish",
        "POST",
        "/publications",
        lookup="/publications/by-key/{key}",
        keeps_key="1d",
        undo=retract,
    )
    try:
        prove(
            publish,
            [{"channel": channel, "title": title, "artifact": artifact} for title in "ab"],
            executions=lambda key: press.get("/executions", key=key)["count"],
            refused={"channel": channel},
        )
    finally:
        host.close()


def outside_of(**wrong: Any) -> tuple[AnyOperation, Callable[[str], int]]:
    outside = Outside(knows_keys=not wrong.pop("forgets_keys", False))
    given: dict[str, Any] = {"do": outside.do, "check": outside.check, "keeps_key": "1d"} | {
        name: fn(outside) if callable(fn) else fn for name, fn in wrong.items()
    }
    return Operation("press.publish", **given), outside.times


def test_a_good_one_passes() -> None:
    operation, executions = outside_of()
    prove(operation, PAGES, executions=executions)


async def finds_everything(call: Call, payload: dict[str, Any]) -> dict[str, Any] | None:
    return {"id": 1}


async def finds_nothing(call: Call, payload: dict[str, Any]) -> dict[str, Any] | None:
    return None


def does_nothing(_outside: Outside) -> Any:
    async def do(call: Call, payload: dict[str, Any]) -> dict[str, Any]:
        return {"id": call.key}

    return do


def says(error: Exception, *, and_does_it: bool = False) -> Callable[[Outside], Any]:
    def made(outside: Outside) -> Any:
        async def do(call: Call, payload: dict[str, Any]) -> dict[str, Any]:
            if payload != {"title": "bad"}:
                return await outside.do(call, payload)
            if and_does_it:
                outside.execute(call.key, payload)
            raise error

        return do

    return made


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"check": lambda _o: finds_everything}, "finds a key that was never sent"),
        ({"check": lambda _o: finds_nothing}, "does not find what was done"),
        ({"do": does_nothing}, "has not had the effect once"),
        ({"forgets_keys": True}, "had the effect twice"),
        ({"do": says(NotSent("no"))}, "told as NotSent"),
        ({"do": says(ValueError("no"))}, "told as ValueError"),
        ({"do": says(Refused("no"), and_does_it=True)}, "done all the same"),
    ],
)
def test_a_bad_one_is_found(wrong: dict[str, Any], message: str) -> None:
    operation, executions = outside_of(**wrong)
    with pytest.raises(AssertionError, match=message):
        prove(operation, PAGES, executions=executions, refused={"title": "bad"})
