"""Dead letters keep everything: bytes, place, reason; and nothing secret in the reason."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from stanchion.bus.dead_letters import dead_letter, redrive, refuse_unreadable
from stanchion.bus.messages import Record
from stanchion.contracts.envelope import BadMessage
from stanchion.errors import Unprocessable

NOW = datetime(2030, 1, 31, 12, tzinfo=UTC)
RECORD = Record(
    "stanchion.events.v1", 3, 41, 1_900_000_000_123, b"\xff\x00key", [("ce_id", b"\xff"), ("n", None)], b"\x8d{"
)


def test_holds_the_bytes_the_place_and_the_reason() -> None:
    """Whoever looks at it finds out what it was, where it stood and why it was parked."""
    letter = dead_letter(RECORD, BadMessage("header ce_id is not UTF-8"), service="task-service", now=NOW)
    assert (letter.topic, letter.key, letter.value) == ("stanchion.events.v1.dlq", b"\xff\x00key", b"\x8d{")
    assert letter.headers == [
        ("ce_id", b"\xff"),
        ("dlq_topic", b"stanchion.events.v1"),
        ("dlq_partition", b"3"),
        ("dlq_offset", b"41"),
        ("dlq_timestamp", b"1900000000123"),
        ("dlq_code", b"E-MSG-01"),
        ("dlq_reason", b"header ce_id is not UTF-8"),
        ("dlq_service", b"task-service"),
        ("dlq_time", b"2030-01-31T12:00:00.000000Z"),
    ]


def test_goes_back_as_it_came() -> None:
    """A redriven message is the message, without the notes; parked again it is noted afresh."""
    letter = dead_letter(RECORD, BadMessage("x"), now=NOW)
    parked = Record(letter.topic, 0, 0, 0, letter.key, list(letter.headers), letter.value)
    back = redrive(parked)
    assert (back.topic, back.key, back.value, back.headers) == (
        "stanchion.events.v1",
        RECORD.key,
        RECORD.value,
        [("ce_id", b"\xff")],
    )
    with pytest.raises(ValueError, match="which topic"):
        redrive(RECORD)


def test_a_forged_note_does_not_survive() -> None:
    """Only we say where a letter came from."""
    forged = Record("stanchion.events.v1", 0, 0, 0, None, [("dlq_topic", b"elsewhere"), ("dlq_code", b"x")], b"v")
    notes = [name for name, _ in dead_letter(forged, BadMessage("x")).headers]
    assert notes.count("dlq_topic") == notes.count("dlq_code") == 1
    assert dict(dead_letter(forged, BadMessage("x")).headers)["dlq_topic"] == b"stanchion.events.v1"


def test_the_reason_holds_no_secret_and_has_a_bound() -> None:
    """A connection string in an error must not end up in a topic; a foreign error is named by its type alone."""
    error = Unprocessable("E-DATA-15", "no route to postgresql://u:hunter2@db/x " + "y" * 10_000)
    notes = dict(dead_letter(RECORD, error).headers)
    assert b"hunter2" not in notes["dlq_reason"]
    assert len(notes["dlq_reason"]) <= 1_000
    assert dict(dead_letter(RECORD, RuntimeError("hunter2")).headers)["dlq_reason"] == b"RuntimeError"


def test_half_a_surrogate_pair_in_a_reason_is_replaced() -> None:
    """The letter is written whatever the reason holds."""
    assert dict(dead_letter(RECORD, BadMessage("\ud800")).headers)["dlq_reason"] == b"?"


def test_an_empty_record_is_parked_too() -> None:
    """Null key and null value: the library takes no message of neither."""
    letter = dead_letter(Record("t", 0, 0, 0, None, [], None), BadMessage("the body is empty"))
    assert (letter.key, letter.value) == (None, b"")


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (Record("t", 0, 0, 0, None, [("a\ufffd", b"")], b"v"), "header name"),
        (Record("t", 0, 0, 0, None, [], b"v", unreadable="lengths"), "lengths"),
    ],
)
def test_what_the_library_could_not_decode_is_a_bad_message(record: Record, reason: str) -> None:
    """It is parked like any other."""
    with pytest.raises(BadMessage, match=reason):
        refuse_unreadable(record)
    refuse_unreadable(RECORD)
