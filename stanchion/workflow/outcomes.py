"""What a step may return instead of a value: decisions about what happens next. All are immutable.

A step steers by returning one of these; only surprises raise. The arguments of Again and Go are those of the step that
they name, checked by name here and by type when the value is stored.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, ParamSpec

from stanchion.contracts import limits
from stanchion.errors import TooLarge
from stanchion.workflow.durations import Duration, seconds
from stanchion.workflow.faults import calling_site, refusal
from stanchion.workflow.step import AnyStep, Step

__all__ = ["OUTCOMES", "Again", "Go", "Retry", "Spawn"]

P = ParamSpec("P")


class _Outcome:
    __slots__: tuple[str, ...] = ()

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(type(self)) ^ hash(getattr(self, "step", None))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({shown})"


class Again(_Outcome):
    """Run `step` (this one, or one before it, listed in again=) once more with a new input; rounds are limited.

    Raises Rejected E-WIRE-08 for what is no step, and E-WIRE-02 for arguments that it does not take.
    """

    __slots__ = ("input", "step")
    step: AnyStep
    input: Mapping[str, Any]

    def __init__(self, step: Step[P, object], /, *args: P.args, **input: P.kwargs) -> None:
        self._set(step=step, input=_bound("Again", "E-WIRE-08", step, args, input))


class Go(_Outcome):
    """Go on with `step`, one of those in next=; the others are skipped.

    Raises Rejected E-WIRE-07 for what is no step, and E-WIRE-02 for arguments that it does not take.
    """

    __slots__ = ("input", "step")
    step: AnyStep
    input: Mapping[str, Any]

    def __init__(self, step: Step[P, object], /, *args: P.args, **input: P.kwargs) -> None:
        self._set(step=step, input=_bound("Go", "E-WIRE-07", step, args, input))


class Spawn(_Outcome):
    """Start one child `step` for each of `items` (at most 100,000) and join them in `then`; both stand in spawns=.

    The result of `then` becomes the result of the step that spawned. Raises Rejected E-WIRE-09 for what is no step,
    TooLarge E-TASK-04 for too many items.
    """

    __slots__ = ("items", "step", "then")
    step: AnyStep
    items: tuple[Any, ...]
    then: AnyStep

    def __init__(self, step: AnyStep, items: Iterable[Any], *, then: AnyStep) -> None:
        for given in (step, then):
            _check_step("Spawn", "E-WIRE-09", given)
        taken = tuple(islice(items, limits.FAN_OUT_CHILDREN + 1))
        if len(taken) > limits.FAN_OUT_CHILDREN:
            raise TooLarge(
                "E-TASK-04",
                f"Spawn({step.name}) has more than {limits.FAN_OUT_CHILDREN:,} items",
                where=str(calling_site()),
                fix="pass batches of items, or spawn in two levels",
                limit=limits.FAN_OUT_CHILDREN,
            )
        self._set(step=step, items=taken, then=then)


class Retry(_Outcome):
    """Give this attempt up and try again, after the usual delay or after `after`; it spends one of the retries.

    Raises Rejected E-STEP-41 for a bad duration.
    """

    __slots__ = ("after_seconds", "reason")
    after_seconds: float | None
    reason: str

    def __init__(self, after: Duration | None = None, reason: str = "") -> None:
        wait = None if after is None else seconds(after, "after", calling_site(), zero=True)
        self._set(after_seconds=wait, reason=str(reason)[: limits.REASON_CHARACTERS])


OUTCOMES: Final[tuple[type[Any], ...]] = (Again, Go, Spawn, Retry)


def _check_step(outcome: str, code: str, step: object) -> None:
    if not isinstance(step, Step):
        raise refusal(code, f"{outcome}({step!r}) does not name a step", calling_site(), fix="pass the decorated step")


def _bound(
    outcome: str, code: str, step: Step[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Mapping[str, Any]:
    _check_step(outcome, code, step)
    parameters = [parameter.bare() for parameter in step.signature.params]
    try:
        bound = inspect.Signature(parameters).bind(*args, **kwargs)
    except TypeError as error:
        raise refusal(
            "E-WIRE-02",
            f"{outcome}({step.name}, …): {error}",
            calling_site(),
            why=f"{step.name}() takes {step.signature.arguments() or 'no arguments'}",
            fix=f"pass what {step.name}() takes, by name",
        ) from None
    return MappingProxyType(dict(bound.arguments))
