"""Amounts of what tasks spend: units by name ("usd", "tokens"), and numbers that pass through JSON and doubles unchanged."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Context, Decimal, InvalidOperation
from typing import Final

from stanchion.contracts import limits
from stanchion.errors import Unprocessable

Number = int | float

BAD_AMOUNT: Final = "E-BUD-03"
_EXACT: Final = Context(prec=1_000)
_UNIT: Final = re.compile(r"[a-z][a-z0-9_]*")


def unit_of(name: object, where: str) -> str:
    """The name of a unit; raises Unprocessable E-BUD-03."""
    if isinstance(name, str) and _UNIT.fullmatch(name) and len(name) <= limits.UNIT_CHARACTERS:
        return name
    shown = ascii(name[:40]) if isinstance(name, str) else type(name).__name__
    raise _bad(
        f"{shown} is no unit", where, f"usd, tokens, operations: at most {limits.UNIT_CHARACTERS} of a-z, 0-9, _"
    )


def amount_of(value: object, where: str, *, computed: bool = False) -> Number:
    """An amount from 0, in its one form: 5 and 5.0 are the same. Raises Unprocessable E-BUD-03.

    What came out of a computation is rounded to what can be kept; what somebody wrote down is refused when it has more
    decimals than that.
    """
    number = _decimal(value, where)
    if not number.is_finite() or number < 0:
        raise _bad("an amount is a finite number that is not negative", where, "e.g. 0.4")
    number = number.normalize(_EXACT) if number else Decimal(0)
    if computed and number and number.adjusted() < limits.AMOUNT_DIGITS:
        places = min(limits.AMOUNT_DECIMALS, limits.AMOUNT_DIGITS - 1 - max(number.adjusted(), 0))
        number = max(round(number, places), Decimal(1).scaleb(-limits.AMOUNT_DECIMALS)).normalize(_EXACT)
    decimals = max(0, -int(number.as_tuple().exponent))
    if decimals > limits.AMOUNT_DECIMALS or max(number.adjusted() + 1, 0) + decimals > limits.AMOUNT_DIGITS:
        raise _bad(
            "an amount has more digits than can be kept",
            where,
            f"at most {limits.AMOUNT_DIGITS} digits, {limits.AMOUNT_DECIMALS} of them behind the point",
        )
    return plain(number)


def amounts_of(value: object, where: str) -> dict[str, Number]:
    """Positive amounts by unit: a budget, or a cost. Raises Unprocessable E-BUD-03."""
    if not isinstance(value, Mapping) or not value:
        raise _bad("amounts stand by their units", where, 'e.g. {"usd": 5}')
    if len(value) > limits.BUDGET_UNITS:
        raise _bad(f"{len(value)} units, the limit is {limits.BUDGET_UNITS}", where, "count less kinds of things")
    found: dict[str, Number] = {}
    for name, given in value.items():
        unit = unit_of(name, where)
        found[unit] = amount_of(given, f"{where}.{unit}")
        if not found[unit]:
            raise _bad("an amount by unit is above zero", f"{where}.{unit}", "leave the unit out, or give it something")
    return dict(sorted(found.items()))


def costs_of(value: Mapping[str, float]) -> dict[str, Number]:
    """What an operation costs, as computed for it; what is 0 is left out. Raises Unprocessable E-BUD-03."""
    found = {unit: amount_of(given, f"cost.{unit}", computed=True) for unit, given in value.items()}
    found = {unit: amount for unit, amount in found.items() if amount}
    return amounts_of(found, "cost") if found else {}


def plain(number: Decimal) -> Number:
    """A number as JSON has it: a whole one without a point."""
    return int(number) if number == number.to_integral_value() else float(number)


def _decimal(value: object, where: str) -> Decimal:
    if isinstance(value, float):
        return Decimal(f"{value:.{limits.AMOUNT_DIGITS}g}") if math.isfinite(value) else Decimal(value)
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return Decimal(value)
    if isinstance(value, str) and len(value) <= limits.UNIT_CHARACTERS:
        try:
            return Decimal(value.strip())
        except InvalidOperation:
            pass
    raise _bad("this is no amount", where, "e.g. 0.4")


def _bad(what: str, where: str, fix: str) -> Unprocessable:
    return Unprocessable(BAD_AMOUNT, what, where=where, fix=fix)
