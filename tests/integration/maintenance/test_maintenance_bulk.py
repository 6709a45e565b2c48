"""Jobs in bulk: each target once, whatever happens in the middle; in the name of who asked; stopped by people and by failures."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kit.engine import Admin, Engine
from kit.flows import fan, single
from maintenance_kit import Hand, Process, rows

from services.workers.maintenance.bulk import Bulk
from stanchion.authority.job_acts import JobActs
from stanchion.authority.jobs import KIND, Jobs, Report, Wanted
from stanchion.authority.keys import Keys
from stanchion.authority.maintenance import Maintenance
from stanchion.authority.submission import Answer
from stanchion.authority.task_search import Count
from stanchion.contracts import limits
from stanchion.contracts.filters import parse
from stanchion.contracts.ids import new_id
from stanchion.db.engine import Database
from stanchion.db.grants import TASK_SERVICE
from stanchion.errors import Conflict, NotFound, Unavailable, Unprocessable
from stanchion.workflow import All

Eventually = Callable[..., Any]
PATIENCE = 150
ONE = single("mail", retries=0)
ALL_BAD = fan("held", All(on_failed="hold"), [f"i{n}" for n in range(30)], retries=0)


class Scene:
    """Runs driven by hand, jobs that are asked for, and the worker that does them."""

    def __init__(self, engine: Engine, hand: Hand) -> None:
        self.engine, self.hand, self.tenant = engine, hand, engine.tenant
        self.jobs = Jobs(engine.service)
        self.woken = 0
        hand.periods.clear()
        hand.works[KIND] = hand.noted(Bulk(JobActs(hand.database), self._wake))

    def _wake(self) -> None:
        self.woken += 1

    def ask(self, action: str, text: str, *, expect: int | None = None, by: str = "person:ana", **options: Any) -> UUID:
        """Ask for a job in the name of somebody."""
        job_id = new_id()
        given = {"rate": limits.JOB_RATE_MAX, "reason": "for the test"} | options
        wanted = Wanted(action, parse(text).settled(by, self.jobs.search.now(self.tenant)), **given)
        self.jobs.create(self.tenant, job_id, wanted, actor=by, expect_count=expect)
        return job_id

    def work(self) -> None:
        """Plan and perform until nothing is due."""
        while True:
            self.hand.planner.run_once()
            if not self.hand.drain():
                return

    def show(self, job_id: UUID) -> Report:
        return self.jobs.show(self.tenant, job_id)

    def submit(self, count: int) -> list[Answer]:
        return self.engine.submit_all(ONE, [({}, None)] * count)

    def failing(self, count: int) -> list[Answer]:
        """Tasks that have failed."""
        made = self.submit(count)
        worker = self.engine.worker()
        worker.fail(*worker.take("only"))
        self.engine.sweep(0)
        return made

    def states(self) -> dict[str, int]:
        return dict(self.engine.all("SELECT state, count(*) FROM stanchion.task GROUP BY 1"))


@pytest.fixture
def engine(db: Callable[[str], Database], admin: Admin, tenant: UUID) -> Engine:
    return Engine(db, admin, tenant)


@pytest.fixture
def scene(engine: Engine, hand: Hand) -> Scene:
    return Scene(engine, hand)


def test_a_job_acts_on_all_that_fit_in_the_name_of_who_asked(scene: Scene) -> None:
    """Each once; events and the audit log name the person, and the job has the counts."""
    made = scene.submit(30)
    scene.engine.cancel(made[0])
    scene.engine.sweep(0)
    other = scene.engine.submit(single("other"))
    job_id = scene.ask("task.cancel", "workflow:mail", expect=29)
    waiting = scene.show(job_id)
    assert (waiting.state, waiting.count, waiting.by) == ("waiting", Count(29), "person:ana")
    scene.work()
    report = scene.show(job_id)
    assert (report.state, report.done, report.skipped, report.failed) == ("done", 29, 0, 0)
    assert scene.engine.task(other) == ("accepted", "created")
    actors = scene.engine.all(
        "SELECT actor, count(*) FROM stanchion.audit WHERE action = 'task.cancel' GROUP BY 1 ORDER BY 1"
    )
    assert actors == [("ann", 1), ("person:ana", 29)]
    assert scene.engine.all("SELECT actor FROM stanchion.audit WHERE action = 'job.create'") == ["person:ana"]
    assert scene.engine.all(
        "SELECT DISTINCT reason->>'why' FROM stanchion.task WHERE reason->>'by' = 'person:ana'"
    ) == ["for the test"]
    assert scene.woken > 0
    targets = scene.jobs.targets(scene.tenant, job_id, outcome="done", limit=100)
    assert len({row["target_id"] for row in targets}) == 29


def test_pause_resume_and_what_was_born_later(scene: Scene) -> None:
    """A job touches what was there when it was asked for."""
    first = scene.submit(3)
    job_id = scene.ask("task.pause", "workflow:mail")
    late = scene.submit(1)[0]
    scene.work()
    paused = scene.engine.all("SELECT task_id FROM stanchion.run WHERE paused_at IS NOT NULL")
    assert set(paused) == {one.task_id for one in first}
    assert late.task_id not in paused
    again = scene.ask("task.pause", "workflow:mail", expect=1)
    back = scene.ask("task.resume", "workflow:mail", expect=3)
    scene.work()
    # what fits when its turn comes: the third job finds what the second one has paused
    assert [scene.show(one).done for one in (job_id, again, back)] == [3, 1, 4]


def test_what_changed_meanwhile_is_skipped_with_its_reason(scene: Scene) -> None:
    """A target that ended between the look and the act is noted, and the others go on."""
    made = scene.failing(4)
    job_id = scene.ask("task.retry", "state:failed", expect=4)
    scene.engine.admin.execute(
        "UPDATE stanchion.task SET payload_removed_at = now() WHERE task_id = %s", (made[1].task_id,)
    )
    scene.work()
    report = scene.show(job_id)
    assert (report.done, report.skipped, report.reasons) == (3, 1, {"E-TASK-08": 1})
    (skipped,) = scene.jobs.targets(scene.tenant, job_id, outcome="skipped", limit=9)
    assert (skipped["target_id"], skipped["code"]) == (made[1].task_id, "E-TASK-08")
    assert "removed" in skipped["what"]
    done = scene.jobs.targets(scene.tenant, job_id, outcome="done", limit=9)
    assert {row["made_id"] for row in done} == {
        run for (run,) in scene.engine.admin.execute("SELECT run_id FROM stanchion.run WHERE number = 2").fetchall()
    }


def test_asking_is_checked(scene: Scene) -> None:
    """Unknown acts, rates out of bounds, another count, and too many at once are refused, and nothing is written."""
    scene.submit(2)
    for wrong, code in (
        ({"action": "task.delete"}, "E-JOB-01"),
        ({"action": "task.reopen"}, "E-JOB-01"),
        ({"action": "task.cancel", "node": "x"}, "E-JOB-01"),
        ({"action": "task.cancel", "rate": 0}, "E-JOB-04"),
        ({"action": "task.cancel", "rate": limits.JOB_RATE_MAX + 1}, "E-JOB-04"),
    ):
        with pytest.raises(Unprocessable) as caught:
            scene.ask(text="workflow:mail", **wrong)  # type: ignore[arg-type]  # the actions are what is wrong
        assert caught.value.code == code
    with pytest.raises(Conflict) as other:
        scene.ask("task.cancel", "workflow:mail", expect=3)
    assert other.value.code == "E-JOB-03"
    assert rows(scene.engine.admin, KIND) == []
    for _ in range(limits.JOBS_OPEN):
        scene.ask("task.resume", "workflow:mail")
    with pytest.raises(Unavailable) as full:
        scene.ask("task.resume", "workflow:mail")
    assert full.value.code == "E-JOB-02"


def test_a_plan_counts_and_shows_the_first(scene: Scene) -> None:
    """A dry run changes nothing."""
    made = scene.submit(25)
    sample = scene.jobs.plan(scene.tenant, Wanted("task.pause", parse("workflow:mail")))
    assert sample.count == Count(25)
    assert [row["task_id"] for row in sample.first] == sorted((one.task_id for one in made), key=lambda i: i.int)[:20]
    assert rows(scene.engine.admin, KIND) == []


def test_two_tenants_do_not_meet(scene: Scene, db: Callable[[str], Database], admin: Admin) -> None:
    """A job of one acts on nothing of the other, nor is it seen or stopped by it."""
    scene.submit(2)
    beta = Engine(db, admin, Keys(db(TASK_SERVICE)).create_tenant("beta"))
    theirs = beta.submit(ONE)
    job_id = scene.ask("task.cancel", "workflow:mail", expect=2)
    with pytest.raises(NotFound):
        scene.jobs.show(beta.tenant, job_id)
    with pytest.raises(NotFound):
        scene.jobs.stop(beta.tenant, job_id, reason="", actor="person:eve")
    assert scene.jobs.page(beta.tenant, limit=9) == []
    scene.work()
    assert scene.show(job_id).done == 2
    assert beta.task(theirs) == ("accepted", "created")
    assert scene.jobs.targets(beta.tenant, job_id, limit=9) == []


def test_a_stopped_job_does_nothing_any_more(scene: Scene) -> None:
    """At once, also when its worker is in the middle of a part."""
    scene.submit(10)
    job_id = scene.ask("task.cancel", "workflow:mail", rate=2)
    acts = scene.hand.works[KIND]

    def stopping(job: Any) -> Any:
        part = acts(job)
        if len(scene.hand.calls) == 3:
            scene.jobs.stop(scene.tenant, job_id, reason="enough", actor="person:bob")
        return part

    scene.hand.works[KIND] = stopping
    scene.work()
    report = scene.show(job_id)
    assert (report.state, report.done) == ("stopped", 3)
    assert report.stopped is not None
    assert (report.stopped["by"], report.stopped["reason"]) == ("person:bob", "enough")
    assert scene.jobs.stop(scene.tenant, job_id, reason="", actor="x").state == "stopped"
    assert scene.engine.all("SELECT count(*) FROM stanchion.audit WHERE action = 'job.stop'") == [1]


def test_a_job_stops_itself_when_too_many_fail_again(scene: Scene) -> None:
    """More than a fifth of what was retried has failed again: the rest is left alone."""
    scene.failing(60)
    job_id = scene.ask("task.retry", "state:failed", rate=20)
    bulk, worker = scene.hand.works[KIND], scene.engine.worker()

    def failing(job: Any) -> Any:
        if worker.ready("only"):
            worker.fail(*worker.take("only"))
            scene.engine.sweep(0)
        return bulk(job)

    scene.hand.works[KIND] = failing
    scene.work()
    report = scene.show(job_id)
    assert report.state == "halted"
    assert report.done == 10
    assert report.halted == {"failed": 10, "settled": 10, "acted": 10}


@pytest.mark.parametrize("good", [True, False])
def test_one_goes_first_then_the_rest(scene: Scene, good: bool) -> None:
    """Reopening begins with one step; the others follow if it succeeds, and stay as they are if it fails."""
    task = scene.engine.submit(ALL_BAD)
    worker = scene.engine.worker()
    worker.finish(worker.take("plan")[0], [f"i{n}" for n in range(30)])
    scene.engine.expand()
    worker.fail(*worker.take("visit"))
    job_id = scene.ask("task.reopen", "workflow:held", node="visit", expect=30)
    scene.work()
    report = scene.show(job_id)
    assert (report.state, report.done, report.canary) == ("running", 1, "running")
    (canary,) = worker.take("visit")
    (worker.finish(canary, "A") if good else worker.fail(canary))
    scene.engine.forward(10)
    scene.work()
    report = scene.show(job_id)
    assert (report.state, report.canary) == (("done", "passed") if good else ("halted", "failed"))
    assert report.done == (30 if good else 1)
    assert scene.engine.states(task, "visit") == ({"ready": 29, "succeeded": 1} if good else {"failed": 30})


@pytest.mark.parametrize(
    "moment", ["maintenance.acted", "act_for_job.before_commit", "act_for_job.after_commit", "maintenance.worked"]
)
def test_a_killed_worker_leaves_nothing_done_twice(
    scene: Scene, start: Callable[..., Process], eventually: Eventually, tmp_path: Path, moment: str
) -> None:
    """Whatever the line: another worker goes on, every task is retried once, and the counts are right."""
    scene.failing(12)
    job_id = scene.ask("task.retry", "state:failed", rate=8)
    when = f"[kind={KIND}]" if moment == "maintenance.worked" else ""
    nth = 2 if moment == "maintenance.worked" else 7
    victim = start(failpoints=f"{moment}{when}={nth}*kill", failpoint_dir=str(tmp_path))
    assert victim.child.wait(PATIENCE) == -signal.SIGKILL
    # what was retried before the kill fails again: another retry would be a second effect
    worker = scene.engine.worker()
    worker.fail(*worker.take("only"))
    scene.engine.sweep(0)
    start()
    eventually(lambda: scene.show(job_id).finished_at is not None, PATIENCE)
    report = scene.show(job_id)
    notes = scene.jobs.targets(scene.tenant, job_id, limit=100)
    runs = scene.engine.all("SELECT max(number), count(*) FROM stanchion.run GROUP BY task_id")
    assert set(runs) <= {(1, 1), (2, 2)}, "no task was retried twice"
    assert sum(n == 2 for n, _ in runs) == report.done == len(notes)
    assert report.state in ("done", "halted")


def test_a_worker_with_an_old_fence_changes_nothing(scene: Scene) -> None:
    """It was frozen, another one has the job: no act, no note, no count."""
    made = scene.submit(1)[0]
    job_id = scene.ask("task.cancel", "workflow:mail")
    maintenance = Maintenance(scene.hand.database, "first")
    old = maintenance.claim(KIND, str(job_id), scene.tenant, 0, 1)
    assert old is not None
    scene.engine.forward(60)
    assert maintenance.claim(KIND, str(job_id), scene.tenant, 1, 60_000) is not None
    acts = JobActs(scene.hand.database)
    assert acts.act(old, made.task_id) is None
    assert scene.engine.task(made) == ("accepted", "created")
    assert scene.jobs.targets(scene.tenant, job_id, limit=9) == []


def test_old_jobs_are_forgotten_with_their_notes(scene: Scene) -> None:
    """Notes first, so that none is left without its job."""
    scene.submit(5)
    scene.ask("task.cancel", "workflow:mail")
    scene.work()
    scene.engine.forward(100)
    maintenance = Maintenance(scene.hand.database)
    assert maintenance.forget(10, 3) == 3
    assert [maintenance.forget(10, 3), len(rows(scene.engine.admin, KIND))] == [1, 0]
    assert scene.engine.all("SELECT count(*) FROM stanchion.job_target") == [0]
