"""What a step's function says about itself: its arguments, its result, the outcomes it may return.

Read once, at the decorator. Annotations may be text (from __future__ import annotations): each is resolved by itself,
in the module of the function and in the place of the decorator, so that an error can name the argument it belongs to.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

from stanchion.workflow.approval import Ask, Decision
from stanchion.workflow.context import is_context
from stanchion.workflow.faults import Site, refusal
from stanchion.workflow.outcomes import OUTCOMES
from stanchion.workflow.payload_types import Unsendable, prove_sendable
from stanchion.workflow.results import Results
from stanchion.workflow.step import Step
from stanchion.workflow.type_fitter import element_of, members, named

__all__ = ["NOTHING", "Argument", "Signature", "read_signature"]

NOTHING: Final = inspect.Parameter.empty  # no default; no value type (a step that only spawns)


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument behind the context."""

    name: str
    kind: Any
    default: Any
    keyword_only: bool

    @property
    def required(self) -> bool:
        """True without a default."""
        return self.default is NOTHING

    @property
    def results_of(self) -> tuple[Any] | None:
        """The T of Results[T], in a tuple of one; None for any other type."""
        return _results_item(self.kind)

    def bare(self) -> inspect.Parameter:
        """As a parameter of a plain signature."""
        kind = inspect.Parameter.KEYWORD_ONLY if self.keyword_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Parameter(self.name, kind, default=self.default)

    def __str__(self) -> str:
        return f"{self.name}: {named(self.kind)}"


@dataclass(frozen=True, slots=True)
class Signature:
    """A step's function as read. `result` is the value type without outcomes, NOTHING when only Spawn is returned."""

    name: str
    params: tuple[Argument, ...]
    result: Any
    outcomes: frozenset[type[Any]]

    def arguments(self) -> str:
        """The arguments as text: `topic: str, lang: str = 'en'`."""
        return ", ".join(f"{item}" + ("" if item.required else f" = {item.default!r}") for item in self.params)


def read_signature(fn: Any, where: Site, scope: Mapping[str, Any], *, asks: bool = False) -> Signature:
    """The signature of a step's function; raises Rejected E-STEP-11 to E-STEP-17.

    One that `asks` returns an Ask, and its result is a Decision.
    `scope` are the local names at the decorator, for types that are defined inside a function.
    """
    name = _check_function(fn, where)
    inner = inspect.unwrap(fn)
    resolve = _Resolver(name, getattr(inner, "__globals__", {}), scope, where)
    try:
        signature = inspect.signature(fn)
    except NameError as error:  # annotations are evaluated late from Python 3.14 on
        raise resolve.unknown("its signature", str(error)) from None
    listed = list(signature.parameters.values())
    _check_kinds(name, listed, where)
    _check_context(name, listed, resolve, where)
    params = tuple(_argument(name, parameter, resolve, where) for parameter in listed[1:])
    if asks:
        _check_asks(name, signature.return_annotation, resolve, where)
        return Signature(name, params, Decision, frozenset())
    result, outcomes = _result(name, signature.return_annotation, resolve, where)
    return Signature(name, params, result, outcomes)


def _check_function(fn: Any, where: Site) -> str:
    fix = "write def or async def at the top of a module"
    if isinstance(fn, Step):
        raise refusal("E-STEP-11", f"{fn.name} is a step already, of {fn.workflow.name}", where, fix="decorate it once")
    name = getattr(fn, "__name__", None) or type(fn).__name__
    if isinstance(fn, type) or not inspect.isfunction(fn):
        kind = "a class" if isinstance(fn, type) else f"a {type(fn).__name__}"
        raise refusal("E-STEP-11", f"{name} is {kind}, not a function", where, fix=fix)
    if name == "<lambda>":
        raise refusal("E-STEP-11", "a lambda has no name that a stored run could find again", where, fix=fix)
    inner = inspect.unwrap(fn)
    if any(inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each) for each in (fn, inner)):
        raise refusal("E-STEP-11", f"{name}() yields; a step has one result", where, fix="return a list")
    return str(name)


def _check_kinds(name: str, listed: list[inspect.Parameter], where: Site) -> None:
    for parameter in listed:
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            stars = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else "**"
            raise refusal(
                "E-STEP-13",
                f"{name}() takes {stars}{parameter.name}",
                where,
                why="arguments are handed over by name, and their types say how they cross",
                fix="name each argument; if a decorator wraps the step, use functools.wraps in it",
            )
    for parameter in listed[1:]:
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise refusal(
                "E-STEP-13", f"{name}() takes {parameter.name} by position only", where, fix="remove the / after it"
            )


def _check_context(name: str, listed: list[inspect.Parameter], resolve: _Resolver, where: Site) -> None:
    fix = f"def {name}(ctx: Ctx, …), with: from stanchion import Ctx"
    first = listed[0] if listed else None
    if first is None or first.kind is inspect.Parameter.KEYWORD_ONLY:
        raise refusal("E-STEP-14", f"{name}() takes no context", where, fix=fix)
    if first.annotation is NOTHING and first.name in ("self", "cls"):
        raise refusal(
            "E-STEP-14",
            f"{name}() takes {first.name}: a step is a function, not a method",
            where,
            why="a worker in another process has no object to call it on",
            fix=fix,
        )
    if first.annotation is NOTHING:
        raise refusal("E-STEP-14", f"the first parameter of {name}(), {first.name}, is not annotated", where, fix=fix)
    if not is_context(first.annotation):
        found = resolve(first.name, first.annotation)
        if not is_context(found):
            raise refusal("E-STEP-14", f"{name}() takes {first.name}: {named(found)} first", where, fix=fix)


def _argument(name: str, parameter: inspect.Parameter, resolve: _Resolver, where: Site) -> Argument:
    if parameter.annotation is NOTHING:
        raise refusal(
            "E-STEP-15",
            f"{name}() does not say what {parameter.name} is",
            where,
            fix=f"annotate it, e.g. {parameter.name}: str",
        )
    kind = resolve(parameter.name, parameter.annotation)
    item = _results_item(kind)
    _check_sendable(f"{name}() takes {parameter.name}: {named(kind)}", kind if item is None else item[0], where)
    return Argument(parameter.name, kind, parameter.default, parameter.kind is inspect.Parameter.KEYWORD_ONLY)


def _result(name: str, annotation: Any, resolve: _Resolver, where: Site) -> tuple[Any, frozenset[type[Any]]]:
    if annotation is NOTHING:
        raise refusal(
            "E-STEP-15", f"{name}() does not say what it returns", where, fix="annotate the result, e.g. -> None"
        )
    kind = resolve("its result", annotation)
    found = members(kind)
    if Ask in found:
        raise refusal(
            "E-STEP-17",
            f"{name}() returns {named(kind)}",
            where,
            why="only a step that is declared to ask people can ask them",
            fix="@workflow.approval(by=...), and return Ask alone",
        )
    outcomes = frozenset(member for member in found if member in OUTCOMES)
    for outcome in OUTCOMES:
        if outcome not in outcomes and any(_holds(member, outcome) for member in found):
            raise refusal(
                "E-STEP-17",
                f"{name}() returns {named(kind)}",
                where,
                why=f"{outcome.__name__} is a decision, not a value: it can't stand inside one",
                fix=f"return it by itself: ... | {outcome.__name__}",
            )
    if not outcomes:
        _check_sendable(f"{name}() returns {named(kind)}", kind, where)
        return kind, outcomes
    values = [member for member in found if member not in OUTCOMES]
    if not values:
        return (NOTHING if {one.__name__ for one in outcomes} & {"Spawn", "Go"} else _endless(name, where)), outcomes
    value = functools.reduce(lambda one, other: Union[one, other], values)  # noqa: UP007 - built at run time
    _check_sendable(f"{name}() returns {named(value)}", value, where)
    return value, outcomes


def _check_asks(name: str, annotation: Any, resolve: _Resolver, where: Site) -> None:
    kind = NOTHING if annotation is NOTHING else resolve("its result", annotation)
    if kind is not Ask:
        found = "nothing it says" if kind is NOTHING else named(kind)
        raise refusal("E-STEP-15", f"{name}() asks people and returns {found}", where, fix="annotate it: -> Ask")


def _endless(name: str, where: Site) -> Any:
    raise refusal("E-STEP-15", f"{name}() never returns a value", where, fix="add it to the result: ... | None")


def _holds(kind: Any, outcome: type[Any]) -> bool:
    return kind is not outcome and any(outcome in members(arg) or _holds(arg, outcome) for arg in get_args(kind))


def _results_item(kind: Any) -> tuple[Any] | None:
    if kind is Results:
        return (Any,)
    if get_origin(kind) is Annotated:
        return _results_item(get_args(kind)[0])
    return (get_args(kind)[0],) if get_origin(kind) is Results else None


def _check_sendable(what: str, kind: Any, where: Site) -> None:
    if any(_results_item(member) for member in members(kind)) or element_of(kind) == (Results,):
        raise refusal("E-JOIN-05", f"{what}", where, why="only a join hands out Results", fix="take Results[...] alone")
    try:
        prove_sendable(kind)
    except Unsendable as finding:
        raise refusal("E-STEP-17", what, where, why=finding.why, fix=finding.fix) from None


class _Resolver:
    def __init__(self, name: str, globals_: Mapping[str, Any], scope: Mapping[str, Any], where: Site) -> None:
        self.name = name
        self.globals = dict(globals_)
        self.scope = dict(scope)
        self.where = where

    def __call__(self, label: str, annotation: Any) -> Any:
        holder = SimpleNamespace(__annotations__={"it": annotation})
        try:
            return get_type_hints(holder, self.globals, self.scope, include_extras=True)["it"]
        except NameError as error:
            raise self.unknown(label, str(error)) from None
        except Exception as error:  # noqa: BLE001 - text of the user is evaluated, so anything can come out
            raise self.unknown(label, f"{type(error).__name__}: {error}") from None

    def unknown(self, label: str, why: str) -> Exception:
        return refusal(
            "E-STEP-16",
            f"{self.name}(): the type of {label} can't be read",
            self.where,
            why=why,
            fix="import or define the type above the step, not under TYPE_CHECKING",
        )
