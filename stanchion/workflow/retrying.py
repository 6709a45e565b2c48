"""The plan of a retried run: what succeeded before is taken over, what depends on something that did not runs again.

Pure functions over the graph and the old run's steps, for the run itself and for each branch of a fan-out. A result is
taken over only when everything that it was made from is taken over too: a step that runs again may answer differently,
and what came after it must see that answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from . import planner
from .anatomy import Scope, choosers_of, fans_inside, inside, joins_of, opens_scope
from .graph import Graph, Node
from .inputs import original


@dataclass(frozen=True, slots=True)
class OldStep:
    """A step of the old run that stands for `node` (itself, or as the stand-in of another: then it is not its `own`).

    One that was `replaced` is answered for by another row, and still has the input that the node was given.
    """

    node: str
    step_id: UUID
    state: str
    round: int = 0
    input: Any = None
    input_blob: bytes | None = None
    replaced: bool = False
    own: bool = True


@dataclass(frozen=True, slots=True)
class Branch:
    """Where the steps stand when not in the run itself: the branch's scope, its item, and what around it is the same."""

    scope: Scope
    item: Any
    same: Collection[str] = ()
    """Steps around the branch that have the results that they had before."""


@dataclass(frozen=True, slots=True)
class Adoption:
    """What becomes of the old run's steps: taken over as succeeded or as skipped, or begun at once as chosen."""

    succeeded: dict[str, OldStep]
    skipped: dict[str, OldStep]
    chosen: dict[str, OldStep]

    @property
    def kept(self) -> list[str]:
        """The nodes whose results are taken over."""
        return sorted(self.succeeded)


def plan_retry(
    graph: Graph, place: planner.Place, task_input: Any, input_blob: str | None, old: Iterable[OldStep]
) -> tuple[planner.Plan, Adoption]:
    """The rows of a new run, as `insert_plan` takes them: a row with `adopt` is settled from birth."""
    adoption = adopt(graph, old)
    plan = planner.first_plan(graph, place, task_input)
    for row in plan.steps:
        if "input" in row and input_blob is not None:
            row["input_blob"] = input_blob
    take_over(plan, adoption)
    return plan, adoption


def take_over(plan: planner.Plan, adoption: Adoption) -> None:
    """Put what is taken over into the rows of a plan."""
    for row in plan.steps:
        name = row["node"]
        if found := adoption.succeeded.get(name) or adoption.skipped.get(name):
            state = "succeeded" if name in adoption.succeeded else "skipped"
            row |= {"state": state, "waits": 0, "adopt": str(found.step_id)}
        elif chosen := adoption.chosen.get(name):
            # it goes on in the round in which it was, with what it was given for that
            row |= {"state": "ready", "waits": 0, "round": chosen.round, "input": chosen.input}
            row["input_blob"] = chosen.input_blob.hex() if chosen.input_blob is not None else None


def adopt(graph: Graph, old: Iterable[OldStep], branch: Branch | None = None) -> Adoption:
    """What can be taken over, of the run itself or of one branch."""
    return _Adopter(graph, old, branch or Branch((), None)).adopt()


class _Adopter:
    def __init__(self, graph: Graph, old: Iterable[OldStep], branch: Branch) -> None:
        self.graph = graph
        self.branch = branch
        self.scope = branch.scope
        self.old: dict[str, OldStep] = {}  # what answers for the node
        self.first: dict[str, OldStep] = {}  # what had its input first, and last
        self.last: dict[str, OldStep] = {}
        for step in sorted(old, key=lambda one: one.round):
            if not step.replaced:
                self.old[step.node] = step
            if step.own:
                self.first.setdefault(step.node, step)
                self.last[step.node] = step
        self.verdicts: dict[str, str | None] = {}

    def adopt(self) -> Adoption:
        fans = fans_inside(self.graph, self.scope)
        units = [*inside(self.graph, self.scope), *fans]
        plain = {node.name: self.verdict(node.name) for node in units}
        for fan in fans:
            if fan.name in self.old and self._is_spent(fan, plain):
                plain[fan.name] = "succeeded"
            elif plain[fan.name] == "succeeded":
                plain[fan.name] = None  # its children are looked at one by one when it is expanded again
        found = {
            state: {name: rows[name] for name, verdict in plain.items() if verdict == state}
            for state, rows in (("succeeded", self.old), ("skipped", self.old), ("chosen", self.last))
        }
        return Adoption(**found)

    def verdict(self, name: str) -> str | None:
        """`succeeded` or `skipped` as before, `chosen` to begin at once, or None: planned anew."""
        if name not in self.verdicts:
            self.verdicts[name] = None  # a graph has no cycles; this guards against one that does
            self.verdicts[name] = self._verdict(self.graph.node(name))
        return self.verdicts[name]

    def _verdict(self, node: Node) -> str | None:
        if len(node.scope) < len(self.scope):
            return "succeeded" if node.name in self.branch.same else None
        row = self.old.get(node.name)
        if row is None:
            return None
        if self.scope and node.name == self.scope[-1]:
            return "succeeded" if row.state == "succeeded" and self._has_the_same_item(node) else None
        choosers = choosers_of(self.graph, node.name)
        before = self._units_before(node)
        if any(self.verdict(name) not in ("succeeded", "skipped") for name in (*before, *choosers)):
            return None
        if row.state == "succeeded":
            return "succeeded"
        if row.state == "skipped" and row.own:
            # Skipped because it was not chosen, or because nothing before it ran; a failed join skips as well (also the
            # one that answers for a step that spawned), and that is what a retry is for.
            neutral = bool(choosers) or (bool(before) and all(self.verdict(name) == "skipped" for name in before))
            return "skipped" if neutral else None
        return "chosen" if choosers and node.name in self.last else None

    def _has_the_same_item(self, node: Node) -> bool:
        first = self.first.get(node.name)
        return first is not None and _plain(original(node, first.round, first.input)) == _plain(self.branch.item)

    def _units_before(self, node: Node) -> list[str]:
        """The rows that a row comes after: of a joined fan-out what its list came from, and itself."""
        found: list[str] = []
        for name in node.after:
            scope = self.graph.node(name).scope
            if len(scope) <= len(self.scope) or opens_scope(node):
                found.append(name)
            else:
                found += self._units_before(self.graph.node(scope[len(self.scope)]))
        return found

    def _is_spent(self, fan: Node, plain: dict[str, str | None]) -> bool:
        """Whether nobody will read the children again: every join over the fan-out is taken over."""
        joins = joins_of(self.graph, fan.name)
        within = {node.name for node in self.graph if fan.name in node.scope}
        ends = {name for name in within if not self.graph.successors(name)}
        return bool(joins) and not ends and all(plain.get(join.name) == "succeeded" for join, _ in joins)


def _plain(value: Any) -> bytes:
    """A value so that equal ones are equal and others are not: in Python, True is 1."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
