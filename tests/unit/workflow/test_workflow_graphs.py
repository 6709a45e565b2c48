"""What becomes of declared steps: scopes, arguments, options, and one JSON form everywhere."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stanchion.workflow import (
    Again,
    All,
    AtLeast,
    Ctx,
    First,
    Go,
    Graph,
    JoinSpec,
    Param,
    Results,
    Spawn,
    Workflow,
)


@dataclass
class Url:
    """An address."""

    host: str


@dataclass
class Page:
    title: str
    size: int = 0


@dataclass
class Draft:
    text: str


def brief() -> Workflow:
    wf = Workflow("brief", version=7)

    @wf.step(retries=5, retry_delay="250ms", retry_cap="2m", start_within="1h", total="4h")
    async def plan(ctx: Ctx, topic: str, depth: int = 2) -> list[Url]:
        return [Url(topic)] * depth

    @wf.step(after=plan, each=True, queue="crawl", timeout="2m", priority=-5, lease="3m", isolation="process")
    def fetch(ctx: Ctx, url: Url) -> Page:
        return Page(url.host)

    @wf.step(after=(fetch, plan))
    def rank(ctx: Ctx, page: Page, urls: list[Url]) -> int:
        return len(urls)

    @wf.step(after=(rank, plan), join=AtLeast(0.9, within="30m", on_failed="collect", rest="finish"), again="draft")
    def draft(ctx: Ctx, ranks: Results[int], urls: tuple[Url, ...], tone: str = "dry") -> Draft | Again:
        return Draft(tone)

    return wf


def nested() -> Workflow:
    wf = Workflow("nested")

    @wf.step()
    def plan(ctx: Ctx) -> list[str]:
        return []

    @wf.step(after=plan, each=True)
    def site(ctx: Ctx, name: str) -> list[Url]:
        return []

    @wf.step(after=site, each=True)
    def fetch(ctx: Ctx, url: Url) -> Page:
        return Page("")

    @wf.step(after=(fetch, site, plan))
    def check(ctx: Ctx, page: Page, urls: list[Url], names: list[str]) -> bool:
        return True

    @wf.step(after=(check, site), join=All(on_failed="hold"))
    def merge(ctx: Ctx, checks: Results[bool], urls: list[Url]) -> int:
        return len(checks)

    @wf.step(after=(merge, plan), join="all")
    def total(ctx: Ctx, counts: list[int], names: list[str]) -> int:
        return sum(counts)

    return wf


class TestScopes:
    def test_a_branch_is_named_by_the_step_that_opens_it(self) -> None:
        """An each step stands in its own scope, its followers too, the join outside."""
        scopes = {node.name: node.scope for node in brief().graph()}
        assert scopes == {"plan": (), "fetch": ("fetch",), "rank": ("fetch",), "draft": ()}

    def test_fan_outs_nest_to_any_depth(self) -> None:
        """Each level adds its opener, outermost first; each join takes one away."""
        scopes = {node.name: node.scope for node in nested().graph()}
        assert scopes["fetch"] == scopes["check"] == ("site", "fetch")
        assert (scopes["site"], scopes["merge"], scopes["total"]) == (("site",), ("site",), ())

    def test_a_hundred_levels(self) -> None:
        """Depth costs neither recursion nor meaning."""
        wf = Workflow("deep")

        @wf.step()
        def start(ctx: Ctx) -> list[Any]:
            return []

        last: Any = start
        for level in range(100):

            def opener(ctx: Ctx, item: Any) -> list[Any]:
                return []

            opener.__name__ = f"level_{level}"
            last = wf.step(after=last, each=True)(opener)
        assert len(wf.graph().node("level_99").scope) == 100

    def test_a_go_target_runs_where_its_chooser_does(self) -> None:
        """It stands in the branch, is on demand, and its followers are in the branch too."""
        graph = choices().graph()
        assert graph.node("deep").scope == graph.node("after_deep").scope == ("fetch",)
        assert (graph.node("deep").on_demand, graph.node("after_deep").on_demand) == (True, False)

    def test_a_spawn_opens_a_scope_named_by_its_child(self) -> None:
        """The child is inside, its join where the spawner is; both are on demand."""
        graph = spawning().graph()
        assert (graph.node("read").scope, graph.node("merge").scope) == (("read",), ())
        assert graph.node("read").on_demand
        assert graph.node("merge").on_demand
        assert graph.node("digest").spawns == ("read", "merge")


def choices() -> Workflow:
    wf = Workflow("choices")

    @wf.step()
    def plan(ctx: Ctx) -> list[Url]:
        return []

    @wf.step(after=plan, each=True, next=("quick", "deep"))
    def fetch(ctx: Ctx, url: Url) -> Page | Go:
        return Go(wf.steps["deep"], page=Page("x"))

    @wf.step()
    def quick(ctx: Ctx, page: Page) -> str:
        return ""

    @wf.step()
    def deep(ctx: Ctx, page: Page, hint: str = "") -> str:
        return ""

    @wf.step(after=deep)
    def after_deep(ctx: Ctx, text: str) -> str:
        return text

    @wf.step(after=(quick, after_deep))
    def either(ctx: Ctx, one: str | None, other: str | None) -> str:
        return one or other or ""

    @wf.step(after=either, join="all")
    def merge(ctx: Ctx, texts: Results[str]) -> str:
        return "".join(texts)

    return wf


def spawning() -> Workflow:
    wf = Workflow("spawning")

    @wf.step(on_demand=True)
    def read(ctx: Ctx, url: Url) -> Page:
        return Page("")

    @wf.step(after=read, join=First(), on_demand=True)
    def merge(ctx: Ctx, pages: Results[Page]) -> Draft:
        return Draft("")

    @wf.step(spawns=(read, merge))
    def digest(ctx: Ctx, urls: list[Url]) -> Draft | Spawn:
        return Spawn(read, urls, then=merge)

    @wf.step(after=digest)
    def send(ctx: Ctx, draft: Draft) -> None: ...

    return wf


class TestNodes:
    def test_options_become_fields_in_seconds(self) -> None:
        """Each option stands in the node under its field, times in seconds."""
        plan, fetch = brief().graph().nodes[:2]
        assert (plan.retries, plan.retry_base_seconds, plan.retry_cap_seconds) == (5, 0.25, 120.0)
        assert (plan.start_within_seconds, plan.total_seconds, plan.timeout_seconds) == (3600.0, 14400.0, None)
        assert (fetch.queue, fetch.priority, fetch.timeout_seconds, fetch.lease_seconds) == ("crawl", -5, 120.0, 180.0)
        assert (plan.isolation, fetch.isolation) == ("async", "process")

    def test_the_fields_are_these(self) -> None:
        """The form is a contract with the database and with other processes."""
        fields = """
            name after each join next again max_rounds spawns on_demand scope queue priority retries retry_base_seconds
            retry_cap_seconds timeout_seconds start_within_seconds total_seconds lease_seconds isolation params
            input_schema result_schema
        """
        assert list(brief().graph().to_json()["nodes"][0]) == fields.split()

    def test_every_argument_has_its_source(self) -> None:
        """input, item, step, results and go, with the step behind it and whether it must come."""
        graph = brief().graph()
        assert graph.node("plan").params == (
            Param(name="topic", source="input"),
            Param(name="depth", source="input", required=False),
        )
        assert graph.node("fetch").params == (Param(name="url", source="item", step="plan"),)
        assert graph.node("draft").params == (
            Param(name="ranks", source="results", step="rank"),
            Param(name="urls", source="step", step="plan"),
            Param(name="tone", source="go", required=False),
        )
        assert choices().graph().node("deep").params[0] == Param(name="page", source="go")
        assert spawning().graph().node("read").params == (Param(name="url", source="item"),)

    def test_rules_of_joins(self) -> None:
        """All their parts cross; a share of everything is the rule `all`, since JSON can't tell 1.0 from 1."""
        join = brief().graph().node("draft").join
        assert join == JoinSpec(rule="at_least", need=0.9, within_seconds=1800.0, on_failed="collect", rest="finish")
        wf = Workflow("all")

        @wf.step()
        def plan(ctx: Ctx) -> list[int]:
            return []

        @wf.step(after=plan, each=True)
        def one(ctx: Ctx, item: int) -> int:
            return item

        for number, rule in enumerate((AtLeast(1.0), AtLeast(1), "first", All(within=5))):

            def join_it(ctx: Ctx, items: Results[int]) -> None: ...

            join_it.__name__ = f"join_{number}"
            wf.step(after=one, join=rule)(join_it)
        found = [node.join for node in wf.graph().nodes[2:]]
        assert found == [
            JoinSpec(rule="all"),
            JoinSpec(rule="at_least", need=1),
            JoinSpec(rule="first"),
            JoinSpec(rule="all", within_seconds=5.0),
        ]

    def test_schemas_say_what_is_taken_and_returned(self) -> None:
        """Inputs are closed objects with their defaults; results have their own schema."""
        plan = brief().graph().node("plan")
        assert plan.input_schema["required"] == ["topic"]
        assert plan.input_schema["properties"]["depth"] == {"type": "integer", "title": "Depth", "default": 2}
        assert plan.input_schema["additionalProperties"] is False
        assert plan.result_schema["type"] == "array"
        assert brief().graph().node("rank").input_schema["properties"] == {}

    def test_a_spawner_that_only_spawns_has_the_result_of_its_join(self) -> None:
        """Nobody has to write the type twice."""
        wf = Workflow("spawns")

        @wf.step(spawns=("read", "merge"))
        def digest(ctx: Ctx) -> Spawn: ...

        @wf.step()
        def read(ctx: Ctx, url: Url) -> Page: ...

        @wf.step(after=read, join="all")
        def merge(ctx: Ctx, pages: list[Page]) -> Draft: ...

        @wf.step(after=digest)
        def send(ctx: Ctx, draft: Draft) -> None: ...

        assert wf.graph().node("digest").result_schema["title"] == "Draft"


class TestGraph:
    def test_it_survives_json_and_jsonb(self) -> None:
        """Equal after a way through text, also when whole numbers lost their point."""
        for wf in (brief(), nested(), choices(), spawning()):
            graph = wf.graph()
            plain = graph.to_json()
            assert Graph.from_json(json.loads(json.dumps(plain))) == graph
            rounded = json.loads(
                json.dumps(plain), parse_float=lambda text: float(text) if float(text) % 1 else int(float(text))
            )
            assert Graph.from_json(rounded) == graph
            assert Graph.from_json(rounded).digest() == graph.digest()

    def test_neighbours_roots_and_sinks(self) -> None:
        """What starts, what follows, what nothing follows."""
        graph = nested().graph()
        assert [node.name for node in graph.roots()] == ["plan"]
        assert [node.name for node in graph.successors("plan")] == ["site", "check", "total"]
        assert [node.name for node in graph.sinks()] == ["total"]
        assert [node.name for node in graph.children_of("fetch")] == ["fetch", "check"]
        assert [node.name for node in spawning().graph().roots()] == ["digest"]
        with pytest.raises(KeyError):
            graph.node("nobody")
        with pytest.raises(KeyError):
            graph.successors("nobody")

    def test_it_can_t_be_changed(self) -> None:
        """A graph that a run was planned from stays what it was."""
        graph = brief().graph()
        with pytest.raises(ValueError, match="frozen"):
            graph.name = "other"
        with pytest.raises(ValueError, match="frozen"):
            graph.node("plan").retries = 9

    def test_unknown_fields_are_refused(self) -> None:
        """A graph of a newer engine is not read as if it were an old one."""
        plain = brief().graph().to_json()
        plain["nodes"][0]["color"] = "red"
        with pytest.raises(ValueError, match="color"):
            Graph.from_json(plain)

    def test_the_digest_is_the_same_in_every_process(self) -> None:
        """Neither hash seeds nor the order of imports reach it."""
        code = (
            "import sys; sys.path.insert(0, sys.argv[1])\n"
            "import test_workflow_graphs as t\n"
            "print(t.brief().graph().digest().hex(), t.choices().graph().digest().hex())"
        )
        seen = set()
        for seed in ("0", "1"):
            done = subprocess.run(
                [sys.executable, "-c", code, str(Path(__file__).parent)],
                env={**os.environ, "PYTHONHASHSEED": seed},
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            )
            seen.add(done.stdout.strip())
        assert seen == {f"{brief().graph().digest().hex()} {choices().graph().digest().hex()}"}

    def test_the_digest_sees_what_matters(self) -> None:
        """Another option or type is another graph; another docstring is not."""

        def build(kind: Any, retries: int = 3) -> bytes:
            wf = Workflow("one")

            @wf.step(retries=retries)
            def plan(ctx: Ctx, url: kind) -> None: ...

            return wf.graph().digest()

        worded = type("Url", (Url,), {"__doc__": "Other words.", "__qualname__": "Url"})
        assert build(Url) == build(worded)
        assert len({build(Url), build(Url, 4), build(Page)}) == 3

    def test_a_property_called_title_is_no_wording(self) -> None:
        """Only the words of the schema language are left out, not fields that share their name."""

        @dataclass
        class Other:
            description: str
            size: int = 0

        def build(kind: Any) -> bytes:
            wf = Workflow("one")

            @wf.step()
            def plan(ctx: Ctx) -> list[kind]: ...

            return wf.graph().digest()

        Other.__name__ = Other.__qualname__ = "Page"
        assert build(Page) != build(Other)

    def test_two_thousand_steps(self) -> None:
        """The limit is reachable: a chain as long as is allowed becomes a graph in seconds."""
        wf = Workflow("long")
        last: Any = None
        for number in range(2000):
            if last is None:

                def first(ctx: Ctx) -> int:
                    return 0

                last = wf.step()(first)
                continue

            def link(ctx: Ctx, count: int) -> int:
                return count + 1

            link.__name__ = f"link_{number}"
            last = wf.step(after=last)(link)
        graph = wf.graph()
        assert len(graph.nodes) == 2000
        assert graph.sinks()[0].name == "link_1999"


def test_describe_is_a_small_table() -> None:
    """One line a step, indented by fan-out, with what it takes and what may follow."""
    lines = [" ".join(line.split()) for line in brief().describe().splitlines()]
    assert lines == [
        "brief v7",
        "step takes then queue attempts",
        "plan topic, depth? – default 6",
        "fetch each of plan – crawl -5 4 × 2m",
        "rank fetch, plan – default 4",
        "draft at least 90% (collect failed) within 30m of rank, plan, tone? again draft (≤ 10) default 4",
    ]
    assert brief().describe().splitlines()[3].startswith("  fetch")
    assert "go quick or deep" in choices().describe()
    assert "spawn read → merge" in spawning().describe()
