"""What fills each argument of each step, and whether it fits.

Called twice: at the decorator, where an error points at the line that was just written, and again when the graph is
frozen, because only then it is known which steps may be skipped (and give None) and what stands inside which fan-out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from stanchion.workflow.faults import refusal
from stanchion.workflow.graph import JoinSpec
from stanchion.workflow.linker import Links, result_of
from stanchion.workflow.outcomes import Go
from stanchion.workflow.signature import Argument
from stanchion.workflow.step import AnyStep
from stanchion.workflow.type_fitter import element_of, fits, named, with_none

__all__ = ["Filling", "Source", "fill", "prove_none_is_taken", "root_source"]

Source: TypeAlias = Literal["input", "step", "item", "results", "go"]


@dataclass(frozen=True, slots=True)
class Filling:
    """One argument and what fills it: `step` names the predecessor, where there is one."""

    argument: Argument
    source: Source
    step: str | None = None


def fill(step: AnyStep, closed: AnyStep | None, start: Source, links: Links | None = None) -> tuple[Filling, ...]:
    """The fillings of a step's arguments; raises Rejected E-WIRE-01, -02, -05, E-JOIN-02 or -05.

    `closed` is the predecessor whose fan-out the step joins, None if that is not known yet. `start` is what fills the
    arguments of a step without predecessors.
    """
    arguments = step.signature.params
    if not step.after:
        for argument in arguments:
            _refuse_results(step, argument)
        return tuple(
            Filling(argument, start if not index else _rest(start)) for index, argument in enumerate(arguments)
        )
    _check_count(step)
    filled = []
    for one, argument in zip(step.after, arguments, strict=False):
        if step.options.each:
            filled.append(_item(step, one, argument, links))
        elif step.options.join and (one is closed or (closed is None and argument.results_of)):
            filled.append(_joined(step, one, argument, step.options.join, links))
        else:
            filled.append(_value(step, one, argument, links, sure=closed is not None or not step.options.join))
    return (*filled, *(Filling(argument, "go") for argument in arguments[len(step.after) :]))


def root_source(step: AnyStep, links: Links) -> Source:
    """What fills the arguments of a step without predecessors."""
    if step.name in links.spawner:
        return "item"
    return "go" if links.on_demand(step) else "input"


def _rest(start: Source) -> Source:
    return "go" if start == "item" else start  # a child has one item; what follows can only come from Again


def _check_count(step: AnyStep) -> None:
    arguments, names = step.signature.params, [one.name for one in step.after]
    missing = arguments[len(names) :]
    if step.options.each and len(names) != 1:
        raise refusal(
            "E-WIRE-05",
            f"{step.name}() has each=True and {len(names)} predecessors",
            step.where,
            why="each=True starts one child for each item of one list",
            fix=f"put one step before it that makes the list out of {' and '.join(names)}",
        )
    if len(arguments) >= len(names) and not any(one.required for one in missing):
        return
    takes = f"{len(arguments)} ({', '.join(one.name for one in arguments)})" if arguments else "no arguments"
    order = ", ".join(f"{name} → {one.name}" for name, one in zip(names, arguments, strict=False))
    fix = "leave out the last arguments, give them a default (then Again fills them), or add their steps to after="
    if len(arguments) < len(names):
        fix = f"take {', '.join(names[len(arguments) :])} too, e.g. as _: {named(result_of(step.after[-1]))}"
    raise refusal(
        "E-WIRE-02",
        f"{step.name}() takes {takes} but after= names {len(names)} ({', '.join(names)})",
        step.where,
        why="each step in after= fills one argument, in order" + (f": {order}" if order else ""),
        fix=fix,
    )


def _item(step: AnyStep, one: AnyStep, argument: Argument, links: Links | None) -> Filling:
    _refuse_results(step, argument)
    result = result_of(one, links)
    item = element_of(result) if result is not Any else (Any,)
    if Go in one.signature.outcomes:
        raise refusal(
            "E-WIRE-05",
            f"{step.name}() fans out over {one.name}(), which may choose another step and then has no list",
            step.where,
            fix=f"make the list in a step of its own, and name that in next= of {one.name}",
        )
    if item is None:
        raise refusal(
            "E-WIRE-05",
            f"{step.name}() fans out over {one.name}(), which returns {named(result)}",
            step.where,
            why="each=True needs a list, a Sequence or a tuple[T, ...]",
            fix=f"return list[{named(argument.kind)}] from {one.name}, or remove each=True",
        )
    if not fits(item[0], argument.kind):
        raise _misfit(
            step,
            argument,
            one,
            result,
            why=f"each=True passes one element of {one.name}'s result ({named(result)} → {named(item[0])})",
            fix=f"return list[{named(argument.kind)}] from {one.name}, "
            f"or take {argument.name}: {named(item[0])} in {step.name}",
        )
    return Filling(argument, "item", one.name)


def _value(step: AnyStep, one: AnyStep, argument: Argument, links: Links | None, *, sure: bool) -> Filling:
    """`sure` is false while it is not known yet whether this argument is the one that joins."""
    result = result_of(one, links)
    if sure:
        _refuse_results(step, argument)
        if not fits(result, argument.kind):
            raise _misfit(
                step,
                argument,
                one,
                result,
                fix=f"return {named(argument.kind)} from {one.name}, "
                f"or take {argument.name}: {named(result)} in {step.name}",
            )
    return Filling(argument, "step", one.name)


def _joined(step: AnyStep, one: AnyStep, argument: Argument, join: JoinSpec, links: Links | None) -> Filling:
    result = result_of(one, links)
    item = argument.results_of
    fix = f"{argument.name}: Results[{named(result)}]"
    if item is None:
        item = element_of(argument.kind)
        if item is None:
            raise refusal(
                "E-JOIN-02",
                f"{step.name}() joins {one.name} but takes {argument}, one value",
                step.where,
                why=f"one result comes from each branch of {one.name}",
                fix=fix,
            )
        if join.rule != "all" or join.on_failed != "fail":
            raise refusal("E-JOIN-02", _may_lack(step, one, argument, join), step.where, fix=fix)
    if not fits(result, item[0]):
        raise _misfit(step, argument, one, result, why=f"the join passes one {named(result)} for each branch", fix=fix)
    return Filling(argument, "results", one.name)


def _may_lack(step: AnyStep, one: AnyStep, argument: Argument, join: JoinSpec) -> str:
    head = f"{step.name}() joins {one.name} with "
    if join.rule == "first":
        return f"{head}First() but takes {named(argument.kind)}; all but one may be missing"
    if join.rule == "all":
        return f'{head}on_failed="{join.on_failed}" but takes {named(argument.kind)}; children may have failed'
    lacking = "all but so many may be missing"
    if isinstance(join.need, float):
        lacking = f"up to {round(10_000 * (1 - join.need)):,} of 10,000 may be missing"
    return f"{head}AtLeast({join.need}) but takes {named(argument.kind)}; {lacking}"


def _refuse_results(step: AnyStep, argument: Argument) -> None:
    if argument.results_of is not None:
        raise refusal(
            "E-JOIN-05",
            f"{step.name}() takes {argument} but joins nothing there",
            step.where,
            why="Results holds what the branches of a fan-out returned",
            fix=f'add join="all", or take {argument.name}: {named(argument.results_of[0])}',
        )


def _misfit(
    step: AnyStep, argument: Argument, one: AnyStep, result: Any, *, fix: str, why: str | None = None
) -> Exception:
    what = f"{step.name}() takes {argument} but {one.name}() returns {named(result)}"
    return refusal("E-WIRE-01", what, step.where, why=why, fix=fix)


def prove_none_is_taken(step: AnyStep, filling: Filling, why: str) -> None:
    """Raise Rejected E-WIRE-06 unless the argument takes None, which it may get for the reason `why`."""
    argument, item = filling.argument, filling.argument.results_of
    if item is None and filling.source == "results":
        item = element_of(argument.kind)
    kind = argument.kind if item is None else item[0]
    if fits(type(None), kind):
        return
    wanted = named(with_none(kind))
    raise refusal(
        "E-WIRE-06",
        f"{step.name}() takes {argument} but it may be None",
        step.where,
        why=why,
        fix=f"{argument.name}: {wanted if item is None else f'Results[{wanted}]'}",
    )
