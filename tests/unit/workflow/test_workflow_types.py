"""Which result fits which argument, how types are named, and how long a duration is."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Generic, Literal, NewType, Optional, TypeVar, Union

import pytest
from pydantic import BaseModel
from typing_extensions import TypeAliasType, TypedDict

from stanchion.errors import Rejected
from stanchion.workflow.durations import seconds, written
from stanchion.workflow.type_fitter import element_of, fits, named

T = TypeVar("T")
Id = NewType("Id", str)
Names = TypeAliasType("Names", list[str])


@dataclass
class Base:
    x: int


@dataclass
class Sub(Base):
    y: int = 0


@dataclass
class Box(Generic[T]):
    inner: T


class Model(BaseModel, Generic[T]):
    inner: T


class Shape(TypedDict):
    a: int


class Tone(StrEnum):
    DRY = "dry"


FIT = [
    (int, int),
    (int, float),
    (int, int | None),
    (int | None, None | int),
    (int | str, str | int | None),
    (None, Optional[int]),  # noqa: UP045 - both spellings are read
    (Sub, Base),
    (list[Sub], list[Base]),
    (list[int], Sequence[int]),
    (list[int], tuple[int, ...]),
    (tuple[int, ...], list[float]),
    (tuple[int, str], tuple[int, str]),
    (tuple[int, int], list[int]),
    (tuple[int, str], list[int | str]),
    (list[int], list[Any]),
    (list, list[int]),
    (list[Any], list[int]),
    (dict[str, int], Mapping[str, float]),
    (dict[str, int], dict[str, Any]),
    (Shape, Shape),
    (Shape, dict[str, Any]),
    (Shape, Mapping[str, object]),
    (Tone, str),
    (Id, str),
    (Id, Id),
    (Literal["a"], str),
    (Literal["a"], Literal["a", "b"]),
    (Literal["a", 1], str | int),
    (Annotated[int, "meta"], int),
    (Names, list[str]),
    (list[str], Names),
    (Box[int], Box[int]),
    (Model[int], Model[int]),
    (int, Any),
    (int, object),
    (Any, int),
    (Union[int, None], int | None),  # noqa: UP007 - both spellings are read
]
MISFIT = [
    (float, int),
    (str, int),
    (bool, int),
    (bool, float),
    (int, bool),
    (int | None, int),
    (Base, Sub),
    (list[Base], list[Sub]),
    (list[int], int),
    (int, list[int]),
    (list[int], tuple[int]),
    (tuple[int, str], list[int]),
    (tuple[int, str], tuple[str, int]),
    (dict[str, str], dict[str, int]),
    (dict[str, int], Shape),
    (Base, dict[str, Any]),
    (Shape, dict[str, int]),
    (str, Tone),
    (str, Id),
    (str, Literal["a"]),
    (Literal["a", "c"], Literal["a", "b"]),
    (Literal[1], Literal[True]),
    (datetime, date),
    (Box[int], Box[str]),
    (Model[int], Model[str]),
    (object, int),
    (list[int | None], list[int]),
]


@pytest.mark.parametrize(("given", "wanted"), FIT, ids=map(str, range(len(FIT))))
def test_what_fits(given: Any, wanted: Any) -> None:
    """A value of the first type can be built as the second."""
    assert fits(given, wanted)


@pytest.mark.parametrize(("given", "wanted"), MISFIT, ids=map(str, range(len(MISFIT))))
def test_what_does_not_fit(given: Any, wanted: Any) -> None:
    """Some value of the first type is none of the second."""
    assert not fits(given, wanted)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (int, "int"),
        (None, "None"),
        (Optional[int], "int | None"),  # noqa: UP045 - both spellings are read
        (list[Base], "list[Base]"),
        (dict[str, list[int]], "dict[str, list[int]]"),
        (tuple[int, ...], "tuple[int, ...]"),
        (Sequence[int], "Sequence[int]"),
        (Annotated[int, "x"], "int"),
        (Literal["a", 1], "Literal['a', 1]"),
        (Id, "Id"),
        (Any, "Any"),
        (Box[int], "Box[int]"),
        (T, "T"),
    ],
)
def test_types_are_named_as_written(kind: Any, text: str) -> None:
    """Messages show a type as its author would write it."""
    assert named(kind) == text


def test_what_can_be_fanned_out() -> None:
    """Lists, sequences and tuples of any length have one element type; a str is no list."""
    assert [element_of(kind) for kind in (list[int], Sequence[str], tuple[int, ...], list, Names)] == [
        (int,),
        (str,),
        (int,),
        (Any,),
        (str,),
    ]
    assert [element_of(kind) for kind in (str, tuple[int, str], dict[str, int], int, list[int] | None)] == [None] * 5


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("250ms", 0.25),
        ("30s", 30),
        ("1.5h", 5400),
        (" 2 m ", 120),
        ("4h", 14400),
        ("1d", 86400),
        (3, 3),
        (0.5, 0.5),
        (timedelta(minutes=2), 120),
    ],
)
def test_durations(value: Any, expected: float) -> None:
    """Texts with a unit, seconds, or a timedelta."""
    assert seconds(value, "timeout", None) == expected


@pytest.mark.parametrize(
    "value",
    [
        *("", "30", "s", "2 minutes", "1h30m", "-1s", "-0s", "١s", "1e3s", "0s", "9999999d"),
        *(0, -1, True, math.nan, math.inf, 10**400, None, [], timedelta(-1)),
    ],
)
def test_no_durations(value: Any) -> None:
    """Everything else is refused, with the option's name."""
    with pytest.raises(Rejected, match="timeout=") as caught:
        seconds(value, "timeout", None)
    assert caught.value.code == "E-STEP-41"


def test_zero_where_it_makes_sense() -> None:
    """A delay may be nothing; a timeout may not."""
    assert seconds("0s", "retry_delay", None, zero=True) == 0


@pytest.mark.parametrize(
    ("span", "text"),
    [(0.25, "250ms"), (30, "30s"), (90, "90s"), (120, "2m"), (5400, "90m"), (86400, "1d"), (1.5, "1.5s"), (0, "0ms")],
)
def test_durations_are_written_shortly(span: float, text: str) -> None:
    """The largest unit that leaves a whole number."""
    assert written(span) == text
