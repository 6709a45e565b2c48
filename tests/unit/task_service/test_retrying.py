"""What a retried run takes over, worked out from the graph and the old run's steps alone."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from stanchion.contracts.ids import new_id
from stanchion.workflow import Again, Ctx, Go, Results, Spawn, Workflow
from stanchion.workflow.planner import Place
from stanchion.workflow.retrying import Branch, OldStep, adopt, plan_retry


def chain() -> Workflow:
    made = Workflow("chain", version=1)

    @made.step()
    def one(ctx: Ctx, x: int) -> int: ...

    @made.step(after=one)
    def two(ctx: Ctx, y: int) -> int: ...

    @made.step(after=two)
    def three(ctx: Ctx, z: int) -> int: ...

    return made


def diamond() -> Workflow:
    made = Workflow("diamond", version=1)

    @made.step()
    def top(ctx: Ctx) -> int: ...

    @made.step(after=top)
    def left(ctx: Ctx, x: int) -> int: ...

    @made.step(after=top)
    def right(ctx: Ctx, x: int) -> int: ...

    @made.step(after=(left, right))
    def bottom(ctx: Ctx, a: int, b: int) -> int: ...

    return made


def fanned() -> Workflow:
    made = Workflow("fanned", version=1)

    @made.step()
    def split(ctx: Ctx) -> list[int]: ...

    @made.step(after=split, each=True)
    def part(ctx: Ctx, item: int) -> int: ...

    @made.step(after=part, join="all")
    def whole(ctx: Ctx, results: Results[int]) -> int: ...

    @made.step(after=whole)
    def publish(ctx: Ctx, total: int) -> int: ...

    return made


def routed() -> Workflow:
    made = Workflow("routed", version=1)

    @made.step(next=["left", "right"])
    def choose(ctx: Ctx) -> Go: ...

    @made.step(on_demand=True)
    def left(ctx: Ctx, value: int) -> int: ...

    @made.step(on_demand=True)
    def right(ctx: Ctx, value: int) -> int: ...

    @made.step(after=right)
    def last(ctx: Ctx, value: int) -> int: ...

    return made


def old(**states: str) -> list[OldStep]:
    """Steps of an old run by their states."""
    return [OldStep(name, new_id(), state, input={"was": name}) for name, state in states.items()]


def verdicts(workflow: Workflow, *steps: OldStep) -> dict[str, set[str]]:
    """What becomes of what."""
    found = adopt(workflow.graph(), steps)
    return {name: set(getattr(found, name)) for name in ("succeeded", "skipped", "chosen") if getattr(found, name)}


def rows(workflow: Workflow, *steps: OldStep) -> dict[str, dict[str, Any]]:
    """The rows of the new run by their nodes."""
    place = Place(new_id(), new_id(), priority=0)
    plan, _ = plan_retry(workflow.graph(), place, {"x": 1}, None, steps)
    return {row["node"]: row for row in plan.steps}


def test_what_came_before_the_failure_is_taken_over() -> None:
    """The steps before it are born succeeded, named after the old ones; it and what follows are planned anew."""
    before = old(one="succeeded", two="failed", three="cancelled")
    assert verdicts(chain(), *before) == {"succeeded": {"one"}}
    made = rows(chain(), *before)
    assert (made["one"]["state"], made["one"]["adopt"]) == ("succeeded", str(before[0].step_id))
    assert (made["two"]["state"], made["two"].get("adopt")) == ("pending", None)


def test_what_was_made_from_something_that_runs_again_runs_again() -> None:
    """A succeeded step behind one that did not is not taken over: it may see another answer."""
    assert verdicts(chain(), *old(one="failed", two="succeeded", three="failed")) == {}
    both = old(top="succeeded", left="succeeded", right="failed", bottom="skipped")
    assert verdicts(diamond(), *both) == {"succeeded": {"top", "left"}}


def test_a_skip_that_a_failure_caused_is_not_taken_over() -> None:
    """What never ran because something failed gets its chance now."""
    assert verdicts(chain(), *old(one="succeeded", two="failed", three="skipped")) == {"succeeded": {"one"}}


def test_a_fan_out_is_looked_at_child_by_child() -> None:
    """Unless its join is taken over: then nobody reads the children any more, and it is born ended."""
    failed = old(split="succeeded", part="cancelled", whole="cancelled", publish="cancelled")
    assert verdicts(fanned(), *failed) == {"succeeded": {"split"}}
    joined = old(split="succeeded", part="succeeded", whole="succeeded", publish="failed")
    assert verdicts(fanned(), *joined) == {"succeeded": {"split", "part", "whole"}}
    early = old(split="succeeded", part="cancelled", whole="succeeded", publish="failed")
    assert verdicts(fanned(), *early) == {"succeeded": {"split", "part", "whole"}}
    lost = old(split="failed", part="cancelled", whole="skipped", publish="skipped")
    assert verdicts(fanned(), *lost) == {}


def test_a_choice_stays_made() -> None:
    """The chosen step begins at once with what it was given; the others stay skipped; one that is done stays done."""
    before = old(choose="succeeded", left="failed", right="skipped", last="skipped")
    assert verdicts(routed(), *before) == {"succeeded": {"choose"}, "skipped": {"right", "last"}, "chosen": {"left"}}
    made = rows(routed(), *before)
    assert (made["left"]["state"], made["left"]["waits"], made["left"]["input"]) == ("ready", 0, {"was": "left"})
    assert made["right"]["state"] == "skipped"
    done = old(choose="succeeded", left="skipped", right="succeeded", last="failed")
    assert verdicts(routed(), *done) == {"succeeded": {"choose", "right"}, "skipped": {"left"}}
    undecided = old(choose="failed", left="cancelled", right="cancelled", last="cancelled")
    assert verdicts(routed(), *undecided) == {}


def test_of_several_rounds_the_last_one_counts() -> None:
    """A loop's result is that of its newest round; a newer round that did not succeed is not covered by an older one."""
    made = Workflow("looped", version=1)

    @made.step()
    def begin(ctx: Ctx, x: int) -> int: ...

    @made.step(after=begin, again=["begin"])
    def check(ctx: Ctx, x: int) -> int | Again: ...

    @made.step(after=check)
    def finish(ctx: Ctx, x: int) -> int: ...

    first, second = new_id(), new_id()
    steps = [
        OldStep("begin", first, "succeeded", 0),
        OldStep("begin", second, "succeeded", 1),
        OldStep("check", new_id(), "succeeded", 1),
        OldStep("finish", new_id(), "failed", 0),
    ]
    found = adopt(made.graph(), steps)
    assert found.kept == ["begin", "check"]
    assert found.succeeded["begin"].step_id == second
    steps[1] = OldStep("begin", second, "failed", 1)
    assert adopt(made.graph(), steps).kept == []


def test_a_spawning_step_is_taken_over_by_its_stand_in() -> None:
    """Whoever answered for it, its result is there; when the stand-in failed it spawns anew."""
    made = Workflow("spawning", version=1)

    @made.step(on_demand=True)
    def child(ctx: Ctx, item: int) -> int: ...

    @made.step(after=child, join="all", on_demand=True)
    def gather(ctx: Ctx, results: Results[int]) -> int: ...

    @made.step(spawns=(child, gather))
    def owner(ctx: Ctx, x: int) -> int | Spawn: ...

    @made.step(after=owner)
    def finish(ctx: Ctx, x: int) -> int: ...

    assert adopt(made.graph(), old(owner="succeeded", child="succeeded", finish="failed")).kept == ["owner"]
    assert adopt(made.graph(), old(owner="failed", child="cancelled", finish="cancelled")).kept == []


def test_a_large_input_stays_where_it_is() -> None:
    """The first steps name the blob again; a chosen step keeps the name of its own."""
    place = Place(new_id(), new_id(), priority=0)
    plan, _ = plan_retry(chain().graph(), place, None, "ab" * 32, old(one="failed", two="cancelled"))
    assert {row["node"]: row.get("input_blob") for row in plan.steps}["one"] == "ab" * 32
    step = OldStep("left", UUID(int=1), "failed", input_blob=b"\x01" * 32)
    given = [*old(choose="succeeded", right="skipped"), step]
    plan, _ = plan_retry(routed().graph(), place, {"x": 1}, None, given)
    assert {row["node"]: row.get("input_blob") for row in plan.steps}["left"] == "01" * 32


class TestBranches:
    """What a branch of a retried run keeps."""

    @staticmethod
    def wf() -> Workflow:
        made = Workflow("branches", version=1)

        @made.step()
        def setting(ctx: Ctx) -> int: ...

        @made.step(after=setting)
        def split(ctx: Ctx, s: int) -> list[int]: ...

        @made.step(after=split, each=True)
        def part(ctx: Ctx, item: int) -> list[int]: ...

        @made.step(after=part, each=True)
        def leaf(ctx: Ctx, item: int) -> int: ...

        @made.step(after=leaf, join="all")
        def whole(ctx: Ctx, leaves: Results[int]) -> int: ...

        @made.step(after=(whole, setting))
        def seal(ctx: Ctx, total: int, s: int) -> int: ...

        @made.step(after=seal, join="all")
        def publish(ctx: Ctx, seals: Results[int]) -> int: ...

        return made

    def kept(self, steps: list[OldStep], item: Any = 1, same: tuple[str, ...] = ("setting",)) -> list[str]:
        """The nodes of one branch that are taken over."""
        return adopt(self.wf().graph(), steps, Branch(("part",), item, same)).kept

    @staticmethod
    def steps(item: Any = 1, **states: str) -> list[OldStep]:
        """The steps of an old branch; its first one had the item."""
        return [
            OldStep(name, new_id(), state, input=item if name == "part" else None) for name, state in states.items()
        ]

    def test_it_keeps_what_came_before_the_failure(self) -> None:
        """The inner join with all its children when it succeeded; else the children are looked at one by one."""
        whole = self.steps(part="succeeded", leaf="succeeded", whole="succeeded", seal="failed")
        assert self.kept(whole) == ["leaf", "part", "whole"]
        assert self.kept(self.steps(part="succeeded", leaf="waiting", whole="skipped", seal="skipped")) == ["part"]
        assert self.kept(self.steps(part="failed", leaf="skipped", whole="skipped", seal="skipped")) == []

    def test_another_item_keeps_nothing(self) -> None:
        """Values are compared as JSON: true is not 1."""
        done = {"part": "succeeded", "leaf": "succeeded", "whole": "succeeded", "seal": "succeeded"}
        assert self.kept(self.steps(2, **done)) == []
        assert self.kept(self.steps(True, **done)) == []
        assert self.kept(self.steps({"b": 1, "a": 2}, **done), {"a": 2, "b": 1}) == ["leaf", "part", "seal", "whole"]

    def test_a_step_that_reads_something_else_around_it_runs_again(self) -> None:
        """The others of the branch, which do not read it, are kept."""
        done = self.steps(part="succeeded", leaf="succeeded", whole="succeeded", seal="succeeded")
        assert self.kept(done) == ["leaf", "part", "seal", "whole"]
        assert self.kept(done, same=()) == ["leaf", "part", "whole"]

    def test_the_item_of_a_child_that_went_round_is_what_it_began_with(self) -> None:
        """Its result is that of its last round, and a spawned join answers for it in the same way."""
        first, last = new_id(), new_id()
        rounds = [
            OldStep("part", first, "succeeded", 0, 1, replaced=True),
            OldStep("part", last, "succeeded", 1, {"$given": {"item": 9}, "input": 1}),
        ]
        found = adopt(self.wf().graph(), rounds, Branch(("part",), 1))
        assert found.succeeded["part"].step_id == last
        stand_in = [rounds[0], OldStep("part", last, "succeeded", 0, None, own=False)]
        assert adopt(self.wf().graph(), stand_in, Branch(("part",), 1)).succeeded["part"].step_id == last


def test_a_chosen_step_goes_on_in_its_round() -> None:
    """With what it was given for it; one that spawned begins with what it was given before."""
    given = {"$given": {"value": 2}, "input": {"value": 1}}
    before = [
        OldStep("choose", new_id(), "succeeded"),
        OldStep("left", new_id(), "succeeded", 0, {"value": 1}, replaced=True),
        OldStep("left", new_id(), "failed", 1, given),
        OldStep("right", new_id(), "skipped"),
    ]
    row = rows(routed(), *before)["left"]
    assert (row["state"], row["round"], row["input"]) == ("ready", 1, given)
    before[2] = OldStep("left", new_id(), "skipped", 0, None, own=False)  # the join of what it spawned failed
    row = rows(routed(), *before)["left"]
    assert (row["state"], row["round"], row["input"]) == ("ready", 0, {"value": 1})
