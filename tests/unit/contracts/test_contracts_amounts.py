"""Amounts and units: one form for each, nothing that a double would change."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stanchion.contracts.amounts import amount_of, amounts_of, costs_of, unit_of
from stanchion.contracts.commands import SubmitTask
from stanchion.errors import Unprocessable

MOST = 10**15


@pytest.mark.parametrize(
    ("given_", "kept"),
    [(5, 5), (5.0, 5), ("5.00", 5), (Decimal("0.40"), 0.4), (0, 0), (-0.0, 0), (1e14, 10**14), ("1e-9", 1e-9)],
)
def test_an_amount_has_one_form(given_: Any, kept: float) -> None:
    """A whole number has no point, whatever it was written as."""
    found = amount_of(given_, "x")
    assert (found, type(found)) == (kept, type(kept))


@pytest.mark.parametrize(
    "odd",
    [-1, -1e-9, "-2", float("nan"), float("inf"), "NaN", "Infinity", Decimal("sNaN"), True, None, [], "", "1,5", "x" * 99,
     MOST, 1e15, "1e999999", "0.1234567892", 0.1234567891, "123456789012345.5", Decimal("1." + "0" * 40 + "1")],
)  # fmt: skip
def test_what_is_no_amount_is_refused(odd: Any) -> None:
    """With its place, and never shown."""
    with pytest.raises(Unprocessable) as refused:
        amount_of(odd, "$.budget.usd")
    assert (refused.value.code, refused.value.where) == ("E-BUD-03", "$.budget.usd")


@pytest.mark.parametrize(
    ("computed", "kept"),
    [
        (0.1 + 0.2, 0.3),
        (0.1 / 3, 0.033333333),
        (1e-12, 1e-9),
        (123456.7 * 0.1, 12345.67),
        (2 / 3 * 1e8, 66666666.6666667),
    ],
)
def test_what_was_computed_is_rounded_and_never_to_nothing(computed: float, kept: float) -> None:
    """A price times a count has digits that nobody wrote; something used is never counted as nothing."""
    assert amount_of(computed, "x", computed=True) == kept


@given(st.floats(min_value=0, max_value=MOST - 1) | st.decimals(0, MOST - 1, places=9) | st.integers(0, MOST - 1))
def test_any_amount_passes_through_json_unchanged(value: Any) -> None:
    """What is computed is kept as a double and as the database's number alike."""
    found = amount_of(value, "x", computed=True)
    assert json.loads(json.dumps(found)) == found == amount_of(found, "x")
    assert Decimal(str(found)) == Decimal(f"{found:.15g}")


@pytest.mark.parametrize("odd", ["", "Usd", "1a", "a b", "a-b", "a" * 33, "é", None, 5, "usd\n"])
def test_a_unit_is_a_short_name(odd: Any) -> None:
    with pytest.raises(Unprocessable, match="is no unit"):
        unit_of(odd, "x")


@pytest.mark.parametrize("odd", [{}, [], "usd=5", {"usd": 0}, {"usd": -1}, {"U": 1}, {f"u{n}": 1 for n in range(11)}])
def test_a_budget_has_a_few_units_with_something_in_each(odd: Any) -> None:
    with pytest.raises(Unprocessable):
        amounts_of(odd, "budget")


def test_a_cost_may_come_to_nothing() -> None:
    """Then there is nothing to pay."""
    assert costs_of({"usd": 0, "tokens": 3}) == {"tokens": 3}
    assert costs_of({"usd": 0.0}) == {}


def test_a_submission_carries_its_budget() -> None:
    """In its one form; one that can't be is refused with its place."""
    read = SubmitTask.from_value(b'{"workflow":"brief","budget":{"usd":5.0,"tokens":1e5}}')
    assert json.loads(read.to_value())["budget"] == {"tokens": 100_000, "usd": 5}
    assert "budget" not in json.loads(SubmitTask.from_value(b'{"workflow":"brief"}').to_value())
    with pytest.raises(Unprocessable) as refused:
        SubmitTask.from_value(b'{"workflow":"brief","budget":{"usd":-5}}')
    assert (refused.value.code, refused.value.where) == ("E-BUD-03", "$.budget.usd")
