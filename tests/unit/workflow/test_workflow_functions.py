"""Steps as people really write them: annotations as text, decorators, local types, closures."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, ParamSpec, TypeVar

import pytest

from stanchion.errors import Rejected
from stanchion.workflow import Again, Ctx, Go, ListReader, ResultRow, Results, Workflow

if TYPE_CHECKING:
    from stanchion.sdk import Context
    from stanchion.workflow import Ctx as Hidden

P = ParamSpec("P")
R = TypeVar("R")


@dataclass
class Page:
    title: str


class MyContext:
    """Stands for the context class of the SDK, which carries the same mark."""

    __stanchion_context__: Literal[True] = True


def logged(fn: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(fn)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        return fn(*args, **kwargs)

    return wrapper


class TestAnnotations:
    def test_text_annotations_are_resolved(self) -> None:
        """This file has annotations as text throughout; nested ones in quotes too."""
        wf = Workflow("text")

        @wf.step()
        def plan(ctx: Ctx, topic: str, more: list["Page"] | None = None) -> list["Page"]:  # noqa: UP037 - twice text
            return [Page(topic)]

        @wf.step(after=plan, each=True)
        def fetch(ctx: Ctx, page: Page) -> Page:
            return page

        assert wf.graph().node("fetch").params[0].source == "item"

    def test_types_of_the_function_around_are_seen(self) -> None:
        """A workflow made in a factory may use types that are defined there."""

        @dataclass
        class Local:
            x: int

        wf = Workflow("local")

        @wf.step()
        def plan(ctx: Ctx, local: Local) -> dict[str, Local]:
            return {"a": local}

        assert plan.codec.decode_args(input={"local": {"x": 1}}) == {"local": Local(1)}

    def test_a_context_that_is_only_imported_for_type_checkers_is_known(self) -> None:
        """Nothing has to be imported at run time for the context; types of values must be."""
        wf = Workflow("hidden")

        @wf.step()
        def one(ctx: Context) -> None: ...

        @wf.step()
        def two(ctx: "Context") -> None: ...  # noqa: UP037 - twice text

        with pytest.raises(Rejected) as caught:

            @wf.step()
            def three(ctx: Hidden) -> None: ...

        assert caught.value.code == "E-STEP-16"
        assert set(wf.steps) == {"one", "two"}

    def test_any_class_with_the_mark_is_a_context(self) -> None:
        """The SDK's class, or one of the user's own below it."""
        wf = Workflow("mark")

        @wf.step()
        def plan(context: MyContext, topic: str) -> str:
            return topic

        assert plan(MyContext(), "x") == "x"

    def test_errors_in_annotations_are_reported_not_raised(self) -> None:
        """Whatever evaluating an annotation does, the error says which argument it was."""
        wf = Workflow("bad")
        with pytest.raises(Rejected, match=r"plan\(\): the type of topic can't be read") as caught:

            @wf.step()
            def plan(ctx: Ctx, topic: 1 / 0) -> None: ...

        assert "ZeroDivisionError" in str(caught.value.why)

    def test_metadata_stays_with_the_type(self) -> None:
        """Annotated constraints are checked where the value crosses."""
        from pydantic import Field

        wf = Workflow("meta")

        @wf.step()
        def plan(ctx: Ctx, size: Annotated[int, Field(ge=1, le=9)]) -> None: ...

        assert wf.input_schema()["properties"]["size"]["maximum"] == 9
        with pytest.raises(Rejected, match="less than or equal to 9"):
            wf.validate_input({"size": 10})


class TestDecorated:
    def test_a_decorator_that_uses_wraps_is_seen_through(self) -> None:
        """The signature is that of the function inside, the call goes through the wrapper."""
        wf = Workflow("wrapped")

        @wf.step()
        @logged
        async def plan(ctx: Ctx, topic: str) -> Page:
            return Page(topic)

        assert plan.is_async
        assert asyncio.run(plan(MyContext(), "x")) == Page("x")
        assert wf.graph().node("plan").isolation == "async"

    def test_an_async_wrapper_of_a_sync_function_is_async(self) -> None:
        """What matters is what a call gives."""

        def later(fn: Callable[P, R]) -> Callable[P, Awaitable[R]]:
            @functools.wraps(fn)
            async def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
                return fn(*args, **kwargs)

            return wrapper

        wf = Workflow("later")

        @wf.step()
        @later
        def plan(ctx: Ctx) -> int:
            return 1

        assert (plan.is_async, wf.graph().node("plan").isolation) == (True, "async")

    def test_a_step_is_still_the_function(self) -> None:
        """Name, docstring, signature and call stay; name is added."""
        wf = Workflow("same")

        @wf.step()
        def plan(ctx: Ctx, topic: str, *, lang: str = "en") -> str:
            """Says what to do."""
            return topic + lang

        assert (plan.name, plan.__name__, plan.__doc__, plan.__module__) == (
            "plan",
            "plan",
            "Says what to do.",
            __name__,
        )
        assert list(inspect.signature(plan).parameters) == ["ctx", "topic", "lang"]
        assert plan(MyContext(), "x", lang="de") == "xde"
        assert plan.fn(MyContext(), **plan.codec.decode_args(input={"topic": "x"})) == "xen"
        assert repr(plan) == "<step plan of same v1>"

    def test_one_function_can_be_a_step_of_two_workflows(self) -> None:
        """The decorator changes nothing in the function itself."""
        one, two = Workflow("one"), Workflow("two")

        def plan(ctx: Ctx) -> None: ...

        first, second = one.step()(plan), two.step()(plan)
        assert (first.workflow, second.workflow) == (one, two)

    def test_nested_outcomes_in_a_union_as_text(self) -> None:
        """Outcomes are found in any union and do not count as values."""
        wf = Workflow("loop")

        @wf.step(again="plan", next="other")
        def plan(ctx: Ctx, topic: str) -> Again | dict[str, Page] | Go | None:
            return Again(plan, topic=topic)

        @wf.step()
        def other(ctx: Ctx) -> None: ...

        @wf.step(after=plan)
        def use(ctx: Ctx, pages: dict[str, Page] | None) -> None: ...

        assert wf.graph().node("plan").again == ("plan",)


class TestRetryable:
    def test_by_default_all_but_rejections(self) -> None:
        """Errors are retried, decisions of the caller and ends of the process are not."""
        wf = Workflow("retry")

        @wf.step()
        def plan(ctx: Ctx) -> None: ...

        assert plan.retryable(ValueError())
        assert not plan.retryable(Rejected("E-DATA-01", "x"))
        assert not plan.retryable(KeyboardInterrupt())

    def test_lists_say_otherwise(self) -> None:
        """no_retry goes before retry_on; what is on no list is not retried when there is one."""
        wf = Workflow("retry")

        @wf.step(retry_on=(OSError, Rejected), no_retry=FileNotFoundError)
        def plan(ctx: Ctx) -> None: ...

        assert plan.retryable(TimeoutError())
        assert plan.retryable(Rejected("E-DATA-01", "x"))
        assert not plan.retryable(FileNotFoundError())
        assert not plan.retryable(ValueError())


class TestJoinsOfSeveral:
    def test_values_beside_results(self) -> None:
        """A join takes steps of its own scope beside what it joins, in the order of after=."""
        wf = Workflow("join")

        @wf.step()
        def plan(ctx: Ctx) -> list[int]:
            return []

        @wf.step(after=plan, each=True)
        def fetch(ctx: Ctx, number: int) -> Page:
            return Page("")

        @wf.step(after=(plan, fetch), join="all")
        def merge(ctx: Ctx, plan: list[int], pages: list[Page]) -> None: ...

        rows = [ResultRow(0, "succeeded", {"title": "x"})]
        assert merge.codec.decode_args(steps={"plan": [1]}, reader=ListReader(rows)) == {
            "plan": [1],
            "pages": [Page("x")],
        }

    def test_results_in_the_wrong_place_are_refused(self) -> None:
        """Results stands where the joined step stands in after=."""
        wf = Workflow("join")

        @wf.step()
        def plan(ctx: Ctx) -> list[int]:
            return []

        @wf.step(after=plan, each=True)
        def fetch(ctx: Ctx, number: int) -> Page:
            return Page("")

        with pytest.raises(Rejected) as caught:

            @wf.step(after=(plan, fetch), join="all")
            def merge(ctx: Ctx, pages: Results[Page], plan: list[int]) -> None: ...

        assert caught.value.code == "E-JOIN-05"


class TestSkipping:
    def chooser(self) -> tuple[Workflow, Any]:
        wf = Workflow("choose")

        @wf.step(next=("quick", "deep"))
        def choose(ctx: Ctx) -> Go: ...

        return wf, choose

    def test_one_alternative_alone_needs_no_none(self) -> None:
        """When it is skipped, what comes only after it is skipped with it."""
        wf, _ = self.chooser()

        @wf.step()
        def quick(ctx: Ctx) -> int: ...

        @wf.step()
        def deep(ctx: Ctx) -> str: ...

        @wf.step(after=quick)
        def more(ctx: Ctx, number: int) -> int: ...

        @wf.step(after=(quick, more))
        def both(ctx: Ctx, one: int, two: int) -> None: ...

        assert len(wf.graph().nodes) == 5

    def test_beside_another_step_it_does(self) -> None:
        """The other one came, so the step runs, and the skipped one gives None."""
        wf, _ = self.chooser()

        @wf.step()
        def quick(ctx: Ctx) -> int: ...

        @wf.step()
        def deep(ctx: Ctx) -> str: ...

        @wf.step(after=deep)
        def later(ctx: Ctx, text: str) -> str: ...

        @wf.step(after=(quick, later))
        def end(ctx: Ctx, number: int | None, text: str) -> None: ...

        with pytest.raises(Rejected, match="text: str but it may be None") as caught:
            wf.graph()
        assert caught.value.code == "E-WIRE-06"
        assert "later is skipped" in str(caught.value.why)

    def test_a_fan_out_behind_a_choice_may_be_joined_as_a_list(self) -> None:
        """If it is skipped, it is skipped as a whole, its join too."""
        wf, _ = self.chooser()

        @wf.step()
        def quick(ctx: Ctx) -> list[int]: ...

        @wf.step()
        def deep(ctx: Ctx) -> None: ...

        @wf.step(after=quick, each=True)
        def fetch(ctx: Ctx, number: int) -> int: ...

        @wf.step(after=fetch, join="all")
        def merge(ctx: Ctx, numbers: list[int]) -> int: ...

        @wf.step(after=(deep, merge))
        def end(ctx: Ctx, deep: None, total: int | None) -> None: ...

        assert len(wf.graph().nodes) == 6
