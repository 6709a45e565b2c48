"""In which fan-outs each step stands: its scope, and whether all it depends on can be seen from there."""

from __future__ import annotations

from typing import TypeAlias

from stanchion.workflow.faults import refusal
from stanchion.workflow.linker import Links
from stanchion.workflow.step import AnyStep

__all__ = ["Scope", "deepest", "guess", "place"]

Scope: TypeAlias = tuple[str, ...]


def deepest(step: AnyStep, scopes: dict[str, Scope]) -> AnyStep | None:
    """The predecessor inside more fan-outs than all others: the one that a join closes; None if there is none."""
    first = max(step.after, key=lambda one: len(scopes[one.name]), default=None)
    if first is None or not scopes[first.name]:
        return None
    depth = len(scopes[first.name])
    return first if sum(len(scopes[one.name]) == depth for one in step.after) == 1 else None


def guess(step: AnyStep, scopes: dict[str, Scope]) -> Scope:
    """The scope as far as it is known while steps are still being defined; `place` has the last word."""
    longest = max((scopes[one.name] for one in step.after), key=len, default=())
    if step.options.each:
        return (*longest, step.name)
    return longest[:-1] if step.options.join else longest


def place(links: Links) -> dict[str, Scope]:
    """The scope of every step; raises Rejected E-JOIN-03, E-JOIN-06, E-WIRE-04, E-WIRE-09."""
    scopes: dict[str, Scope] = {}
    joins: dict[str, list[AnyStep]] = {}
    for step in links.order:
        scopes[step.name] = _scope(step, links, scopes)
    for step in links.steps.values():
        closed = deepest(step, scopes) if step.options.join else None
        opener = scopes[closed.name][-1] if closed else None
        if opener in links.spawner and step.name not in links.gatherer:
            raise refusal(
                "E-WIRE-09",
                f"{step.name} joins what {links.spawner[opener].name} spawns, and is not in its spawns=",
                step.where,
                why="what is spawned has one join, whose result becomes that of the step that spawned",
                fix=f"after={links.spawner[opener].name}",
            )
        if closed:
            joins.setdefault(closed.name, []).append(step)
    for joined, over in joins.items():
        _check_together(joined, over)
    return scopes


def _check_together(joined: str, joins: list[AnyStep]) -> None:
    """Refuse a join that ends with the first failed child beside one that would have it reopened: it never could be."""
    rules = [(step, step.options.join) for step in joins]
    holding = next((step for step, join in rules if join and join.on_failed == "hold"), None)
    ending = next((step for step, join in rules if join and (join.rule, join.on_failed) == ("all", "fail")), None)
    if holding and ending:
        raise refusal(
            "E-JOIN-06",
            f"{holding.name}() holds for failed children of {joined}, and {ending.name}() fails with the first of them",
            max(holding, ending, key=joins.index).where,  # the one that was written second
            why="a join of all that fails ends what is around it, so that nothing is left to be reopened",
            fix=f'on_failed="hold" in {ending.name} too, or on_failed="collect" if it can do without failed ones',
        )


def _scope(step: AnyStep, links: Links, scopes: dict[str, Scope]) -> Scope:
    name = step.name
    if name in links.chooser:
        return scopes[links.chooser[name].name]
    if name in links.spawner:
        return (*scopes[links.spawner[name].name], name)
    if not step.after:
        return ()
    if step.options.each:
        return (*scopes[step.after[0].name], name)
    if step.options.join:
        closed = deepest(step, scopes)
        if closed is None:
            raise _nothing_to_join(step, scopes)
        scope, others = scopes[closed.name][:-1], [one for one in step.after if one is not closed]
    else:
        scope, others = max((scopes[one.name] for one in step.after), key=len), list(step.after)
    for one in others:
        _check_visible(step, one, scope, links, scopes)
    return scope


def _nothing_to_join(step: AnyStep, scopes: dict[str, Scope]) -> Exception:
    inside = [one.name for one in step.after if scopes[one.name]]
    if not inside:
        return refusal(
            "E-JOIN-03",
            f"{step.name}() has join= but none of its predecessors is inside a fan-out",
            step.where,
            fix=f"each=True in {step.after[0].name}, or remove join=: a step waits for all its predecessors anyway",
        )
    return refusal(
        "E-JOIN-03",
        f"{step.name}() would join {' and '.join(inside)} at once",
        step.where,
        why="a join closes one fan-out, behind one step of it",
        fix=f"bring them together inside the branch first: a step after=({', '.join(inside)}), and join that one",
    )


def _check_visible(step: AnyStep, one: AnyStep, scope: Scope, links: Links, scopes: dict[str, Scope]) -> None:
    """Refuse a predecessor of another branch, and one that may still run while the branch has begun."""
    inner = scopes[one.name]
    if inner == scope:
        return
    if scope[: len(inner)] == inner:
        opener = scope[len(inner)]
        if one.name in links.before(links.steps[opener]):
            return
        raise refusal(
            "E-WIRE-04",
            f"{step.name}() runs in each branch of {opener} but waits for {one.name}, which is outside of it",
            step.where,
            why=f"{one.name} may still run when the branches have started: nothing makes {opener} wait for it",
            fix=f"put {one.name} before {opener}, or wait for it after the join",
        )
    around = f"runs in each branch of {scope[-1]}" if scope else "stands outside of the fan-out"
    raise refusal(
        "E-WIRE-04",
        f"{step.name}() {around} and can't take {one.name}, which runs in each branch of {inner[-1]}",
        step.where,
        why=f"for one {step.name} there is not one {one.name}, but many",
        fix=f'join them first: @….step(after={one.name}, join="all")',
    )
