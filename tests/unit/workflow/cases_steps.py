"""Definitions that are refused for one step, and values and decisions that are refused at run time."""

import math
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypedDict

import pytest
from pydantic import BaseModel, SecretStr
from refusal_kit import CASES, Url, pages, refused, urls

from stanchion.contracts import limits
from stanchion.workflow import Again, Ctx, First, Retry, Workflow

# --- functions ---


@refused("E-STEP-11", "Thing is a class, not a function")
def step_of_a_class(wf: Workflow) -> None:
    class Thing:
        pass

    wf.step()(Thing)


@refused("E-STEP-11", "a lambda has no name")
def step_of_a_lambda(wf: Workflow) -> None:
    wf.step()(lambda ctx: 1)


@refused("E-STEP-11", "print is a builtin_function_or_method, not a function")
def step_of_a_builtin(wf: Workflow) -> None:
    wf.step()(print)


@refused("E-STEP-11", "plan is a step already, of brief")
def step_of_a_step(wf: Workflow) -> None:
    wf.step()(urls(wf))


@refused("E-STEP-11", "plan() yields; a step has one result")
def step_of_a_generator(wf: Workflow) -> None:
    @wf.step()
    def plan(ctx: Ctx) -> Iterator[str]:
        yield ""


@refused("E-STEP-12", "fix: @brief.step()")
def bare_decorator(wf: Workflow) -> None:
    @wf.step
    def plan(ctx: Ctx) -> None: ...


@refused("E-STEP-13", "plan() takes **options")
def stars(wf: Workflow) -> None:
    @wf.step()
    def plan(ctx: Ctx, **options: str) -> None: ...


@refused("E-STEP-13", "use functools.wraps")
def wrapped_without_wraps(wf: Workflow) -> None:
    def plain(fn: Any) -> Any:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return fn(*args, **kwargs)

        return wrapper

    @wf.step()
    @plain
    def plan(ctx: Ctx, topic: str) -> None: ...


@refused("E-STEP-13", "plan() takes topic by position only")
def by_position(wf: Workflow) -> None:
    @wf.step()
    def plan(ctx: Ctx, topic: str, /) -> None: ...


@refused("E-STEP-14", "no_context_plan() takes no context")
def no_context(wf: Workflow) -> None:
    wf.step()(no_context_plan)


def no_context_plan() -> None: ...


@refused("E-STEP-14", "plan() takes topic: str first")
def argument_first(wf: Workflow) -> None:
    @wf.step()
    def plan(topic: str) -> None: ...


@refused("E-STEP-14", "plan() takes self: a step is a function, not a method")
def method(wf: Workflow) -> None:
    class Steps:
        @wf.step()
        def plan(self, ctx: Ctx) -> None: ...


@refused("E-STEP-14", "the first parameter of plan(), ctx, is not annotated")
def context_without_annotation(wf: Workflow) -> None:
    @wf.step()
    def plan(ctx, topic: str) -> None: ...


@refused("E-STEP-15", "plan() does not say what topic is")
def argument_without_annotation(wf: Workflow) -> None:
    @wf.step()
    def plan(ctx: Ctx, topic) -> None: ...


@refused("E-STEP-15", "plan() does not say what it returns")
def result_without_annotation(wf: Workflow) -> None:
    @wf.step()
    def plan(ctx: Ctx): ...


@refused("E-STEP-15", "plan() never returns a value")
def only_retry(wf: Workflow) -> None:
    @wf.step()
    def plan(ctx: Ctx) -> Retry: ...


@refused("E-STEP-16", "plan(): the type of page can't be read")
def unknown_type(wf: Workflow) -> None:
    @wf.step()
    def plan(ctx: Ctx, page: "Nowhere") -> None: ...  # noqa: F821 - that is the point


@refused("E-STEP-17", "token: secrets are masked when they are written")
def takes_a_secret(wf: Workflow) -> None:
    class Login(BaseModel):
        token: SecretStr

    @wf.step()
    def plan(ctx: Ctx, login: Login) -> None: ...


@refused("E-STEP-17", "bytes have no JSON form")
def takes_bytes(wf: Workflow) -> None:
    @wf.step()
    def plan(ctx: Ctx, data: bytes) -> None: ...


@refused("E-STEP-17", "{}: the order of a set differs between processes")
def returns_a_set(wf: Workflow) -> None:
    @wf.step()
    def plan(ctx: Ctx) -> dict[str, set[int]]: ...


@refused("E-STEP-17", "Handle has no JSON form")
def takes_an_object(wf: Workflow) -> None:
    class Handle:
        pass

    @wf.step()
    def plan(ctx: Ctx, out: Path | Handle) -> None: ...


@refused("E-STEP-17", "Iterable[str] has no end that is known")
def returns_an_iterable(wf: Workflow) -> None:
    @wf.step()
    def plan(ctx: Ctx) -> Iterable[str]: ...


@refused("E-STEP-17", "write async def, and name what it gives")
def returns_an_awaitable(wf: Workflow) -> None:
    @wf.step()
    def plan(ctx: Ctx) -> Awaitable[str]: ...


@refused("E-STEP-17", "Callable[[], int] has no JSON form")
def takes_a_function(wf: Workflow) -> None:
    @wf.step()
    def plan(ctx: Ctx, make: Callable[[], int]) -> None: ...


@refused("E-STEP-17", "Final[int] says how a name is used")
def takes_a_final(wf: Workflow) -> None:
    @wf.step()
    def plan(ctx: Ctx, number: Final[int]) -> None: ...


if sys.version_info < (3, 12):  # from then on the one of typing is as good as the other

    @refused("E-STEP-17", "Python 3.11 keeps too little of its own TypedDict")
    def takes_an_old_typed_dict(wf: Workflow) -> None:
        class Old(TypedDict):
            a: int

        @wf.step()
        def plan(ctx: Ctx, old: Old) -> None: ...


@refused("E-STEP-17", "Again is a decision, not a value")
def returns_decisions(wf: Workflow) -> None:
    @wf.step()
    def plan(ctx: Ctx) -> list[Again]: ...


# --- names and options ---


@refused("E-STEP-18", "'Plan' is no name for a step")
def name_of_a_step(wf: Workflow) -> None:
    @wf.step()
    def Plan(ctx: Ctx) -> None: ...


for name in ("Brief", "", "b-1", "a" * 65, "größe", 3):
    CASES.append(("E-STEP-18", f"{name!r} is no name for a workflow", lambda wf, name=name: Workflow(name)))


@refused("E-STEP-19", "brief has a step plan already")
def name_twice(wf: Workflow) -> None:
    urls(wf)
    urls(wf)


def option(code: str, message: str, **options: Any) -> None:
    def case(wf: Workflow) -> None:
        @wf.step(**options)
        def plan(ctx: Ctx) -> None: ...

    CASES.append((code, message, case))


option("E-STEP-40", "retries=-1 is no whole number from 0 to 100", retries=-1)
option("E-STEP-40", "retries=True is no whole number", retries=True)
option("E-STEP-40", "priority=101 is no whole number from -100 to 100", priority=101)
option("E-STEP-40", "queue='Crawl' is no queue name", queue="Crawl")
option("E-STEP-40", "isolation='fork' is not one of thread, process", isolation="fork")
option("E-STEP-40", "each='yes' is not True or False", each="yes")
option("E-STEP-40", "no_retry='ValueError' is no class of Exception", no_retry="ValueError")
option("E-STEP-40", "timeout=120 s is longer than total=60 s", timeout="2m", total="1m")
option("E-STEP-40", "retry_cap=1 s is less than retry_delay", retry_delay="2s", retry_cap="1s")
option("E-STEP-40", "max_rounds=0 is no whole number from 1", max_rounds=0)
option("E-STEP-40", "again= names a step twice", again=("plan", "plan"))
option("E-STEP-41", "timeout='2 minutes' is no duration", timeout="2 minutes")
option("E-STEP-41", "timeout='-2m' is negative", timeout="-2m")
option("E-STEP-41", "timeout=0 is zero", timeout=0)
option("E-STEP-41", "timeout=True is no duration", timeout=True)
option("E-STEP-41", "timeout=nan is not finite", timeout=math.nan)
option("E-STEP-41", "total=inf is not finite", total=math.inf)
option("E-STEP-41", "is longer than ten years", total=timedelta(days=36500))
option("E-STEP-41", "lease='1s' is shorter than 2 s", lease="1s")


@refused("E-STEP-40", "on_demand=True and after= stand in one step")
def on_demand_after(wf: Workflow) -> None:
    @wf.step(after=urls(wf), on_demand=True)
    def send(ctx: Ctx, urls: list[Url]) -> None: ...


@refused("E-STEP-40", 'plan() is async def and has isolation="thread"')
def async_thread(wf: Workflow) -> None:
    @wf.step(isolation="thread")
    async def plan(ctx: Ctx) -> None: ...


@refused("E-STEP-41", "within='soon' is no duration")
def bad_deadline(wf: Workflow) -> None:
    First(within="soon")


@refused("E-STEP-41", "after='soon' is no duration")
def bad_delay(wf: Workflow) -> None:
    Retry(after="soon")


@refused("E-STEP-42", "late comes too late")
def after_the_graph(wf: Workflow) -> None:
    urls(wf)
    wf.graph()

    @wf.step()
    def late(ctx: Ctx) -> None: ...


@refused("E-STEP-43", "brief has 4 steps; the limit is 3")
def too_many(wf: Workflow) -> None:
    def make(index: int) -> Any:
        def plan(ctx: Ctx) -> None: ...

        plan.__name__ = f"plan_{index}"
        return plan

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "GRAPH_STEPS", 3)
        for index in range(4):
            wf.step()(make(index))


@refused("E-STEP-44", "plan() declares next= but its result type has no Go")
def next_without_go(wf: Workflow) -> None:
    @wf.step(next="deep")
    def plan(ctx: Ctx) -> str: ...


@refused("E-STEP-44", "plan() may return Again but declares no again=")
def again_without_target(wf: Workflow) -> None:
    @wf.step()
    def plan(ctx: Ctx) -> str | Again: ...


# --- running ---


@refused("E-STEP-31", "fetch() can't take url: Url")
def argument_that_changed(wf: Workflow) -> None:
    pages(wf).codec.decode_args(item={"hots": "x"})


@refused("E-STEP-32", "plan() returned no list[Url]")
def another_result(wf: Workflow) -> None:
    urls(wf).codec.encode_result([Url("x"), "y"])


@refused("E-STEP-33", "plan() returned a decision for plan")
def another_decision(wf: Workflow) -> None:
    plan = urls(wf)
    plan.codec.encode_result(Again(plan, topic="x"))


for version in (0, -1, "7", 1.0, True, 2**31):
    CASES.append(("E-VER-02", f"version={version!r} is no version of x", lambda wf, v=version: Workflow("x", v)))
