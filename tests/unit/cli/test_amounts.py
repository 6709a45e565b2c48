"""Numbers and times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from stanchion.cli.amounts import age, between, counted, duration, moment, since


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.0 s"),
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (48, "48 s"),
        (59.6, "1 m 00 s"),
        (131, "2 m 11 s"),
        (3_600, "1 h 00 m"),
        (11_100, "3 h 05 m"),
        (187_200, "2 d 04 h"),
    ],
)
def test_durations_have_two_units_at_most(seconds: float, text: str) -> None:
    """Short ones in seconds, long ones in the two units that matter."""
    assert duration(seconds) == text


def test_times_out_of_json_are_read_or_are_none() -> None:
    """What is no time is no error: an answer of another release must not break a listing."""
    assert moment("2030-01-31T12:00:00Z") == datetime(2030, 1, 31, 12, tzinfo=UTC)
    assert moment("soon") is None
    assert moment(None) is None
    assert between("2030-01-31T12:00:00Z", "2030-01-31T12:00:02.5Z") == 2.5
    assert between("2030-01-31T12:00:00Z", None) is None
    assert since("2030-01-31T12:00:00Z", datetime(2030, 1, 31, 12, 1, tzinfo=UTC)) == 60
    assert age(None) == "-"


def test_things_are_counted() -> None:
    """One is singular, thousands have commas."""
    assert counted(1, "task") == "1 task"
    assert counted(2_000, "task") == "2,000 tasks"
