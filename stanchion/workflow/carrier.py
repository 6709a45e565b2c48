"""One value between Python and JSON, by its declared type, and what is wrong with it by field.

Going out, a value is taken as it is (strict: "5" is no int) and written in the form of its type. Coming in, it is read
from JSON just as strictly. Errors name the JSON path and the expected kind, never the value: it may be a secret.
"""

from __future__ import annotations

from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from stanchion.contracts import payload
from stanchion.contracts.json_scanner import path_text

__all__ = ["Problem", "Unfit", "take_in", "write_out"]

Problem = tuple[str, str]  # JSON path, what is wrong there


class Unfit(Exception):  # noqa: N818 - a finding, which becomes an error with a code
    """The value does not fit its type: the problems by field, at most 20 of them."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(problems)
        self.problems = problems[:20]
        self.left_out = len(problems) - len(self.problems)

    @property
    def path(self) -> str:
        """The JSON path of the first problem."""
        return self.problems[0][0]

    def text(self) -> str:
        """The first problems in a line: `$.url.host: Field required; ...`."""
        shown = "; ".join(f"{path}: {what}" for path, what in self.problems[:5])
        more = len(self.problems) - 5 + self.left_out
        return shown + (f"; and {more} more" if more > 0 else "")

    def details(self) -> list[dict[str, str]]:
        """The problems for machines."""
        return [{"path": path, "problem": what} for path, what in self.problems]


def take_in(adapter: TypeAdapter[Any], value: Any, where: str = "$") -> Any:
    """A checked JSON value as the declared type; raises Unfit, and Unprocessable E-DATA-.. for what is no JSON."""
    raw = payload.dumps(value)
    try:
        return adapter.validate_json(raw, strict=True)
    except ValidationError as error:
        # 1.0 and 1 are one payload by its digest, so one must not fit where the other does not.
        canonical = payload.canonical(value) if b".0" in raw else raw
        if canonical == raw:
            raise Unfit(_problems(error, where)) from None
    try:
        return adapter.validate_json(canonical, strict=True)
    except ValidationError as error:
        raise Unfit(_problems(error, where)) from None


def write_out(adapter: TypeAdapter[Any], value: Any, where: str = "$") -> Any:
    """The JSON form of a Python value; raises Unfit, and Unprocessable E-DATA-.. (NaN, NUL, large integers)."""
    try:
        checked = adapter.validate_python(value, strict=True)
    except ValidationError as error:
        raise Unfit(_problems(error, where)) from None
    try:
        return payload.check(adapter.dump_python(checked, mode="json", warnings="error"), where)
    except PydanticSerializationError:
        return _written_with_doubt(adapter, checked, where)


def _written_with_doubt(adapter: TypeAdapter[Any], value: Any, where: str) -> Any:
    """An instance whose fields are not what it declares passes as an instance; reading it back tells which field."""
    try:
        plain = payload.check(adapter.dump_python(value, mode="json", warnings=False), where)
    except PydanticSerializationError as error:
        raise Unfit([(where, str(error).partition("\n")[0])]) from None
    try:
        adapter.validate_json(orjson.dumps(plain), strict=True)
    except ValidationError as error:
        raise Unfit(_problems(error, where)) from None
    return plain


def _problems(error: ValidationError, where: str) -> list[Problem]:
    listed = error.errors(include_url=False, include_context=False, include_input=False)
    return [(path_text(where, one["loc"]), one["msg"]) for one in listed]
