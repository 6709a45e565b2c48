"""The input of a task: the arguments of the first steps, by name, as one JSON object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NotRequired

import typing_extensions
from pydantic import PydanticUserError

from stanchion.contracts import payload
from stanchion.contracts.json_scanner import path_text
from stanchion.errors import StanchionError, Unprocessable
from stanchion.workflow.carrier import Carrier, Problem, Unfit, carrier
from stanchion.workflow.faults import closest, refusal
from stanchion.workflow.signature import Argument
from stanchion.workflow.type_fitter import fits, named

if TYPE_CHECKING:
    from stanchion.workflow.codec import StepCodec

__all__ = ["Intake", "object_schema"]

# As a value: a type checker wants to know the fields, which are known at run time only.
_TYPED_DICT: Final[Any] = typing_extensions.TypedDict


def object_schema(arguments: Iterable[Argument]) -> dict[str, Any]:
    """The JSON schema of an object with these arguments and nothing else; defaults are in it where they have JSON."""
    listed = list(arguments)
    schema = _object_carrier(listed).json_schema(result=False)
    schema.pop("title", None)
    for argument in listed:
        if not argument.required:
            try:
                default = carrier(argument.kind).write_out(argument.default)
            except (Unfit, StanchionError, PydanticUserError):
                continue  # a default that is no value of its own type stays the function's business
            schema["properties"][argument.name]["default"] = default
    schema.setdefault("properties", {})
    schema["additionalProperties"] = False
    return schema


def _object_carrier(arguments: Sequence[Argument]) -> Carrier:
    fields = {one.name: one.kind if one.required else NotRequired[one.kind] for one in arguments}
    return Carrier(_TYPED_DICT("Input", fields))


class Intake:
    """Checks inputs of one workflow; raises Rejected E-WIRE-12 when two first steps want one name as two types."""

    def __init__(self, workflow: str, roots: Sequence[StepCodec]) -> None:
        self.workflow = workflow
        self._arguments: dict[str, Argument] = {}
        owners: dict[str, StepCodec] = {}
        for codec in roots:
            for filling in codec.fillings:
                argument = filling.argument
                other = self._arguments.get(argument.name)
                if other is None or (argument.required and not other.required):
                    self._arguments[argument.name], owners[argument.name] = argument, codec
                if other is not None and not (fits(other.kind, argument.kind) and fits(argument.kind, other.kind)):
                    raise refusal(
                        "E-WIRE-12",
                        f"{codec.step.name}() takes {argument} but {owners[argument.name].step.name}() takes {other}",
                        codec.step.where,
                        why="both are filled by the same input of the task",
                        fix=f"make both {named(other.kind)}, or rename one",
                    )
        self._carrier = _object_carrier(list(self._arguments.values()))

    def schema(self) -> dict[str, Any]:
        """The JSON schema of an input."""
        return object_schema(self._arguments.values())

    def check(self, value: Any) -> dict[str, Any]:
        """A checked copy of a JSON input; raises Unprocessable E-TASK-02 or E-DATA-.. with the JSON path."""
        plain = payload.check(value)
        if not isinstance(plain, dict):
            raise self._refused([("$", "Input should be an object")])
        self._convert(self._carrier.take_in, plain)
        return plain

    def encode(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON input from Python values; raises like `check`."""
        return self._convert(self._carrier.write_out, dict(values))

    def _convert(self, convert: Callable[[Any], Any], values: dict[str, Any]) -> dict[str, Any]:
        problems = []
        for name in sorted(values.keys() - self._arguments.keys()):
            meant = closest(name, self._arguments)
            problems.append((path_text("$", [name]), "unknown input" + (f"; did you mean {meant}?" if meant else "")))
        try:
            converted: dict[str, Any] = convert(values)
        except Unfit as unfit:
            problems.extend(unfit.problems)
        if problems:
            raise self._refused(problems)
        return converted

    def _refused(self, problems: list[Problem]) -> Unprocessable:
        path, what = problems[0]
        unfit = Unfit(problems)
        takes = ", ".join(f"{one}" + ("" if one.required else " (optional)") for one in self._arguments.values())
        return Unprocessable(
            "E-TASK-02",
            f"the input of {self.workflow} does not fit: {path}: {what}",
            where=path,
            why=unfit.text() if len(problems) > 1 else None,
            fix=f"{self.workflow} takes {takes or 'no input'}",
            problems=unfit.details(),
        )
