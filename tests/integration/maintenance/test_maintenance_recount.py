"""A join's counts are compared with its branches; a counter that was damaged is set right, and the join opens."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest
from kit.engine import Admin, Engine, Worker
from kit.flows import fan, nested
from maintenance_kit import Hand

from services.workers.maintenance.jobs import Recounting
from stanchion.authority.recounts import Recounts
from stanchion.db.engine import Database
from stanchion.workflow import All, AtLeast, First, Workflow

NOW = timedelta(seconds=-5)
WIDE = 200  # so many branches that their join counts in slots
FIRST_ID = UUID(int=0)


@pytest.fixture
def engine(db: Callable[[str], Database], admin: Admin, tenant: UUID) -> Engine:
    """Runs driven by hand, for one tenant."""
    return Engine(db, admin, tenant)


@pytest.fixture
def recounts(hand: Hand) -> Recounts:
    """The recounts, under the maintenance worker's login."""
    return Recounts(hand.database)


def opened(engine: Engine, workflow: Workflow, items: list[str]) -> Worker:
    """A worker, with the branches of the workflow's first fan-out there."""
    engine.submit(workflow)
    worker = engine.worker()
    for lease in worker.take("plan"):
        worker.finish(lease, items)
    engine.expand()
    return worker


JOINS = {
    "all": All(),
    "collect": All(on_failed="collect"),
    "hold": All(on_failed="hold"),
    "first": First(),
    "some": AtLeast(0.5, on_failed="collect"),
}


class TestLooking:
    """What is right is never taken for wrong."""

    @pytest.mark.parametrize("name", JOINS)
    def test_counts_are_right_after_every_act(self, engine: Engine, recounts: Recounts, name: str) -> None:
        """Whatever the rule, at each moment between leasing, success, failure and the end."""
        draw = random.Random(name)
        items = [f"item-{n}" for n in range(150)]
        worker = opened(engine, fan(f"fan_{name}", JOINS[name], items), items)
        assert recounts.look(FIRST_ID, NOW, 100).wrong == []
        while leases := worker.take("visit", limit=draw.randint(1, 40)):
            bad = [lease for lease in leases if draw.random() < (0.1 if name != "all" else 0.0)]
            good = [lease for lease in leases if lease not in bad]
            worker.finish_all(good, "x")
            assert recounts.look(FIRST_ID, NOW, 100).wrong == []
            if bad:
                worker.fail(*bad)
            assert recounts.look(FIRST_ID, NOW, 100).wrong == []

    def test_counts_of_nested_joins_are_right(self, engine: Engine, recounts: Recounts) -> None:
        """Inner and outer ones, while branches fail and are skipped."""
        engine.submit(nested("nest", All(on_failed="collect"), All(on_failed="collect"), width=4))
        worker = engine.worker()
        draw = random.Random(7)
        for _ in range(200):
            engine.expand()
            leases = worker.take(limit=3)
            if not leases:
                break
            for lease in leases:
                if lease.node in ("visit", "sum_up") and draw.random() < 0.3:
                    worker.fail(lease)
                else:
                    worker.settle([worker.run(lease)])
                assert recounts.look(FIRST_ID, NOW, 100).wrong == []
        assert engine.all("SELECT count(*) FROM stanchion.barrier WHERE kind = 'gather' AND step_id IS NOT NULL") == [5]

    def test_a_young_join_is_left_alone(self, engine: Engine, recounts: Recounts, admin: Admin) -> None:
        """Only those that wait for long are worth a look."""
        opened(engine, fan("young", All(), ["a"] * WIDE), ["a"] * WIDE)
        admin.execute("UPDATE stanchion.barrier_slot SET remaining = remaining + 1")
        assert recounts.look(FIRST_ID, timedelta(minutes=10), 100).wrong == []
        assert len(recounts.look(FIRST_ID, NOW, 100).wrong) == 1

    def test_it_pages(self, engine: Engine, recounts: Recounts, admin: Admin) -> None:
        """Each look goes on after the last, and the end is said."""
        for n in range(3):
            opened(engine, fan(f"page_{n}", All(), ["a"] * WIDE), ["a"] * WIDE)
        admin.execute("UPDATE stanchion.barrier_slot SET remaining = remaining + 1")
        found: list[UUID] = []
        last = FIRST_ID
        for _ in range(20):
            look = recounts.look(last, NOW, 2)
            found += look.wrong
            if look.last is None:
                break
            last = look.last
        assert len(found) == len(set(found)) == 3


DAMAGES = {
    "a slot that says too much": "UPDATE stanchion.barrier_slot SET remaining = remaining + 2 WHERE slot = 0",
    "a slot that says too little": "UPDATE stanchion.barrier_slot SET remaining = remaining - 1 WHERE slot = 1",
    "too many slots left": "UPDATE stanchion.barrier SET slots_left = slots_left + 1 WHERE kind = 'gather'",
    "too few slots left": "UPDATE stanchion.barrier SET slots_left = slots_left - 1 WHERE kind = 'gather'",
    "failed": "UPDATE stanchion.barrier SET failed = failed + 1 WHERE kind = 'gather'",
}


class TestRepair:
    """What is wrong is set right, under the locks of an arrival."""

    @pytest.mark.parametrize("damage", DAMAGES)
    def test_a_damaged_counter_is_repaired_and_the_join_opens_once(
        self, engine: Engine, recounts: Recounts, admin: Admin, damage: str
    ) -> None:
        """In the middle of a run, before the rest arrives."""
        items = [f"item-{n}" for n in range(200)]
        worker = opened(engine, fan("damaged", All(on_failed="collect"), items), items)
        worker.finish_all(worker.take("visit", limit=90), "x")
        admin.execute(DAMAGES[damage])
        (barrier_id,) = recounts.look(FIRST_ID, NOW, 100).wrong
        assert recounts.repair(barrier_id) is not None
        assert recounts.look(FIRST_ID, NOW, 100).wrong == []
        assert recounts.repair(barrier_id) is None
        worker.finish_all(worker.take("visit"), "x")
        assert engine.barrier("gather")["state"] == "released"
        assert len(worker.ready("gather")) == 1
        engine.check_counts()

    def test_a_join_that_should_have_opened_opens(self, engine: Engine, recounts: Recounts, admin: Admin) -> None:
        """All have arrived, and a damaged slot held it."""
        items = ["a"] * WIDE
        worker = opened(engine, fan("stuck", All(), items), items)
        admin.execute("UPDATE stanchion.barrier_slot SET remaining = remaining + 1")
        worker.finish_all(worker.take("visit"), "x")
        assert engine.barrier("gather")["state"] == "waiting"
        (barrier_id,) = recounts.look(FIRST_ID, NOW, 100).wrong
        recounts.repair(barrier_id)
        assert engine.barrier("gather")["state"] == "released"
        worker.work()
        assert engine.all("SELECT state FROM stanchion.task") == ["completed"]
        engine.check_counts()
        assert admin.execute("SELECT actor, action FROM stanchion.audit WHERE lane = 0").fetchall() == [
            ("maintenance", "barrier.recount")
        ]

    def test_a_threshold_that_lost_its_count_opens(self, engine: Engine, recounts: Recounts, admin: Admin) -> None:
        """A join without slots is counted in its row."""
        items = ["a"] * 10
        worker = opened(engine, fan("some", AtLeast(5), items), items)
        worker.finish_all(worker.take("visit", limit=4), "x")
        admin.execute("UPDATE stanchion.barrier SET succeeded = 1 WHERE kind = 'gather'")
        worker.finish_all(worker.take("visit", limit=2), "x")
        assert engine.barrier("gather")["state"] == "waiting"
        (barrier_id,) = recounts.look(FIRST_ID, NOW, 100).wrong
        recounts.repair(barrier_id)
        assert engine.barrier("gather")["state"] == "released"
        assert engine.barrier("gather")["succeeded"] == 6

    def test_the_job_does_all_of_it(self, engine: Engine, hand: Hand, recounts: Recounts, admin: Admin) -> None:
        """It pages through all joins, repairs, and says how many."""
        items = ["a"] * WIDE
        worker = opened(engine, fan("stuck", All(), items), items)
        admin.execute("UPDATE stanchion.barrier_slot SET remaining = remaining + 1")
        worker.finish_all(worker.take("visit"), "x")
        hand.periods.clear()
        hand.periods["recount"] = 3_600
        hand.works["recount"] = Recounting(recounts, NOW)
        hand.planner.run_once()
        hand.drain()
        result = engine.one("SELECT state, result FROM stanchion.maintenance_job")
        assert (result[0], result[1]["repaired"]) == ("done", 1)
        assert engine.barrier("gather")["state"] == "released"
