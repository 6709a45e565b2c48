"""The studio with the press beside it: what people decide is what happens, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from kit.world import PATIENCE, Task, World

from examples.studio.facts import Facts
from examples.studio.press_process import PressProcess
from stanchion.contracts import ids
from stanchion.sdk.client import Client, TaskHandle

Eventually = Callable[..., Any]
Editor = Callable[..., str]
TOPIC = "how leases and fences work"


@pytest.fixture
def channel() -> str:
    """A channel that no other test uses."""
    return f"c-{uuid4().hex[:12]}"


def asked(world: World, handle: TaskHandle, eventually: Eventually) -> dict[str, Any]:
    """What people are asked about the report, once they are."""
    facts = Facts(world.stack.endpoints.database_url)
    try:
        found: dict[str, Any] = eventually(lambda: facts.approval(handle.id), seconds=PATIENCE)
    finally:
        facts.connection.close()
    return found


def test_an_approved_report_is_published_once(
    world: World,
    http: Client,
    press: PressProcess,
    editor: Editor,
    channel: str,
    sources: str,
    eventually: Eventually,
) -> None:
    """Also when the press loses its reply: the report has the receipt, and the press has the version that was shown."""
    press.fault("drop_reply", channel)
    handle = http.submit("report", topic=TOPIC, sources=[sources], channel=channel)
    question = asked(world, handle, eventually)
    assert press.executions(channel) == 0
    editor("approval", "approve", question["approval_id"], "--yes")
    result = handle.result(timeout=PATIENCE)
    assert result["publication"]["approved_by"] == ["person:editor"]
    assert result["artifact"]["sha256"] == question["sha256"]
    shown = httpx2.get(result["publication"]["url"]).raise_for_status().json()
    assert shown["artifact"] == {"sha256": question["sha256"], "version": 1}
    assert press.executions(channel) == 1
    world.judge(Task(ids.parse(handle.id, ids.TASK), ids.parse(handle.run_id, ids.RUN)))


def test_a_rejected_report_stays_here(
    world: World,
    http: Client,
    press: PressProcess,
    editor: Editor,
    channel: str,
    sources: str,
    eventually: Eventually,
) -> None:
    """The task ends as rejected, with what the person said; the version stays, and the press hears nothing."""
    handle = http.submit("report", topic=TOPIC, sources=[sources], channel=channel)
    question = asked(world, handle, eventually)
    editor("approval", "reject", question["approval_id"], "--comment", "too short", "--yes")
    info = http.wait(handle.id, timeout=PATIENCE)
    assert info.state == "rejected"
    assert (info.data["reason"]["by"], info.data["reason"]["why"]) == ("person:editor", "too short")
    report = world.sql(
        "SELECT state FROM stanchion.artifact_version WHERE task_id = %s", ids.parse(handle.id, ids.TASK)
    )
    assert report == ["available"]
    assert httpx2.get(f"{press.url}/requests", params={"channel": channel}).json()["count"] == 0


def test_nobody_is_asked_about_a_report_that_goes_nowhere(world: World, http: Client, sources: str) -> None:
    """A task without a channel ends with a version of an artifact."""
    handle = http.submit("report", topic=TOPIC, sources=[sources], channel=None)
    result = handle.result(timeout=PATIENCE)
    assert result["note"] == "not published: its task names no channel"
    assert result["artifact"]["name"] == "report"
    asked_of_it = "SELECT count(*) FROM stanchion.approval WHERE task_id = %s"
    assert world.sql(asked_of_it, ids.parse(handle.id, ids.TASK)) == [0]


def test_a_bad_channel_fails_at_once(http: Client, sources: str) -> None:
    """It is said before the report is written, and not after somebody has approved it."""
    handle = http.submit("report", topic=TOPIC, sources=[sources], channel="No such channel")
    info = http.wait(handle.id, timeout=PATIENCE)
    assert info.state == "failed"
    assert "'No such channel' is no channel" in str(info.data)
