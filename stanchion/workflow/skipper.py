"""Which steps may be skipped, and who has to take None for it.

A step is skipped when Go chose another one, or when all its predecessors were skipped. A step that runs although one of
its predecessors was skipped gets None for it, so its argument must allow None. A step that chose with Go has no value
of its own: its successors get None too.
"""

from __future__ import annotations

from stanchion.workflow.faults import refusal
from stanchion.workflow.linker import Links
from stanchion.workflow.outcomes import Go
from stanchion.workflow.scoper import Scope
from stanchion.workflow.step import AnyStep
from stanchion.workflow.type_fitter import named
from stanchion.workflow.wirer import Filling, prove_none_is_taken

__all__ = ["Skipper"]


class Skipper:
    """Knows the steps that may be skipped; `check` refuses arguments that don't allow for it."""

    def __init__(self, links: Links, scopes: dict[str, Scope]) -> None:
        self._links = links
        self._scopes = scopes
        self._followers: dict[str, frozenset[str]] = {}
        self._in_branch: dict[str, frozenset[str]] = {}
        self._anywhere = self._skippable(None)

    def check(self, step: AnyStep, fillings: tuple[Filling, ...]) -> None:
        """Raise Rejected E-WIRE-06 or E-JOIN-02 for an argument that can't be filled when a step was skipped."""
        for one, filling in zip(step.after, fillings, strict=False):
            if filling.source == "item":
                continue
            if Go in one.signature.outcomes:
                prove_none_is_taken(step, filling, f"{one.name} has no value when it returns Go")
            if filling.source == "results":
                self._check_join(step, one, filling)
            elif one.name in self._anywhere and not all(
                other.name in self._skipped_with(one) for other in step.after if other is not one
            ):
                prove_none_is_taken(step, filling, f"{one.name} is skipped when another step is chosen")

    def _check_join(self, step: AnyStep, one: AnyStep, filling: Filling) -> None:
        opener = self._links.steps[self._scopes[one.name][len(self._scopes[step.name])]]
        if one.name in self._branch(opener) and filling.argument.results_of is None:
            raise refusal(
                "E-JOIN-02",
                f"{step.name}() joins {one.name} but takes {named(filling.argument.kind)}; "
                "branches that chose another step are missing",
                step.where,
                fix=f"{filling.argument.name}: Results[…]",
            )

    def _branch(self, opener: AnyStep) -> frozenset[str]:
        if opener.name not in self._in_branch:
            self._in_branch[opener.name] = self._skippable(opener)
        return self._in_branch[opener.name]

    def _skippable(self, opener: AnyStep | None) -> frozenset[str]:
        """The steps that may be skipped in a run; or, with `opener`, in a branch in which `opener` runs."""
        found: set[str] = set()
        for step in self._links.order:
            chosen = self._links.starter(step) is not None
            if step is not opener and (chosen or (step.after and all(one.name in found for one in step.after))):
                found.add(step.name)
        return frozenset(found)

    def _skipped_with(self, one: AnyStep) -> frozenset[str]:
        """The steps that are surely skipped whenever `one` is."""
        if one.name not in self._followers:
            found = {one.name}
            for step in reversed(self._links.order):  # skipped for want of all predecessors: so they were skipped
                if step.name in found and self._links.starter(step) is None:
                    found.update(parent.name for parent in step.after)
            for step in self._links.order:
                parents = list(self._links.parents(step))
                if self._links.starter(step) is not None:
                    parents = [parent for parent in parents if parent is self._links.starter(step)]
                if parents and all(parent.name in found for parent in parents):
                    found.add(step.name)
            self._followers[one.name] = frozenset(found)
        return self._followers[one.name]
