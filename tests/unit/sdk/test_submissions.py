"""What a submission says."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from stanchion import Ctx, Workflow
from stanchion.errors import Unprocessable
from stanchion.sdk.submissions import body_of

brief = Workflow("brief", version=7)


@brief.step()
def plan(ctx: Ctx, topic: str, depth: int = 1) -> list[str]:
    return [topic] * depth


def body(workflow: Any = "brief", given: Any = None, named: Any = None, **more: Any) -> dict[str, Any]:
    fixed: dict[str, Any] = dict.fromkeys(("key", "deadline", "version", "goal", "constraints"))
    return body_of(workflow, given, named or {}, **{**fixed, "tags": (), "priority": 0, **more})


def test_a_name_takes_the_input_as_it_is() -> None:
    """The server checks it; the newest version is meant."""
    made = body("brief", None, {"topic": "cats"})
    assert made["workflow"] == "brief"
    assert made["input"] == {"topic": "cats"}
    assert "version" not in made


def test_a_workflow_checks_and_encodes_the_input_and_pins_its_version() -> None:
    """What does not fit is told before anything is sent."""
    made = body(brief, None, {"topic": "cats", "depth": 2})
    assert made["version"] == 7
    assert made["input"] == {"topic": "cats", "depth": 2}
    with pytest.raises(Unprocessable) as refused:
        body(brief, None, {"topic": 5})
    assert refused.value.code == "E-TASK-02"


def test_every_submission_has_a_key_of_its_own() -> None:
    """Without one, sending it again after a broken connection would be a second task."""
    first, second = body(), body()
    assert first["idempotency_key"] != second["idempotency_key"]
    assert body(key="order-42")["idempotency_key"] == "order-42"


def test_names_that_collide_go_into_a_mapping() -> None:
    """A workflow may have an argument `key`; both ways at once are refused."""
    assert body("brief", {"key": 1, "tags": 2})["input"] == {"key": 1, "tags": 2}
    with pytest.raises(Unprocessable):
        body("brief", {"a": 1}, {"b": 2})


def test_a_deadline_has_a_zone_and_tags_are_a_list() -> None:
    """Two mistakes that would pass as something else."""
    assert body(deadline=datetime(2030, 1, 1, tzinfo=UTC))["deadline"] == "2030-01-01T00:00:00+00:00"
    with pytest.raises(Unprocessable):
        body(deadline=datetime(2030, 1, 1))  # noqa: DTZ001 - that is the mistake
    with pytest.raises(Unprocessable):
        body(tags="nightly")
