"""Lengths of time as people type them."""

from __future__ import annotations

import click
import pytest

from stanchion.cli.spans import Span, span_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1", 1), ("1.5", 1.5), ("1s", 1), ("250ms", 0.25), ("2m", 120), ("1.5h", 5_400), ("1d", 86_400), (" 3 s ", 3)],
)
def test_a_bare_number_and_a_unit_are_both_read(text: str, seconds: float) -> None:
    """As in workflows."""
    assert Span().convert(text, None, None) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "-1", "1 2", "1w", "1,5s", "inf", "nan", "1e9", "٣s"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    """With an example."""
    assert span_of(text) is None
    with pytest.raises(click.BadParameter, match="is no length of time"):
        Span().convert(text, None, None)


def test_bounds_are_seconds_and_a_unit_may_be_another() -> None:
    """A lease has its limits, and days of a key may be hours."""
    with pytest.raises(click.BadParameter, match="at least 2 and at most 3600 seconds"):
        Span(2, 3_600).convert("2h", None, None)
    assert Span(unit="d").convert("90", None, None) == 90 * 86_400
    assert Span(unit="d").convert("12h", None, None) == 43_200
