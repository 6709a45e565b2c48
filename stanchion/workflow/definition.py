"""Workflow: the object whose decorator makes steps out of functions, and whose graph runs are planned from."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Concatenate, Literal, Never, ParamSpec, Protocol, TypeVar

from stanchion.contracts import limits
from stanchion.workflow.approval import Ask, Decision, ask_spec
from stanchion.workflow.codec import StepCodec
from stanchion.workflow.context import Ctx
from stanchion.workflow.describer import describe
from stanchion.workflow.durations import Duration
from stanchion.workflow.faults import Site, amounts, calling_site, refusal
from stanchion.workflow.freezer import Frozen, freeze
from stanchion.workflow.graph import Graph
from stanchion.workflow.joins import Join
from stanchion.workflow.operation import AnyOperation, Operation
from stanchion.workflow.options import NAME, StepOptions, read_options
from stanchion.workflow.scoper import Scope, deepest, guess
from stanchion.workflow.signature import Signature, read_signature
from stanchion.workflow.step import AnyStep, Step
from stanchion.workflow.wirer import fill

__all__ = ["ApprovalDecorator", "StepDecorator", "Workflow"]

C_contra = TypeVar("C_contra", bound=Ctx, contravariant=True)
P = ParamSpec("P")
R = TypeVar("R")

Compensate = Literal["never", "failed", "cancelled", "always"]
_ErrorClasses = type[Exception] | tuple[type[Exception], ...]
_Targets = AnyStep | str | tuple[AnyStep | str, ...]


class StepDecorator(Protocol):
    """What `@workflow.step(...)` is: a function with a context first becomes a step with the same call."""

    def __call__(self, fn: Callable[Concatenate[C_contra, P], R], /) -> Step[P, R]:
        """Declare `fn` as a step."""
        ...


class ApprovalDecorator(Protocol):
    """What `@workflow.approval(...)` is: a function that asks becomes a step whose result is the decision."""

    def __call__(self, fn: Callable[Concatenate[C_contra, P], Ask | Awaitable[Ask]], /) -> Step[P, Decision]:
        """Declare `fn` as a step."""
        ...


class Workflow:
    """A named, versioned set of steps.

    Steps are checked as they are declared; `graph()` checks the whole and closes the definition. A run keeps the
    version that it started with, so a changed graph needs a new version. Raises Rejected E-STEP-18 for a bad name,
    E-VER-02 for a version that is no whole number from 1. `operations` are the effects outside that its steps ask for
    with `ctx.op`; whoever serves the workflow can be asked what became of them. `compensate` says of which runs what they
    did is undone, the newest first: of those that failed, that were cancelled, of both (`always`) or of none.
    `budget` is what a task may spend by unit, where its submission says nothing else; raises Rejected E-BUD-03.
    """

    def __init__(
        self,
        name: str,
        version: int = 1,
        *,
        operations: Iterable[AnyOperation] = (),
        compensate: Compensate = "never",
        budget: Mapping[str, float] | None = None,
    ) -> None:
        where = calling_site()
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise refusal(
                "E-STEP-18", f"{name!r} is no name for a workflow", where, fix="[a-z][a-z0-9_]{0,63}, e.g. daily_brief"
            )
        if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version < 2**31:
            raise refusal(
                "E-VER-02", f"version={version!r} is no version of {name}", where, fix="version=1, then 2, 3, …"
            )
        self.name = name
        self.version = version
        self.where = where
        self._steps: dict[str, AnyStep] = {}
        self._scopes: dict[str, Scope] = {}
        self._frozen: Frozen | None = None
        self.operations = MappingProxyType(_by_kind(name, operations, where))
        self.compensate = _compensated(name, compensate, where)
        self.budget = {} if budget is None else amounts(budget, "budget", where)

    @property
    def steps(self) -> Mapping[str, AnyStep]:
        """The steps by name, in order of definition."""
        return MappingProxyType(self._steps)

    def step(
        self,
        *bare: Never,
        after: AnyStep | tuple[AnyStep, ...] | list[AnyStep] | None = None,
        each: bool = False,
        join: Literal["all", "first"] | Join | None = None,
        retries: int = limits.RETRIES,
        retry_delay: Duration = "1s",
        retry_cap: Duration = "5m",
        retry_on: _ErrorClasses | None = None,
        no_retry: _ErrorClasses = (),
        timeout: Duration | None = None,
        start_within: Duration | None = None,
        total: Duration | None = None,
        lease: Duration | None = None,
        queue: str = "default",
        priority: int = limits.PRIORITY_DEFAULT,
        isolation: Literal["thread", "process"] | None = None,
        next: _Targets | None = None,
        again: _Targets | None = None,
        max_rounds: int = 10,
        spawns: tuple[AnyStep | str, AnyStep | str] | None = None,
        on_demand: bool = False,
    ) -> StepDecorator:
        """Declare a step; the function's name is the step's name.

        Wiring: `after` names the steps whose results are its arguments, in order; `each` starts one child for each item
        of the list that its only predecessor returns; `join` closes such a fan-out. `next`, `again` and `spawns`
        (child, join) name what Go, Again and Spawn may lead to, as steps or, when they stand further down, by name.

        Attempts: `retries` beyond the first, `retry_delay` doubling up to `retry_cap`, only for errors in `retry_on`
        and never for those in `no_retry`. Times: `timeout` of one attempt, `start_within` until a worker takes it,
        `total` over all attempts, `lease` of a worker's hold. A timed-out `async` step is cancelled and a process is
        killed; a thread can't be: its lease is given up, and what it still writes is refused.

        Raises Rejected E-STEP-.., E-WIRE-.. or E-JOIN-.. for what can't be, here or when the graph is frozen.
        """
        given = {key: value for key, value in locals().items() if key not in ("self", "bare")}
        where = calling_site()
        if bare:
            raise refusal("E-STEP-12", "step needs its brackets", where, fix=f"@{self.name}.step()")
        options = read_options(given, where)
        scope = _local_names()

        def declare(fn: Any) -> Any:
            return self._declare(fn, options, read_signature(fn, where, scope), where)

        return declare

    def approval(
        self,
        *bare: Never,
        by: str | tuple[str, ...] = (),
        needs: int = 1,
        within: Duration = "1d",
        timeout: Literal["reject", "fail"] = "reject",
        rejected: Literal["end", "continue"] | None = None,
        four_eyes: bool = True,
        after: AnyStep | tuple[AnyStep, ...] | list[AnyStep] | None = None,
        each: bool = False,
        join: Literal["all", "first"] | Join | None = None,
        retries: int = limits.RETRIES,
        queue: str = "default",
        priority: int = limits.PRIORITY_DEFAULT,
        isolation: Literal["thread", "process"] | None = None,
    ) -> ApprovalDecorator:
        """Declare a step that asks people: its function returns an Ask, its result is the Decision.

        `by` names teams ("editors") and people ("person:ann"), or nobody: then any approver decides. `needs` of them
        must approve, one rejection is enough; nobody decides twice, and with `four_eyes` not whoever submitted the task.
        After `within` it is a rejection, or with timeout="fail" the step fails; silence never approves. With
        rejected="end" a no ends the task as rejected; with "continue" what comes after it gets the Decision and goes on.
        Without it a no ends the task, and in a branch of a fan-out it goes on. While it waits it holds no lease and no
        slot. The wiring is that of `step`.
        """
        given = {key: value for key, value in locals().items() if key in _STEP_OPTIONS}
        where = calling_site()
        if bare:
            raise refusal("E-STEP-12", "approval needs its brackets", where, fix=f"@{self.name}.approval()")
        asks = ask_spec(by, needs, within, timeout, rejected, four_eyes, where)
        options = replace(read_options(_STEP_DEFAULTS | given, where), asks=asks)
        scope = _local_names()

        def declare(fn: Any) -> Any:
            return self._declare(fn, options, read_signature(fn, where, scope, asks=True), where)

        return declare

    def _declare(self, fn: Any, options: StepOptions, signature: Signature, where: Site) -> AnyStep:
        self._check_name(signature.name, where)
        for one in options.after:
            if self._steps.get(one.name) is not one:
                raise refusal(
                    "E-WIRE-03",
                    f"after= of {signature.name} names {one.name}, a step of {one.workflow.name}",
                    where,
                    fix=f"name a step of {self.name}",
                )
        _check_isolation(signature.name, fn, options, where)
        step: AnyStep = Step(fn, workflow=self, options=options, signature=signature, where=where)
        closed = step.after[0] if len(step.after) == 1 else deepest(step, self._scopes)
        fill(step, closed if options.join else None, "input")
        self._scopes[step.name] = guess(step, self._scopes)
        self._steps[step.name] = step
        return step

    def _check_name(self, name: str, where: Site) -> None:
        if self._frozen is not None:
            raise refusal(
                "E-STEP-42",
                f"{name} comes too late: the graph of {self.name} was read already",
                where,
                fix="define all steps before graph(), validate_input() or describe() is called",
            )
        if not NAME.fullmatch(name):
            raise refusal("E-STEP-18", f"{name!r} is no name for a step", where, fix="[a-z][a-z0-9_]{0,63}")
        if name in self._steps:
            raise refusal(
                "E-STEP-19",
                f"{self.name} has a step {name} already",
                where,
                why=f"the other stands at {self._steps[name].where}",
                fix="rename one of the two",
            )
        if len(self._steps) >= limits.GRAPH_STEPS:
            raise refusal(
                "E-STEP-43",
                f"{self.name} has {len(self._steps) + 1:,} steps; the limit is {limits.GRAPH_STEPS:,}",
                where,
                fix="use a fan-out (each=True), or split the workflow",
            )

    def _freeze(self) -> Frozen:
        if self._frozen is None:
            self._frozen = freeze(self)
        return self._frozen

    def graph(self) -> Graph:
        """The whole graph, checked; the definition is closed from here on. Raises Rejected E-WIRE-.. and others."""
        return self._freeze().graph

    def codec(self, name: str) -> StepCodec:
        """The codec of the step `name`; KeyError if there is none. Freezes the graph."""
        return self._freeze().codecs[name]

    def input_schema(self) -> dict[str, Any]:
        """The JSON schema of a task's input: an object with the arguments of all first steps."""
        return self._freeze().intake.schema()

    def validate_input(self, value: Any) -> dict[str, Any]:
        """The checked JSON input of a task; defaults are not filled in. Raises Unprocessable E-TASK-02 with paths."""
        return self._freeze().intake.check(value)

    def encode_input(self, **values: Any) -> dict[str, Any]:
        """The JSON input of a task from Python values; raises Unprocessable E-TASK-02 with paths."""
        return self._freeze().intake.encode(values)

    def describe(self) -> str:
        """The graph as a small table for people."""
        return describe(self.graph())

    def __repr__(self) -> str:
        return f"<workflow {self.name} v{self.version}, {len(self._steps)} steps>"


_STEP_DEFAULTS = {
    name: parameter.default
    for name, parameter in inspect.signature(Workflow.step).parameters.items()
    if name not in ("self", "bare")
}
_STEP_OPTIONS = frozenset(_STEP_DEFAULTS) - {"timeout"}


def _by_kind(name: str, operations: Iterable[AnyOperation], where: Site) -> dict[str, AnyOperation]:
    found: dict[str, AnyOperation] = {}
    declared = list(operations)
    for one in declared:
        if isinstance(one, Operation) and one.undo is not None and one.undo not in declared:
            declared.append(one.undo)
        if not isinstance(one, Operation) or found.setdefault(one.kind, one) is not one:
            what = f"{one!r} is no operation" if not isinstance(one, Operation) else f"{one.kind} is declared twice"
            raise refusal("E-OP-02", f"{what}, in operations= of {name}", where, fix="operations=[Operation(...), ...]")
    return found


def _compensated(name: str, when: Any, where: Site) -> tuple[Literal["failed", "cancelled"], ...]:
    known: dict[Any, tuple[Literal["failed", "cancelled"], ...]] = {
        "never": (),
        "failed": ("failed",),
        "cancelled": ("cancelled",),
        "always": ("failed", "cancelled"),
    }
    if not isinstance(when, str) or when not in known:
        raise refusal("E-OP-02", f"compensate={when!r} of {name} is unknown", where, fix=", ".join(map(repr, known)))
    return known[when]


def _local_names() -> dict[str, Any]:
    """The local names where the decorator stands: types that are defined in a function are visible only there."""
    frame = sys._getframe(2)
    return {} if frame.f_locals is frame.f_globals else dict(frame.f_locals)


def _check_isolation(name: str, fn: Any, options: StepOptions, where: Site) -> None:
    if options.isolation == "thread" and inspect.iscoroutinefunction(inspect.unwrap(fn)):
        raise refusal(
            "E-STEP-40",
            f'{name}() is async def and has isolation="thread"',
            where,
            why="async steps share one event loop",
            fix='write def, or use isolation="process", or leave it out',
        )
