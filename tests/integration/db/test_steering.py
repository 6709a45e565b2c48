"""Steps that steer their run: Go, Again, Spawn, alone and inside branches."""

from __future__ import annotations

import pytest
from kit.engine import Engine
from kit.flows import result

from stanchion.workflow import Again, All, Ctx, Go, Results, Spawn, Workflow


def test_go_starts_the_chosen_step_with_its_input(engine: Engine) -> None:
    """The other target is skipped, what comes after both runs with the one that ran."""
    wf = Workflow("go")

    @wf.step(next=("left", "right"))
    def choose(ctx: Ctx, side: str) -> Go:
        return Go(left, word="hello") if side == "left" else Go(right, word="bye")

    @wf.step(on_demand=True)
    def left(ctx: Ctx, word: str) -> str:
        return f"left {word}"

    @wf.step(on_demand=True)
    def right(ctx: Ctx, word: str) -> str:
        return f"right {word}"

    @wf.step(after=(left, right))
    def end(ctx: Ctx, one: str | None, two: str | None) -> str:
        return one or two or ""

    task = engine.submit(wf, input={"side": "right"})
    engine.worker().work()
    assert result(engine, "end") == "right bye"
    assert engine.states(task, "left") == {"skipped": 1}
    assert engine.task(task) == ("completed", "succeeded")
    engine.check_counts()


def loop(name: str, **options: object) -> Workflow:
    """draft -> improve, which goes back to draft until the number is 3; then publish."""
    wf = Workflow(name)

    @wf.step()
    def draft(ctx: Ctx, n: int) -> int:
        return n + 1

    @wf.step(after=draft, again="draft", **options)
    def improve(ctx: Ctx, n: int) -> int | Again:
        return n if n >= 3 else Again(draft, n=n)

    @wf.step(after=improve)
    def publish(ctx: Ctx, n: int) -> int:
        return n * 100

    return wf


def test_again_goes_round_and_the_last_round_answers(engine: Engine) -> None:
    """Three rounds of draft and improve; publish gets the result of the last one, once."""
    task = engine.submit(loop("loops"), input={"n": 0})
    engine.worker().work()
    assert result(engine, "publish") == 300
    assert engine.states(task) == {"succeeded": 7}
    assert engine.all("SELECT round FROM stanchion.step WHERE node = 'improve' ORDER BY round") == [0, 1, 2]
    assert engine.task(task) == ("completed", "succeeded")
    engine.check_counts()


def test_rounds_are_limited(engine: Engine) -> None:
    """More rounds than max_rounds: the step has failed, and with it the run."""
    task = engine.submit(loop("loops_for_long", max_rounds=1), input={"n": -100})
    engine.worker().work()
    assert engine.task(task) == ("failed", "failed")
    engine.check_counts()


def test_a_joining_step_that_goes_round_reads_the_same_results(engine: Engine) -> None:
    """The further round of a joining step has the results of the join that its first round waited for."""
    wf = Workflow("join_again")

    @wf.step()
    def plan(ctx: Ctx) -> list[int]:
        return [1, 2, 3]

    @wf.step(after=plan, each=True)
    def visit(ctx: Ctx, n: int) -> int:
        return n

    @wf.step(after=visit, join="all", again="gather")
    def gather(ctx: Ctx, pages: Results[int], tries: int = 0) -> int | Again:
        return sum(pages) * 10 + tries if tries else Again(gather, pages=pages, tries=1)

    task = engine.submit(wf)
    worker = engine.worker()
    worker.work(until=lambda: bool(worker.ready("gather")))
    (first,) = worker.take("gather")
    assert worker.leases.results_counts(first, first.sources[0])["succeeded"] == 3
    worker.settle([worker.executor._again(worker.attempt(first), "gather", {"tries": 1})])
    (second,) = worker.take("gather")
    assert second.round == 1
    assert worker.leases.results_counts(second, second.sources[0])["succeeded"] == 3
    assert [r[0] for r in worker.leases.results_page(second, second.sources[0], "visit", -1, 10)] == [0, 1, 2]
    worker.finish(second, 61)
    assert engine.task(task) == ("completed", "succeeded")
    engine.check_counts()


def test_again_over_a_fan_out_makes_a_new_one(engine: Engine) -> None:
    """The loop leads over a fan-out: each round has its own, and the run waits for all of them."""
    wf = Workflow("fan_again")

    @wf.step()
    def plan(ctx: Ctx, size: int) -> list[int]:
        return list(range(size))

    @wf.step(after=plan, each=True)
    def visit(ctx: Ctx, n: int) -> int:
        return n

    @wf.step(after=visit, join="all", again="plan")
    def gather(ctx: Ctx, pages: Results[int]) -> int | Again:
        return len(pages) if len(pages) >= 3 else Again(plan, size=len(pages) + 1)

    @wf.step(after=gather)
    def end(ctx: Ctx, n: int) -> int:
        return n

    task = engine.submit(wf, input={"size": 1})
    engine.worker().work()
    assert result(engine, "end") == 3
    assert engine.all("SELECT count(*) FROM stanchion.step WHERE kind = 'fan' AND state = 'succeeded'") == [3]
    assert engine.task(task) == ("completed", "succeeded")
    engine.check_counts()


def spawner(name: str, join: object = "all", **options: object) -> Workflow:
    """split spawns count for each of its words and adds them up in add; show follows split."""
    wf = Workflow(name)

    @wf.step(spawns=("count", "add"), **options)
    def split(ctx: Ctx, text: str) -> int | Spawn:
        return Spawn(count, text.split(), then=add) if text else 0

    @wf.step(on_demand=True, retries=0)
    def count(ctx: Ctx, word: str) -> int:
        if word == "bad":
            raise ValueError(word)
        return len(word)

    @wf.step(after=count, join=join, on_demand=True)
    def add(ctx: Ctx, lengths: Results[int]) -> int:
        return sum(lengths)

    @wf.step(after=split)
    def show(ctx: Ctx, n: int) -> int:
        return n

    return wf


def test_spawn_replaces_the_step_by_a_fan_out_and_its_join(engine: Engine) -> None:
    """The join's result is the result of the step that spawned; the run counts both as open meanwhile."""
    task = engine.submit(spawner("spawns"), input={"text": "one three five"})
    worker = engine.worker()
    worker.settle([worker.run(worker.take("split")[0])])
    engine.check_counts()
    worker.work()
    assert result(engine, "show") == 12
    assert engine.task(task) == ("completed", "succeeded")
    engine.check_counts()


def test_a_step_that_could_spawn_and_returns_a_value_answers_itself(engine: Engine) -> None:
    """No fan-out, no join: the run ends."""
    task = engine.submit(spawner("spawns_not"), input={"text": ""})
    engine.worker().work()
    assert result(engine, "show") == 0
    assert engine.task(task) == ("completed", "succeeded")
    engine.check_counts()


def test_spawning_nothing_joins_nothing(engine: Engine) -> None:
    """An empty list of items: the join opens at once."""
    wf = Workflow("spawns_nothing")

    @wf.step(spawns=("count", "add"))
    def split(ctx: Ctx) -> int | Spawn:
        return Spawn(count, [], then=add)

    @wf.step(on_demand=True)
    def count(ctx: Ctx, word: str) -> int:
        return len(word)

    @wf.step(after=count, join="all", on_demand=True)
    def add(ctx: Ctx, lengths: Results[int]) -> int:
        return sum(lengths)

    task = engine.submit(wf)
    engine.worker().work()
    assert engine.task(task) == ("completed", "succeeded")
    engine.check_counts()


def test_a_failed_spawned_child_fails_the_run(engine: Engine) -> None:
    """The join can't open, so the step that spawned has no result."""
    task = engine.submit(spawner("spawn_fails"), input={"text": "one bad"})
    engine.worker().work()
    assert engine.task(task) == ("failed", "failed")
    engine.check_counts()


def test_branches_may_spawn(engine: Engine) -> None:
    """Each branch spawns a fan-out of its own; a branch whose spawned join fails is one failed branch."""
    wf = Workflow("branches_spawn")

    @wf.step()
    def plan(ctx: Ctx) -> list[str]:
        return ["a bb", "ccc", "bad x"]

    @wf.step(after=plan, each=True, spawns=("count", "add"))
    def split(ctx: Ctx, text: str) -> int | Spawn:
        return Spawn(count, text.split(), then=add)

    @wf.step(on_demand=True, retries=0)
    def count(ctx: Ctx, word: str) -> int:
        if word == "bad":
            raise ValueError(word)
        return len(word)

    @wf.step(after=count, join="all", on_demand=True)
    def add(ctx: Ctx, lengths: Results[int]) -> int:
        return sum(lengths)

    @wf.step(after=split, join=All(on_failed="collect"))
    def gather(ctx: Ctx, sums: Results[int]) -> list[int]:
        return [sum(sums), len(sums), len(sums.failed), len(sums.missing)]

    task = engine.submit(wf)
    engine.worker().work()
    assert result(engine, "gather") == [6, 2, 1, 0]
    assert engine.task(task) == ("completed", "succeeded")
    engine.check_counts()


def test_what_is_planned_later_has_the_priority_of_its_task(engine: Engine) -> None:
    """Children, further rounds and spawned steps of an urgent task are as urgent as its first step."""
    engine.submit(spawner("urgent", priority=10), input={"text": "one two"}, priority=50)
    worker = engine.worker()
    worker.settle([worker.run(worker.take("split")[0])])
    engine.expand()
    found = dict(engine.all("SELECT node, min(priority) FROM stanchion.step WHERE kind = 'step' GROUP BY node"))
    assert found == {"split": 60, "show": 50, "count": 50, "add": 50}
    engine.submit(loop("urgent_loop"), input={"n": 0}, priority=50)
    worker = engine.worker()
    worker.work()
    assert engine.all("SELECT DISTINCT priority FROM stanchion.step WHERE node = 'draft'") == [50]


@pytest.mark.parametrize("second", ["go", "value"])
def test_again_over_a_choice(engine: Engine, second: str) -> None:
    """A further round chooses anew: what it chooses runs once more, and what it does not choose is skipped in it."""
    wf = Workflow("over_choice")
    rounds: list[tuple[object, object]] = []

    @wf.step(next="extra")
    def review(ctx: Ctx, n: int) -> int | Go:
        return Go(extra, n=n) if n == 1 or second == "go" else n

    @wf.step(on_demand=True)
    def extra(ctx: Ctx, n: int) -> int:
        return n * 10

    @wf.step(after=(extra, review), again="review")
    def merge(ctx: Ctx, a: int | None, b: int | None) -> int | Again:
        rounds.append((a, b))
        return Again(review, n=2) if len(rounds) == 1 else a or 0

    task = engine.submit(wf, input={"n": 1})
    engine.worker().work()
    assert rounds == [(10, None), (20, None) if second == "go" else (None, 2)]
    assert engine.task(task) == ("completed", "succeeded")


def test_again_with_a_choice_beside_the_way(engine: Engine) -> None:
    """A way leads over a choice too: from the draft to the merge by what was chosen after it."""
    wf = Workflow("beside")
    rounds: list[tuple[object, object]] = []

    @wf.step()
    def draft(ctx: Ctx, n: int) -> int:
        return n

    @wf.step(after=draft, next="extra")
    def choose(ctx: Ctx, n: int) -> int | Go:
        return Go(extra, n=n)

    @wf.step(on_demand=True)
    def extra(ctx: Ctx, n: int) -> int:
        return n * 10

    @wf.step(after=(extra, draft), again="draft")
    def merge(ctx: Ctx, a: int | None, b: int) -> int | Again:
        rounds.append((a, b))
        return Again(draft, n=2) if len(rounds) == 1 else a or 0

    task = engine.submit(wf, input={"n": 1})
    engine.worker().work()
    assert rounds == [(10, 1), (20, 2)]
    assert engine.task(task) == ("completed", "succeeded")


def test_a_loop_that_ends_by_a_choice(engine: Engine) -> None:
    """The last round's step chooses for the first one, whose place it took."""
    wf = Workflow("loop")
    seen: list[str] = []

    @wf.step()
    def draft(ctx: Ctx, n: int) -> int:
        return n

    @wf.step(after=draft, again="draft", next=("publish", "drop"))
    def judge(ctx: Ctx, n: int) -> int | Again | Go:
        return Again(draft, n=n + 1) if n < 3 else Go(publish, n=n)

    @wf.step(on_demand=True)
    def publish(ctx: Ctx, n: int) -> int:
        seen.append(f"published {n}")
        return n

    @wf.step(on_demand=True)
    def drop(ctx: Ctx) -> int:
        seen.append("dropped")
        return 0

    task = engine.submit(wf, input={"n": 1})
    engine.worker().work()
    assert seen == ["published 3"]
    assert engine.task(task) == ("completed", "succeeded")
