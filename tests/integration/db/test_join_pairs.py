"""Pairs of joins over one fan-out, driven in any order by children that succeed, fail and are reopened."""

from __future__ import annotations

import random
from itertools import product
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from kit.engine import Engine

from stanchion.authority.leases import Lease
from stanchion.authority.submission import Answer
from stanchion.errors import Conflict, Rejected
from stanchion.workflow import All, AtLeast, Ctx, First, Results, Workflow
from stanchion.workflow.joins import Join

pytestmark = pytest.mark.usefixtures("agrees")

WIDTH = 5
SEEDS = 1
"""Orders tried for each pair."""
Read = tuple[list[int], list[tuple[int, Any]], list[int], int]


def rules() -> list[Join]:
    """Every rule with every word on failed children and on the rest."""
    found: list[Join] = [All(on_failed=failed) for failed in ("fail", "collect", "hold")]
    for failed, rest in product(("fail", "collect", "hold"), ("cancel", "finish")):
        found += [First(on_failed=failed, rest=rest), AtLeast(3, on_failed=failed, rest=rest)]  # type: ignore[arg-type]  # words of the rule
    return [*found, AtLeast(0.6, on_failed="hold"), AtLeast(0.6, on_failed="collect", rest="finish")]


SHAPES = ("flat", "deep", "apart")
"""Both joins over the child; over the step behind it in its branch; the first over the one and the second over the other."""


def flow(name: str, one_join: Join, two_join: Join, shape: str) -> Workflow:
    """find -> read (each) [-> polish], joined by one and by two."""
    wf = Workflow(name)

    @wf.step()
    def find(ctx: Ctx) -> list[int]:
        return list(range(WIDTH))

    @wf.step(after=find, each=True, retries=0)
    def read(ctx: Ctx, n: int) -> int:
        return n

    last = read
    if shape != "flat":

        @wf.step(after=read, retries=0)
        def polish(ctx: Ctx, n: int) -> int:
            return n

        last = polish

    @wf.step(after=read if shape == "apart" else last, join=one_join)
    def one(ctx: Ctx, got: Results[int]) -> None: ...

    @wf.step(after=last, join=two_join)
    def two(ctx: Ctx, got: Results[int]) -> None: ...

    return wf


class Gather(NamedTuple):
    """A join's row, and what it was opened with."""

    barrier_id: UUID
    node: str
    state: str
    rule: str
    need: int
    on_failed: str
    included: int | None
    failed: int | None
    skipped: int | None


class Driver:
    """Does one random act after another, and looks at both joins after each."""

    def __init__(self, engine: Engine, task: Answer, seed: int, shape: str) -> None:
        self.engine = engine
        self.task = task
        self.run_id = engine.run_of(task)
        self.random = random.Random(seed)
        self.worker = engine.worker()
        self.joined = {"one": "polish" if shape == "deep" else "read", "two": "read" if shape == "flat" else "polish"}
        self.joins: dict[str, Lease] = {}
        self.given: dict[str, tuple[Gather, Read]] = {}
        self.by_hand: set[str] = set()
        self.log: list[str] = []
        self.fan: UUID = UUID(int=0)

    def run(self) -> None:
        """From the first step to the end of the run; people decide for what is held in the end."""
        self.worker.settle([self.worker.run(x) for x in self.worker.take("find")])
        self.engine.expand()
        (self.fan,) = self.engine.all(
            "SELECT step_id FROM stanchion.step WHERE kind = 'fan' AND run_id = %s", self.run_id
        )
        for _ in range(60):
            acts = [self.settle, self.settle, self.lose, self.reopen, self.sweep]
            self.random.choice([*acts, self.open] if self.random.random() < 0.3 else acts)()
            self.look()
            if self.ended:
                return
        for _ in range(30):
            self.sweep()
            if not self.settle(good=True) and not self.reopen() and self.joins:
                self.finish_joins()
            self.look()
            if self.ended:
                return
        raise AssertionError("the run does not end")

    @property
    def ended(self) -> bool:
        return self.engine.task(self.task)[0] in ("completed", "failed")

    # --- acts ---

    def settle(self, *, good: bool = False) -> bool:
        leases = self._take()
        for lease in leases:
            if good or self.random.random() < 0.6:
                self._say(f"{lease.node} {lease.idx} succeeds")
                assert self.worker.finish(lease, lease.idx)
            else:
                self._say(f"{lease.node} {lease.idx} fails")
                assert self.worker.fail(lease) == {lease.step_id: "failed"}
        return bool(leases)

    def lose(self) -> None:
        for lease in self._take():
            self._say(f"{lease.node} {lease.idx} is lost")
            self.engine.admin.execute(
                "UPDATE stanchion.attempt SET started_at = granted_at, lease_until = '-infinity' WHERE step_id = %s AND ended_at IS NULL",
                (lease.step_id,),
            )
            assert self.engine.upkeep.reap() == {lease.step_id: "failed"}

    def reopen(self) -> bool:
        failed = self.engine.all(
            "SELECT step_id FROM stanchion.step WHERE state = 'failed' AND run_id = %s ORDER BY step_id", self.run_id
        )
        some = self.random.sample(failed, self.random.randint(1, len(failed))) if failed else []
        reopened = self.engine.reopen(some)
        waiting = any(j.on_failed == "hold" and j.state == "waiting" for j in self._joins())
        live = self.engine.task(self.task)[1] in ("created", "running")
        self._say(f"{len(reopened)} of {len(some)} are reopened")
        assert len(reopened) == (len(some) if waiting and live else 0)
        return bool(reopened)

    def open(self) -> None:
        join = self.random.choice(self._joins())
        try:
            self.engine.open(join.barrier_id)
        except Conflict:
            return
        self._say(f"{join.node} is opened by hand")
        self.by_hand.add(join.node)

    def sweep(self) -> None:
        self.engine.sweep()
        self.engine.fire()

    def finish_joins(self) -> None:
        for lease in self.joins.values():
            assert self.worker.finish(lease, None)
        self.joins.clear()

    def _take(self) -> list[Lease]:
        ready = self.worker.ready("read", "polish")
        if not ready:
            return []
        some = self.random.sample(ready, self.random.randint(1, min(2, len(ready))))
        return self.worker.leases.lease(some, len(some))

    # --- what must hold ---

    def look(self) -> None:
        """Both joins: opened once, when the rule held, and what they were given never changes."""
        for lease in self.worker.take("one", "two"):
            assert lease.node not in self.given, "a join's step runs once"
            self.joins[lease.node] = lease
        for join in self._joins():
            if join.state != "released":
                assert join.included is None
                continue
            assert join.included is not None
            assert join.failed is not None
            if join.node not in self.by_hand:
                self._rule_held(join)
            if join.node not in self.joins:
                assert join.node in self.given or self.engine.task(self.task)[1] != "running"
                continue
            now = (join, self._read(self.joins[join.node]))
            assert self.given.setdefault(join.node, now)[1] == now[1], f"{join.node} was given something else"
            assert self.given[join.node][0] == join
            assert (len(now[1][0]), len(now[1][1]), len(now[1][2])) == (
                join.included,
                join.failed,
                WIDTH - join.included - join.failed,
            )

    def _rule_held(self, join: Gather) -> None:
        assert join.included is not None
        assert join.failed is not None
        assert join.skipped is not None
        arrived = join.included + (join.failed if join.on_failed == "collect" else 0)
        if join.rule == "all":
            assert join.included + join.failed + join.skipped == WIDTH
            assert join.failed == 0 or join.on_failed == "collect"
        else:
            assert arrived >= join.need

    def _joins(self) -> list[Gather]:
        rows = self.engine.admin.execute(
            "SELECT b.barrier_id, b.node, b.state, b.rule, b.need, b.on_failed, r.included, r.failed, r.skipped FROM stanchion.barrier b"
            " LEFT JOIN stanchion.barrier_release r ON r.barrier_id = b.barrier_id WHERE b.kind = 'gather' AND b.run_id = %s ORDER BY b.node",
            (self.run_id,),
        ).fetchall()
        return [Gather._make(row) for row in rows]

    def _read(self, lease: Lease) -> Read:
        rows = self.engine.worker_database.read(
            "SELECT idx, state, body, error FROM stanchion.results_page(%s, %s, %s, %s, -1, 100)",
            (lease.step_id, lease.fence, self.fan, self.joined[lease.node]),
        )
        values = [body for _, state, body, _ in rows if state == "succeeded"]
        failed = [(idx, error) for idx, state, _, error in rows if state == "failed"]
        there = {idx for idx, state, *_ in rows if state in ("succeeded", "failed")}
        return values, failed, sorted(set(range(WIDTH)) - there), len(rows)

    def _say(self, what: str) -> None:
        self.log.append(what)


def contradict(one: Join, two: Join) -> bool:
    """What is refused when it is defined."""
    ending = any(isinstance(j, All) and j.on_failed == "fail" for j in (one, two))
    return ending and "hold" in (one.on_failed, two.on_failed)


PAIRS = [(a, b) for a, b in product(rules(), rules()) if repr(a) <= repr(b)]


@pytest.mark.parametrize("part", range(8))
def test_pairs_of_joins(engine: Engine, part: int) -> None:
    """No act raises, each join opens at most once and when its rule holds, its Results stay, and the run ends."""
    for n, (one, two) in enumerate(PAIRS):
        if n % 8 != part:
            continue
        for seed in range(SEEDS):
            shape = SHAPES[(n // 8 + seed) % 3]
            wf = flow(f"pair_{n}_{seed}", one, two, shape)
            if shape != "apart" and contradict(one, two):
                with pytest.raises(Rejected, match="E-JOIN-06"):
                    wf.graph()
                continue
            driver = Driver(engine, engine.submit(wf), n * 1_000 + seed, shape)
            try:
                driver.run()
            except Exception as error:
                raise AssertionError(f"{one} and {two}, {shape}, seed {seed}: {'; '.join(driver.log)}") from error
