"""The envelope: CloudEvents 1.0 in Kafka headers, tolerant of the unknown, strict with the known."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stanchion.contracts.envelope import BadMessage, Envelope, format_time, parse_time
from stanchion.contracts.ids import new_id
from stanchion.errors import Unprocessable

FULL = Envelope(
    id=UUID("018f0000-0000-7000-8000-000000000001"),
    type="StepSucceeded",
    source="/orchestrator/a",
    time=datetime(2030, 1, 31, 12, 0, 0, 123456, UTC),
    tenant="acme",
    correlation_id=UUID("018f0000-0000-7000-8000-000000000002"),
    causation_id=UUID("018f0000-0000-7000-8000-000000000003"),
    sequence=17,
    traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    schema_version=2,
)
REQUIRED = ["ce_specversion", "ce_id", "ce_type", "ce_source", "ce_time", "ce_tenant"]


def changed(name: str, value: bytes | None) -> list[tuple[str, bytes | None]]:
    return [(key, value if key == name else content) for key, content in FULL.to_headers()]


class TestHeaders:
    def test_are_those_of_the_binary_mode(self) -> None:
        """A CloudEvents reader of any language finds its attributes."""
        assert FULL.to_headers() == [
            ("ce_specversion", b"1.0"),
            ("ce_id", b"018f0000-0000-7000-8000-000000000001"),
            ("ce_type", b"StepSucceeded"),
            ("ce_source", b"/orchestrator/a"),
            ("ce_time", b"2030-01-31T12:00:00.123456Z"),
            ("ce_tenant", b"acme"),
            ("ce_correlationid", b"018f0000-0000-7000-8000-000000000002"),
            ("ce_causationid", b"018f0000-0000-7000-8000-000000000003"),
            ("ce_sequence", b"17"),
            ("ce_schemaversion", b"2"),
            ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            ("content-type", b"application/json"),
        ]

    def test_come_back(self) -> None:
        """Writing and reading are each other's inverse, with and without the optional ones."""
        bare = Envelope.new("SubmitTask", "/cli", "acme")
        assert Envelope.from_headers(FULL.to_headers()) == FULL
        assert Envelope.from_headers(bare.to_headers()) == bare

    def test_unknown_ones_are_no_fault(self) -> None:
        """A newer sender may add headers; foreign `ce_` ones are kept, since signatures travel in them."""
        headers = [
            *FULL.to_headers(),
            ("x-other", b"\xff"),
            ("ce_keyid", b"k1"),
            ("ce_odd", b"\xff\x00"),
            ("x-other", b""),
        ]
        read = Envelope.from_headers(headers)
        assert read.extensions == {"ce_keyid": b"k1", "ce_odd": b"\xff\x00"}
        assert replace(read, extensions={}) == FULL

    @pytest.mark.parametrize("name", REQUIRED)
    @pytest.mark.parametrize("value", [None, b"", b"  ", b"\xff\xfe", b"a\x00b", b"x" * 5_000])
    def test_a_required_one_must_be_there_and_readable(self, name: str, value: bytes | None) -> None:
        """Missing, null, blank, not UTF-8, with a control character, endless: the reason names the header."""
        with pytest.raises(BadMessage, match=name):
            Envelope.from_headers(changed(name, value))
        without = [(key, content) for key, content in FULL.to_headers() if key != name]
        with pytest.raises(BadMessage, match="missing"):
            Envelope.from_headers(without)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("ce_specversion", b"0.3"),
            ("ce_id", b"tsk_1"),
            ("ce_id", b"018f00000000700080000000000000012"),
            ("ce_time", b"yesterday"),
            ("ce_time", b"2030-01-31T12:00:00"),
            ("ce_time", b"2030-01-31"),
            ("ce_time", b"0001-01-01T00:00:00Z"),
            ("ce_time", b"9999-12-31T23:59:59-01:00"),
            ("ce_time", b"2030-06-31T12:00:00Z"),
            ("ce_correlationid", b"x"),
            ("ce_correlationid", b"\xff"),
            ("ce_causationid", b""),
            ("ce_sequence", b"-1"),
            ("ce_sequence", b"1.0"),
            ("ce_sequence", b"9223372036854775808"),
            ("ce_sequence", "٣".encode()),
            ("ce_schemaversion", b"0"),
            ("content-type", b"application/xml"),
        ],
    )
    def test_a_known_one_must_make_sense(self, name: str, value: bytes) -> None:
        """Optional or not: what is there must be right."""
        with pytest.raises(BadMessage) as caught:
            Envelope.from_headers(changed(name, value))
        assert caught.value.where == name

    @pytest.mark.parametrize("name", [*REQUIRED, "ce_sequence", "ce_correlationid"])
    def test_a_known_one_must_not_come_twice(self, name: str) -> None:
        """Two readers could believe different ones."""
        with pytest.raises(BadMessage, match="twice"):
            Envelope.from_headers([*FULL.to_headers(), (name, dict(FULL.to_headers())[name])])

    @pytest.mark.parametrize("value", [b"\xff", b"00-xyz", b"", b"00-" + b"A" * 32 + b"-" + b"b" * 16 + b"-01"])
    def test_a_broken_trace_starts_a_new_one(self, value: bytes) -> None:
        """Tracing is never a reason to refuse a message."""
        assert Envelope.from_headers(changed("traceparent", value)).traceparent is None

    @given(st.lists(st.tuples(st.sampled_from([*REQUIRED, "ce_sequence", "x"]), st.none() | st.binary(max_size=20))))
    def test_any_headers_give_an_envelope_or_a_reason(self, headers: list[tuple[str, bytes | None]]) -> None:
        """Nothing that a stranger sends gets past as another exception."""
        with contextlib.suppress(BadMessage):
            Envelope.from_headers(headers)


class TestNew:
    def test_a_message_that_follows_another_says_so(self) -> None:
        """Correlation is kept, causation points back one step, the trace goes on."""
        reply = Envelope.new("TaskAccepted", "/task-service", "acme", cause=FULL)
        assert (reply.correlation_id, reply.causation_id) == (FULL.correlation_id, FULL.id)
        assert reply.traceparent == FULL.traceparent

    def test_the_first_message_is_what_others_correlate_with(self) -> None:
        """A submitter finds its answer by the id of its own message."""
        command = Envelope.new("SubmitTask", "/cli", "acme")
        assert Envelope.new("TaskAccepted", "/s", "acme", cause=command).correlation_id == command.id


class TestTimes:
    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("2030-01-31T12:00:00Z", "2030-01-31T12:00:00.000000Z"),
            ("2030-01-31t12:00:00.5z", "2030-01-31T12:00:00.500000Z"),
            ("2030-01-31 14:00:00+02:00", "2030-01-31T12:00:00.000000Z"),
            ("2030-01-31T12:00:00.123456789Z", "2030-01-31T12:00:00.123456Z"),
            ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z"),
            ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59.000000Z"),
            ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00.000000Z"),
        ],
    )
    def test_one_moment_has_one_text(self, text: str, shown: str) -> None:
        """Whatever the offset and the precision it came with."""
        assert format_time(parse_time(text, "$")) == shown

    @pytest.mark.parametrize(
        "value",
        [
            "",
            "now",
            "infinity",
            "1582-10-10T00:00:00Z",
            "294276-12-31T00:00:00Z",
            "2016-12-31T23:59:60Z",
            "20300131T120000Z",
            "2030-W05-4T12:00:00Z",
            "2030-01-31T12:00Z",
            "2030-01-31T12:00:00+25:00",
            "2023-02-29T00:00:00Z",
            1_900_000_000,
            None,
        ],
    )
    def test_what_is_none_is_refused(self, value: Any) -> None:
        """Years that overflow, leap seconds, other notations, numbers."""
        with pytest.raises(Unprocessable) as caught:
            parse_time(value, "$.deadline")
        assert (caught.value.code, caught.value.where) == ("E-DATA-13", "$.deadline")

    def test_a_zone_is_turned_into_utc(self) -> None:
        """The text is the same whatever zone the moment was given in."""
        zone = timezone(timedelta(hours=-7))
        assert format_time(datetime(2030, 1, 31, 5, tzinfo=zone)) == "2030-01-31T12:00:00.000000Z"


def test_ids_of_messages_are_new() -> None:
    """Deduplication rests on it."""
    assert new_id() != new_id()
