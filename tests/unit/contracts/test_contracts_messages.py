"""Bodies of commands, replies and events."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest

from stanchion.contracts import commands, events, ids, limits
from stanchion.contracts.commands import CancelTask, ExecuteSteps, SubmitTask
from stanchion.contracts.message import Message
from stanchion.errors import Unprocessable

ID = "018f0000-0000-7000-8000-000000000001"


def submit(**fields: Any) -> bytes:
    return json.dumps({"workflow": "brief", **fields}).encode()


class TestSubmitTask:
    def test_needs_only_a_workflow(self) -> None:
        """Everything else has a default."""
        read = SubmitTask.from_value(b'{"workflow":"brief"}')
        assert (read.version, read.input, read.tags, read.priority, read.deadline) == (None, None, (), 0, None)

    def test_keeps_what_it_was_given(self) -> None:
        """Times come out in UTC, the key in its one form, the rest unchanged."""
        read = SubmitTask.from_value(
            submit(
                version=3,
                input={"topic": "cats", "n": [1, 2.5, None]},
                idempotency_key="cafe\u0301",
                tags=["nightly", "a b"],
                priority=-5,
                deadline="2030-01-31T14:00:00+02:00",
                goal="know all about cats",
                constraints={"budget": 3},
            )
        )
        assert read.idempotency_key == "caf\u00e9"
        assert read.deadline is not None
        assert read.deadline.isoformat() == "2030-01-31T12:00:00+00:00"
        assert SubmitTask.from_value(read.to_value()) == read

    @pytest.mark.parametrize(
        ("body", "code", "where"),
        [
            (b"", "E-DATA-01", "$"),
            (None, "E-DATA-01", "$"),
            (b"\x8d", "E-DATA-02", "$"),
            (b'{"workflow":"bri', "E-DATA-01", "$.workflow"),
            (b"[]", "E-DATA-15", "$"),
            (b"null", "E-DATA-15", "$"),
            (b'"brief"', "E-DATA-15", "$"),
            (b"{}", "E-DATA-15", "$.workflow"),
            (submit(deadlien="2030-01-31T12:00:00Z"), "E-DATA-15", "$.deadlien"),
            (submit(state="succeeded"), "E-DATA-15", "$.state"),
            (submit(tenant="other"), "E-DATA-15", "$.tenant"),
            (submit(workflow=""), "E-DATA-15", "$.workflow"),
            (submit(workflow=" x"), "E-DATA-15", "$.workflow"),
            (submit(workflow="a\nb"), "E-DATA-15", "$.workflow"),
            (submit(workflow="x" * 201), "E-DATA-15", "$.workflow"),
            (submit(workflow=5), "E-DATA-15", "$.workflow"),
            (submit(version=0), "E-DATA-15", "$.version"),
            (submit(version="1"), "E-DATA-15", "$.version"),
            (submit(version=2**31), "E-DATA-15", "$.version"),
            (submit(priority=101), "E-DATA-15", "$.priority"),
            (submit(priority=True), "E-DATA-15", "$.priority"),
            (submit(priority="high"), "E-DATA-15", "$.priority"),
            (submit(idempotency_key=""), "E-DATA-12", "$.idempotency_key"),
            (submit(idempotency_key=" "), "E-DATA-12", "$.idempotency_key"),
            (submit(idempotency_key="x" * 300), "E-DATA-12", "$.idempotency_key"),
            (submit(idempotency_key=7), "E-DATA-15", "$.idempotency_key"),
            (submit(tags=[""]), "E-DATA-15", "$.tags[0]"),
            (submit(tags=["ok", "x" * 65]), "E-DATA-15", "$.tags[1]"),
            (submit(tags=["t"] * 33), "E-DATA-15", "$.tags"),
            (submit(tags={"a": 1}), "E-DATA-15", "$.tags"),
            (submit(deadline="2030-01-31T12:00:00"), "E-DATA-13", "$.deadline"),
            (submit(deadline=1_900_000_000), "E-DATA-13", "$.deadline"),
            (submit(deadline="1900000000"), "E-DATA-13", "$.deadline"),
            (submit(deadline="294276-12-31T00:00:00Z"), "E-DATA-13", "$.deadline"),
            (submit(input={"id": 3544790567247868102}), "E-DATA-06", "$.input.id"),
            (submit(input={"x": float("nan")}), "E-DATA-05", "$.input.x"),
            (b'{"workflow":"a","workflow":"b"}', "E-DATA-07", "$.workflow"),
        ],
    )
    def test_refuses_with_the_code_and_the_path(self, body: bytes | None, code: str, where: str) -> None:
        """A misspelt deadline must not pass as no deadline."""
        with pytest.raises(Unprocessable) as caught:
            SubmitTask.from_value(body)
        assert (caught.value.code, caught.value.where) == (code, where)

    def test_never_shows_what_it_was_given(self) -> None:
        """The error goes into logs and dead letters; the value may be a secret."""
        with pytest.raises(Unprocessable) as caught:
            SubmitTask.from_value(submit(version="hunter2", priority="hunter2", nonsense="hunter2"))
        assert "hunter2" not in str(caught.value)
        assert "2 more" in caught.value.what

    def test_built_in_code_it_checks_its_input_too(self) -> None:
        """A NaN must not be written as null."""
        with pytest.raises(Unprocessable) as caught:
            SubmitTask(workflow="brief", input={"x": [float("nan")]})
        assert (caught.value.code, caught.value.where) == ("E-DATA-05", "$.input.x[0]")
        assert SubmitTask(workflow="brief", input={"x": (1, 2)}).input == {"x": [1, 2]}

    def test_tags_and_key_have_their_limits(self) -> None:
        """At the limits it passes."""
        read = SubmitTask.from_value(submit(tags=["t"] * limits.TAGS, idempotency_key="k" * limits.KEY_CHARACTERS))
        assert len(read.tags) == limits.TAGS


class TestOthers:
    def test_a_cancel_with_a_misspelt_field_is_refused(self) -> None:
        """Commands from outside are strict."""
        with pytest.raises(Unprocessable):
            CancelTask.from_value(json.dumps({"task_id": ID, "reson": "x"}).encode())

    def test_a_cancel_takes_the_id_as_people_see_it(self) -> None:
        """Copied from a page or a command line, or bare."""
        shown = ids.public(ids.TASK, UUID(ID))
        for given in (shown, ID):
            assert CancelTask.from_value(json.dumps({"task_id": given}).encode()).task_id == UUID(ID)
        with pytest.raises(Unprocessable, match="not an id"):
            CancelTask.from_value(b'{"task_id":"run_1"}')

    def test_our_own_messages_may_grow(self) -> None:
        """A new sender talks to an old reader."""
        read = ExecuteSteps.from_value(
            json.dumps({"workflow": "b", "version": 1, "node": "n", "steps": [ID], "new": {"a": 1}}).encode()
        )
        assert read.steps == (UUID(ID),)
        assert b"new" not in read.to_value()

    def test_an_offer_names_at_least_one_step(self) -> None:
        """An empty offer is a bug of its sender."""
        with pytest.raises(Unprocessable):
            ExecuteSteps.from_value(b'{"workflow":"b","version":1,"node":"n","steps":[]}')

    def test_none_is_left_out(self) -> None:
        """Messages are small."""
        assert SubmitTask(workflow="b").to_value() == b'{"workflow":"b","tags":[],"priority":0}'

    def test_messages_do_not_change(self) -> None:
        """What was validated stays valid."""
        with pytest.raises(ValueError, match="frozen"):
            SubmitTask(workflow="b").workflow = "c"  # type: ignore[misc]

    @pytest.mark.parametrize("registry", [commands.COMMANDS, commands.REPLIES, events.EVENTS])
    def test_the_type_of_a_message_is_the_name_of_its_class(self, registry: dict[str, type[Message]]) -> None:
        """One word per idea, in headers too."""
        assert {name: model.TYPE for name, model in registry.items()} == {name: name for name in registry}

    def test_events_hold_ids_and_small_facts_only(self) -> None:
        """No field of an event can hold a payload."""
        allowed = {"int", "bool", "str", "UUID"}
        for model in events.EVENTS.values():
            for name, field in model.model_fields.items():
                shown = str(field.annotation)
                assert not any(word in shown for word in ("dict", "list", "Json", "Any")), (model, name)
                assert any(word in shown for word in allowed), (model, name, shown)
