"""`why` has an answer for whatever the engine comes to: random acts on one task, and a look at all of it after each."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from kit.deciding import Deciding
from kit.engine import Engine, Worker
from kit.outside import Outside
from why_scenes import Stage

from stanchion.authority.leases import Lease
from stanchion.authority.submission import Answer
from stanchion.authority.tasks import Tasks
from stanchion.authority.workflows import Workflows
from stanchion.db.engine import Database
from stanchion.workflow import All, Ctx, First, Go, Results, Workflow
from stanchion.workflow.approval import Ask, Decision

ACTS = 80


def tangled(inner: str, outer: str) -> Workflow:
    """A choice, a fan-out inside of a fan-out with people in its branches, joins that hold, fail or don't wait."""
    wf = Workflow(f"tangled_{inner}_{outer}")
    rules = {"all": "all", "hold": All(on_failed="hold"), "first": First(rest="finish")}

    @wf.step(next=("more", "less"), retries=1)
    def choose(ctx: Ctx) -> Go:
        return Go(more, n=2)

    @wf.step(on_demand=True, retries=1)
    def more(ctx: Ctx, n: int) -> list[int]:
        return [1] * n

    @wf.step(on_demand=True)
    def less(ctx: Ctx, n: int) -> list[int]:
        return []

    @wf.step(after=choose, retries=1)
    def plan(ctx: Ctx, chosen: object) -> list[int]:
        return [1, 2, 3]

    @wf.step(after=plan, each=True, retries=1)
    def part(ctx: Ctx, n: int) -> list[int]:
        return [n, n]

    @wf.step(after=part, each=True, retries=1)
    def visit(ctx: Ctx, n: int) -> int:
        return n

    @wf.step(after=visit, join=rules[inner], retries=0)
    def sum_up(ctx: Ctx, numbers: Results[int]) -> int:
        return len(numbers)

    @wf.approval(after=sum_up, by="editors", within="2h", rejected="continue")
    def check(ctx: Ctx, n: int) -> Ask:
        return Ask(f"Take {n}?", n)

    @wf.step(after=check, join=rules[outer])
    def total(ctx: Ctx, decisions: Results[Decision]) -> int:
        return len(decisions)

    return wf


class Play:
    """One task, and all that may happen to it."""

    def __init__(self, stage: Stage, rules: tuple[str, str], seed: int) -> None:
        self.stage, self.engine, self.dice = stage, stage.engine, random.Random(f"{rules} {seed}")
        self.task: Answer = stage.submit(tangled(*rules))
        self.worker: Worker = self.engine.worker()
        self.held: list[Lease] = []

    def act(self, ending: bool) -> str:
        """Do one thing, mostly what brings it on."""
        usual = (self.lease, self.finish, self.plan, self.finish, self.keep_up, self.vote)
        odd = (self.fail, self.later, self.pause, self.resume, self.resume, self.present, self.reopen)
        ends = (self.cancel, self.retry, self.keep_up) if ending else ()
        chosen = self.dice.choice(odd + ends) if self.dice.random() < 0.25 else self.dice.choice(usual)
        chosen()
        return chosen.__name__

    def lease(self) -> None:
        self.held += self.worker.take(limit=self.dice.randint(1, 6))

    def some(self) -> list[Lease]:
        self.dice.shuffle(self.held)
        count = self.dice.randint(1, 4)
        taken, self.held = self.held[:count], self.held[count:]
        return taken

    def finish(self) -> None:
        self.worker.settle([self.worker.run(lease) for lease in self.some()])

    def fail(self) -> None:
        self.worker.fail(*self.some(), final=self.dice.random() < 0.5, delay_ms=self.dice.choice((0, 90_000)))

    def plan(self) -> None:
        self.engine.expand()

    def keep_up(self) -> None:
        self.engine.fire()
        self.engine.upkeep.reap()
        self.engine.upkeep.offer()
        self.engine.sweep(grace_ms=self.dice.choice((0, 600_000)))

    def later(self) -> None:
        self.engine.forward(self.dice.choice((3, 20, 20, 45, 100, 8_000)))

    def vote(self) -> None:
        asked = self.engine.all("SELECT approval_id FROM stanchion.approval WHERE state = 'requested'")
        if asked:
            self.stage.people.say("ann", self.dice.choice(("approve", "reject")), on=self.dice.choice(asked))

    def pause(self) -> None:
        if self.engine.task(self.task)[1] in ("created", "running"):
            self.engine.pause(self.task)

    def resume(self) -> None:
        if self.engine.task(self.task)[1] in ("created", "running"):
            self.engine.pause(self.task, False)

    def present(self) -> None:
        self.stage.present(slots=2, running=self.dice.choice((0, 2)))

    def reopen(self) -> None:
        self.engine.reopen(self.engine.all("SELECT step_id FROM stanchion.step WHERE state = 'failed'")[:2])

    def cancel(self) -> None:
        if self.engine.task(self.task)[1] in ("created", "running"):
            self.engine.cancel(self.task)

    def retry(self) -> None:
        if self.engine.task(self.task)[0] in ("failed", "cancelled", "rejected"):
            Tasks(self.engine.service, Workflows(self.engine.service)).retry(
                self.engine.tenant, self.task.task_id, reason="again", actor="ann"
            )

    def look(self) -> None:
        """At everything: there is a reason, and never that nothing would move it."""
        about = [("tsk", self.task.task_id)]
        about += [("run", one) for one in self.engine.all("SELECT run_id FROM stanchion.run")]
        about += [("stp", one) for one in self.engine.all("SELECT step_id FROM stanchion.step")]
        about += [("bar", one) for one in self.engine.all("SELECT barrier_id FROM stanchion.barrier")]
        for prefix, value in about if len(about) < 8 else self.dice.sample(about, 8):
            why = self.stage.why(prefix, value)
            codes = [reason.code for reason in why.reasons]
            assert codes, (prefix, why)
            assert "W-DAMAGED" not in codes, (prefix, why)
            assert all(reason.text and reason.evidence for reason in why.reasons)


@pytest.mark.parametrize("rules", [("all", "all"), ("hold", "hold"), ("first", "all"), ("all", "hold")])
@pytest.mark.parametrize("seed", range(2))
def test_there_is_always_a_reason(
    engine: Engine, outside: Outside, people: Deciding, db: Callable[[str], Database], rules: tuple[str, str], seed: int
) -> None:
    """Whatever was done to it."""
    play = Play(Stage(engine, outside, people, db), rules, seed)
    acts: list[str] = []
    for number in range(ACTS):
        acts.append(play.act(number > ACTS * 3 / 4))
        try:
            if number % 3 == 0:
                play.look()
        except AssertionError as error:
            raise AssertionError(f"after {acts}") from error
