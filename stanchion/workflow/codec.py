"""How one step's arguments and result cross a process: by its types, and from where the graph says.

A worker decodes the arguments of a step from the task's input, the results of its predecessors, its item, the rows of
the branches that it joins, or what Go and Again carried; and encodes what the step returned, a value or a decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, get_origin

from stanchion.errors import Rejected
from stanchion.workflow.approval import Ask, EncodedAsk, encode_ask
from stanchion.workflow.carrier import Carrier, Unfit, carrier
from stanchion.workflow.faults import refusal
from stanchion.workflow.outcomes import Again, Go, Retry, Spawn
from stanchion.workflow.results import ResultReader, Results
from stanchion.workflow.step import AnyStep
from stanchion.workflow.type_fitter import element_of, named, plain
from stanchion.workflow.wirer import Filling

__all__ = [
    "Encoded",
    "EncodedAgain",
    "EncodedAsk",
    "EncodedGo",
    "EncodedRetry",
    "EncodedSpawn",
    "EncodedValue",
    "StepCodec",
]

_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class EncodedValue:
    """A result as JSON."""

    value: Any


@dataclass(frozen=True, slots=True)
class EncodedAgain:
    """Run `step` once more with `input` (argument name -> JSON)."""

    step: str
    input: dict[str, Any]


@dataclass(frozen=True, slots=True)
class EncodedGo:
    """Go on with `step` and `input` (argument name -> JSON)."""

    step: str
    input: dict[str, Any]


@dataclass(frozen=True, slots=True)
class EncodedSpawn:
    """Start one child `step` for each of `items` (JSON) and join them in `then`."""

    step: str
    items: list[Any]
    then: str


@dataclass(frozen=True, slots=True)
class EncodedRetry:
    """Give the attempt up; `after_seconds` overrides the usual delay."""

    after_seconds: float | None
    reason: str


Encoded: TypeAlias = EncodedValue | EncodedAsk | EncodedAgain | EncodedGo | EncodedSpawn | EncodedRetry


class StepCodec:
    """The codec of one step. Made by its workflow when the graph is frozen: `workflow.codec(name)`, `step.codec`."""

    def __init__(self, step: AnyStep, fillings: tuple[Filling, ...], result: Any) -> None:
        self.step = step
        self.fillings = fillings
        self._result_kind = result
        self._result = carrier(result)
        self._carriers = {one.argument.name: carrier(_carried(one)) for one in fillings}

    def decode_args(
        self,
        *,
        input: Mapping[str, Any] | None = None,
        steps: Mapping[str, Any] | None = None,
        item: Any = None,
        reader: ResultReader | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The arguments by name, behind the context: call `step.fn(ctx, **args)`.

        `input` is the task's input, `steps` the results of predecessors by step name (None for a skipped one), `item`
        the child's item, `reader` the rows of a join, `given` what Go or Again carried, which goes before the others.
        All are JSON. Raises Rejected E-STEP-31 with the JSON path of what does not fit.
        """
        given, decoded = given or {}, {}
        for filling in self.fillings:
            argument = filling.argument
            if filling.source == "results" and argument.name not in given:
                decoded[argument.name] = self._results(filling, reader)
                continue
            value = _picked(filling, input or {}, steps or {}, item, given)
            if value is _ABSENT:
                if argument.required:
                    raise self._absent(filling)
                continue  # the function's own default
            decoded[argument.name] = self._take(filling, value)
        return decoded

    def _take(self, filling: Filling, value: Any) -> Any:
        name = filling.argument.name
        kind = carrier(filling.argument.kind) if filling.source == "results" else self._carriers[name]
        try:
            return kind.take_in(value, f"$.{name}")
        except Unfit as unfit:
            raise self._misfit(f"{self.step.name}() can't take {filling.argument}", unfit) from None

    def _results(self, filling: Filling, reader: ResultReader | None) -> Any:
        if reader is None:
            raise self._absent(filling)
        name, item = filling.argument.name, self._carriers[filling.argument.name]

        def decode(value: Any, idx: int) -> Any:
            try:
                return item.take_in(value, f"$.{name}[{idx}]")
            except Unfit as unfit:
                what = f"{self.step.name}() can't take child {idx} of {filling.step} in {filling.argument}"
                raise self._misfit(what, unfit) from None

        results: Results[Any] = Results(reader, decode)
        if filling.argument.results_of is not None:
            return results
        kind = plain(filling.argument.kind)
        return tuple(results) if (get_origin(kind) or kind) is tuple else list(results)

    def _misfit(self, what: str, unfit: Unfit) -> Rejected:
        error = refusal(
            "E-STEP-31",
            what,
            unfit.path,
            why=unfit.text(),
            fix=f"give changed types a new version of {self.step.workflow.name}",
        )
        error.details["problems"] = unfit.details()
        return error

    def _absent(self, filling: Filling) -> Rejected:
        name, source = filling.argument.name, filling.step or filling.source
        return refusal(
            "E-STEP-31",
            f"{self.step.name}() takes {filling.argument} but nothing came from {source}",
            f"$.{name}",
            fix=f"send {name}, or give it a default",
        )

    def encode_input(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What Go or Again carries to this step, as JSON by argument name; a Results is not carried, but read again.

        Raises Rejected E-STEP-32 with the JSON path of what does not fit, Unprocessable E-DATA-.. for NaN and the like.
        """
        return {
            filling.argument.name: self._given(filling, given[filling.argument.name])
            for filling in self.fillings
            if filling.argument.name in given and not isinstance(given[filling.argument.name], Results)
        }

    def _given(self, filling: Filling, value: Any) -> Any:
        what = f"the input of {self.step.name}() does not fit {filling.argument}"
        return self._write(carrier(filling.argument.kind), value, f"$.{filling.argument.name}", what)

    def encode_result(self, returned: Any) -> Encoded:
        """What the step returned, ready to be stored.

        Raises Rejected E-STEP-32 with the JSON path of what does not fit, E-STEP-33 for an outcome that the decorator
        does not declare, Unprocessable E-DATA-.. for NaN and the like.
        """
        workflow = self.step.workflow
        match returned:
            case Again(step=step, input=given):
                self._check_declared("again", step)
                return EncodedAgain(step.name, workflow.codec(step.name).encode_input(given))
            case Go(step=step, input=given):
                self._check_declared("next", step)
                return EncodedGo(step.name, workflow.codec(step.name).encode_input(given))
            case Spawn(step=step, items=items, then=then):
                self._check_declared("spawns", step, then)
                child = workflow.codec(step.name)
                return EncodedSpawn(
                    step.name, [child.encode_item(one, idx) for idx, one in enumerate(items)], then.name
                )
            case Retry(after_seconds=after_seconds, reason=reason):
                return EncodedRetry(after_seconds, reason)
        if self.step.options.asks is None:
            return EncodedValue(self.encode_value(returned))
        if not isinstance(returned, Ask):
            raise refusal(
                "E-STEP-32", f"{self.step.name}() returned no Ask", "$", fix="return Ask(...), or ask in another step"
            )
        return encode_ask(self.step.name, returned, workflow.operations.values())

    def encode_value(self, value: Any) -> Any:
        """A result as JSON; raises like `encode_result`."""
        return self._write(self._result, value, "$", f"{self.step.name}() returned no {named(self._result_kind)}")

    def encode_item(self, value: Any, idx: int) -> Any:
        """The item of child `idx` of a fan-out over this step, as JSON; raises like `encode_result`."""
        filling = self.fillings[0]
        what = f"item {idx} for {self.step.name}() is no {named(filling.argument.kind)}"
        return self._write(self._carriers[filling.argument.name], value, f"$[{idx}]", what)

    def decode_result(self, value: Any) -> Any:
        """A stored result as the declared type; raises Rejected E-STEP-31."""
        try:
            return self._result.take_in(value)
        except Unfit as unfit:
            raise self._misfit(
                f"the stored result of {self.step.name} is no {named(self._result_kind)}", unfit
            ) from None

    def _write(self, kind: Carrier, value: Any, where: str, what: str) -> Any:
        try:
            return kind.write_out(value, where)
        except Unfit as unfit:
            error = refusal("E-STEP-32", what, unfit.path, why=unfit.text(), fix="make value and annotation agree")
            error.details["problems"] = unfit.details()
            raise error from None

    def _check_declared(self, option: str, *steps: AnyStep) -> None:
        declared = getattr(self.step.workflow.graph().node(self.step.name), option) or ()
        names = tuple(step.name for step in steps)
        own = self.step.workflow.steps
        known = names == tuple(declared) if option == "spawns" else names[0] in declared
        if not known or any(own.get(step.name) is not step for step in steps):
            raise refusal(
                "E-STEP-33",
                f"{self.step.name}() returned a decision for {', '.join(names)}",
                str(self.step.where),
                why=f"{option}= declares {', '.join(declared) or 'none'}",
                fix=f"declare it in {option}=",
            )


def _carried(filling: Filling) -> Any:
    """The type of one value as it travels: for a join, that of one branch."""
    if filling.source != "results":
        return filling.argument.kind
    item = filling.argument.results_of or element_of(filling.argument.kind)
    return item[0] if item else Any


def _picked(
    filling: Filling, input: Mapping[str, Any], steps: Mapping[str, Any], item: Any, given: Mapping[str, Any]
) -> Any:
    name = filling.argument.name
    if name in given:
        return given[name]
    match filling.source:
        case "input":
            return input.get(name, _ABSENT)
        case "step":
            return steps.get(filling.step or "", _ABSENT)
        case "item":
            return item
    return _ABSENT
