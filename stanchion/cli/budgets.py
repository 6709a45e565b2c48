"""Budgets on the command line: `--budget usd=5`, and how one stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import click

from stanchion.contracts.amounts import BAD_AMOUNT, Number, amount_of, amounts_of
from stanchion.errors import Unprocessable

BUDGET: Final = click.option(
    "--budget",
    multiple=True,
    metavar="UNIT=NUMBER",
    help="What it may spend, in all of its runs, like usd=5; may be given several times.",
)


def given(words: Sequence[str]) -> dict[str, Number] | None:
    """The budget that the words say, None without any; raises Unprocessable E-BUD-03 naming the word."""
    found: dict[str, Number] = {}
    for word in words:
        unit, sign, number = word.partition("=")
        if not sign or unit in found:
            what = f"{unit[:40]!a} is given twice" if sign else f"{word[:40]!a} is no budget"
            raise Unprocessable(BAD_AMOUNT, what, where="--budget", fix="--budget usd=5 --budget tokens=100000")
        found[unit] = amount_of(number, f"--budget {unit[:40]}")
    return amounts_of(found, "--budget") if found else None


def lines(budget: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """What was spent, of what."""
    for one in budget:
        of = "" if one["allowed"] is None else f" of {_text(one['allowed'])}"
        over = one["allowed"] is not None and one["spent"] > one["allowed"]
        yield f"  budget: {_text(one['spent'])}{of} {one['unit']} spent{', overspent' if over else ''}"


def _text(number: float) -> str:
    return f"{int(number):,}" if number == int(number) else f"{number:,.9f}".rstrip("0")
