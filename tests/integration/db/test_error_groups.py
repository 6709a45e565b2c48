"""Errors in groups: each failure is counted once, none is skipped; groups of a run are up to date; what stands out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from kit.engine import Admin, Engine, Worker
from kit.flows import fan, single

from stanchion.authority.error_groups import ErrorCollector, ErrorGroups, Mark
from stanchion.authority.fan_outliers import FanOutliers
from stanchion.authority.keys import Keys
from stanchion.authority.leases import Failure, Lease
from stanchion.authority.retention import Retention
from stanchion.db.engine import Database
from stanchion.db.grants import DASHBOARD, MAINTENANCE, TASK_SERVICE
from stanchion.errors import NotFound
from stanchion.workflow import All

ITEMS = [f"i{n}" for n in range(10)]
PAGES = fan("pages", All(on_failed="hold"), ITEMS, retries=1)


class Scene:
    """A fan-out whose children fail in several ways, and the worker that puts failures into groups."""

    def __init__(self, engine: Engine, db: Callable[[str], Database]) -> None:
        self.engine, self.tenant = engine, engine.tenant
        self.collector = ErrorCollector(db(MAINTENANCE))
        self.groups = ErrorGroups(db(TASK_SERVICE))
        self.outliers = FanOutliers(db(DASHBOARD))
        self.task = engine.submit(PAGES)
        self.worker = engine.worker()
        self.worker.seen()
        self.worker.finish(self.worker.take("plan")[0], ITEMS)
        engine.expand()
        self.run = engine.run_of(self.task)
        self.fan: UUID = engine.one("SELECT step_id FROM stanchion.step WHERE kind = 'fan'")[0]

    def fail(self, leases: list[Lease], what: str, *, final: bool = True, worker: Worker | None = None) -> None:
        """Let attempts fail with an error of this text; `%d` in it is another number for each."""
        failures = [
            Failure(lease, {"code": "E-STEP-27", "type": "ValueError", "what": what.replace("%d", str(n))}, final, 0)
            for n, lease in enumerate(leases)
        ]
        (worker or self.worker).leases.fail(failures)

    def collect(self) -> int:
        """Put everything into groups; returns how many failures that was."""
        total, more = 0, True
        while more:
            count, more = self.collector.collect(3)
            total += count
        return total

    def page(self, tenant: UUID | None = None) -> dict[str, Any]:
        """The groups of a tenant, by their message."""
        return {row["message"]: row for row in self.groups.page(tenant or self.tenant, limit=50)}


@pytest.fixture
def scene(engine: Engine, db: Callable[[str], Database]) -> Scene:
    return Scene(engine, db)


def test_failures_are_counted_once_in_their_groups(scene: Scene) -> None:
    """Attempts that are tried again and steps that failed for good; where each stands, and what it was last."""
    leases = scene.worker.take("visit")
    scene.fail(leases[:6], "row %d is bad", final=False)
    scene.fail(leases[6:9], "row %d is bad")
    assert scene.collect() == 9
    assert scene.collect() == 0
    group = scene.page()["row <n> is bad"]
    assert (group["count"], group["failed"], group["versions"], group["node"]) == (9, 3, [1], "visit")
    assert group["first_at"] <= group["last_at"]
    assert group["example"]["what"].startswith("row ")
    scene.engine.forward(5)
    scene.engine.fire()
    scene.fail(scene.worker.take("visit", limit=2), "refused by host %d")
    assert scene.collect() == 2
    # a step is a member of the group of its last failure
    groups = scene.page()
    assert (groups["row <n> is bad"]["count"], groups["refused by host <n>"]["failed"]) == (9, 2)
    members = scene.groups.members(scene.tenant, groups["row <n> is bad"]["group_id"], limit=50).items
    assert len(members) == 7
    assert {row["worker"] for row in members} == {"w"}
    later = scene.groups.members(scene.tenant, groups["refused by host <n>"]["group_id"], limit=50).items
    assert [(row["failures"], row["state"]) for row in later] == [(2, "failed"), (2, "failed")]


def test_members_come_in_pages(scene: Scene) -> None:
    """Newest first, each once."""
    scene.fail(scene.worker.take("visit"), "bad")
    scene.collect()
    group_id = scene.page()["bad"]["group_id"]
    seen, before = list[UUID](), None
    while True:
        page = scene.groups.members(scene.tenant, group_id, limit=4, before=before)
        seen += [row["step_id"] for row in page.items]
        before = page.next
        if before is None:
            break
    assert len(seen) == len(set(seen)) == 10
    assert seen == sorted(seen, key=lambda one: one.int, reverse=True)


def test_groups_of_a_run_are_up_to_date(scene: Scene) -> None:
    """Also before anything was collected, half way, and after a step was reopened."""
    leases = scene.worker.take("visit")
    scene.fail(leases[:3], "row %d is bad")
    shown = scene.groups.of_run(scene.tenant, scene.run, scene.fan)
    assert [(row["message"], row["count"], row["workers"]) for row in shown] == [("row <n> is bad", 3, ["w"])]
    scene.collect()
    scene.fail(leases[3:5], "row %d is bad")
    scene.fail(leases[5:6], "refused")
    for _ in range(2):
        shown = scene.groups.of_run(scene.tenant, scene.run, scene.fan)
        assert [(row["message"], row["count"]) for row in shown] == [("row <n> is bad", 5), ("refused", 1)]
        scene.collect()
    scene.engine.reopen([leases[0].step_id])
    assert [row["count"] for row in scene.groups.of_run(scene.tenant, scene.run)] == [4, 1]
    assert scene.groups.of_run(scene.tenant, scene.run, scene.run) == []


def test_nothing_is_skipped_that_commits_late(scene: Scene, database_url: str) -> None:
    """A transaction that began earlier and is still open holds the cursor back; behind it all is counted."""
    leases = scene.worker.take("visit")
    with psycopg.connect(database_url) as slow:
        slow.execute(
            "INSERT INTO stanchion.event (tenant_id, run_id, step_id, kind, version, body)"
            ' VALUES (%s, %s, %s, \'StepFailed\', 9, \'{"error": {"code": "E-STEP-27", "what": "late"}}\')',
            (scene.tenant, scene.run, leases[0].step_id),
        )
        scene.fail(leases[1:3], "early")
        assert scene.collect() == 0
        slow.commit()
    assert scene.collect() == 3
    assert {message: row["count"] for message, row in scene.page().items()} == {"late": 1, "early": 2}


def test_workers_that_collect_together_count_once(scene: Scene, db: Callable[[str], Database]) -> None:
    """The cursor is compared when it moves: whoever read the same failures counts nothing."""
    scene.fail(scene.worker.take("visit"), "row %d is bad")
    gate, counted = threading.Barrier(4), list[int]()

    def collect() -> None:
        gate.wait(10)
        for _ in range(10):
            counted.append(scene.collector.collect(2)[0])

    threads = [threading.Thread(target=collect) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sum(counted) == 10
    assert scene.page()["row <n> is bad"]["count"] == 10


def test_tenants_have_groups_of_their_own(scene: Scene, db: Callable[[str], Database], admin: Admin) -> None:
    """The same error in two tenants is two groups; neither sees, nor marks, the other's."""
    scene.fail(scene.worker.take("visit"), "bad")
    beta = Engine(db, admin, Keys(db(TASK_SERVICE)).create_tenant("beta"))
    beta.submit(single("mail", retries=0))
    beta.worker().fail(*beta.worker().take("only"))
    scene.collect()
    mine, theirs = scene.page(), scene.page(beta.tenant)
    assert (list(mine), list(theirs)) == (["bad"], ["ValueError: test"])
    group_id = mine["bad"]["group_id"]
    with pytest.raises(NotFound):
        scene.groups.group(beta.tenant, group_id)
    with pytest.raises(NotFound):
        scene.groups.mark(beta.tenant, group_id, Mark(known=True), actor="person:eve")
    assert scene.groups.members(beta.tenant, group_id, limit=9).items == []
    assert scene.groups.of_run(beta.tenant, scene.run) == []


def test_people_say_what_they_know_of_a_group(scene: Scene) -> None:
    """Known, a note, a link, who looks after it; it stays when more failures come, and the audit log has it."""
    leases = scene.worker.take("visit")
    scene.fail(leases[:1], "bad")
    scene.collect()
    group_id = scene.page()["bad"]["group_id"]
    mark = Mark(known=True, note="the site is down", link="https://example.org/1", assigned_to="person:bob")
    scene.groups.mark(scene.tenant, group_id, mark, actor="person:ana")
    scene.fail(leases[1:2], "bad")
    scene.collect()
    group = scene.groups.mark(scene.tenant, group_id, Mark(note=""), actor="person:ana")
    assert (group["known"], group["note"], group["link"], group["assigned_to"], group["count"]) == (
        True, None, "https://example.org/1", "person:bob", 2,
    )  # fmt: skip
    assert scene.groups.page(scene.tenant, limit=9, known=False) == []
    assert scene.engine.all("SELECT actor FROM stanchion.audit WHERE action = 'error.mark'") == ["person:ana"] * 2


def test_members_go_with_the_history_and_groups_when_they_are_old(scene: Scene, db: Callable[[str], Database]) -> None:
    """Nothing is kept of what retention took."""
    scene.fail(scene.worker.take("visit"), "bad")
    scene.collect()
    scene.engine.cancel(scene.task)
    scene.engine.sweep(0)
    scene.engine.forward(400 * 86_400)
    retention = Retention(db(MAINTENANCE))
    while retention.remove_payloads(timedelta(days=30)):
        pass
    assert retention.remove_history(timedelta(days=365)) == 1
    assert scene.engine.all("SELECT count(*) FROM stanchion.error_member") == [0]
    assert retention.remove_error_groups(timedelta(days=365)) == 1
    assert scene.page() == {}


def test_what_stands_out_in_a_fan_out(scene: Scene) -> None:
    """The slow ones by how many times the median they took, and the worker that fails."""
    leases = scene.worker.take("visit")
    bad = scene.engine.worker()
    bad.seen()
    for lease in leases[:8]:
        scene.worker.finish(lease, "ok")
    scene.engine.admin.execute("ALTER TABLE stanchion.attempt DISABLE TRIGGER ALL")
    scene.engine.admin.execute(
        "UPDATE stanchion.attempt SET started_at = granted_at, ended_at = granted_at + CASE step_id WHEN %s"
        " THEN interval '10 s' ELSE interval '1 s' END WHERE ended_at IS NOT NULL",
        (leases[3].step_id,),
    )
    scene.engine.admin.execute("ALTER TABLE stanchion.attempt ENABLE TRIGGER ALL")
    scene.worker.leases.give_back(leases[8:], "not mine")
    scene.fail(bad.take("visit"), "bad", worker=bad)
    found = scene.outliers.of(scene.tenant, scene.fan, "visit")
    assert found.median_seconds == 1.0
    assert (found.slowest[0].step_id, found.slowest[0].times_median) == (leases[3].step_id, 10.0)
    assert len(found.slowest) == 8
    assert (found.workers[0].attempts, found.workers[0].failed_share) == (2, 1.0)
    assert found.workers[-1].worker_id == scene.worker.leases.worker_id
    other = Keys(scene.engine.service).create_tenant("other")
    assert scene.outliers.of(other, scene.fan, "visit").slowest == []
