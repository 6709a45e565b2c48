"""Rules that hold for every table and function, also for those that will be added: read from the catalogue itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from kit.databases import Databases
from kit.engine import Admin

import stanchion.db
from stanchion.contracts import limits
from stanchion.db import grants
from stanchion.db.render import render, render_anew, with_limits
from stanchion.db.tables import GLOBAL_TABLES, metadata

DB = Path(stanchion.db.__file__).parent
FUNCTIONS = sorted((DB / "functions").glob("*.sql"))
ENTRY = re.compile(r"INSERT INTO audit |PERFORM note_(?:act|submissions)\(")
HEADERS = ("-- purpose: ", "-- transition: ", "-- fenced by: ", "-- locks: ")
NOWHERE = "'stanchion'::regnamespace"

WITHOUT_TENANT = {
    # one namespace for all tenants, on purpose
    "tenant_name_key": "a tenant's name is what callers name it by",
    "api_key_secret_hash_key": "a secret is looked up before its tenant is known",
    "session_token_hash_key": "a token is as well",
    # a partition's key has the columns of its table
    "event_pkey": "events are read by run, under the policy of the table",
}
"""Unique keys without tenant_id, each with its reason."""

NARROW = {
    "workflow_version", "version", "number", "runs", "latest", "open", "expected", "need", "needs", "succeeded", "failed", "skipped",
    "included", "remaining", "idx", "round", "waits", "attempts",
    "failures", "losses", "max_attempts", "priority", "offers", "slot",
    "slots", "slots_left", "part", "timeout_ms", "lease_ms", "mean_ms", "size", "pid", "running", "clock_offset_ms", "partition", "tries",
    "sends", "probes", "doubts", "status", "lane", "idle_seconds", "seconds",
}  # fmt: skip
"""Counts that have a small bound by contract; ids, sequences, fences and row versions are 64 bits wide."""


@pytest.fixture(scope="module")
def catalogue(databases: Databases) -> Iterator[Admin]:
    """A migrated database, only looked at."""
    url = databases.create()
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection
    databases.drop(url)


def found(connection: Admin, sql: str) -> list[Any]:
    rows = connection.execute(sql).fetchall()  # type: ignore[call-overload]  # text made here
    return [r[0] if len(r) == 1 else r for r in rows]


class TestTables:
    """Isolation and widths."""

    def test_row_level_security_is_forced_everywhere(self, catalogue: Admin) -> None:
        """On every table and every partition, also for its owner."""
        assert (
            found(
                catalogue,
                f"SELECT relname FROM pg_class WHERE relnamespace = {NOWHERE} AND relkind IN ('r', 'p')"
                " AND NOT (relrowsecurity AND relforcerowsecurity)",
            )
            == []
        )

    def test_every_table_has_a_policy(self, catalogue: Admin) -> None:
        """Partitions have none: they are closed, and read through their table."""
        assert (
            found(
                catalogue,
                f"SELECT relname FROM pg_class c WHERE relnamespace = {NOWHERE} AND relkind IN ('r', 'p') AND NOT relispartition"
                " AND NOT EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND p.polcmd = 'r')",
            )
            == []
        )

    def test_every_row_has_a_tenant(self, catalogue: Admin) -> None:
        """tenant_id stands in every table that is not declared global, and is never null there."""
        without = found(
            catalogue,
            f"SELECT relname FROM pg_class c WHERE relnamespace = {NOWHERE} AND relkind IN ('r', 'p')"
            " AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND a.attnotnull)",
        )
        assert set(without) <= GLOBAL_TABLES

    def test_a_tenant_is_in_every_key(self, catalogue: Admin) -> None:
        """A unique error must not tell one tenant what another one has."""
        keys = found(
            catalogue,
            "SELECT i.indexrelid::regclass::text, c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid"
            f" WHERE c.relnamespace = {NOWHERE} AND i.indisunique AND NOT c.relispartition AND NOT EXISTS ("
            "SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND a.attnum = ANY (i.indkey))",
        )
        names = {key.rpartition(".")[2] for key, table in keys if table not in GLOBAL_TABLES}
        assert names == set(WITHOUT_TENANT)

    def test_ids_sequences_and_fences_are_64_bits_wide(self, catalogue: Admin) -> None:
        """What is narrower is a count with a bound, and listed as one."""
        narrow = found(
            catalogue,
            "SELECT DISTINCT attname::text FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
            f" WHERE c.relnamespace = {NOWHERE} AND c.relkind IN ('r', 'p') AND attnum > 0 AND NOT attisdropped"
            " AND atttypid IN ('int2'::regtype, 'int4'::regtype)",
        )
        assert set(narrow) <= NARROW
        assert not {n for n in narrow if n.endswith("_id") or n in ("fence", "seq", "sequence", "proof", "xid")}
        sequences = f"SELECT seqrelid::regclass::text FROM pg_sequence JOIN pg_class c ON c.oid = seqrelid WHERE c.relnamespace = {NOWHERE}"
        assert found(catalogue, f"{sequences} AND seqtypid <> 'int8'::regtype") == []
        assert found(catalogue, f"{sequences} AND seqcache <> 1") == []

    def test_times_have_a_zone(self, catalogue: Admin) -> None:
        """No timestamp without one."""
        assert (
            found(
                catalogue,
                f"SELECT attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid WHERE c.relnamespace = {NOWHERE}"
                " AND atttypid = 'timestamp'::regtype",
            )
            == []
        )

    def test_views_ask_as_their_caller(self, catalogue: Admin) -> None:
        """A view that reads as its owner would go around the policies."""
        assert (
            found(
                catalogue,
                f"SELECT relname FROM pg_class WHERE relnamespace = {NOWHERE} AND relkind IN ('v', 'm')"
                " AND NOT coalesce('security_invoker=true' = ANY (reloptions), false)",
            )
            == []
        )

    def test_constraints_are_named_for_the_rule_they_keep(self, catalogue: Admin) -> None:
        """A violation is read by people: no name is one that PostgreSQL made up."""
        names = found(
            catalogue,
            "SELECT DISTINCT conname::text FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid"
            f" WHERE c.relnamespace = {NOWHERE} AND k.contype = 'c'",
        )
        assert [n for n in names if re.search(r"_check\d*$", n) or len(n.split("_")) < 3] == []

    def test_the_step_has_no_index_on_what_changes(self, catalogue: Admin) -> None:
        """Its updates stay heap-only: that is where the speed of a fan-out comes from."""
        changing = {
            "state",
            "version",
            "fence",
            "proof",
            "attempts",
            "losses",
            "waits",
            "updated_at",
            "late_for",
            "spoiled",
        }
        indexed = found(
            catalogue,
            "SELECT DISTINCT a.attname::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid"
            " WHERE i.indrelid = 'stanchion.step'::regclass AND (a.attnum = ANY (i.indkey)"
            " OR pg_get_expr(i.indpred, i.indrelid) ~ ('\\m' || a.attname || '\\M'))",
        )
        assert not changing & set(indexed)


class TestFunctions:
    """Who may call them, and as whom they run."""

    def test_none_is_open_to_everybody(self, catalogue: Admin) -> None:
        """Each function is granted by name."""
        assert (
            found(
                catalogue,
                f"SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace = {NOWHERE}"
                " AND (p.proacl IS NULL OR EXISTS (SELECT FROM aclexplode(p.proacl) x WHERE x.grantee = 0))",
            )
            == []
        )

    def test_definers_pin_their_search_path(self, catalogue: Admin) -> None:
        """Else a caller's own table would be read in place of ours."""
        assert (
            found(
                catalogue,
                f"SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace = {NOWHERE} AND p.prosecdef"
                " AND NOT coalesce('search_path=stanchion, pg_temp' = ANY (p.proconfig), false)",
            )
            == []
        )

    def test_their_owners_can_not_log_in(self, catalogue: Admin) -> None:
        """Functions belong to the engine, what makes or drops tables to the owner; neither is a login or a superuser."""
        owners = dict(
            found(
                catalogue,
                f"SELECT p.proname::text, p.proowner::regrole::text FROM pg_proc p WHERE p.pronamespace = {NOWHERE}",
            )
        )
        assert set(owners.values()) == {grants.ENGINE, grants.OWNER}
        assert {f for f, owner in owners.items() if owner == grants.OWNER} == set(grants.OWNER_FUNCTIONS)
        roles = ", ".join(f"'{r}'" for r in (grants.ENGINE, grants.OWNER))
        assert found(
            catalogue,
            f"SELECT rolcanlogin OR rolsuper OR rolbypassrls OR rolcreaterole FROM pg_roles WHERE rolname IN ({roles})",
        ) == [False, False]

    def test_each_login_may_call_what_is_granted_and_nothing_else(self, catalogue: Admin) -> None:
        """The grants in the database are those of the list."""
        rows = found(
            catalogue,
            "SELECT p.proname::text, x.grantee::regrole::text FROM pg_proc p, aclexplode(p.proacl) x"
            f" WHERE p.pronamespace = {NOWHERE} AND x.grantee <> p.proowner",
        )
        wanted = {(f, login) for f, logins in grants.FUNCTION_GRANTS.items() for login in logins}
        inner = {("clock", grants.OWNER), ("refuse_change", grants.OWNER)}
        assert {r for r in rows if r[1] != grants.ENGINE} - inner == wanted

    def test_logins_read_what_is_listed_and_write_nothing(self, catalogue: Admin) -> None:
        """Table by table."""
        rows = found(
            catalogue,
            "SELECT x.grantee::regrole::text, c.relname::text, x.privilege_type FROM pg_class c, aclexplode(c.relacl) x"
            f" WHERE c.relnamespace = {NOWHERE} AND c.relkind IN ('r', 'p', 'v', 'S')",
        )
        mine = {r for r in rows if r[0] in grants.LOGINS}
        assert mine == {(login, t, "SELECT") for login, tables in grants.READABLE.items() for t in tables}

    def test_their_bodies_are_valid(self, catalogue: Admin) -> None:
        """Created without a check (they call each other), they are checked here, each by itself."""
        with catalogue.transaction(force_rollback=True):
            catalogue.execute("SET LOCAL search_path = stanchion, pg_temp")
            for path in FUNCTIONS:
                text = with_limits(path.read_text())
                if "CREATE FUNCTION" in text:
                    catalogue.execute(text.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION"))  # type: ignore[arg-type]  # text of a file


@pytest.mark.parametrize("path", FUNCTIONS, ids=lambda p: p.stem)
class TestFiles:
    """One function a file, with what a reader must know first."""

    def test_has_its_four_headers(self, path: Path) -> None:
        """Purpose, transition, fence, locks in their order; none of them empty."""
        lines = path.read_text().splitlines()
        for line, header in zip(lines, HEADERS, strict=False):
            assert line.startswith(header), f"{path.name}: {header}"
            assert len(line) > len(header) + 3
        assert not lines[4].startswith("--")

    def test_writes_to_the_audit_log_last(self, path: Path) -> None:
        """A chain of a tenant has one writer at a time: whoever held it and then waited for a row would close a circle
        with those that come the other way. Nothing that may wait stands behind the first entry, and the header says so."""
        before, entry, rest = ENTRY.sub("ENTRY", path.read_text()).partition("ENTRY")
        if not entry or path.stem.startswith("_"):
            return
        assert before.splitlines()[3].endswith("; the audit chain last")
        assert not re.findall(r"\b(?:PERFORM|UPDATE|DELETE FROM|INSERT INTO|SELECT \* INTO|FOR SHARE)\b", rest)

    def test_defines_what_it_is_named_for(self, path: Path) -> None:
        """And nothing else, apart from the two files of types and guards."""
        names = re.findall(r"^CREATE FUNCTION (\w+)", path.read_text(), re.MULTILINE)
        assert path.stem.startswith("_") or names == [path.stem]


def test_numbers_come_from_the_limits(catalogue: Admin) -> None:
    """What the program and several functions have to agree on stands once; `limits.NAME` in a function is that number."""
    assert found(catalogue, "SELECT part FROM stanchion.outbox_partition ORDER BY 1") == [
        *range(limits.OUTBOX_PARTITIONS)
    ]
    slots = [(i // limits.SLOT_RUN) % limits.BARRIER_SLOTS for i in range(3_000)]
    assert found(catalogue, "SELECT stanchion.slot_of(i) FROM generate_series(0, 2999) i ORDER BY i") == slots
    keys = set(
        found(catalogue, "SELECT DISTINCT stanchion.outbox_partition_for(i::text) FROM generate_series(1, 1000) i")
    )
    assert keys == set(range(limits.OUTBOX_PARTITIONS))
    for path in FUNCTIONS:
        bare = re.findall(r"idx / 64\b|% 16\b|% 8\b|& 7\b|\b5000\b", path.read_text())
        assert not bare, f"{path.name}: name the limit"
    assert "limits." not in render()


@pytest.mark.parametrize("call", ["slot_of(idx)", "outbox_partition_of(step_id)", "event_xid(pg_current_xact_id())"])
def test_small_rules_are_inlined(catalogue: Admin, call: str) -> None:
    """They stand on the hot path for every row: as an expression they cost what they say, as a call ten times as much."""
    plan = "\n".join(found(catalogue, f"EXPLAIN (VERBOSE) SELECT stanchion.{call} FROM stanchion.step"))
    assert call.partition("(")[0] not in plan


def test_every_granted_function_has_a_file() -> None:
    """The list of grants names nothing that is gone."""
    assert set(grants.FUNCTION_GRANTS) | set(grants.OWNER_FUNCTIONS) <= {p.stem for p in FUNCTIONS}


def test_the_rendered_schema_is_up_to_date() -> None:
    """schema.sql is what the definitions say (make generate writes it)."""
    assert (DB / "schema.sql").read_text() == render()


def test_the_newest_migration_ends_with_what_the_definitions_say() -> None:
    """`python -m stanchion.db.render --anew` prints it: into the newest migration, or into a new one when that was released."""
    newest = max((DB / "migrations" / "versions").glob("*.rules.sql"))
    assert newest.read_text() == render_anew(), newest.name


DESCRIPTIONS = {
    "tables": f"SELECT relname::text, relkind::text, relowner::regrole::text, relrowsecurity, relforcerowsecurity, reloptions::text, coalesce(pg_get_expr(relpartbound, oid), '') FROM pg_class WHERE relnamespace = {NOWHERE}",
    "columns": f"SELECT c.relname::text, a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity::text, coalesce(pg_get_expr(d.adbin, d.adrelid), '') FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum WHERE c.relnamespace = {NOWHERE} AND a.attnum > 0 AND NOT a.attisdropped",
    "constraints": f"SELECT c.relname::text, k.conname::text, pg_get_constraintdef(k.oid) FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid WHERE c.relnamespace = {NOWHERE}",
    "indexes": "SELECT tablename::text, indexname::text, indexdef FROM pg_indexes WHERE schemaname = 'stanchion'",
    "triggers": f"SELECT c.relname::text, t.tgname::text, pg_get_triggerdef(t.oid), t.tgenabled::text FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE c.relnamespace = {NOWHERE} AND NOT t.tgisinternal",
    "policies": "SELECT tablename::text, policyname::text, permissive, roles::text, cmd, coalesce(qual, ''), coalesce(with_check, '') FROM pg_policies WHERE schemaname = 'stanchion'",
    "functions": f"SELECT p.oid::regprocedure::text, pg_get_functiondef(p.oid), p.proowner::regrole::text, p.proacl::text FROM pg_proc p WHERE p.pronamespace = {NOWHERE} AND p.prokind = 'f'",
    "grants": f"SELECT c.relname::text, x.grantee::regrole::text, x.privilege_type FROM pg_class c, aclexplode(c.relacl) x WHERE c.relnamespace = {NOWHERE}",
    "schema": "SELECT nspowner::regrole::text, nspacl::text FROM pg_namespace WHERE nspname = 'stanchion'",
    "settings": "SELECT r.rolname::text, s.setconfig::text FROM pg_db_role_setting s JOIN pg_roles r ON r.oid = s.setrole WHERE s.setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())",
    "rows": "SELECT part::text FROM stanchion.outbox_partition",
}


def test_migrations_make_what_the_definitions_say(catalogue: Admin, databases: Databases) -> None:
    """A database that was migrated and one that was built from the definitions differ in nothing."""
    url = databases.create(empty=True)
    with psycopg.connect(url, autocommit=True) as built:
        built.execute(render())  # type: ignore[arg-type]  # rendered text
        for what, sql in DESCRIPTIONS.items():
            one = sorted(map(str, found(catalogue, sql)))
            two = sorted(map(str, found(built, sql)))
            assert one == two, what
    databases.drop(url)


def test_every_table_of_the_metadata_exists(catalogue: Admin) -> None:
    """And the database has no other, apart from partitions."""
    tables = found(
        catalogue,
        f"SELECT relname::text FROM pg_class WHERE relnamespace = {NOWHERE} AND relkind IN ('r', 'p') AND NOT relispartition",
    )
    assert set(tables) == {t.name for t in metadata.sorted_tables}
