"""A database of the release before: what stood in it stays true, and what ran in it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID

import psycopg
import pytest
from alembic import command
from kit.databases import Databases
from kit.engine import Admin, Engine, Worker
from kit.flows import fan, single

from stanchion.authority.audit import Audit, Walk
from stanchion.authority.check import check
from stanchion.db.engine import Database, login_url
from stanchion.db.grants import DASHBOARD
from stanchion.db.migrate import _config, _connect, migrate
from stanchion.workflow import All

ITEMS = ["a", "b", "c", "d", "bad"]
PAGES = fan("upgraded", All(on_failed="collect"), ITEMS, retries=1)


@pytest.fixture
def old(databases: Databases) -> Iterator[str]:
    """A database at the first version."""
    url = databases.create(empty=True)
    config = _config()
    with _connect(url) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        connection.commit()
    yield url
    databases.drop(url)


@pytest.fixture
def at(old: str) -> Iterator[Callable[[], Engine]]:
    """`at()`: the engine on that database, as it is now: its services start anew with each call."""
    opened: list[Database] = []
    with psycopg.connect(old, autocommit=True) as admin:
        tenant = admin.execute("SELECT stanchion.create_tenant('before')").fetchone()
        assert tenant is not None

        def start() -> Engine:
            stop()

            def db(login: str) -> Database:
                opened.append(Database(login_url(old, login), name=login))
                return opened[-1]

            return Engine(db, admin, tenant[0])

        def stop() -> None:
            while opened:
                opened.pop().close()

        yield start
        stop()


def again(engine: Engine, worker: Worker) -> Worker:
    """The same worker: its process outlived the upgrade."""
    one = engine.worker()
    one.leases.worker_id = worker.leases.worker_id
    return one


def test_what_ran_before_goes_on(old: str, at: Callable[[], Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that ended stays so. Of one in the middle of its fan-out each step goes on from where it was: what is held is
    handed in under its fence, what waits to be tried again is, and what was never begun begins."""
    before = at()
    flow = single("ended")
    ended, open_ = before.submit(flow), before.submit(PAGES)
    worker = before.worker()
    worker.finish(worker.take("only")[0], 1)
    worker.finish(worker.take("plan")[0], ITEMS)
    with monkeypatch.context() as then_read:
        then_read.setattr(before.planning, "_items", lambda _due: ITEMS)  # the release before asked for less of a value
        before.expand()
    held = worker.take("visit", limit=4)
    worker.finish(held[0], "A")
    worker.fail(held[1], final=False)
    assert before.states(open_, "visit") == {"succeeded": 1, "retry_wait": 1, "leased": 2, "ready": 1}
    then = before.task(ended), before.states(ended)

    assert migrate(old).up_to_date

    after = at()
    after.register(flow)
    after.register(PAGES)
    assert (after.task(ended), after.states(ended)) == then
    worker = again(after, worker)
    assert worker.finish_all(held[2:], "B") == {lease.step_id for lease in held[2:]}
    after.fire()
    for lease in worker.take("visit"):
        worker.finish(lease, "C") if lease.idx != 4 else worker.fail(lease)
    (join,) = worker.take("gather")
    assert worker.finish(join, {"ok": []})
    assert after.task(open_) == ("completed", "succeeded")
    after.check_counts()
    root = Database(old, name="check")
    assert [str(difference) for difference in check(root)] == []
    root.close()


def test_a_stale_worker_stays_stale(old: str, at: Callable[[], Engine]) -> None:
    """A lease that ran out before the upgrade is taken back behind it, and its holder is refused."""
    before = at()
    flow = single("lost")
    before.submit(flow)
    worker = before.worker(ttl_ms=2_000)
    (lease,) = worker.take("only")
    migrate(old)
    after = at()
    after.register(flow)
    after.forward(10)
    assert after.upkeep.reap() == {lease.step_id: "ready"}
    assert not again(after, worker).finish(lease, 1)
    assert after.all("SELECT attempted FROM stanchion.refused_write") == ["complete"]


def walked(url: str, tenant: UUID) -> Walk:
    """A verification of all that the tenant's audit log has."""
    database = Database(login_url(url, DASHBOARD), name="audit")
    walk = Audit(database).go_on(tenant, Walk(), {})
    database.close()
    assert walk.done
    return walk


def act(engine: Engine, admin: Admin, names: list[str]) -> None:
    """Acts that leave entries, in the way of the release that is there."""
    for name in names:
        task = engine.submit(single(name))
        engine.pause(task)
    assert admin.execute("SELECT count(*) FROM stanchion.audit").fetchone() == (len(names),)


def test_the_audit_log_is_hashed_anew(old: str, at: Callable[[], Engine]) -> None:
    """Its entries stay as they were and are verified as all later ones; the head that the chain had is noted."""
    engine = at()
    act(engine, engine.admin, ["one", "two", "three"])
    look = "SELECT audit_id, at, actor, action, target, detail FROM stanchion.audit WHERE audit_id <= 3 ORDER BY 1"
    kept = engine.all(look)
    head = engine.one("SELECT encode(hash, 'hex') FROM stanchion.audit ORDER BY audit_id DESC LIMIT 1")[0]
    migrate(old)
    assert engine.all(look) == kept
    noted = engine.one("SELECT actor, lane, detail FROM stanchion.audit WHERE action = 'audit.rehash'")
    assert noted == ("migration", 0, {"entries": 3, "head": head})
    at().submit(single("four"))
    walk = walked(old, engine.tenant)
    assert (walk.checked, walk.faults) == (5, [])
    with pytest.raises(psycopg.Error, match="append-only"):
        engine.admin.execute("UPDATE stanchion.audit SET actor = 'eve'")


def test_what_was_changed_in_the_audit_log_before_is_named(old: str, at: Callable[[], Engine]) -> None:
    """Hashing anew covers up for nobody."""
    engine = at()
    act(engine, engine.admin, ["one", "two", "three"])
    engine.admin.execute("ALTER TABLE stanchion.audit DISABLE TRIGGER append_only")
    engine.admin.execute("UPDATE stanchion.audit SET actor = 'eve' WHERE audit_id = 2")
    engine.admin.execute("ALTER TABLE stanchion.audit ENABLE TRIGGER append_only")
    migrate(old)
    detail = engine.one("SELECT detail FROM stanchion.audit WHERE action = 'audit.rehash'")[0]
    assert detail["broken_at"] == 2


def test_a_restored_database_keeps_its_place(old: str, at: Callable[[], Engine]) -> None:
    """What makes up for the ids of another cluster's transactions is no function to be made anew."""
    engine = at()
    engine.submit(single("restored"))
    engine.admin.execute(  # as adopt_cluster does
        "CREATE OR REPLACE FUNCTION stanchion.event_xid(p_xid xid8) RETURNS xid8 LANGUAGE sql IMMUTABLE PARALLEL SAFE"
        " AS $$ SELECT ((p_xid::text::numeric + 5000000)::text)::xid8 $$"
    )
    migrate(old)
    after = at()
    assert after.service.read("SELECT stanchion.event_xid('1')::text") == [("5000001",)]
    after.submit(single("restored"))
    assert after.one("SELECT max(xid::text::bigint) > 5000000 FROM stanchion.event")[0]
