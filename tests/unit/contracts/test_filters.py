"""The filter language: what it reads, what it writes, and how it says what is wrong."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stanchion.contracts import filters, limits
from stanchion.contracts.filter_values import STATES, span_of
from stanchion.contracts.filters import INPUT, NAMES, ORDERED, Filter, Term, needed, parse, with_terms
from stanchion.errors import Unprocessable
from stanchion.state import TaskState

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
EXAMPLE = (
    "state:failed,cancelled workflow:brief tag:nightly started:>2h worker:w-17 op:mail.send input.customer.id:42"
    ' -workflow:healthcheck error:"rate limit" created:>2026-11-01 priority:>0 key:a-1 night'
)


def test_states_are_those_of_tasks() -> None:
    """The contracts stand below the state machine, so they name them for themselves."""
    assert tuple(TaskState) == STATES


def test_the_example_is_read_as_it_stands() -> None:
    """Names, values, comparisons, exclusion, quotes and words; written again it is the same text."""
    found = parse(EXAMPLE)
    assert found.terms[0] == Term("state", ("failed", "cancelled"))
    assert found.terms[3] == Term("started", ("2h",), ">")
    assert found.terms[6] == Term("input.customer.id", ("42",))
    assert found.terms[7] == Term("workflow", ("healthcheck",), negated=True)
    assert found.terms[8] == Term("error", ("rate limit",))
    assert found.terms[-1] == Term("", ("night",))
    assert str(found) == EXAMPLE
    assert found.needs_payload


def test_every_name_is_checked_and_every_name_is_known() -> None:
    """A name that is added has to say what stands behind it."""
    assert set(filters.CHECKS) == {*NAMES, ""}
    assert set(NAMES) >= ORDERED


@pytest.mark.parametrize(
    ("text", "code", "column", "hint"),
    [
        ("colour:red", filters.UNKNOWN, 1, "names are state"),
        ("tag:x wrkflow:a", filters.UNKNOWN, 7, "did you mean workflow"),
        ("status:failed", filters.UNKNOWN, 1, "did you mean state"),
        ("https://example.org", filters.UNKNOWN, 1, "names are"),
        ("state:dead", filters.BAD_VALUE, 7, "did you mean failed"),
        ("state:failed,runing", filters.BAD_VALUE, 7, "did you mean running"),
        ("state:>failed", filters.BAD_VALUE, 7, "have one"),
        ("created:2h", filters.BAD_VALUE, 9, ">2h"),
        ("created:>yesterday", filters.BAD_VALUE, 10, "2026-11-01"),
        ("priority:high", filters.BAD_VALUE, 10, "-100"),
        ("input.x:>ten", filters.BAD_VALUE, 10, "amount"),
        ("id:nothing", filters.BAD_VALUE, 4, "copy"),
        ("via:pigeon", filters.BAD_VALUE, 5, "http"),
        ('error:"a b', filters.UNREADABLE, 7, "close"),
        ('error:""', filters.UNREADABLE, 7, "value"),
        ("state:", filters.UNREADABLE, 7, "value"),
        ("tag:a,", filters.UNREADABLE, 7, "value"),
        ("-", filters.UNREADABLE, 2, "value"),
        ('a"b"', filters.UNREADABLE, 2, "quotes"),
        ("x" * (limits.FILTER_CHARACTERS + 1), filters.UNREADABLE, 1, "shorter"),
        ("x " * (limits.FILTER_TERMS + 1), filters.UNREADABLE, 1, "fewer"),
        ("tag:a\x01b", filters.BAD_VALUE, 5, "plain"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, code: str, column: int, hint: str) -> None:
    """The code, the column, and what would be right: a filter that is passed over would mean all tasks."""
    with pytest.raises(Unprocessable) as caught:
        parse(text)
    assert (caught.value.code, caught.value.details["column"]) == (code, column)
    assert caught.value.where == f"filter, column {column}"
    assert hint in str(caught.value.fix)


def test_an_act_needs_a_filter() -> None:
    """Nothing but blanks would be everything."""
    assert parse("  ") == Filter()
    with pytest.raises(Unprocessable, match="empty") as caught:
        needed("  ")
    assert caught.value.code == filters.EMPTY


def test_a_filter_is_settled_for_those_who_read_it_later() -> None:
    """`me` gets a name; longer ago than two hours is before ten; a day stays a day."""
    found = parse("by:me,key:web started:>2h ended:<1d created:2026-11-01").settled("person:ana", NOW)
    assert found.terms[0].values == ("person:ana", "key:web")
    assert (found.terms[1].operator, found.terms[1].values) == ("<", ("2026-12-01T10:00:00+00:00",))
    assert (found.terms[2].operator, found.terms[2].values) == (">", ("2026-11-30T12:00:00+00:00",))
    assert parse(str(found)) == found
    begin, end = span_of("", found.terms[3].values[0])
    assert (begin, end) == (datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC))


def test_options_become_terms() -> None:
    """What stands beside a filter is part of it."""
    assert str(parse(with_terms("tag:x", state="failed", workflow=None))) == "state:failed tag:x"


VALUES = st.text(st.characters(exclude_categories=("Cc", "Cs"), max_codepoint=0x2FFF), min_size=1, max_size=12)
KINDS = st.sampled_from(["tag", "key", "worker", "op", "error", "by", "input.a.b", ""])


@st.composite
def some_terms(draw: st.DrawFn) -> Term:
    """A term whose values are any texts."""
    name = draw(KINDS)
    values = tuple(draw(st.lists(VALUES, min_size=1, max_size=1 if not name else 3)))
    return Term(name, values, "", draw(st.booleans()))


@given(st.lists(some_terms(), max_size=6))
def test_what_is_written_is_read_as_the_same(terms: list[Term]) -> None:
    """Whatever stands in the values: quotes, colons, commas, blanks, backslashes."""
    wanted = Filter(tuple(terms))
    assert parse(str(wanted)) == wanted


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    """With one of the codes, never with anything else; and what was read is stable."""
    fault: Unprocessable | None = None
    found = Filter()
    try:
        found = parse(text)
    except Unprocessable as error:
        fault = error
    if fault is not None:
        assert fault.code.startswith("E-FILTER-")
        assert 1 <= fault.details["column"] <= len(text) + 1
    else:
        assert parse(str(found)) == found
        assert all(term.kind in {*NAMES, ""} for term in found.terms)
        assert all(not term.operator or term.kind in {*ORDERED, INPUT} for term in found.terms)
