"""What differs between two payloads, as people read it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.dashboard.differing import LINES, MOST, differences

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=3),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.sampled_from(["id", "a", "b"]), below, max_size=3),
    max_leaves=12,
)


def told(before: Any, after: Any) -> list[tuple[str, str]]:
    """Where and how."""
    return [(change.kind, change.path) for change in differences(before, after)]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": 1}, {"a": True}, [("changed", "a")]),
        ({"a": 1}, {"b": 1}, [("added", "b"), ("removed", "a")]),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, [("changed", "a.b[1]")]),
        ([1, 2, 3], [1, 3], [("removed", "[1]")]),
        ([1, 3], [1, 2, 3], [("added", "[1]")]),
        ("x", "y", [("changed", "the whole")]),
        (None, {}, [("changed", "the whole")]),
    ],
)
def test_what_differs_is_named(before: Any, after: Any, said: list[tuple[str, str]]) -> None:
    """By its path and by what was done to it; 1 and 1.0 are one value, 1 and true are not."""
    assert told(before, after) == said


def test_items_are_told_apart_by_their_key() -> None:
    """A new first one does not make all the others differ; another order is said as that."""
    one, two = {"id": "a", "n": 1}, {"id": "b", "n": 2}
    assert told([one, two], [{"id": "c", "n": 3}, one, two | {"n": 4}]) == [
        ("added", "[id=c]"),
        ("changed", "[id=b].n"),
    ]
    assert told([one, two], [two, one]) == [("moved", "the whole")]
    assert told({"x": [one, one]}, {"x": [one]}) == [("removed", "x[1]")]  # an id that comes twice is none


def test_long_texts_differ_by_lines() -> None:
    """Only what is around the change."""
    before = "\n".join(f"line {n}" for n in range(100))
    (change,) = differences({"text": before}, {"text": before.replace("line 50", "line fifty")})
    assert ("-", "line 50") in change.lines
    assert ("+", "line fifty") in change.lines
    assert len(change.lines) < 10


def test_it_stays_small_and_quick() -> None:
    """Thousands of equal items, or lines, are not matched with each other; what is shown is bounded."""
    zeros = [0] * 20_000
    assert told(zeros, zeros[:-1]) == [("removed", "[19999]")]
    assert len(differences(list(range(5_000)), list(range(5_000, 10_000)))) == MOST
    (change,) = differences("\n" * 60_000, "\n" * 59_999)
    assert change.lines == ()
    (change,) = differences("a\n" * 900, "b\n" * 900)
    assert len(change.lines) <= LINES


@given(JSON, JSON)
def test_nothing_is_said_exactly_when_they_are_equal(before: Any, after: Any) -> None:
    """Whatever they are."""
    from stanchion.contracts import payload

    assert (differences(before, after) == []) == (payload.canonical(before) == payload.canonical(after))
