"""Artifacts: the order in which a version becomes visible, who may promote it, and what the sweeper may take."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kit.engine import Engine
from kit.flows import fan, single
from kit.racing import deadlocks, race
from kit.shelf import DAY, NOW, Shelf, named

from stanchion.authority import sweeping
from stanchion.authority.check import check
from stanchion.authority.objects import Objects
from stanchion.db.engine import Database
from stanchion.errors import Conflict, LeaseLost, NotFound, Unavailable, Unprocessable
from stanchion.objects import Stored
from stanchion.workflow import All


@pytest.fixture
def shelf(engine: Engine, tmp_path: Path, database_url: str) -> Iterator[Shelf]:
    """After each test, every available version has its content, and the rows are what the events tell."""
    made = Shelf(engine, tmp_path / "objects", database_url)
    yield made
    made.check()
    root = Database(database_url, name="check")
    differences = [str(difference) for difference in check(root)]
    root.close()
    made.close()
    assert differences == []


class TestOrder:
    """Row, content, flip."""

    def test_nobody_sees_a_version_before_it_is_flipped(self, engine: Engine, shelf: Shelf) -> None:
        """Not its row and not its name, whatever is in the store already."""
        task = engine.submit(single("order"))
        version = shelf.begun(task.task_id)
        content = shelf.put(b"text")
        assert shelf.people.page(engine.tenant, task.task_id, name=None, limit=10).items == []
        with pytest.raises(NotFound):
            shelf.people.get(engine.tenant, version)
        assert shelf.flipped(version, content) == ("available", 1)
        (row,) = shelf.people.page(engine.tenant, task.task_id, name=None, limit=10).items
        assert (row["version_id"], row["number"], row["latest"], row["size"]) == (version, 1, True, 4)

    def test_the_reader_s_login_can_not_see_more(self, engine: Engine, shelf: Shelf) -> None:
        """The policy of the table shows available rows alone: no query has to remember it."""
        task = engine.submit(single("policy"))
        shelf.begun(task.task_id)
        gone, there = shelf.uploaded(task.task_id, b"one"), shelf.uploaded(task.task_id, b"two")
        shelf.people.delete(engine.tenant, gone, reason="", actor="ann")
        with engine.service.tenant(engine.tenant) as connection:
            found = connection.exec_driver_sql("SELECT version_id FROM stanchion.artifact_version").scalars().all()
        assert found == [there]
        assert shelf.states() == {"pending": 1, "available": 1, "deleted": 1}

    def test_numbers_have_no_holes(self, engine: Engine, shelf: Shelf) -> None:
        """Versions that never become available take none, whoever flips first; a deleted one keeps its own."""
        task = engine.submit(single("numbers"))
        first, never, third = (shelf.begun(task.task_id) for _ in range(3))
        assert shelf.flipped(third, shelf.put(b"3")) == ("available", 1)
        assert shelf.flipped(first, shelf.put(b"1")) == ("available", 2)
        shelf.people.delete(engine.tenant, first, reason="", actor="ann")
        engine.forward(10)
        shelf.sweep()
        assert shelf.flipped(never, shelf.put(b"2")) == ("abandoned", None)
        shelf.uploaded(task.task_id, b"4")
        numbers = engine.all("SELECT number FROM stanchion.artifact_version WHERE number IS NOT NULL ORDER BY 1")
        assert numbers == [1, 2, 3]

    def test_a_flip_that_was_not_answered_is_asked_again(self, engine: Engine, shelf: Shelf) -> None:
        """With the same answer, and no second version; other content is not taken for it."""
        task = engine.submit(single("again"))
        version, content = shelf.begun(task.task_id), shelf.put(b"x")
        assert shelf.flipped(version, content) == shelf.flipped(version, content) == ("available", 1)
        assert shelf.flipped(version, shelf.put(b"y")) == ("abandoned", None)
        assert engine.one("SELECT count(*) FROM stanchion.event WHERE kind = 'ArtifactAvailable'") == (1,)

    def test_many_at_once_get_a_number_each(self, engine: Engine, shelf: Shelf) -> None:
        """Without a deadlock."""
        task = engine.submit(single("many"))
        race(20, *[lambda n, who=who: shelf.uploaded(task.task_id, f"{who} {n % 3}".encode()) for who in range(4)])
        numbers = engine.all("SELECT number FROM stanchion.artifact_version ORDER BY number")
        assert numbers == list(range(1, 81))
        assert deadlocks(engine) == 0

    def test_sources_must_be_there(self, engine: Engine, shelf: Shelf) -> None:
        """A version is made from versions of its tenant, also deleted ones; not from pending or foreign ones."""
        task = engine.submit(single("sources"))
        one = shelf.uploaded(task.task_id, b"one")
        two = shelf.uploaded(task.task_id, b"two", made_from=[one])
        shelf.people.delete(engine.tenant, one, reason="", actor="ann")
        shelf.uploaded(task.task_id, b"three", made_from=[one, two])
        assert len(shelf.people.get(engine.tenant, two)["made_into"]) == 1
        for bad in (uuid4(), shelf.begun(task.task_id)):
            with pytest.raises(NotFound):
                shelf.uploaded(task.task_id, b"four", made_from=[bad])


class TestFence:
    """Only the holder of a step promotes."""

    def test_the_holder_promotes(self, engine: Engine, shelf: Shelf) -> None:
        """The version carries task, run, step and fence."""
        task, worker = engine.submit(single("holder")), engine.worker()
        (lease,) = worker.take()
        version = shelf.made(worker, lease, b"x")
        row = shelf.people.get(engine.tenant, version)
        assert (row["task_id"], row["run_id"], row["step_id"]) == (task.task_id, task.run_id, lease.step_id)
        assert (row["fence"], row["actor"]) == (1, None)
        worker.finish(lease, 1)

    @pytest.mark.parametrize("when", ["begin", "flip"])
    def test_a_stale_worker_promotes_nothing(self, engine: Engine, shelf: Shelf, when: str) -> None:
        """Its lease was taken over, before the row or between row and flip: refused, on record, and never visible."""
        engine.submit(single("stale"))
        old, new = engine.worker(ttl_ms=2_000), engine.worker()
        (lease,) = old.take()
        version = shelf.held(old).begin(lease, "report", "text/plain", []) if when == "flip" else None
        engine.forward(10)
        engine.upkeep.reap()
        (taken,) = new.take()
        content = shelf.put(b"stale")
        with pytest.raises(LeaseLost):
            (
                shelf.held(old).begin(lease, "report", "text/plain", [])
                if version is None
                else shelf.held(old).flip(lease, version, content)
            )
        assert engine.all("SELECT attempted, fence, current_fence FROM stanchion.refused_write") == [
            (f"{when}_artifact", 1, 2)
        ]
        assert shelf.states().get("available") is None
        shelf.made(new, taken, b"fresh")
        assert engine.all("SELECT number FROM stanchion.artifact_version WHERE state = 'available'") == [1]

    def test_after_the_step_has_ended_nothing_is_promoted(self, engine: Engine, shelf: Shelf) -> None:
        """Although no other fence was issued; what was promoted before is told again."""
        engine.submit(single("ended"))
        worker = engine.worker()
        (lease,) = worker.take()
        done, open_ = shelf.made(worker, lease, b"done"), shelf.held(worker).begin(lease, "late", "text/plain", [])
        worker.finish(lease, 1)
        with pytest.raises(LeaseLost):
            shelf.held(worker).flip(lease, open_, shelf.put(b"late"))
        assert shelf.held(worker).flip(lease, done, Stored(named(b"done"), 4)).number == 1

    def test_reading_is_for_holders(self, engine: Engine, shelf: Shelf) -> None:
        """Of any task of the tenant; not with an old fence."""
        task, worker = engine.submit(single("reads")), engine.worker()
        version = shelf.uploaded(task.task_id, b"x")
        (lease,) = worker.take()
        assert shelf.held(worker).find(lease, version).number == 1
        with pytest.raises(LeaseLost):
            shelf.held(worker).find(lease._replace(fence=9), version)
        with pytest.raises(NotFound):
            shelf.held(worker).find(lease, uuid4())


class TestTenants:
    """What another tenant has is not there."""

    def test_nothing_crosses(self, engine: Engine, shelf: Shelf, admin: Any, database_url: str) -> None:
        """No listing, no read, no upload, no source, no pin, no deletion; and the same content is stored twice."""
        task = engine.submit(single("mine"))
        mine = shelf.uploaded(task.task_id, b"secret")
        other = admin.execute("SELECT stanchion.create_tenant('other')").fetchone()[0]
        people = shelf.people
        attempts = (
            lambda: people.page(other, task.task_id, name=None, limit=10),
            lambda: people.get(other, mine),
            lambda: people.pin(other, mine, pinned=True, actor="eve"),
            lambda: people.delete(other, mine, reason="", actor="eve"),
            lambda: people.upload(
                other, task.task_id, "report", lambda: shelf.put(b"x"), media_type="text/plain", actor="eve"
            ),
        )
        for attempt in attempts:
            with pytest.raises(NotFound, match="E-FIND-01"):
                attempt()
        theirs = Engine(lambda _login: engine.service, admin, other)
        assert shelf.objects.of(theirs.tenant).stat(named(b"secret")) is None
        foreign = shelf.sweeping.look(theirs.tenant, None, 100)
        assert foreign == (None, 0)

    def test_a_worker_reads_nothing_of_another_tenant(self, engine: Engine, shelf: Shelf, admin: Any) -> None:
        """Its lease is of one tenant; the id of a foreign version is as good as none."""
        task = engine.submit(single("theirs"))
        version = shelf.uploaded(task.task_id, b"canary")
        other = admin.execute("SELECT stanchion.create_tenant('other')").fetchone()[0]
        engine.tenant, owner = other, engine.tenant
        engine.submit(single("ours"))
        worker = engine.worker()
        leases = {lease.tenant_id: lease for lease in worker.take()}
        engine.tenant = owner
        with pytest.raises(NotFound):
            shelf.held(worker).find(leases[other], version)
        assert shelf.held(worker).value_size(leases[other], named(b"canary")) is None
        assert shelf.held(worker).value_size(leases[owner], named(b"canary")) == 6
        with pytest.raises(NotFound):
            shelf.held(worker).begin(leases[other], "copy", "text/plain", [version])


class TestDeleting:
    """Content goes when nobody names it any more."""

    def test_content_is_shared_by_versions(self, engine: Engine, shelf: Shelf) -> None:
        """The last one of a tenant takes it with it."""
        task = engine.submit(single("shared"))
        one, two = shelf.uploaded(task.task_id, b"same"), shelf.uploaded(task.task_id, b"same", "copy")
        assert shelf.people.delete(engine.tenant, one, reason="x", actor="ann")
        assert not shelf.people.delete(engine.tenant, one, reason="x", actor="ann")
        shelf.sweep()
        assert shelf.objects_there() == {named(b"same")}
        shelf.people.delete(engine.tenant, two, reason="x", actor="ann")
        assert shelf.sweeping.remove(10) == 1
        assert shelf.objects_there() == set()
        assert engine.all("SELECT action FROM stanchion.audit WHERE action LIKE 'artifact.%%' ORDER BY audit_id") == [
            "artifact.put",
            "artifact.put",
            "artifact.delete",
            "artifact.delete",
        ]

    def test_what_is_pinned_stays(self, engine: Engine, shelf: Shelf) -> None:
        """Until it is unpinned; both are on record."""
        task = engine.submit(single("pinned"))
        version = shelf.uploaded(task.task_id, b"keep")
        assert shelf.people.pin(engine.tenant, version, pinned=True, actor="ann")
        assert not shelf.people.pin(engine.tenant, version, pinned=True, actor="ann")
        with pytest.raises(Conflict, match="E-ART-03"):
            shelf.people.delete(engine.tenant, version, reason="", actor="ann")
        assert shelf.people.pin(engine.tenant, version, pinned=False, actor="ann")
        assert shelf.people.delete(engine.tenant, version, reason="", actor="ann")

    def test_uploading_again_calls_a_removal_off(self, engine: Engine, shelf: Shelf) -> None:
        """Asked for and not begun: the content stays."""
        task = engine.submit(single("again"))
        version = shelf.uploaded(task.task_id, b"x")
        shelf.people.delete(engine.tenant, version, reason="", actor="ann")
        shelf.uploaded(task.task_id, b"x")
        assert shelf.sweep() == (0, 0)


class TestRetention:
    """Artifacts go with the payloads of their task, pinned ones when they are let go."""

    def test_pins_outlive_the_payloads(self, engine: Engine, shelf: Shelf) -> None:
        """And keep the history of their task; nothing is uploaded to it any more."""
        task, worker = engine.submit(single("old")), engine.worker()
        (lease,) = worker.take()
        kept, gone = shelf.made(worker, lease, b"kept"), shelf.made(worker, lease, b"gone")
        open_ = shelf.begun(task.task_id)
        worker.finish(lease, 1)
        shelf.people.pin(engine.tenant, kept, pinned=True, actor="ann")
        engine.forward(40 * 86_400)
        assert shelf.retention.remove_payloads(30 * DAY) == 1
        assert shelf.retention.remove_artifacts() == 1
        assert shelf.flipped(open_, shelf.put(b"late")) == ("abandoned", None)
        with pytest.raises(Conflict, match="E-TASK-08"):
            shelf.begun(task.task_id)
        with pytest.raises(NotFound):
            shelf.people.get(engine.tenant, gone)
        shelf.sweep()
        assert shelf.objects_there() == {named(b"kept")}
        assert shelf.retention.remove_artifacts() == 0
        assert shelf.retention.remove_history(30 * DAY) == 0
        shelf.people.pin(engine.tenant, kept, pinned=False, actor="ann")
        assert shelf.retention.remove_artifacts() == 1
        shelf.sweep()
        assert shelf.objects_there() == set()
        assert shelf.retention.remove_history(30 * DAY) == 1
        assert engine.all("SELECT count(*) FROM stanchion.artifact_version") == [0]
        assert engine.all("SELECT count(*) FROM stanchion.artifact") == [0]

    def test_any_number_of_versions_goes_in_parts(self, engine: Engine, shelf: Shelf) -> None:
        """Each part takes a bounded number of locks, also when no content is like another."""
        task, worker = engine.submit(single("many")), engine.worker()
        (lease,) = worker.take()
        shelf.made(worker, lease, b"first")
        worker.finish(lease, 1)
        engine.admin.execute("SET session_replication_role = replica")
        engine.admin.execute(
            "INSERT INTO stanchion.artifact_version (tenant_id, artifact_id, task_id, run_id, step_id, fence, state, version,"
            " number, sha256, size, media_type, available_at) SELECT tenant_id, artifact_id, task_id, run_id, step_id, fence,"
            " state, 1, n, sha256(n::text::bytea), 1, media_type, available_at FROM stanchion.artifact_version,"
            " generate_series(2, 1001) n"
        )
        engine.admin.execute(
            "INSERT INTO stanchion.event (tenant_id, run_id, step_id, fence, kind, version, body) SELECT tenant_id, run_id,"
            " step_id, fence, k.kind, k.v, jsonb_build_object('artifact', version_id, 'number', number, 'size', size,"
            " 'sha256', encode(sha256, 'hex')) FROM stanchion.artifact_version,"
            " (VALUES ('ArtifactBegun', 0), ('ArtifactAvailable', 1)) k(kind, v) WHERE number > 1 ORDER BY k.v"
        )
        engine.admin.execute("SET session_replication_role = origin")
        engine.forward(40 * 86_400)
        assert shelf.retention.remove_payloads(30 * DAY) == 1
        parts = []
        while (part := shelf.retention.remove_artifacts(300)) > 0:
            parts.append(part)
        assert parts == [300, 300, 300, 101]
        assert engine.one("SELECT count(*) FROM stanchion.object_removal") == (1_001,)
        assert shelf.states() == {"deleted": 1_001}
        assert task.task_id

    def test_a_live_task_keeps_everything(self, engine: Engine, shelf: Shelf) -> None:
        """However old."""
        engine.submit(fan("live", All(on_failed="hold"), ["a"]))
        worker = engine.worker()
        (lease,) = worker.take()
        shelf.made(worker, lease, b"x")
        engine.forward(400 * 86_400)
        shelf.retention.remove_payloads(DAY)
        shelf.sweep()
        assert shelf.states() == {"available": 1}


class TestFaults:
    """7a to 7c: what is half done stays invisible, and is cleaned away."""

    def test_7a_the_database_goes_down_after_the_put(self, engine: Engine, shelf: Shelf) -> None:
        """Not visible; row and object are removed after the grace time, and not before."""
        shelf.sweeping.grace = DAY
        task = engine.submit(single("down"))

        def put() -> Stored:
            content = shelf.put(b"half")
            engine.admin.execute("REVOKE EXECUTE ON FUNCTION stanchion.flip_upload FROM stanchion_task_service")
            return content

        with pytest.raises(Exception, match="E-DB-02"):
            shelf.people.upload(engine.tenant, task.task_id, "r", put, media_type="text/plain", actor="ann")
        engine.admin.execute("GRANT EXECUTE ON FUNCTION stanchion.flip_upload TO stanchion_task_service")
        assert shelf.people.page(engine.tenant, task.task_id, name=None, limit=10).items == []
        assert shelf.sweep() == (0, 0)
        assert shelf.objects_there() == {named(b"half")}
        engine.forward(2 * 86_400)
        assert shelf.sweep() == (1, 1)
        assert shelf.objects_there() == set()
        assert shelf.states() == {"deleted": 1}

    def test_7b_a_put_that_timed_out_and_worked(self, engine: Engine, shelf: Shelf) -> None:
        """Putting it again is harmless: one version, one object."""
        task = engine.submit(single("timed_out"))

        def put() -> Stored:
            shelf.put(b"twice")  # its answer got lost
            return shelf.put(b"twice")

        shelf.people.upload(engine.tenant, task.task_id, "r", put, media_type="text/plain", actor="ann")
        assert shelf.states() == {"available": 1}
        assert shelf.objects_there() == {named(b"twice")}

    @pytest.mark.parametrize("damage", ["cut", "changed"])
    def test_7b_a_put_that_was_half_done(self, engine: Engine, shelf: Shelf, damage: str) -> None:
        """The hash is not the announced one: nothing is stored, nothing is flipped."""
        task = engine.submit(single("half"))
        data = b"ab" if damage == "cut" else b"abX"

        def put() -> Stored:
            return shelf.store.put([data], expected_sha256=named(b"abc"), most_bytes=10)

        with pytest.raises(Unprocessable, match="E-OBJ-02"):
            shelf.people.upload(engine.tenant, task.task_id, "r", put, media_type="text/plain", actor="ann")
        assert shelf.objects_there() == set()
        assert shelf.states() == {"pending": 1}

    @pytest.mark.parametrize("at", ["before", "asked", "begun", "deleted", "noted"])
    def test_7c_the_sweeper_against_a_late_flip(self, engine: Engine, shelf: Shelf, at: str) -> None:
        """One wins: either the content stays and is visible, or the flip is told to put it again."""
        task = engine.submit(single("late"))
        version, content = shelf.begun(task.task_id), shelf.put(b"late")
        outcome: tuple[str, int | None] = ("", None)
        sweeper = shelf.sweeping

        def now(place: str) -> None:
            nonlocal outcome
            if place == at:
                outcome = shelf.flipped(version, content)

        now("before")
        engine.forward(1)
        sweeper.look(engine.tenant, None, 100)
        now("asked")
        marked = shelf.maintenance.call("maintain", "SELECT * FROM stanchion.begin_removals('1 h', 10)")
        now("begun")
        for tenant_id, sha256 in marked:
            shelf.objects.of(tenant_id).delete(sha256)
            now("deleted")
            shelf.maintenance.call("maintain", "SELECT stanchion.note_removed(%s, %s)", (tenant_id, sha256))
        now("noted")
        won = at in ("before", "asked")
        assert outcome == (("available", 1) if won else ("swept", None))
        assert shelf.objects_there() == ({content.sha256} if won else set())
        again = shelf.uploaded(task.task_id, b"late")
        assert shelf.people.get(engine.tenant, again)["number"] == (2 if won else 1)

    def test_7c_a_flip_waits_for_who_decides(self, engine: Engine, shelf: Shelf, database_url: str) -> None:
        """While a sweeper's transaction decides about the content, a flip of it stands behind its lock."""
        task = engine.submit(single("lock"))
        version, content = shelf.begun(task.task_id), shelf.put(b"x")
        with psycopg.connect(database_url) as sweeper:
            sweeper.execute("SELECT stanchion.lock_object(%s, %s)", (engine.tenant, content.sha256))
            waiting = Event()
            answers = race(
                1,
                lambda _n: (waiting.set(), shelf.flipped(version, content))[1],
                lambda _n: (waiting.wait(30), _blocked(engine), sweeper.rollback()),
            )
        assert answers[0] == [("available", 1)]

    def test_a_frozen_sweeper_deletes_nothing_more(
        self, engine: Engine, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """After so long another one may have the removal, and somebody may have put the same again."""
        task = engine.submit(single("frozen"))
        shelf.people.delete(engine.tenant, shelf.uploaded(task.task_id, b"x"), reason="", actor="ann")
        monkeypatch.setattr(sweeping, "REMOVE_SECONDS", 0.0)
        assert shelf.sweeping.remove(10) == 0
        assert shelf.objects_there() == {named(b"x")}
        monkeypatch.undo()
        assert shelf.sweeping.remove(10) == 0, "it is marked, and not marked again at once"
        engine.forward(3_600)
        assert shelf.sweeping.remove(10) == 1

    def test_the_store_is_away_while_the_sweeper_works(
        self, engine: Engine, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The removal stays asked for, and is done later."""
        task = engine.submit(single("away"))
        shelf.people.delete(engine.tenant, shelf.uploaded(task.task_id, b"x"), reason="", actor="ann")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "nobody")
        nowhere = Objects("s3://bucket?endpoint=http://127.0.0.1:1")
        with pytest.raises(Unavailable):
            sweeping.Sweeping(shelf.maintenance, nowhere, NOW).remove(10)
        nowhere.close()
        engine.forward(3_600)
        assert shelf.sweeping.remove(10) == 1
        assert shelf.objects_there() == set()


def _blocked(engine: Engine) -> None:
    for _ in range(10_000):
        if engine.all("SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"):
            return
    raise AssertionError("nobody waits for the lock")


ACTS = ("begin", "put", "flip", "delete", "pin", "unpin", "look", "mark", "erase", "note", "abandon", "forget")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(acts=st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 2)), max_size=40))
def test_no_order_of_acts_loses_content(acts: list[tuple[str, int]], engine: Engine, shelf: Shelf) -> None:
    """Uploads, deletions and sweeps in any order, each step apart: an available version always has its content, and a
    sweep at the end leaves no object without a version."""
    play = _Play(engine, shelf)
    for act, which in acts:
        getattr(play, act)(which)
        shelf.check()
    play.finish()
    engine.forward(7_200)
    shelf.sweep()
    shelf.check()
    named_ones = engine.all("SELECT DISTINCT sha256 FROM stanchion.artifact_version WHERE state = 'available'")
    assert shelf.objects_there() == set(named_ones)


class _Play:
    """Three uploaders, each of one content, and a sweeper."""

    def __init__(self, engine: Engine, shelf: Shelf) -> None:
        self.shelf = shelf
        self.tenant = engine.tenant
        self.task = engine.submit(single("play")).task_id
        self.begun: dict[int, UUID] = {}
        self.content: dict[int, Stored] = {}
        self.available: list[UUID] = []
        self.marked: list[tuple[UUID, bytes]] = []
        self.erased: list[tuple[UUID, bytes]] = []

    def begin(self, who: int) -> None:
        self.content.pop(who, None)
        self.begun[who] = self.shelf.begun(self.task)

    def put(self, who: int) -> None:
        if who in self.begun:
            self.content[who] = self.shelf.put(b"shared" if who < 2 else b"own")

    def flip(self, who: int) -> None:
        if who in self.content and self.shelf.flipped(self.begun[who], self.content.pop(who))[0] == "available":
            self.available.append(self.begun.pop(who))

    def delete(self, _who: int) -> None:
        if self.available:
            try:
                self.shelf.people.delete(self.tenant, self.available[-1], reason="", actor="ann")
            except Conflict:
                return
            self.available.pop()

    def pin(self, _who: int) -> None:
        if self.available:
            self.shelf.people.pin(self.tenant, self.available[-1], pinned=True, actor="ann")

    def unpin(self, _who: int) -> None:
        if self.available:
            self.shelf.people.pin(self.tenant, self.available[-1], pinned=False, actor="ann")

    def look(self, _who: int) -> None:
        self.shelf.sweeping.look(self.tenant, None, 100)

    def mark(self, _who: int) -> None:
        self.marked += self.shelf.maintenance.call("maintain", "SELECT * FROM stanchion.begin_removals('1 h', 10)")

    def erase(self, _who: int) -> None:
        if self.marked:
            tenant, sha256 = self.marked.pop()
            self.shelf.objects.of(tenant).delete(sha256)
            self.erased.append((tenant, sha256))

    def note(self, _who: int) -> None:
        if self.erased:
            self.shelf.maintenance.call("maintain", "SELECT stanchion.note_removed(%s, %s)", self.erased.pop())

    def abandon(self, _who: int) -> None:
        self.shelf.sweeping.abandon(100)

    def forget(self, _who: int) -> None:
        self.shelf.sweeping.forget(100)

    def finish(self) -> None:
        while self.marked or self.erased:
            self.erase(0)
            self.note(0)


def test_uploads_deletions_and_sweeps_at_once(engine: Engine, shelf: Shelf) -> None:
    """Four at the same moment, again and again, over the same content: nothing that is available is lost."""
    task = engine.submit(single("storm"))

    def upload(_n: int) -> None:
        for _ in range(20):
            try:
                shelf.uploaded(task.task_id, b"contested")
                return
            except NotFound:
                return  # it was deleted before it could be told of
            except (Unavailable, Conflict):
                continue
        raise AssertionError("it never came through")

    def delete(_n: int) -> None:
        for row in shelf.people.page(engine.tenant, task.task_id, name=None, limit=2).items:
            shelf.people.delete(engine.tenant, row["version_id"], reason="", actor="ann")

    shelf.sweeping.grace = timedelta(seconds=-5)  # what was put this moment is old enough
    race(
        25, upload, upload, delete, lambda _n: (shelf.sweeping.look(engine.tenant, None, 10), shelf.sweeping.remove(10))
    )
    shelf.sweeping.grace = NOW
    shelf.check()
    assert deadlocks(engine) == 0
