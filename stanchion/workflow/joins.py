"""The rules by which a join opens: all, the first, or at least so many.

`on_failed` says what a failed child means: `fail` (the barrier fails as soon as it can no longer open), `collect` (it
counts as arrived) or `hold` (wait until somebody reopens it or opens the barrier without it). `rest` says what happens
to the others once the barrier opened early: `cancel` those that have not started, or let them `finish`. `within` is the
barrier's deadline.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from stanchion.workflow.durations import Duration, seconds
from stanchion.workflow.faults import Site, calling_site, closest, refusal
from stanchion.workflow.graph import JoinSpec

__all__ = ["All", "AtLeast", "First", "Join", "join_spec"]

OnFailed: TypeAlias = Literal["fail", "collect", "hold"]
Rest: TypeAlias = Literal["cancel", "finish"]


@dataclass(frozen=True, slots=True)
class All:
    """Open when every child has arrived; raises Rejected E-JOIN-01 or E-STEP-41 for a bad value."""

    on_failed: OnFailed = "fail"
    within: Duration | None = None

    def __post_init__(self) -> None:
        _check_words(self.on_failed, "cancel", self.within)


@dataclass(frozen=True, slots=True)
class First:
    """Open with the first child that succeeds; raises Rejected E-JOIN-01 or E-STEP-41 for a bad value."""

    within: Duration | None = None
    on_failed: OnFailed = "fail"
    rest: Rest = "cancel"

    def __post_init__(self) -> None:
        _check_words(self.on_failed, self.rest, self.within)


@dataclass(frozen=True, slots=True)
class AtLeast:
    """Open with `need` children: an int is a count (from 1), a float a share (over 0, up to 1.0).

    Raises Rejected E-JOIN-01 or E-STEP-41 for a bad value.
    """

    need: int | float
    within: Duration | None = None
    on_failed: OnFailed = "fail"
    rest: Rest = "cancel"

    def __post_init__(self) -> None:
        need = self.need
        if isinstance(need, bool) or not isinstance(need, int | float):
            raise _bad_rule(f"AtLeast({need!r}) is neither a count nor a share")
        if isinstance(need, float) and not (math.isfinite(need) and 0 < need <= 1):
            raise _bad_rule(f"AtLeast({need!r}) is no share: a share is over 0 and at most 1.0")
        if isinstance(need, int) and need < 1:
            raise _bad_rule(f"AtLeast({need!r}) is no count: a count is 1 or more")
        _check_words(self.on_failed, self.rest, self.within)


Join: TypeAlias = All | First | AtLeast


def join_spec(join: object, where: Site) -> JoinSpec:
    """The graph's form of what stands in `join=`; raises Rejected E-JOIN-01 for what is no rule."""
    if isinstance(join, str):
        if join not in ("all", "first"):
            meant = closest(join.lower(), ("all", "first"))
            raise refusal(
                "E-JOIN-01",
                f"join={join!r} is no join rule" + (f"; did you mean {meant!r}?" if meant else ""),
                where,
                fix='use "all", "first", All(...), First(...) or AtLeast(n or share, ...)',
            )
        join = All() if join == "all" else First()
    match join:
        case All(on_failed=on_failed, within=within):
            return JoinSpec(rule="all", on_failed=on_failed, within_seconds=_within(within))
        case First(within=within, on_failed=on_failed, rest=rest):
            return JoinSpec(rule="first", within_seconds=_within(within), on_failed=on_failed, rest=rest)
        case AtLeast(need=need, within=within, on_failed=on_failed, rest=rest):
            # JSON can't tell the share 1.0 from the count 1; a share of all is the rule "all".
            if isinstance(need, float) and need == 1.0:
                return JoinSpec(rule="all", on_failed=on_failed, within_seconds=_within(within))
            return JoinSpec(rule="at_least", need=need, within_seconds=_within(within), on_failed=on_failed, rest=rest)
    raise refusal(
        "E-JOIN-01",
        f"join={join.__name__ if isinstance(join, type) else repr(join)} is no join rule",
        where,
        fix="write its brackets: First()"
        if isinstance(join, type)
        else 'use "all", "first", All(...), First(...) or AtLeast(n or share, ...)',
    )


def _within(within: Duration | None) -> float | None:
    return None if within is None else seconds(within, "within", None)


def _check_words(on_failed: str, rest: str, within: object) -> None:
    if on_failed not in get_args(OnFailed):
        raise _bad_rule(f"on_failed={on_failed!r} is not one of fail, collect, hold")
    if rest not in get_args(Rest):
        raise _bad_rule(f"rest={rest!r} is not one of cancel, finish")
    if within is not None:
        seconds(within, "within", calling_site())


def _bad_rule(what: str) -> Exception:
    return refusal("E-JOIN-01", what, calling_site(), fix="e.g. AtLeast(0.9), AtLeast(3), All(on_failed='collect')")
