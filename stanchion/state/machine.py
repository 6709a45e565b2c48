"""What a state machine is: states, transitions as values, and the columns that each state requires."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

Actor = Literal[
    "submitter", "planner", "barrier", "worker", "reaper", "timer", "canceller", "operator", "approver", "engine"
]


@dataclass(frozen=True, slots=True)
class Transition:
    """One arrow: `name` moves any of `sources` to `target`.

    `fenced` means that the writer proves the lease: the step's current fence, or for the reaper an expired attempt,
    or for the canceller a run that is being cancelled. `event` is the event that records it.
    """

    name: str
    sources: tuple[StrEnum, ...]
    target: StrEnum
    actors: tuple[Actor, ...]
    cause: str
    event: str
    fenced: bool = False


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine over one table: births, transitions, terminal states and shape rules (SQL expressions)."""

    table: str
    states: type[StrEnum]
    births: tuple[StrEnum, ...]
    transitions: tuple[Transition, ...]
    reopenable: tuple[StrEnum, ...] = ()
    """Terminal states that one declared transition may leave (settled: reopen while the run is live)."""
    immutable: tuple[str, ...] = ()
    """Columns that never change after birth."""
    shapes: dict[str, str] = field(default_factory=dict)
    """Constraint name -> SQL expression that must hold in every state."""

    def targets_of(self, source: StrEnum) -> tuple[StrEnum, ...]:
        """All states that some transition reaches from `source`, in declaration order."""
        return tuple(dict.fromkeys(t.target for t in self.transitions if source in t.sources))

    def legal(self, source: StrEnum, target: StrEnum) -> bool:
        """True when a transition leads from `source` to `target`."""
        return target in self.targets_of(source)

    @property
    def terminal(self) -> tuple[StrEnum, ...]:
        """States that nothing leaves, apart from a declared reopening."""
        return tuple(s for s in self.states if not self.targets_of(s) or s in self.reopenable)

    def pairs(self) -> Iterator[tuple[StrEnum, StrEnum]]:
        """Every ordered pair of different states: the ground of the test matrix."""
        return ((a, b) for a in self.states for b in self.states if a is not b)
