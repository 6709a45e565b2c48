"""What all message bodies share: frozen models, errors that name the field and never show its value."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    SkipValidation,
    StringConstraints,
    ValidationError,
    ValidationInfo,
)

from stanchion.contracts import limits, payload
from stanchion.contracts.amounts import Number, amounts_of
from stanchion.contracts.envelope import check_time, parse_time
from stanchion.contracts.json_scanner import path_text
from stanchion.errors import Unprocessable

M = TypeVar("M", bound="Message")

PARSED: Final = {"parsed": True}
"""Validation context of a value that `payload.parse` or `payload.check` has seen."""


def _plain(text: str) -> str:
    if any(ord(character) < 32 or ord(character) == 127 for character in text):
        raise ValueError("control characters are not allowed")
    if text != text.strip():
        raise ValueError("no space at the start or the end")
    return text


def _moment(value: object, info: ValidationInfo) -> datetime:
    # pydantic would take numbers and digits as seconds since 1970; a deadline must not be guessed.
    where = f"$.{info.field_name}"
    return check_time(value, where) if isinstance(value, datetime) else parse_time(value, where)


def _checked(value: object, info: ValidationInfo) -> object:
    # Built in code, a value may hold anything; it would be written as null or fail far from here.
    return value if info.context is PARSED else payload.check(value, f"$.{info.field_name}")


def _amounts(value: object, info: ValidationInfo) -> object:
    return None if value is None else amounts_of(value, f"$.{info.field_name}")


Value = Annotated[SkipValidation[JsonValue], BeforeValidator(_checked)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=limits.NAME_CHARACTERS), AfterValidator(_plain)]
Tag = Annotated[str, StringConstraints(min_length=1, max_length=limits.TAG_CHARACTERS), AfterValidator(_plain)]
Moment = Annotated[datetime, BeforeValidator(_moment)]
Version = Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]
Amounts = Annotated[dict[str, Number], BeforeValidator(_amounts)]
Count = Annotated[int, Field(ge=0)]


class Message(BaseModel):
    """Base of commands, replies and events. `TYPE` is the value of the `ce_type` header: the name of the class."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    TYPE: ClassVar[str]
    SCHEMA_VERSION: ClassVar[int] = 1

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        cls.TYPE = cls.__name__

    def to_value(self) -> bytes:
        """The JSON body; fields at their defaults of None are left out."""
        return self.model_dump_json(exclude_none=True).encode()

    @classmethod
    def from_value(cls: type[M], data: bytes | None) -> M:
        """Read a body: strict JSON first, then the fields; raises Unprocessable with the path of the fault."""
        if not data:
            raise Unprocessable("E-DATA-01", "the body is empty", where="$", fix=f"send a {cls.__name__} as JSON")
        return read(cls, payload.parse(data))


def read(model: type[M], value: object, where: str = "$") -> M:
    """A model from a parsed value; raises Unprocessable E-DATA-12, 13 or 15 with the path, never showing a value."""
    try:
        return model.model_validate(value, context=PARSED)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        first = faults[0]
        place = path_text(where, [step for step in first["loc"] if isinstance(step, (int, str))])
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise Unprocessable(
            "E-DATA-15", f"{model.__name__}: {_sentence(first['msg'])}{more}", where=place, fix=_fix(first["type"])
        ) from None


def _sentence(text: str) -> str:
    return text.removeprefix("Value error, ")


def _fix(kind: str) -> str | None:
    fixes = {
        "missing": "add the field",
        "extra_forbidden": "remove the field, or check its spelling",
    }
    return fixes.get(kind)
