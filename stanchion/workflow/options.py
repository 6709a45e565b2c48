"""What stands in the brackets of @workflow.step(...), checked and in one form: seconds, names, tuples of steps."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from stanchion.contracts import limits
from stanchion.errors import Rejected
from stanchion.workflow.durations import seconds
from stanchion.workflow.faults import Site, refusal
from stanchion.workflow.graph import AskSpec, JoinSpec
from stanchion.workflow.joins import join_spec
from stanchion.workflow.step import AnyStep, Step

__all__ = ["NAME", "StepOptions", "read_options"]

NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_QUEUE: Final = re.compile(r"[a-z0-9-]{1,64}")
_ROUNDS_MAX: Final = 10_000

Errors = tuple[type[BaseException], ...]
Isolation = Literal["thread", "process"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOptions:
    """Checked options. Targets (`next`, `again`, `spawns`) stay names: they may be defined further down."""

    after: tuple[AnyStep, ...]
    each: bool
    join: JoinSpec | None
    next: tuple[AnyStep | str, ...]
    again: tuple[AnyStep | str, ...]
    max_rounds: int
    spawns: tuple[AnyStep | str, AnyStep | str] | None
    on_demand: bool
    queue: str
    priority: int
    retries: int
    retry_base_seconds: float
    retry_cap_seconds: float
    retry_on: Errors | None
    no_retry: Errors
    timeout_seconds: float | None
    start_within_seconds: float | None
    total_seconds: float | None
    lease_seconds: float | None
    isolation: Isolation | None
    asks: AskSpec | None = None

    def retryable(self, error: BaseException) -> bool:
        """By `no_retry` first, then `retry_on`; without them everything but Rejected and what is no Exception."""
        if not issubclass(type(error), Exception):
            return False
        try:
            if isinstance(error, self.no_retry):
                return False
            return not isinstance(error, Rejected) if self.retry_on is None else isinstance(error, self.retry_on)
        except BaseException:  # noqa: BLE001 - a class may decide by code of its own what belongs to it
            return True  # its attempts end it


def read_options(given: dict[str, Any], where: Site) -> StepOptions:
    """The options as given to the decorator; raises Rejected E-STEP-40, E-STEP-41, E-WIRE-03 or E-JOIN-01."""
    take = _Taker(given, where)
    options = StepOptions(
        after=cast("tuple[AnyStep, ...]", take.steps("after", names=False)),
        each=take.flag("each"),
        join=None if given["join"] is None else join_spec(given["join"], where),
        next=take.steps("next"),
        again=take.steps("again"),
        max_rounds=take.number("max_rounds", 1, _ROUNDS_MAX),
        spawns=take.pair("spawns"),
        on_demand=take.flag("on_demand"),
        queue=take.queue(),
        priority=take.number("priority", limits.PRIORITY_MIN, limits.PRIORITY_MAX),
        retries=take.number("retries", 0, limits.RETRIES_MAX),
        retry_base_seconds=seconds(given["retry_delay"], "retry_delay", where, zero=True),
        retry_cap_seconds=seconds(given["retry_cap"], "retry_cap", where, zero=True),
        retry_on=None if given["retry_on"] is None else take.errors("retry_on"),
        no_retry=take.errors("no_retry"),
        timeout_seconds=take.seconds("timeout"),
        start_within_seconds=take.seconds("start_within"),
        total_seconds=take.seconds("total"),
        lease_seconds=take.seconds("lease", least=limits.LEASE_SECONDS_MIN),
        isolation=take.isolation(),
    )
    _check_relations(options, where)
    return options


def _check_relations(options: StepOptions, where: Site) -> None:
    if options.each and options.join:
        raise refusal(
            "E-JOIN-04",
            "each=True and join= stand in one step",
            where,
            why="a join closes a fan-out, each= opens one",
            fix="join in one step that returns the list, and fan it out in the next",
        )
    if options.retry_cap_seconds < options.retry_base_seconds:
        raise _bad(where, f"retry_cap={options.retry_cap_seconds:g} s is less than retry_delay", "raise retry_cap=")
    for name in ("timeout", "start_within"):
        span: float | None = getattr(options, f"{name}_seconds")
        if span is not None and options.total_seconds is not None and span > options.total_seconds:
            raise _bad(
                where,
                f"{name}={span:g} s is longer than total={options.total_seconds:g} s",
                f"total= covers waiting and all attempts: make it longer, or {name}= shorter",
            )
    for name in ("each", "join"):
        if getattr(options, name) and not options.after:
            code = "E-WIRE-05" if name == "each" else "E-JOIN-03"
            raise refusal(code, f"{name}= stands without after=", where, fix="name the step before it in after=")
    if options.on_demand and options.after and not options.join:
        raise _bad(
            where,
            "on_demand=True and after= stand in one step",
            "after= starts a step by itself: leave one of them out (both only for the join of a Spawn)",
        )


def _bad(where: Site, what: str, fix: str) -> Rejected:
    return refusal("E-STEP-40", what, where, fix=fix)


class _Taker:
    def __init__(self, given: dict[str, Any], where: Site) -> None:
        self.given = given
        self.where = where

    def flag(self, name: str) -> bool:
        value = self.given[name]
        if not isinstance(value, bool):
            raise _bad(self.where, f"{name}={value!r} is not True or False", f"{name}=True")
        return value

    def number(self, name: str, least: int, most: int) -> int:
        value = self.given[name]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise _bad(
                self.where, f"{name}={value!r} is no whole number from {least} to {most:,}", f"{name}={max(least, 1)}"
            )
        return value

    def seconds(self, name: str, *, least: float | None = None) -> float | None:
        value = self.given[name]
        return None if value is None else seconds(value, name, self.where, least=least)

    def queue(self) -> str:
        value = self.given["queue"]
        if not isinstance(value, str) or not _QUEUE.fullmatch(value):
            raise _bad(
                self.where,
                f"queue={value!r} is no queue name: they are [a-z0-9-], 1 to 64 characters",
                'e.g. queue="crawl" (the name becomes part of a topic)',
            )
        return value

    def isolation(self) -> Isolation | None:
        value = self.given["isolation"]
        if value not in (None, "thread", "process"):
            raise _bad(self.where, f"isolation={value!r} is not one of thread, process", "leave it out, or use process")
        return cast("Isolation | None", value)

    def errors(self, name: str) -> Errors:
        value = self.given[name]
        found = tuple(value) if isinstance(value, tuple | list) else (value,)
        for one in found:
            if not (isinstance(one, type) and issubclass(one, Exception)):
                raise _bad(self.where, f"{name}={one!r} is no class of Exception", f"{name}=(ValueError, OSError)")
        return found

    def steps(self, name: str, *, names: bool = True) -> tuple[AnyStep | str, ...]:
        value = self.given[name]
        if value is None:
            return ()
        found = tuple(value) if isinstance(value, tuple | list) else (value,)
        for one in found:
            self._check_step(name, one, names=names)
        if len({getattr(one, "name", one) for one in found}) != len(found):
            raise _bad(self.where, f"{name}= names a step twice", "name each step once")
        return found

    def pair(self, name: str) -> tuple[AnyStep | str, AnyStep | str] | None:
        value = self.given[name]
        if value is None:
            return None
        if not isinstance(value, tuple | list) or len(value) != 2:
            raise refusal(
                "E-WIRE-09", f"{name}={value!r} is not a pair", self.where, fix=f"{name}=(child_step, join_step)"
            )
        for one in value:
            self._check_step(name, one, names=True)
        return (value[0], value[1])

    def _check_step(self, name: str, one: Any, *, names: bool) -> None:
        if isinstance(one, Step) or (names and isinstance(one, str)):
            return
        shown = f'"{one}"' if isinstance(one, str) else getattr(one, "__name__", repr(one))
        fix = "pass the decorated function itself"
        if isinstance(one, str):
            fix = f"{name}={one}, without quotes, below the step"
        raise refusal("E-WIRE-03", f"{name}={shown} is no step", self.where, fix=fix)
