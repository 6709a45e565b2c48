"""The plan of a retried run: what succeeded before is taken over, what depends on something that did not runs again.

Pure functions over the graph and the old run's steps. A result is taken over only when everything that it was made from
is taken over too: a step that runs again may answer differently, and what came after it must see that answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from . import anatomy, planner
from .graph import Graph, Node


@dataclass(frozen=True, slots=True)
class OldStep:
    """A step of the old run, outside any fan-out, that stands for `node` (itself, or as the stand-in of another)."""

    node: str
    step_id: UUID
    state: str
    round: int = 0
    input: Any = None
    input_blob: bytes | None = None


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
        name = row["node"]
        if found := adoption.succeeded.get(name) or adoption.skipped.get(name):
            state = "succeeded" if name in adoption.succeeded else "skipped"
            row |= {"state": state, "waits": 0, "adopt": str(found.step_id)}
        elif chosen := adoption.chosen.get(name):
            row |= {"state": "ready", "waits": 0, "input": chosen.input}
            row["input_blob"] = chosen.input_blob.hex() if chosen.input_blob is not None else None
    return plan, adoption


def adopt(graph: Graph, old: Iterable[OldStep]) -> Adoption:
    """What can be taken over."""
    newest: dict[str, OldStep] = {}
    for step in old:
        if step.node not in newest or newest[step.node].round < step.round:
            newest[step.node] = step
    return _Adopter(graph, newest).adopt()


class _Adopter:
    def __init__(self, graph: Graph, old: dict[str, OldStep]) -> None:
        self.graph = graph
        self.old = old
        self.verdicts: dict[str, str | None] = {}

    def adopt(self) -> Adoption:
        units = [*anatomy.inside(self.graph, ()), *anatomy.fans_inside(self.graph, ())]
        plain = {node.name: self.verdict(node.name) for node in units}
        for fan in anatomy.fans_inside(self.graph, ()):
            if fan.name in self.old and self._is_spent(fan, plain):
                plain[fan.name] = "succeeded"
            elif plain[fan.name] == "succeeded":
                plain[fan.name] = None  # its children are looked at one by one when it is expanded again
        found = {
            state: {name: self.old[name] for name, verdict in plain.items() if verdict == state}
            for state in ("succeeded", "skipped", "chosen")
        }
        return Adoption(**found)

    def verdict(self, name: str) -> str | None:
        """`succeeded` or `skipped` as before, `chosen` to begin at once, or None: planned anew."""
        if name not in self.verdicts:
            self.verdicts[name] = None  # a graph has no cycles; this guards against one that does
            self.verdicts[name] = self._verdict(self.graph.node(name))
        return self.verdicts[name]

    def _verdict(self, node: Node) -> str | None:
        row = self.old.get(node.name)
        choosers = [other.name for other in self.graph if node.name in other.next]
        before = self._units_before(node)
        if row is None or any(self.verdict(name) not in ("succeeded", "skipped") for name in (*before, *choosers)):
            return None
        if row.state == "succeeded":
            return "succeeded"
        if row.state == "skipped":
            # Skipped because it was not chosen, or because nothing before it ran; a failed join skips as well, and
            # that is what a retry is for.
            neutral = bool(choosers) or (bool(before) and all(self.verdict(name) == "skipped" for name in before))
            return "skipped" if neutral else None
        return "chosen" if choosers else None

    def _units_before(self, node: Node) -> list[str]:
        """The rows of the run that a row comes after: of a joined fan-out what its list came from, and itself."""
        found: list[str] = []
        for name in node.after:
            scope = self.graph.node(name).scope
            if anatomy.opens_scope(node) or not scope:
                found.append(scope[0] if scope else name)
            else:
                found += self._units_before(self.graph.node(scope[0]))
        return found

    def _is_spent(self, fan: Node, plain: dict[str, str | None]) -> bool:
        """Whether nobody will read the children again: every join over the fan-out is taken over."""
        joins = anatomy.joins_of(self.graph, fan.name)
        inside = {node.name for node in self.graph if fan.name in node.scope}
        ends = {name for name in inside if not self.graph.successors(name)}
        return bool(joins) and not ends and all(plain.get(join.name) == "succeeded" for join, _ in joins)
