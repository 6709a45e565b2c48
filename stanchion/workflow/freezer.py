"""Makes the immutable graph out of declared steps: resolves edges, places scopes, proves that everything fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stanchion.workflow.anatomy import between
from stanchion.workflow.carrier import carrier
from stanchion.workflow.codec import StepCodec
from stanchion.workflow.faults import refusal
from stanchion.workflow.graph import Graph, Node, OperationSpec, Param
from stanchion.workflow.intake import Intake, object_schema
from stanchion.workflow.linker import Links, link, result_of, upstream
from stanchion.workflow.operation import AnyOperation
from stanchion.workflow.scoper import Scope, deepest, place
from stanchion.workflow.skipper import Skipper
from stanchion.workflow.step import AnyStep
from stanchion.workflow.type_fitter import fits, named
from stanchion.workflow.wirer import Filling, fill, root_source

if TYPE_CHECKING:
    from stanchion.workflow.definition import Workflow

__all__ = ["Frozen", "freeze"]


@dataclass(frozen=True, slots=True)
class Frozen:
    """What a closed definition consists of."""

    graph: Graph
    codecs: dict[str, StepCodec]
    intake: Intake


def freeze(workflow: Workflow) -> Frozen:
    """Check the whole and build the graph; raises Rejected E-WIRE-.., E-JOIN-.. or E-STEP-44."""
    if not workflow.steps:
        raise refusal("E-WIRE-10", f"{workflow.name} has no steps", workflow.where, fix=f"@{workflow.name}.step()")
    links = link(workflow.name, workflow.steps)
    scopes = place(links)
    skipper = Skipper(links, scopes)
    fillings: dict[str, tuple[Filling, ...]] = {}
    for step in workflow.steps.values():
        closed = deepest(step, scopes) if step.options.join else None
        fillings[step.name] = fill(step, closed, root_source(step, links), links)
        skipper.check(step, fillings[step.name])
    _check_spawns(links)
    _check_again(links, scopes)
    _check_extras(links, fillings)
    graph = Graph(
        name=workflow.name,
        version=workflow.version,
        nodes=tuple(_node(step, links, scopes, fillings[step.name]) for step in workflow.steps.values()),
        operations=tuple(_operation(one) for one in workflow.operations.values()),
        compensate=workflow.compensate,
        budget=workflow.budget,
    )
    _check_rounds(graph, links)
    codecs = {
        step.name: StepCodec(step, fillings[step.name], result_of(step, links)) for step in workflow.steps.values()
    }
    return Frozen(graph, codecs, Intake(workflow.name, [codecs[node.name] for node in graph.roots()]))


def _operation(one: AnyOperation) -> OperationSpec:
    return OperationSpec(
        kind=one.kind,
        scope=one.scope,
        reach=one.reach,
        checks=one.check is not None,
        undo=one.undo.kind if one.undo is not None else None,
        keeps_key_ms=one.keeps_key_ms,
        lands_within_ms=one.lands_within_ms,
        needs_approval=one.needs_approval,
    )


def _check_spawns(links: Links) -> None:
    for name, (child, join) in links.spawns.items():
        step = links.steps[name]
        if sum(argument.required for argument in child.signature.params) > 1 or not child.signature.params:
            raise refusal(
                "E-WIRE-09",
                f"{child.name}() is spawned by {name} and takes {child.signature.arguments() or 'nothing'}",
                child.where,
                why="a child gets one item",
                fix="take one argument; put several values into a dataclass",
            )
        if not fits(result_of(join, links), result_of(step, links)):
            raise refusal(
                "E-WIRE-09",
                f"{join.name}() returns {named(result_of(join, links))} "
                f"but {name}(), which spawns for it, returns {named(result_of(step, links))}",
                join.where,
                why=f"the result of {join.name} becomes the result of {name}",
                fix=f"return {named(result_of(step, links))} from {join.name}",
            )


def _check_again(links: Links, scopes: dict[str, Scope]) -> None:
    for step in links.steps.values():
        for target in links.again[step.name]:
            if target is not step and target.name not in upstream(step):
                raise refusal(
                    "E-WIRE-08",
                    f"{step.name} names {target.name} in again=, from which no way of after= leads to it",
                    step.where,
                    why="Again runs the steps from there to here once more",
                    fix=f"name {step.name} itself or a step before it; a loop with choices fits into one step",
                )
            if scopes[target.name] != scopes[step.name]:
                raise refusal(
                    "E-WIRE-08",
                    f"{step.name} names {target.name} in again=, which stands in another fan-out",
                    step.where,
                    why=f"{_scope_text(target, scopes)}; {_scope_text(step, scopes)}",
                    fix="go back to a step of the same branch, or decide after the join",
                )


def _check_rounds(graph: Graph, links: Links) -> None:
    """A further round has a new row of each step on the way; a choice on it must not lead out of the round, to a row of
    the round before."""
    for step in links.steps.values():
        for target in links.again[step.name]:
            again = between(graph, target.name, step.name)
            for name in again:
                out = next((one for one in graph.node(name).next if one not in again), None)
                if out is not None and name != step.name:
                    raise refusal(
                        "E-WIRE-08",
                        f"{step.name} names {target.name} in again=, and on the way {name} may choose {out}, "
                        f"from which no way leads to {step.name}",
                        step.where,
                        why=f"a further round would choose a step of the round before: {out} is not run again",
                        fix=f"let {out} lead to {step.name}, go back to a step after {name}, or let {step.name} choose",
                    )


def _scope_text(step: AnyStep, scopes: dict[str, Scope]) -> str:
    around = scopes[step.name]
    return f"{step.name} runs once" + (f" for each branch of {' in '.join(reversed(around))}" if around else "")


def _check_extras(links: Links, fillings: dict[str, tuple[Filling, ...]]) -> None:
    repeated = {target.name for targets in links.again.values() for target in targets}
    for step in links.steps.values():
        extra = next((one.argument for one in fillings[step.name] if one.source == "go"), None)
        if extra is not None and (step.after or step.name in links.spawner) and step.name not in repeated:
            raise refusal(
                "E-WIRE-02",
                f"{step.name}() takes {extra} but nothing fills it",
                step.where,
                why="an argument beyond those of its predecessors is filled only by Again",
                fix=f"remove {extra.name}, or name {step.name} in again= of a step",
            )


def _node(step: AnyStep, links: Links, scopes: dict[str, Scope], fillings: tuple[Filling, ...]) -> Node:
    options: Any = step.options
    sent = [one.argument for one in fillings if one.source in ("input", "item", "go")]
    same = ("each", "join", "max_rounds", "queue", "priority", "retries", "retry_base_seconds", "retry_cap_seconds")
    times = ("timeout_seconds", "start_within_seconds", "total_seconds", "lease_seconds")
    spawned = links.spawns.get(step.name)
    return Node(
        name=step.name,
        after=tuple(one.name for one in step.after),
        next=tuple(one.name for one in links.next[step.name]),
        again=tuple(one.name for one in links.again[step.name]),
        spawns=(spawned[0].name, spawned[1].name) if spawned else None,
        on_demand=links.on_demand(step),
        scope=scopes[step.name],
        isolation=options.isolation or ("async" if step.is_async else "thread"),
        params=tuple(
            Param(name=one.argument.name, source=one.source, step=one.step, required=one.argument.required)
            for one in fillings
        ),
        input_schema=object_schema(sent),
        asks=options.asks,
        result_schema=carrier(result_of(step, links)).json_schema(result=True),
        **{name: getattr(options, name) for name in (*same, *times)},
    )
