"""Carries values of one type between Python and JSON, and says by field what does not fit.

Going out, a value is taken as it is (strict: "5" is no int), written in the form of its type, and read back once: what
is stored can be read. Coming in, it is read from JSON just as strictly. Errors name the JSON path and the expected
kind, never the value: it may be a secret.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from stanchion.contracts import payload
from stanchion.contracts.json_scanner import path_text
from stanchion.workflow.schema_writer import SchemaWriter
from stanchion.workflow.type_fitter import named

__all__ = ["Carrier", "Problem", "Unfit", "carrier"]

Problem = tuple[str, str]  # JSON path, what is wrong there
_SCALARS: Final = (int, str, bool, float, type(None))
_REPLACED: Final = "\ufffd".encode()


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
        more = len(self.problems[5:]) + self.left_out
        return shown + (f"; and {more} more" if more else "")

    def details(self) -> list[dict[str, str]]:
        """The problems for machines."""
        return [{"path": path, "problem": what} for path, what in self.problems]


class Carrier:
    """Reads and writes one type; raises what pydantic raises for a type that it can't handle."""

    def __init__(self, kind: Any) -> None:
        self._kind = type(None) if kind is None else kind
        self._reader: TypeAdapter[Any] = TypeAdapter(kind)

    @cached_property
    def _writer(self) -> TypeAdapter[Any]:
        # A model's own settings would write NaN in a field of type Any as null, without a word. The settings of the
        # outermost type decide; so there is one around it.
        return TypeAdapter(tuple[self._kind], config=ConfigDict(ser_json_inf_nan="constants"))  # type: ignore[name-defined]  # a type at run time

    def json_schema(self, *, result: bool) -> dict[str, Any]:
        """The JSON schema of what is written (`result`) or read."""
        if result:
            return self._reader.json_schema(mode="serialization")
        return self._reader.json_schema(mode="validation", schema_generator=SchemaWriter)

    def take_in(self, value: Any, where: str = "$") -> Any:
        """A checked JSON value as the type; raises Unfit, and Unprocessable E-DATA-.. for what is no JSON."""
        raw = payload.dumps(value)
        try:
            return self._reader.validate_json(raw, strict=True)
        except ValidationError as error:
            # 1.0 and 1 are one payload by its digest, so one must not fit where the other does not.
            canonical = payload.canonical(value) if b".0" in raw else raw
            if canonical == raw:
                raise Unfit(_problems(error, where)) from None
        return self._tried(lambda: self._reader.validate_json(canonical, strict=True), where)

    def write_out(self, value: Any, where: str = "$") -> Any:
        """The JSON form of a value; raises Unfit, and Unprocessable E-DATA-.. (NaN, NUL, large integers)."""
        if self._kind in _SCALARS and type(value) is self._kind:
            return payload.check(value, where)  # the most common results need no library
        checked = self._tried(lambda: self._reader.validate_python(value, strict=True), where)
        try:
            (dumped,) = self._writer.dump_python((checked,), mode="json", by_alias=True, warnings=False)
        except (PydanticSerializationError, ValueError, RecursionError) as error:
            # bytes that are no text, a value that contains itself, a lone surrogate in a key: never another time either
            raise Unfit([(where, str(error).partition("\n")[0])]) from None
        plain = payload.check(dumped, where)
        raw = payload.dumps(plain)
        if _REPLACED in raw and _has_odd_key(self._writer.dump_python((checked,), mode="python", warnings=False)):
            raise Unfit([(where, "a key has a lone surrogate")])  # pydantic replaces it, without a word
        # An instance passes as an instance, whatever was put into its fields since it was made.
        self._tried(lambda: self._reader.validate_json(raw, strict=True), where)
        return plain

    def _tried(self, convert: Callable[[], Any], where: str) -> Any:
        try:
            return convert()
        except ValidationError as error:
            raise Unfit(_problems(error, where)) from None


# By name and type: int | float and float | int are equal, but their schemas are not, and whose came first must not
# depend on the order of imports.
_CARRIERS: Final[dict[tuple[str, Any], Carrier]] = {}


def carrier(kind: Any) -> Carrier:
    """The carrier of a type, built once."""
    key = (named(kind), kind)
    try:
        found = _CARRIERS.get(key)
    except TypeError:  # metadata that can't be hashed
        return Carrier(kind)
    if found is None:
        found = _CARRIERS[key] = Carrier(kind)
    return found


def _has_odd_key(value: Any) -> bool:
    if isinstance(value, dict):
        odd = any("\ud800" <= letter <= "\udfff" for key in value if isinstance(key, str) for letter in key)
        return odd or any(_has_odd_key(child) for child in value.values())
    return isinstance(value, (list, tuple, set, frozenset)) and any(_has_odd_key(child) for child in value)


def _problems(error: ValidationError, where: str) -> list[Problem]:
    listed = error.errors(include_url=False, include_context=False, include_input=False)
    return [(path_text(where, one["loc"]), one["msg"]) for one in listed]
