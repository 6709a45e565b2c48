"""How the steps of a workflow hang together: who starts whom, in which order, and whether everything is started."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from stanchion.workflow.faults import closest, refusal
from stanchion.workflow.options import StepOptions
from stanchion.workflow.outcomes import Again, Go, Spawn
from stanchion.workflow.signature import NOTHING
from stanchion.workflow.step import AnyStep, Step

__all__ = ["Links", "link", "result_of", "upstream"]


@dataclass(slots=True)
class Links:
    """The resolved edges. `chooser`, `spawner` and `gatherer` map a step to the one that starts it by Go or Spawn."""

    steps: Mapping[str, AnyStep]
    next: dict[str, tuple[AnyStep, ...]] = field(default_factory=dict)
    again: dict[str, tuple[AnyStep, ...]] = field(default_factory=dict)
    spawns: dict[str, tuple[AnyStep, AnyStep]] = field(default_factory=dict)
    chooser: dict[str, AnyStep] = field(default_factory=dict)
    spawner: dict[str, AnyStep] = field(default_factory=dict)  # of the child
    gatherer: dict[str, AnyStep] = field(default_factory=dict)  # of the join of a Spawn
    order: tuple[AnyStep, ...] = ()
    _befores: dict[str, frozenset[str]] = field(default_factory=dict)

    def on_demand(self, step: AnyStep) -> bool:
        """Whether only Go or Spawn start it."""
        return step.options.on_demand or self.starter(step) is not None

    def starter(self, step: AnyStep) -> AnyStep | None:
        """The step that starts this one by Go or Spawn."""
        found = (starters.get(step.name) for starters in (self.chooser, self.spawner, self.gatherer))
        return next((one for one in found if one is not None), None)

    def parents(self, step: AnyStep) -> Iterator[AnyStep]:
        """What must have ended, or decided, before `step` can start."""
        yield from step.after
        if (starter := self.starter(step)) is not None:
            yield starter

    def before(self, step: AnyStep) -> frozenset[str]:
        """The names of all steps that surely ended, or decided, before `step` starts."""
        if step.name not in self._befores:
            self._befores[step.name] = _upstream(step, self.parents)
        return self._befores[step.name]


def upstream(step: AnyStep) -> frozenset[str]:
    """The names of all steps on a way of after= that leads to `step`."""
    return _upstream(step, lambda one: one.after)


def _upstream(step: AnyStep, parents: Callable[[AnyStep], Iterable[AnyStep]]) -> frozenset[str]:
    seen: set[str] = set()
    todo = list(parents(step))
    while todo:  # not by recursion: a chain may be longer than Python's stack
        one = todo.pop()
        if one.name not in seen:
            seen.add(one.name)
            todo.extend(parents(one))
    return frozenset(seen)


def result_of(step: AnyStep, links: Links | None = None) -> Any:
    """The type of what its successors get: the result of the join if it only spawns, None if it only chooses."""
    result = step.signature.result
    if result is not NOTHING:
        return result
    if step.options.spawns is None:
        return type(None)
    join = links.spawns[step.name][1] if links else step.options.spawns[1]
    if isinstance(join, str) or join.signature.result is NOTHING:
        return Any
    return join.signature.result


def link(workflow: str, steps: Mapping[str, AnyStep]) -> Links:
    """Resolve and check all edges; raises Rejected E-STEP-44, E-WIRE-03, -07, -09, -10 or -11."""
    links = Links(steps)
    for step in steps.values():
        _check_outcomes(step)
        links.next[step.name] = tuple(_found(workflow, steps, step, "next", one) for one in step.options.next)
        links.again[step.name] = tuple(_found(workflow, steps, step, "again", one) for one in step.options.again)
        if step.options.spawns is not None:
            child, join = (_found(workflow, steps, step, "spawns", one) for one in step.options.spawns)
            links.spawns[step.name] = (child, join)
    _link_choices(links)
    _link_spawns(links)
    links.order = _ordered(links)
    _check_reached(links)
    return links


def _check_outcomes(step: AnyStep) -> None:
    options: StepOptions = step.options
    outcomes = step.signature.outcomes
    declared = {Go: ("next", options.next), Again: ("again", options.again), Spawn: ("spawns", options.spawns)}
    for outcome, (name, targets) in declared.items():
        if targets and outcome not in outcomes:
            raise refusal(
                "E-STEP-44",
                f"{step.name}() declares {name}= but its result type has no {outcome.__name__}",
                step.where,
                fix=f"-> ... | {outcome.__name__}, or remove {name}=",
            )
        if outcome in outcomes and not targets:
            raise refusal(
                "E-STEP-44",
                f"{step.name}() may return {outcome.__name__} but declares no {name}=",
                step.where,
                why="the graph must be known before the first run",
                fix=f"{name}=(child_step, join_step)" if outcome is Spawn else f'{name}="name of the step"',
            )


def _found(workflow: str, steps: Mapping[str, AnyStep], step: AnyStep, option: str, one: AnyStep | str) -> AnyStep:
    if isinstance(one, Step):
        if steps.get(one.name) is one:
            return one
        raise refusal(
            "E-WIRE-03",
            f"{option}= of {step.name} names {one.name}, a step of {one.workflow.name}",
            step.where,
            fix=f"name a step of {workflow}",
        )
    if one in steps:
        return steps[one]
    meant = closest(one, steps)
    raise refusal(
        "E-WIRE-03",
        f"{option}= of {step.name} names {one!r}, which is no step of {workflow}",
        step.where,
        fix=f"did you mean {meant!r}?" if meant else f"the steps are {', '.join(sorted(steps)[:8])}",
    )


def _link_choices(links: Links) -> None:
    for step in links.steps.values():
        for target in links.next[step.name]:
            fault = None
            if target is step:
                fault, fix = f"{step.name} names itself in next=", "return Again to run it once more, with again="
            elif target.after:
                fault = f"{target.name} has after=, so it is started by its predecessors and not by Go"
                fix = f"remove after= from {target.name}; Go carries its arguments"
            elif target.name in links.chooser:
                fault = f"{target.name} is a target of {links.chooser[target.name].name} and of {step.name}"
                fix = "a step is started once: give each chooser a target of its own"
            if fault:
                raise refusal("E-WIRE-07", fault, step.where, fix=fix)
            links.chooser[target.name] = step


def _link_spawns(links: Links) -> None:
    for name, (child, join) in links.spawns.items():
        step = links.steps[name]
        fault, fix = None, f"spawns=(child, join), with @….step(after={child.name}, join=…) above the join"
        if join.options.join is None:
            fault = f"{join.name} in spawns= of {name} has no join="
        elif join.after != (child,):
            fault = f"{join.name} in spawns= of {name} does not come after {child.name}, and after it alone"
        elif child.after:
            fault, fix = f"{child.name} in spawns= of {name} has after=", f"remove after= from {child.name}"
        elif step in (child, join):
            fault, fix = f"{name} names itself in spawns=", "return Again to run it once more, with again="
        for one in (child, join):
            if (other := links.starter(one)) is not None and not fault:
                fault = f"{one.name} is started by {other.name} and by {name}"
                fix = "a step is started by one other: define one for each"
        if links.next[join.name] and not fault:
            fault = f"{join.name} joins the children of {name} and chooses with next="
            fix = f"choose in a step after {name}"
        if fault:
            raise refusal("E-WIRE-09", fault, step.where, fix=fix)
        links.spawner[child.name] = step
        links.gatherer[join.name] = step
    for step in links.steps.values():
        for one in step.after:
            if one.name in links.gatherer:
                raise _behind_a_spawn(step, one, links.gatherer[one.name])


def _behind_a_spawn(step: AnyStep, join: AnyStep, spawner: AnyStep) -> Exception:
    return refusal(
        "E-WIRE-09",
        f"after= of {step.name} names {join.name}, which runs only when {spawner.name} spawns",
        step.where,
        why=f"the result of {join.name} becomes the result of {spawner.name}",
        fix=f"after={spawner.name}",
    )


def _ordered(links: Links) -> tuple[AnyStep, ...]:
    """All steps, each behind its parents, otherwise in the order of definition."""
    waits = {step.name: {parent.name for parent in links.parents(step)} for step in links.steps.values()}
    followers: dict[str, list[AnyStep]] = {name: [] for name in waits}
    for step in links.steps.values():
        for name in waits[step.name]:
            followers[name].append(step)
    order = [step for step in links.steps.values() if not waits[step.name]]
    for step in order:  # grows while it is read
        for follower in followers[step.name]:
            waits[follower.name].discard(step.name)
            if not waits[follower.name]:
                order.append(follower)
    if len(order) < len(waits):
        placed = {step.name for step in order}
        stuck = next(step for step in links.steps.values() if step.name not in placed)
        circle = _circle(links, stuck, placed)
        raise refusal(
            "E-WIRE-11",
            f"steps wait for each other: {' → '.join(circle)}",
            stuck.where,
            why="next= leads back to a step that comes before it",
            fix="return Again (and list the step in again=) to go back",
        )
    return tuple(order)


def _circle(links: Links, step: AnyStep, placed: set[str]) -> list[str]:
    path: list[str] = []
    while step.name not in path:
        path.append(step.name)
        step = next(parent for parent in links.parents(step) if parent.name not in placed)
    return [*path[path.index(step.name) :], step.name][::-1]


def _check_reached(links: Links) -> None:
    reached: set[str] = set()
    for step in links.order:
        parents = list(links.parents(step))
        forgotten = step.options.on_demand and links.starter(step) is None
        if all(parent.name in reached for parent in parents) and not forgotten:
            reached.add(step.name)
            continue
        cause = next((parent for parent in parents if parent.name not in reached), step)
        raise refusal(
            "E-WIRE-10",
            f"{cause.name} is never started",
            cause.where,
            why="on_demand=True waits for a step that names it in next= or spawns=, and none does",
            fix="name it there, or remove on_demand=True",
        )
