"""The graph of a workflow: immutable, plain JSON, the same in every process. It is what runs are planned from.

Scopes are the idea that carries fan-outs: the scope of a step is the list of fan-outs around it, outermost first; a
fan-out is named by the step that opens it (an each= step, or the child of a Spawn), which is itself inside. A step runs
once for every branch of its scope; a step with `join` stands one scope further out than what it joins.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from stanchion.contracts import payload
from stanchion.errors import Unprocessable

__all__ = ["AskSpec", "Graph", "JoinSpec", "Node", "OperationSpec", "Param"]

# Wording of a schema that changes nothing on the wire: an edited docstring must not look like another graph.
_WORDING: Final = {"title", "description", "examples", "$comment", "x-converts"}
# Under these keys of a schema the keys are names of the user, not words of JSON Schema.
_NAMED: Final = {"properties", "$defs", "patternProperties", "dependentSchemas"}
_VERBATIM: Final = {"default", "const", "enum"}


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)


class Param(_Frozen):
    """One argument of a step, in the order of its function; `source` says what fills it.

    `input`: the task's input of this name. `step`: the result of `step`. `item`: the item of its fan-out (`step` is the
    step whose list is fanned out, null for a Spawn). `results`: the Results of joining `step`. `go`: what Go or Again
    carries; with `required` false the function has a default.
    """

    name: str
    source: Literal["input", "step", "item", "results", "go"]
    step: str | None = None
    required: bool = True


class JoinSpec(_Frozen):
    """The rule of a barrier. `need` of `at_least` is a count (int >= 1) or a share (0 < float < 1), else null."""

    rule: Literal["all", "first", "at_least"]
    need: int | float | None = None
    within_seconds: float | None = None
    on_failed: Literal["fail", "collect", "hold"] = "fail"
    rest: Literal["cancel", "finish"] = "cancel"

    @field_validator("need")
    @classmethod
    def _count_or_share(cls, need: int | float | None) -> int | float | None:
        # JSON has one kind of number: 3.0 that comes back from jsonb is the count 3.
        if isinstance(need, float) and need.is_integer():
            need = int(need)
        if need is not None and not (need >= 1 if isinstance(need, int) else 0 < need < 1):
            raise ValueError("need is a count from 1 or a share between 0 and 1")
        return need

    @model_validator(mode="after")
    def _need_belongs_to_at_least(self) -> JoinSpec:
        if (self.need is not None) != (self.rule == "at_least"):
            raise ValueError("need belongs to at_least, and only to it")
        return self


class AskSpec(_Frozen):
    """Who decides what a step asks: people and teams (none named: any approver), how many of them, and until when."""

    people: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    needs: int = 1
    within_seconds: float
    on_timeout: Literal["reject", "fail"] = "reject"
    on_rejected: Literal["end", "continue"] | None = None  # null: end, and continue in a branch of a fan-out
    four_eyes: bool = True


class Node(_Frozen):
    """One declared step. Times are seconds; null means the engine's default (lease) or no limit (the others)."""

    name: str
    after: tuple[str, ...] = ()
    each: bool = False
    join: JoinSpec | None = None
    next: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    max_rounds: int = 10
    spawns: tuple[str, str] | None = None
    on_demand: bool = False
    scope: tuple[str, ...] = ()
    queue: str = "default"
    priority: int = 0
    retries: int = 3
    retry_base_seconds: float = 1.0
    retry_cap_seconds: float = 300.0
    timeout_seconds: float | None = None
    start_within_seconds: float | None = None
    total_seconds: float | None = None
    lease_seconds: float | None = None
    isolation: Literal["async", "thread", "process"] = "async"
    params: tuple[Param, ...] = ()
    input_schema: dict[str, Any] = Field(default_factory=dict)
    result_schema: dict[str, Any] = Field(default_factory=dict)
    asks: AskSpec | None = None


class OperationSpec(_Frozen):
    """A declared kind of effect, and what the other side can do about it; times are milliseconds."""

    kind: str
    scope: Literal["task", "tenant"] = "task"
    reach: Literal["reversible", "compensatable", "irreversible"]
    checks: bool
    undo: str | None = None
    keeps_key_ms: int | None = None
    lands_within_ms: int | None = None
    needs_approval: bool = False


class Graph(_Frozen):
    """All steps of one version of a workflow, in the order of their definition."""

    name: str
    version: int
    nodes: tuple[Node, ...]
    operations: tuple[OperationSpec, ...] = ()
    compensate: tuple[Literal["failed", "cancelled"], ...] = ()
    budget: dict[str, int | float] = Field(default_factory=dict)

    def __iter__(self) -> Iterator[Node]:  # type: ignore[override]  # a graph is read as its nodes, not as its fields
        return iter(self.nodes)

    @cached_property
    def _by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def memo(self) -> dict[Any, Any]:
        """What others worked out of this graph: it lives and goes with it, and is no part of its value."""
        return {}

    @cached_property
    def _followers(self) -> dict[str, tuple[Node, ...]]:
        found: dict[str, list[Node]] = {node.name: [] for node in self.nodes}
        for node in self.nodes:
            for name in node.after:
                found[name].append(node)
        return {name: tuple(nodes) for name, nodes in found.items()}

    def node(self, name: str) -> Node:
        """The node of this name; KeyError if there is none."""
        return self._by_name[name]

    def successors(self, name: str) -> tuple[Node, ...]:
        """The nodes that name it in `after`, in order of definition; KeyError for an unknown name."""
        return self._followers[name]

    def roots(self) -> tuple[Node, ...]:
        """The nodes that start with the run: nothing before them, and not on demand."""
        return tuple(node for node in self.nodes if not node.after and not node.on_demand)

    def sinks(self) -> tuple[Node, ...]:
        """The nodes that no other node names in `after`, on-demand ones included."""
        return tuple(node for node in self.nodes if not self._followers[node.name])

    def children_of(self, scope: str) -> tuple[Node, ...]:
        """The nodes that run once for each child of the fan-out `scope`, those of fan-outs inside it included."""
        return tuple(node for node in self.nodes if scope in node.scope)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` gives an equal graph back."""
        plain = self.model_dump(mode="json")
        for name in ("operations", "compensate", "budget"):
            if not plain[name]:
                del plain[name]  # so that what was registered before there were any is still the same graph
        for node in plain["nodes"]:
            if node["asks"] is None:
                del node["asks"]
        return plain

    @classmethod
    def from_json(cls, value: Any) -> Graph:
        """The graph of `to_json`, also after a way through jsonb."""
        return cls.model_validate(value)

    def digest(self) -> bytes:
        """SHA-256 (32 bytes) over the canonical JSON, without the wording of schemas."""
        plain = self.to_json()
        for node in plain["nodes"]:
            node["input_schema"] = _bare(node["input_schema"])
            node["result_schema"] = _bare(node["result_schema"])
        try:
            return payload.digest(payload.check(plain))
        except Unprocessable as error:
            raise ValueError(f"the graph of {self.name} is not plain JSON: {error}") from error


def _bare(schema: Any, *, named: bool = False) -> Any:
    if isinstance(schema, list):
        return [_bare(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = schema.items() if named else ((key, value) for key, value in schema.items() if key not in _WORDING)
    return {
        key: value if not named and key in _VERBATIM else _bare(value, named=not named and key in _NAMED)
        for key, value in kept
    }
