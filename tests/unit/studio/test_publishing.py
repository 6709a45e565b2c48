"""What the studio asks people, what it sends to the press, and what it makes of the answers."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from examples.press.shapes import Publication as PressPublication
from examples.studio import publishing
from examples.studio.publishing import (
    ChannelError,
    addressed,
    check_channel,
    payload_of,
    proposal_of,
    published,
    question,
)
from examples.studio.shapes import Report
from examples.studio.workflow import aim, approve, offer, publish, studio
from stanchion import Artifact, Decision, Go

CONTEXT = cast(Any, None)
VERSION = Artifact("art_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0", "report", 3, "a" * 64, 12, "text/markdown")
REPORT = Report("on\n oak \x07barrels", "# Oak", 5, 1, 4, 3, 1)
RECEIPT = {"id": "pub_1", "url": "/publications/pub_1", "at": "2026-01-01T00:00:00Z"}
YES = Decision("apr_1", True, "granted", ["person:ana"])


@pytest.fixture
def press(monkeypatch: pytest.MonkeyPatch) -> str:
    """A press is configured; nothing is sent to it here."""
    monkeypatch.setattr(publishing.press, "base_url", "http://press.example")
    return "http://press.example"


@pytest.mark.parametrize("name", [None, "reports", "a", "0.x_y-z", "a" * 64])
def test_channels(name: str | None) -> None:
    """What the press takes, and none at all."""
    assert check_channel(name) == name
    assert aim(CONTEXT, channel=name) == name


@pytest.mark.parametrize("name", ["", "Reports", "a b", "-a", "a" * 65, "a\n", "ä"])
def test_what_is_no_channel(name: str) -> None:
    """Is refused before anything is read, with what a channel is."""
    with pytest.raises(ChannelError, match="is no channel: 1 to 64 of a-z"):
        check_channel(name)


def test_without_a_press_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report says what to set; the step that publishes hands it on."""
    monkeypatch.setattr(publishing.press, "base_url", "")
    report = addressed(REPORT, VERSION, "barrels")
    assert (report.artifact, report.channel) == (VERSION, "")
    assert report.note == "not published: no press is configured (STANCHION_STUDIO_PRESS_URL on the workers)"
    assert offer(CONTEXT, report=report) is None
    assert publish(CONTEXT, report=report, decision=None) is report


@pytest.mark.usefixtures("press")
def test_without_a_channel_nobody_is_asked() -> None:
    """Whoever wants no publication gets none."""
    report = addressed(REPORT, VERSION, None)
    assert report.note == "not published: its task names no channel"
    assert offer(CONTEXT, report=report) is None


@pytest.mark.usefixtures("press")
def test_what_is_asked_is_what_is_sent() -> None:
    """One payload, which the press takes; bound to the key and the version."""
    report = addressed(REPORT, VERSION, "barrels")
    went = offer(CONTEXT, report=report)
    assert isinstance(went, Go)
    ask = approve(CONTEXT, **went.input)
    assert ask == question(proposal_of(report))
    assert ask.payload == payload_of(proposal_of(report))
    assert (ask.operation, ask.key, ask.resource) == (publishing.to_press, "barrels", VERSION)
    assert ask.question == "Publish “on oak barrels” in the channel barrels?"
    assert ask.summary == "report, version 3: 5 documents, 4 citations, 1 withdrawn by the review"
    taken = PressPublication.model_validate_json(json.dumps(ask.payload))
    assert (taken.channel, taken.title, taken.artifact.version) == ("barrels", "on oak barrels", 3)
    assert studio.operations["press.publish"].needs_approval


def test_receipts_of_replies_and_of_look_ups(press: str) -> None:
    """Both give the same publication, with who approved it."""
    reply = published(REPORT, {"status": 201, "body": RECEIPT}, YES)
    found = published(REPORT, {"status": 200, "body": {"work": "publish", "receipt": RECEIPT}}, YES)
    assert reply == found
    assert reply.publication is not None
    assert reply.publication.url == f"{press}/publications/pub_1"
    assert reply.publication.approved_by == ["person:ana"]


@pytest.mark.parametrize("body", [None, "done", [], {}, {"receipt": None}, {"id": "pub_1"}])
def test_a_receipt_that_cant_be_read_fails_nothing(body: object) -> None:
    """It is published: the step must not fail over how the press says so."""
    report = published(REPORT, {"status": 200, "body": body, "id": None}, YES)
    assert report.publication is None
    assert report.note == "published; the receipt of the press can't be read"
