"""Illegal acts, each tried as the login, the engine, the owner or a superuser: the database refuses them itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, LiteralString
from uuid import UUID, uuid4

import psycopg
import pytest
from kit.databases import Databases
from kit.engine import Admin, Engine
from kit.flows import fan, single

from stanchion.db.engine import login_url
from stanchion.db.grants import DASHBOARD, ENGINE, LOGINS, ORCHESTRATOR, OWNER, RELAY, TASK_SERVICE, WORKER
from stanchion.db.tables import metadata

TABLES = sorted(t.name for t in metadata.sorted_tables)
APPEND_ONLY = ("event", "barrier_release", "refused_write", "audit", "workflow")
NO_PRIVILEGE = "42501"
NO_TENANT = ("42704", "22P02")


def settable(table: str) -> str:
    """A column that is not generated."""
    return next(c.name for c in metadata.tables[f"stanchion.{table}"].columns if c.identity is None)


@contextmanager
def login(url: str, name: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A connection under a service's login."""
    with psycopg.connect(login_url(url, name), autocommit=True) as connection:
        yield connection


def refusal(connection: Admin, statement: LiteralString | str, *parameters: Any, tenant: UUID | None = None) -> str:
    """The SQLSTATE with which a statement is refused; fails when it passes."""
    with pytest.raises(psycopg.Error) as refused, connection.transaction(force_rollback=True):  # noqa: PT012 - one act
        if tenant is not None:
            connection.execute("SELECT set_config('stanchion.tenant', %s, true)", (str(tenant),))
        connection.execute(statement, parameters)  # type: ignore[arg-type]  # names of tables are put in
    return refused.value.sqlstate or ""


def refusal_as(admin: Admin, role: str, statement: str, *parameters: Any) -> str:
    """The same under another role of a superuser's session."""
    admin.execute(f"SET ROLE {role}")
    try:
        return refusal(admin, statement, *parameters)
    finally:
        admin.execute("RESET ROLE")


@pytest.fixture(scope="module")
def shared_url(databases: Databases) -> Iterator[str]:
    """One database for all acts that are refused before they touch anything."""
    url = databases.create()
    yield url
    databases.drop(url)


@pytest.fixture
def filled(engine: Engine) -> Engine:
    """A run with a child in most states, so that each table has a row."""
    engine.submit(fan("filled", "all", list("abc"), retries=3), idempotency_key="k")
    worker = engine.worker()
    worker.finish(worker.take("plan")[0], list("abc"))
    engine.expand()
    a, b, _c = worker.take("visit")
    worker.finish(a, "A")
    worker.finish(b._replace(fence=9), "B")
    task = engine.submit(single("to_cancel"))
    engine.cancel(task)
    return engine


class TestLogins:
    """Each login has the least it needs."""

    @pytest.mark.parametrize("name", [WORKER, RELAY])
    def test_worker_and_relay_touch_no_table(self, shared_url: str, name: str) -> None:
        """They may execute their functions, and nothing else."""
        with login(shared_url, name) as connection:
            for table in TABLES:
                assert refusal(connection, f"SELECT * FROM stanchion.{table}", tenant=uuid4()) == NO_PRIVILEGE

    @pytest.mark.parametrize("name", LOGINS)
    def test_nobody_writes_a_table(self, shared_url: str, name: str) -> None:
        """No login has INSERT, UPDATE, DELETE or TRUNCATE on any table."""
        with login(shared_url, name) as connection:
            for table in TABLES:
                column = settable(table)
                assert refusal(connection, f"UPDATE stanchion.{table} SET {column} = NULL") == NO_PRIVILEGE
                assert refusal(connection, f"DELETE FROM stanchion.{table}") == NO_PRIVILEGE
                assert refusal(connection, f"TRUNCATE stanchion.{table}") == NO_PRIVILEGE
                assert refusal(connection, f"INSERT INTO stanchion.{table} DEFAULT VALUES") == NO_PRIVILEGE

    @pytest.mark.parametrize("name", LOGINS)
    def test_nobody_defines_anything(self, shared_url: str, name: str) -> None:
        """No login creates, alters or drops, turns triggers off or becomes another."""
        with login(shared_url, name) as connection:
            for statement in (
                "CREATE TABLE stanchion.x (y int)",
                "ALTER TABLE stanchion.step DISABLE TRIGGER ALL",
                "ALTER TABLE stanchion.step DISABLE ROW LEVEL SECURITY",
                "DROP TABLE stanchion.step",
                "CREATE FUNCTION stanchion.clock() RETURNS int LANGUAGE sql AS 'SELECT 1'",
                "SET session_replication_role = replica",
                f"SET ROLE {ENGINE}",
                f"SET ROLE {OWNER}",
                f"GRANT {ENGINE} TO {name}",
            ):
                assert refusal(connection, statement) == NO_PRIVILEGE, statement

    @pytest.mark.parametrize(
        ("name", "call"),
        [
            (WORKER, "submit('[]', '[]', NULL)"),
            (WORKER, "cancel_task(gen_random_uuid(), gen_random_uuid(), 'x', 'x')"),
            (WORKER, "reap(1)"),
            (WORKER, "expand(gen_random_uuid(), 0, NULL, NULL, NULL, NULL, 0, 0)"),
            (WORKER, "release_barrier(NULL::stanchion.barrier)"),
            (WORKER, "conclude(NULL)"),
            (WORKER, "relay_tick(gen_random_uuid(), 'x', 1000)"),
            (WORKER, "create_key(gen_random_uuid(), 'x', '\\x00', '{}', NULL, 'x')"),
            (RELAY, "lease(gen_random_uuid(), NULL, '{}', '{}', '{}', 1000, 1)"),
            (TASK_SERVICE, "lease(gen_random_uuid(), NULL, '{}', '{}', '{}', 1000, 1)"),
            (TASK_SERVICE, "complete(gen_random_uuid(), '{}', '{}', '{}', '{}', NULL, '{}', '{}', 0, 1000)"),
            (ORCHESTRATOR, "complete(gen_random_uuid(), '{}', '{}', '{}', '{}', NULL, '{}', '{}', 0, 1000)"),
            (ORCHESTRATOR, "open_barrier(gen_random_uuid(), gen_random_uuid(), 'x', 'x')"),
            (DASHBOARD, "cancel_task(gen_random_uuid(), gen_random_uuid(), 'x', 'x')"),
        ],
    )
    def test_nobody_calls_what_is_another_ones(self, shared_url: str, name: str, call: str) -> None:
        """A function is granted to the services that need it."""
        with login(shared_url, name) as connection:
            assert refusal(connection, f"SELECT stanchion.{call}") == NO_PRIVILEGE

    @pytest.mark.parametrize("name", LOGINS)
    def test_a_frozen_transaction_is_ended(self, shared_url: str, name: str) -> None:
        """A login can't hold a step's lock for longer than a lease lasts, and every commit is durable."""
        with login(shared_url, name) as connection:
            assert connection.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("1s",)
            assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)


class TestTenants:
    """Row-level security holds for every table and every role, and a missing tenant is an error."""

    @pytest.mark.parametrize("name", [TASK_SERVICE, DASHBOARD])
    def test_a_read_without_a_tenant_is_an_error(self, filled: Engine, database_url: str, name: str) -> None:
        """Not an empty answer, which would look like nothing is there; also on a session that had one before."""
        with login(database_url, name) as connection:
            for table in ("task", "run", "step", "attempt", "result", "barrier", "event", "timer", "audit"):
                assert refusal(connection, f"SELECT * FROM stanchion.{table}") in NO_TENANT
            with connection.transaction():
                connection.execute("SELECT set_config('stanchion.tenant', %s, true)", (str(filled.tenant),))
                assert connection.execute("SELECT count(*) FROM stanchion.task").fetchone() == (2,)
            assert refusal(connection, "SELECT * FROM stanchion.task") in NO_TENANT

    @pytest.mark.parametrize("name", [TASK_SERVICE, DASHBOARD])
    def test_another_tenant_sees_nothing(self, filled: Engine, database_url: str, name: str) -> None:
        """Not one row of any table that has tenants."""
        other = filled.one("SELECT stanchion.create_tenant('other')")[0]
        with login(database_url, name) as connection, connection.transaction():
            connection.execute("SELECT set_config('stanchion.tenant', %s, true)", (str(other),))
            for table in ("task", "run", "step", "attempt", "result", "barrier", "barrier_slot", "barrier_release"):
                assert connection.execute(f"SELECT count(*) FROM stanchion.{table}").fetchone() == (0,), table
            for table in ("event", "ready", "timer", "refused_write", "audit"):
                assert connection.execute(f"SELECT count(*) FROM stanchion.{table}").fetchone() == (0,), table

    def test_a_partition_can_not_be_read_past_its_table(self, filled: Engine, database_url: str) -> None:
        """Events are read through the partitioned table, with its policy, or not at all."""
        partitions = filled.all(
            "SELECT 'stanchion.' || relname FROM pg_inherits JOIN pg_class ON oid = inhrelid WHERE inhparent = 'stanchion.event'::regclass"
        )
        assert partitions
        for name in (TASK_SERVICE, DASHBOARD):
            with login(database_url, name) as connection:
                for partition in partitions:
                    assert refusal(connection, f"SELECT * FROM {partition}", tenant=filled.tenant) == NO_PRIVILEGE

    def test_acts_on_what_belongs_to_another_tenant_find_nothing(self, filled: Engine) -> None:
        """The same answer as for an id that does not exist."""
        other = filled.one("SELECT stanchion.create_tenant('other')")[0]
        task = filled.all("SELECT task_id FROM stanchion.task WHERE idempotency_key = 'k'")[0]
        theirs = {"other": other, "task": task, "barrier": filled.barrier("gather")["barrier_id"]}
        nobodys = {"other": other, "task": uuid4(), "barrier": uuid4()}
        for call in (
            "cancel_task(%(other)s, %(task)s, 'x', 'ann')",
            "pause_task(%(other)s, %(task)s, true, 'ann')",
            "open_barrier(%(other)s, %(barrier)s, 'x', 'ann')",
            "retry_task(%(other)s, %(task)s, gen_random_uuid(), 1, '[]', NULL, NULL, 'ann')",
        ):
            with pytest.raises(psycopg.Error) as found:
                filled.admin.execute(f"SELECT stanchion.{call}", theirs)
            with pytest.raises(psycopg.Error) as unknown:
                filled.admin.execute(f"SELECT stanchion.{call}", nobodys)
            assert found.value.sqlstate == unknown.value.sqlstate == "ST010"
            assert str(found.value) == str(unknown.value)

    def test_reopening_another_tenants_steps_reopens_none(self, filled: Engine) -> None:
        """Nothing comes back, nothing changes."""
        other = filled.one("SELECT stanchion.create_tenant('other')")[0]
        steps = filled.all("SELECT step_id FROM stanchion.step")
        assert filled.all("SELECT stanchion.reopen_steps(%s, %s, NULL, 'x', 'ann')", other, steps) == []

    def test_a_lease_is_limited_to_the_tenants_of_its_worker(self, filled: Engine) -> None:
        """A worker that serves one tenant is granted nothing of another."""
        ready = filled.all("SELECT step_id FROM stanchion.step WHERE state = 'ready'")
        filled.submit(single("more"))
        ready = filled.all("SELECT step_id FROM stanchion.step WHERE state = 'ready'")
        assert ready
        assert (
            filled.all(
                "SELECT * FROM stanchion.lease(%s, ARRAY[%s]::uuid[], %s, ARRAY['default'], %s, 30000, 1)",
                uuid4(),
                uuid4(),
                filled.definitions,
                ready,
            )
            == []
        )

    def test_a_row_of_a_child_table_keeps_the_tenant_of_its_step(self, filled: Engine) -> None:
        """A result, an event or an attempt under another tenant names a fence that this tenant's step does not have."""
        step, fence, run = filled.all("SELECT step_id, fence, run_id FROM stanchion.step WHERE state = 'leased'")[0]
        statements = (
            "INSERT INTO stanchion.result (tenant_id, step_id, fence, body) VALUES (%s, %s, %s, '1')",
            f"INSERT INTO stanchion.event (tenant_id, step_id, fence, run_id, kind) VALUES (%s, %s, %s, '{run}', 'x')",
        )
        for statement in statements:
            assert refusal_as(filled.admin, ENGINE, statement, uuid4(), step, fence) == "ST003"


class TestAppendOnly:
    """What only ever grows can't be changed, also not by its owner or a superuser."""

    @pytest.mark.parametrize("role", [ENGINE, OWNER, None])
    def test_update_delete_and_truncate(self, filled: Engine, role: str | None) -> None:
        """The engine lacks the right, owner and superuser are refused by a trigger."""
        release = "INSERT INTO stanchion.barrier_release (tenant_id, barrier_id, included, failed, skipped)"
        barrier = filled.barrier("gather")["barrier_id"]
        filled.admin.execute(f"{release} VALUES (%s, %s, 0, 0, 0)", (filled.tenant, barrier))
        for table in APPEND_ONLY:
            column = settable(table)
            for statement in (
                f"UPDATE stanchion.{table} SET {column} = {column}",
                f"DELETE FROM stanchion.{table}",
                f"TRUNCATE stanchion.{table}",
            ):
                found = refusal_as(filled.admin, role, statement) if role else refusal(filled.admin, statement)
                assert found == (NO_PRIVILEGE if role == ENGINE else "ST004"), statement

    def test_a_partition_of_events(self, filled: Engine) -> None:
        """The triggers of the table hold for its partitions, named directly."""
        (partition,) = filled.all("SELECT DISTINCT tableoid::regclass::text FROM stanchion.event")
        name = f"stanchion.{partition.rpartition('.')[2]}"
        for statement in (f"UPDATE {name} SET kind = 'x'", f"DELETE FROM {name}", f"TRUNCATE {name}"):
            assert refusal(filled.admin, statement) == "ST004", statement
        assert refusal(filled.admin, "TRUNCATE stanchion.event_default") == "ST004"

    def test_a_barrier_is_released_once(self, filled: Engine) -> None:
        """The release row's key holds it, whatever the code believes."""
        barrier = filled.barrier("gather")["barrier_id"]
        insert = "INSERT INTO stanchion.barrier_release (tenant_id, barrier_id, included, failed, skipped) VALUES (%s, %s, 0, 0, 0)"
        filled.admin.execute(insert, (filled.tenant, barrier))
        assert refusal(filled.admin, insert, filled.tenant, barrier) == "23505"

    def test_a_result_is_immutable(self, filled: Engine) -> None:
        """It may still become late; late never becomes timely."""
        for change in ("body = '2'", "fence = 9", "blob = '\\x00', body = NULL", "step_id = gen_random_uuid()"):
            assert refusal_as(filled.admin, ENGINE, f"UPDATE stanchion.result SET {change}") == "ST004"
        filled.admin.execute("UPDATE stanchion.result SET late = true")
        assert refusal_as(filled.admin, ENGINE, "UPDATE stanchion.result SET late = false") == "ST004"

    def test_a_second_result(self, filled: Engine) -> None:
        """One a step."""
        step = filled.all("SELECT step_id FROM stanchion.result")[0]
        insert = "INSERT INTO stanchion.result (tenant_id, step_id, body) VALUES (%s, %s, '2')"
        assert refusal_as(filled.admin, ENGINE, insert, filled.tenant, step) == "23505"

    def test_a_workflow_version(self, filled: Engine) -> None:
        """The same version with another graph is refused by name."""
        with pytest.raises(psycopg.Error) as found:
            filled.admin.execute("SELECT stanchion.register_workflow('filled', 1, '{}', '\\x01')")
        assert found.value.sqlstate == "ST011"

    def test_the_audit_log_is_a_chain(self, filled: Engine) -> None:
        """Each entry hashes the one before it, in the order of its numbers, also within one statement."""
        insert = "INSERT INTO stanchion.audit (tenant_id, actor, action, target, detail) SELECT %s, 'a', 'b', n::text, '{}' FROM generate_series(1, 5) n"
        filled.admin.execute(insert, (filled.tenant,))
        rows = filled.all(
            "SELECT previous_hash, hash FROM stanchion.audit WHERE tenant_id = %s AND lane = 0 ORDER BY audit_id",
            filled.tenant,
        )
        assert len(rows) >= 5
        assert [r[0] for r in rows[1:]] == [r[1] for r in rows[:-1]]
        assert len({r[1] for r in rows}) == len(rows)


class TestFencedRows:
    """Rows written under a lease name the current fence, and hold the step's row until they are committed."""

    def test_a_row_with_another_fence(self, filled: Engine) -> None:
        """One too old or one too new is refused; of attempts a second open one is refused before."""
        step, fence, run = filled.all("SELECT step_id, fence, run_id FROM stanchion.step WHERE state = 'leased'")[0]
        more = {
            "result": ("body", "'1'", "ST003"),
            "event": ("run_id, kind", f"'{run}', 'x'", "ST003"),
            "attempt": ("run_id, worker_id, number, state", f"'{run}', gen_random_uuid(), 1, 'granted'", "23505"),
        }
        for table, (columns, values, expected) in more.items():
            insert = (
                f"INSERT INTO stanchion.{table} (tenant_id, step_id, fence, {columns}) VALUES (%s, %s, %s, {values})"
            )
            for off in (-1, 1):
                assert refusal_as(filled.admin, ENGINE, insert, filled.tenant, step, fence + off) == expected

    def test_one_stale_row_refuses_its_statement(self, filled: Engine) -> None:
        """A batch that writes past the functions is all or nothing."""
        step, fence, run = filled.all("SELECT step_id, fence, run_id FROM stanchion.step WHERE state = 'leased'")[0]
        insert = "INSERT INTO stanchion.event (tenant_id, step_id, run_id, kind, fence) SELECT %s, %s, %s, 'x', f FROM unnest(%s::bigint[]) f"
        assert refusal_as(filled.admin, ENGINE, insert, filled.tenant, step, run, [fence, fence + 1]) == "ST003"

    def test_the_lease_can_not_move_before_the_commit(self, filled: Engine, database_url: str) -> None:
        """While a fenced row is uncommitted the reaper passes the step over; afterwards it finds what is true then."""
        step, fence, run = filled.all("SELECT step_id, fence, run_id FROM stanchion.step WHERE state = 'leased'")[0]
        filled.forward(60)
        with psycopg.connect(database_url) as writer:
            writer.execute(
                "INSERT INTO stanchion.event (tenant_id, step_id, fence, run_id, kind) VALUES (%s, %s, %s, %s, 'x')",
                (filled.tenant, step, fence, run),
            )
            assert step not in filled.upkeep.reap()
            writer.commit()
        assert step in filled.upkeep.reap()


def test_a_blob_is_what_its_name_says(filled: Engine) -> None:
    """A name is a SHA-256, a size has a bound, the same name twice is one row."""
    insert = "INSERT INTO stanchion.blob (tenant_id, sha256, size, body) VALUES (%s, %s, %s, 'x')"
    assert refusal(filled.admin, insert, filled.tenant, b"short", 1) == "23514"
    assert refusal(filled.admin, insert, filled.tenant, bytes(32), 8 * 1024 * 1024 + 1) == "23514"
    put = "SELECT stanchion.put_blobs(%s, %s, %s, %s)"
    for _ in range(2):
        filled.admin.execute(put, ([filled.tenant], [bytes(32)], [1], [b"x"]))
    assert filled.all("SELECT count(*) FROM stanchion.blob") == [1]


def test_reading_needs_the_current_fence(filled: Engine) -> None:
    """Results, blobs and inputs are read by who holds a lease, with its fence."""
    worker = filled.worker()
    filled.submit(fan("reads", "all", ["a"]))
    worker = filled.worker()
    worker.finish(worker.take("plan")[0], ["a"])
    filled.expand()
    for lease in worker.take("visit"):
        worker.finish(lease, "A")
    join = next(x for x in worker.take("gather") if x.workflow == "reads")
    stale = join._replace(fence=join.fence + 1)
    assert join.sources is not None
    assert len(worker.leases.results_page(join, join.sources[0], "visit", -1, 10)) == 1
    assert worker.leases.results_page(stale, join.sources[0], "visit", -1, 10) == []
    read = "SELECT * FROM stanchion.input_of(%s, %s, %s)"
    assert worker.leases.database.read(read, (stale.step_id, stale.fence, join.step_id)) == []
    assert worker.leases.get_blob(stale, bytes(32)) is None
