"""What a registered schema can tell of a value: what surely does not fit, and never what does."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired
from uuid import UUID

import pytest
from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, WrapValidator
from typing_extensions import TypedDict

from stanchion.errors import Rejected
from stanchion.workflow.carrier import Unfit, carrier
from stanchion.workflow.intake import object_schema
from stanchion.workflow.schema_check import misfit
from stanchion.workflow.signature import NOTHING, Argument


class Color(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Url:
    host: str
    port: int = 443


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


class Named(BaseModel):
    model_config = ConfigDict(populate_by_name=True, extra="forbid")
    number: int = Field(alias="no")


class Aliased(BaseModel):
    model_config = ConfigDict(extra="forbid")
    number: int = Field(alias="no")


class Choices(BaseModel):
    model_config = ConfigDict(extra="forbid")
    lang: str = Field("en", validation_alias=AliasChoices("language", "lang"))


class Lenient(Enum):
    RED = "red"

    @classmethod
    def _missing_(cls, value: object) -> Lenient | None:
        return cls.RED if value == "RED" else None


class Stripped(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True)
    host: str = Field(max_length=3)


def split(value: Any) -> Any:
    return value.split(",") if isinstance(value, str) else value


def around(value: Any, handler: Any) -> Any:
    return handler([value] if isinstance(value, str) else value)


class Part(TypedDict):
    kind: Literal["part"]
    size: NotRequired[float]


class Whole(TypedDict):
    kind: Literal["whole"]
    parts: list[Part]


KINDS: list[Any] = [
    str, int, float, bool, None, Any, list[int], dict[str, int], dict[int, str], tuple[int, str], tuple[int, ...],
    str | None, int | str, Color, Literal[1, "a", True], Url, list[Url], Tree, Named, Part, Whole, Part | Whole,
    datetime, timedelta, Decimal, UUID, Annotated[int, Field(ge=1, lt=5)], Annotated[str, Field(min_length=2)],
    Annotated[list[int], Field(max_length=2)], dict[str, Any], list[Any], dict[str, Url | None],
    Aliased, Choices, list[Choices], Lenient, dict[str, Lenient], Stripped, Annotated[list[str], BeforeValidator(split)],
    Annotated[list[str], WrapValidator(around)], Annotated[str, StringConstraints(strip_whitespace=True, max_length=3)],
]  # fmt: skip

VALUES: list[Any] = [
    None, True, False, 0, 1, 4, 5, -1, 1.0, 1.5, 2**53 - 1, "", "a", "ab", "red", "1", "1.5", [], [1], [1, 2, 3], ["a"],
    [1, "a"], [None], {}, {"a": 1}, {"a": "b"}, {"1": "x"}, {"host": "h"}, {"host": 1}, {"host": "h", "port": "x"},
    {"host": "h", "more": 1}, [{"host": "h"}], [{}], {"name": "n"}, {"name": "n", "children": [{"name": 1}]},
    {"name": "n", "children": [{"name": "m", "children": []}]}, {"no": 1}, {"number": 1}, {"no": "x"},
    {"kind": "part"}, {"kind": "part", "size": 1}, {"kind": "whole", "parts": [{"kind": "part"}]}, {"kind": "whole"},
    {"kind": "other"}, {"a": {"host": "h"}, "b": None}, "2030-01-31T12:00:00Z", "PT5M",
    "01890a5d-ac96-774b-bcce-b302099a8057", {"lang": "de"}, [{"lang": "de"}], "RED", {"a": "RED"}, {"host": "abc  "},
    "a,b", "abc  ",
]  # fmt: skip


def fault(kind: Any, value: Any) -> tuple[str, str] | None:
    """What the schema of an argument of this type tells of a value."""
    schema = object_schema([Argument("x", kind, NOTHING, False)])
    return misfit(value, schema["properties"]["x"], "$.x", schema.get("$defs", {}))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_nothing_that_a_step_takes_is_refused(kind: Any) -> None:
    """Whatever the type itself reads passes, also what is sent under another name."""
    for value in VALUES:
        try:
            carrier(kind).take_in(value)
        except (Unfit, Rejected):
            continue
        assert fault(kind, value) is None, value


@pytest.mark.parametrize(
    ("kind", "value", "path", "what"),
    [
        (str, 5, "$.x", "a text is expected, and this is an integer"),
        (int, "5", "$.x", "an integer is expected, and this is a text"),
        (int, True, "$.x", "an integer is expected, and this is true or false"),
        (int, 1.5, "$.x", "an integer is expected, and this is a number"),
        (str | None, [1], "$.x", "a text or null is expected, and this is a list"),
        (list[Url], [{"host": "a"}, {"host": 1}], "$.x[1].host", "a text is expected, and this is an integer"),
        (Url, {}, "$.x", "host is missing"),
        (dict[str, int], {"odd key": "x"}, '$.x["odd key"]', "an integer is expected, and this is a text"),
        (Tree, {"name": "a", "children": [{"name": None}]}, "$.x.children[0].name", "a text is expected, and this is null"),
        (Aliased, {"no": 1, "more": 2}, "$.x.more", "there is no such field; known are no"),
        (Color, "green", "$.x", "one of red, blue is expected"),
        (Literal[1, 2], True, "$.x", "an integer is expected, and this is true or false"),
        (Literal[1, 2], 3, "$.x", "one of 1, 2 is expected"),
        (tuple[int, str], [1, 2], "$.x[1]", "a text is expected, and this is an integer"),
        (tuple[int, str], [1], "$.x", "at least 2 items are expected"),
        (Annotated[int, Field(ge=1)], 0, "$.x", "at least 1 is expected"),
        (Url | None, {"host": 5}, "$.x.host", "a text is expected, and this is an integer"),
    ],
)  # fmt: skip
def test_what_surely_does_not_fit_is_told_by_its_place(kind: Any, value: Any, path: str, what: str) -> None:
    """The first field, what is expected there, and what kind of value came."""
    assert fault(kind, value) == (path, what)


def test_a_look_is_bounded() -> None:
    """A payload with a million values costs no more than one with ten thousand; the step checks the rest."""
    assert fault(list[int], [0] * 20_000 + ["x"]) is None
    assert misfit(1, {"$ref": "#/$defs/a"}, "$", {"a": {"$ref": "#/$defs/a"}}) is None
