"""Tasks by a filter: what each term finds, in which order, how far it is looked, and how many there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from kit.engine import Admin, Engine
from kit.flows import fan, single

from stanchion.authority import task_search
from stanchion.authority.keys import Keys
from stanchion.authority.task_search import Count, Found, TaskSearch
from stanchion.authority.task_terms import plan
from stanchion.contracts import ids, limits
from stanchion.contracts.filters import Filter, parse
from stanchion.db.engine import Database
from stanchion.db.grants import DASHBOARD, MAINTENANCE, TASK_SERVICE
from stanchion.workflow import All

ITEMS = ["a", "b"]


class Scene:
    """A few tasks, each of which stands for something, and a search under the dashboard's login."""

    def __init__(self, engine: Engine, search: TaskSearch) -> None:
        self.engine, self.search, self.tenant = engine, search, engine.tenant
        self.names: dict[UUID, str] = {}
        mail, brief = single("mail"), fan("brief", All(on_failed="hold"), ITEMS, retries=0)
        for name, workflow, command in (
            ("plain", mail, {"goal": "send 100% of it"}),
            ("tagged", mail, {"tags": ["nightly", "eu"], "priority": 5, "idempotency_key": "k-1"}),
            ("failed", mail, {"tags": ["nightly"], "goal": "O'Brien; DROP TABLE task"}),
            ("cancelled", mail, {"priority": -3}),
            ("fanned", brief, {}),
        ):
            made = engine.submit(workflow, **command)
            self.names[made.task_id] = name
            setattr(self, name, made)
        worker = engine.worker()
        worker.seen()
        leases = {self.names[lease.task_id]: lease for lease in worker.take()}
        worker.finish(leases["plain"], 1)
        worker.fail(leases["failed"], final=True)
        engine.cancel(self.cancelled)
        engine.sweep(0)

    def found(self, text: str, **options: Any) -> list[str]:
        """The names of what a filter finds, in order."""
        return [self.names[row["task_id"]] for row in self.page(text, **options).items]

    def page(self, text: str, limit: int = 50, **options: Any) -> Found:
        wanted = parse(text).settled("http:test", self.search.now(self.tenant))
        return self.search.page(self.tenant, wanted, limit=limit, **options)


@pytest.fixture
def scene(engine: Engine, db: Callable[[str], Database]) -> Scene:
    return Scene(engine, TaskSearch(db(DASHBOARD)))


def test_each_term_finds_what_it_says(scene: Scene) -> None:
    """Every name of the language, alternatives and exclusion."""
    fan_run = ids.public(ids.RUN, scene.engine.run_of(scene.fanned))
    failed_step = ids.public(ids.STEP, scene.engine.all("SELECT step_id FROM stanchion.step WHERE state = 'failed'")[0])
    everything = ["fanned", "cancelled", "failed", "tagged", "plain"]
    for text, names in {
        "": everything,
        "state:failed": ["failed"],
        "state:failed,completed": ["failed", "plain"],
        "state:completed,running": ["fanned", "tagged", "plain"],
        "-state:completed,running": ["cancelled", "failed"],
        "is:open": ["fanned", "tagged"],
        "is:ended": ["cancelled", "failed", "plain"],
        "is:paused": [],
        "workflow:mail": ["cancelled", "failed", "tagged", "plain"],
        "workflow:mail@1,brief@1": everything,
        "workflow:mail@2": [],
        "-workflow:mail": ["fanned"],
        "tag:nightly": ["failed", "tagged"],
        "tag:nightly tag:eu": ["tagged"],
        "tag:eu,us": ["tagged"],
        "-tag:eu": ["fanned", "cancelled", "failed", "plain"],
        "priority:>0": ["tagged"],
        "priority:<=-3": ["cancelled"],
        "priority:5,0": ["fanned", "failed", "tagged", "plain"],
        "created:<1h": everything,
        "created:>1h": [],
        "started:<1h ended:<1h": ["cancelled", "failed", "plain"],
        "-ended:<1h": ["fanned", "tagged"],
        "changed:>1h": [],
        "by:test": everything,
        "via:kafka": [],
        "key:k-1": ["tagged"],
        f"id:{ids.public(ids.TASK, scene.failed.task_id)}": ["failed"],
        fan_run: ["fanned"],
        failed_step: ["failed"],
        f"-id:{failed_step}": ["fanned", "cancelled", "tagged", "plain"],
        '"100%"': ["plain"],
        "o'brien": ["failed"],
        "k-1": ["tagged"],
        "worker:w": everything,
        "worker:w state:failed": ["failed"],
        "-worker:w": [],
        "op:mail.send": [],
        "error:valueerror": ["failed"],
        "state:failed error:E-STEP-27": ["failed"],
        "error:'; DROP": [],
    }.items():
        assert scene.found(text) == names, text


def test_fields_of_the_input(scene: Scene) -> None:
    """By their path, equal as text or compared as numbers; what is no number is passed over, not an error."""
    scene.engine.admin.execute(
        'UPDATE stanchion.task SET input = CASE WHEN task_id = %s THEN \'{"customer": {"id": 42, "name": "Li"}}\'::jsonb'
        ' ELSE \'{"customer": {"id": "none"}}\' END',
        (scene.tagged.task_id,),
    )
    assert scene.found("input.customer.id:42") == ["tagged"]
    assert scene.found("input.customer.id:>41") == ["tagged"]
    assert scene.found("input.customer.id:<=41.5") == []
    assert scene.found("input.customer.id:none -state:failed") == ["fanned", "cancelled", "plain"]
    assert scene.found("""input.customer';DROP.x:1""") == []


def test_pages_hold_everything_once(scene: Scene) -> None:
    """Newest first and oldest first, with and without terms that no index serves."""
    for text in ("", "state:failed,completed,cancelled,running", "worker:w", "-tag:eu is:open,ended"):
        for order in ("newest", "oldest"):
            whole = scene.found(text, order=order)
            seen, before = list[str](), None
            while True:
                page = scene.page(text, limit=1, order=order, before=before)
                seen += [scene.names[row["task_id"]] for row in page.items]
                before = page.next
                if before is None:
                    break
            assert seen == whole, text
    assert scene.found("", order="oldest") == scene.found("")[::-1]


def test_another_tenant_sees_nothing(scene: Scene) -> None:
    """Row-level security, whatever the filter names."""
    other = Keys(scene.engine.service).create_tenant("other")
    for text in ("", "state:failed", "tag:nightly", "key:k-1", f"id:{scene.failed.task_id}", "error:valueerror"):
        assert scene.search.page(other, parse(text), limit=10).items == []
    assert set(scene.search.counts(other).values()) == {Count(0)}
    assert scene.search.sample(other, parse("is:open")).count == Count(0)


def test_what_must_scan_says_so(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a scope unless it is told one, counts what it looked at, and stops in time with a cursor to go on from."""
    search, tenant = scene.search, scene.tenant
    assert plan(parse("state:failed workflow:mail")).is_dear is False
    assert search.since(tenant, parse("state:failed tag:x")) is None
    since = search.since(tenant, parse("error:valueerror"))
    assert since is not None
    assert round((search.now(tenant) - since).total_seconds() / 86_400) == limits.SEARCH_DAYS
    assert search.since(tenant, parse("error:valueerror created:<30d")) is None
    page = scene.page("error:valueerror", since=since)
    assert (page.scanned, page.partial, page.since, len(page.items)) == (5, False, since, 1)
    assert scene.page("state:failed").scanned == 0
    scene.engine.admin.execute("UPDATE stanchion.task SET created_at = created_at - interval '8 days'")
    assert scene.page("error:valueerror", since=since).items == []
    # no time at all: nothing was found, and nothing is claimed
    monkeypatch.setattr(task_search.limits, "SEARCH_SECONDS", 0.0)
    page = scene.page("error:valueerror")
    assert (page.items, page.partial) == ([], True)
    assert search.counts(tenant, parse("error:x"))["failed"] is None


def test_counts_by_state_are_exact_up_to_a_bound(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of closed states each by itself; open ones, beyond the bound, are at least so many."""
    counts = scene.search.counts(scene.tenant)
    shown = {state: str(count) for state, count in counts.items() if count and count.number}
    assert shown == {"running": "2", "completed": "1", "failed": "1", "cancelled": "1"}
    assert scene.search.counts(scene.tenant, parse("state:failed tag:nightly"))["failed"] == Count(1)
    assert scene.search.counts(scene.tenant, parse("tag:eu"))["failed"] == Count(0)
    monkeypatch.setattr(task_search.limits, "COUNTED_ROWS", 1)
    assert str(scene.search.counts(scene.tenant)["failed"]) == "1"
    assert [c.exact for s, c in scene.search.counts(scene.tenant).items() if s == "running" and c] == [False]
    sample = scene.search.sample(scene.tenant, parse("is:ended"))
    assert str(sample.count) == "1+"


def test_what_has_not_moved_for_longest_comes_first(scene: Scene, engine: Engine) -> None:
    """By the last event of the run, and not by the state of the task."""
    assert scene.found("", order="still") == ["tagged", "fanned"]
    engine.forward(60)
    engine.upkeep.reap(10)
    assert [scene.names[lease.task_id] for lease in engine.worker().take("only")] == ["tagged"]
    assert scene.found("is:open", order="still") == ["fanned", "tagged"]


def test_a_job_walks_over_what_was_there_when_it_was_made(scene: Scene, db: Callable[[str], Database]) -> None:
    """Oldest first, under the maintenance worker's login."""
    search = TaskSearch(db(MAINTENANCE))
    until = search.now(scene.tenant)
    late = scene.engine.submit(single("mail"))
    page = search.part(scene.tenant, parse("workflow:mail"), limit=2, after=None, until=until)
    assert [scene.names[row["task_id"]] for row in page.items] == ["plain", "tagged"]
    page = search.part(scene.tenant, parse("workflow:mail"), limit=9, after=page.next, until=until)
    assert [scene.names[row["task_id"]] for row in page.items] == ["failed", "cancelled"]
    assert (page.next, page.partial) == (None, False)
    assert late.task_id not in scene.names


def test_every_login_that_searches_may(scene: Scene, db: Callable[[str], Database], admin: Admin) -> None:
    """The task service, the dashboard and the maintenance worker; all of them without changing anything."""
    for login in (TASK_SERVICE, DASHBOARD, MAINTENANCE):
        found = TaskSearch(db(login)).page(scene.tenant, Filter(), limit=9)
        assert len(found.items) == 5
    assert admin.execute("SELECT count(*) FROM stanchion.task").fetchone() == (5,)
