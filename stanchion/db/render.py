"""Renders the whole schema from its definitions: tables, state machines, functions, policies and grants.

`python -m stanchion.db.render` prints it; `make generate` writes `stanchion/db/schema.sql`. The first migration holds a
frozen copy of the whole. A later one has its own changes of tables, and behind them a frozen copy of what `--anew`
prints: all that has no rows is dropped and made again. A test builds a database both ways and compares them.
"""

from __future__ import annotations

import re
import sys
from importlib.resources import files
from pathlib import Path

from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from stanchion.contracts import limits
from stanchion.state import MACHINES
from stanchion.state.render import transition_guard

from . import grants
from .columns import metadata
from .rules import RULES, VERSIONED
from .tables import GLOBAL_TABLES

DIALECT = postgresql.dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy leaves this constructor untyped

READERS_SEE = {"artifact_version": "state = 'available'"}
"""What of a table its readers see, beside their tenant's rows alone."""

INLINED = ("clock", "event_xid")
"""Functions that must stay inlinable: a default that calls them runs for every row."""
FENCED_TABLES = ("result", "event", "attempt", "artifact_version", "operation", "approval", "spending")
APPEND_ONLY = {
    "event": "run",
    "barrier_release": "barrier",
    "refused_write": "run",
    "operation_probe": "operation",
    "approval_vote": "approval",
    "spending": "task",
    "audit": "",
    "workflow": "",
}
"""Tables that only grow, and what each row belongs to: once that is gone, retention may remove the row."""


def _ddl(element: CreateTable | CreateIndex) -> str:
    return re.sub(r"[ \t]+\n", "\n", str(element.compile(dialect=DIALECT))).strip() + ";"


def _roles() -> str:
    names = "".join(
        f"\n    ('{r}', {'true' if r in grants.LOGINS else 'false'}),"
        for r in (grants.OWNER, grants.ENGINE, *grants.LOGINS)
    ).rstrip(",")
    return f"""DO $$
DECLARE
  r record;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('stanchion roles', 0));  -- roles belong to the cluster: two databases may be made at once
  FOR r IN SELECT * FROM (VALUES{names}) v(name, login) LOOP
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = r.name) THEN
      EXECUTE format('CREATE ROLE %I %s NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE', r.name, CASE WHEN r.login THEN 'LOGIN' ELSE 'NOLOGIN' END);
    END IF;
  END LOOP;
END $$;
-- a worker that is frozen inside a transaction must not block the recovery of its step; no commit is ever acknowledged before it is durable
DO $$
DECLARE
  r text;
BEGIN
  FOREACH r IN ARRAY ARRAY['{"', '".join(grants.LOGINS)}'] LOOP
    EXECUTE format('ALTER ROLE %I IN DATABASE %I SET idle_in_transaction_session_timeout = ''1s''', r, current_database());
    EXECUTE format('ALTER ROLE %I IN DATABASE %I SET synchronous_commit = on', r, current_database());
    EXECUTE format('ALTER ROLE %I IN DATABASE %I SET jit = off', r, current_database());
    -- plans are cached before there are statistics: made for an empty table, a scan of all of it looks cheap, and stays
    EXECUTE format('ALTER ROLE %I IN DATABASE %I SET enable_seqscan = off', r, current_database());
  END LOOP;
END $$;"""


def _trigger_functions() -> list[str]:
    out = []
    for machine in MACHINES:
        rules = RULES.get(machine.table, VERSIONED.format(table=machine.table))
        out.append(
            f"CREATE FUNCTION stanchion.{machine.table}_guard() RETURNS trigger LANGUAGE plpgsql AS $$\nBEGIN\n{transition_guard(machine)}{rules}\n  RETURN NEW;\nEND $$;\n"
            f"CREATE TRIGGER {machine.table}_guard BEFORE INSERT OR UPDATE ON stanchion.{machine.table} FOR EACH ROW EXECUTE FUNCTION stanchion.{machine.table}_guard();"
        )
    return out


def _argument(value: str) -> str:
    return f"'{value}'" if value else ""


def _triggers() -> list[str]:
    out = [
        f"CREATE TRIGGER fenced AFTER INSERT ON stanchion.{t} REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION stanchion.fenced_rows();"
        for t in FENCED_TABLES
    ]
    out += [
        f"CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON stanchion.{t} FOR EACH ROW EXECUTE FUNCTION stanchion.refuse_change({_argument(of)});"
        for t, of in APPEND_ONLY.items()
    ]
    out += [
        f"CREATE TRIGGER never_truncated BEFORE TRUNCATE ON stanchion.{t} FOR EACH STATEMENT EXECUTE FUNCTION stanchion.refuse_change();"
        for t in APPEND_ONLY
    ]
    out.append(
        "CREATE TRIGGER result_guard BEFORE UPDATE ON stanchion.result FOR EACH ROW EXECUTE FUNCTION stanchion.result_guard();"
    )
    out.append(
        "CREATE TRIGGER artifact_guard BEFORE UPDATE ON stanchion.artifact FOR EACH ROW EXECUTE FUNCTION stanchion.artifact_guard();"
    )
    out.append(
        "CREATE TRIGGER artifact_kept BEFORE DELETE ON stanchion.artifact_version FOR EACH ROW EXECUTE FUNCTION stanchion.artifact_kept();"
    )
    out.append(
        "CREATE TRIGGER approval_vote_guard BEFORE INSERT ON stanchion.approval_vote FOR EACH ROW EXECUTE FUNCTION stanchion.approval_vote_guard();"
    )
    out.append(
        "CREATE TRIGGER spending_guard BEFORE INSERT ON stanchion.spending FOR EACH ROW EXECUTE FUNCTION stanchion.spending_guard();"
    )
    out.append(
        "CREATE TRIGGER budget_guard BEFORE INSERT OR UPDATE ON stanchion.budget FOR EACH ROW EXECUTE FUNCTION stanchion.budget_guard();"
    )
    out.append(
        "CREATE TRIGGER audit_chain BEFORE INSERT ON stanchion.audit FOR EACH ROW EXECUTE FUNCTION stanchion.audit_chain();"
    )
    return out


def with_limits(text: str) -> str:
    """`limits.NAME` in the text of a function is that number of `stanchion/contracts/limits.py`."""
    return re.sub(r"\blimits\.([A-Z][A-Z_]+)\b", lambda found: str(getattr(limits, found[1])), text)


def _functions() -> list[str]:
    folder = files("stanchion.db") / "functions"
    sources = {
        p.name.removesuffix(".sql"): with_limits(p.read_text()) for p in folder.iterdir() if p.name.endswith(".sql")
    }
    # types first, then what others call; PL/pgSQL resolves its callees at run time, SQL functions at creation
    first = ["_types", "clock", "_guards", "outbox_partition_of", "outbox_partition_for", "slot_of", "next_sequence"]
    return [sources.pop(name).strip() for name in first] + [text.strip() for _, text in sorted(sources.items())]


def _policies() -> list[str]:
    out = []
    for table in metadata.sorted_tables:
        name = table.fullname
        out.append(f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY;\nALTER TABLE {name} FORCE ROW LEVEL SECURITY;")
        out.append(f"CREATE POLICY engine ON {name} TO {grants.ENGINE}, {grants.OWNER} USING (true) WITH CHECK (true);")
        if table.name in GLOBAL_TABLES and table.name != "dead_letter":
            out.append(f"CREATE POLICY everyone ON {name} FOR SELECT USING (true);")
        else:
            # a missing tenant is an error, not an empty answer
            more = f" AND {READERS_SEE[table.name]}" if table.name in READERS_SEE else ""
            out.append(
                f"CREATE POLICY tenant_only ON {name} FOR SELECT USING (tenant_id = current_setting('stanchion.tenant')::uuid{more});"
            )
    return out


def _owners_and_grants() -> list[str]:
    out = ["GRANT USAGE ON SCHEMA stanchion TO " + ", ".join((grants.ENGINE, *grants.LOGINS)) + ";"]
    out += [f"GRANT SELECT, INSERT, UPDATE, DELETE ON {t.fullname} TO {grants.ENGINE};" for t in metadata.sorted_tables]
    out += [
        f"REVOKE {verbs} ON stanchion.{table} FROM {grants.ENGINE};" for table, verbs in grants.ENGINE_NEVER.items()
    ]
    out.append(f"GRANT USAGE ON SEQUENCE stanchion.audit_audit_id_seq TO {grants.ENGINE};")
    out += [
        f"GRANT SELECT ON {', '.join(f'stanchion.{t}' for t in tables)} TO {login};"
        for login, tables in grants.READABLE.items()
    ]
    out.append(
        f"""DO $$
DECLARE
  f record;
BEGIN
  FOR f IN SELECT p.oid::regprocedure AS signature FROM pg_proc p WHERE p.pronamespace = 'stanchion'::regnamespace LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f.signature);
    EXECUTE format('ALTER FUNCTION %s OWNER TO {grants.ENGINE}', f.signature);
  END LOOP;
END $$;"""
    )
    for function in grants.OWNER_FUNCTIONS:
        out.append(
            f"DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s OWNER TO {grants.OWNER}', 'stanchion.{function}'::regproc::oid::regprocedure); END $$;"
        )
    out.append(f"GRANT EXECUTE ON FUNCTION stanchion.event_xid TO {grants.ENGINE};")
    out.append(f"GRANT EXECUTE ON FUNCTION stanchion.clock, stanchion.refuse_change TO {grants.OWNER};")
    for function, logins in sorted(grants.FUNCTION_GRANTS.items()):
        if function not in INLINED:
            # the ones that services call run as the engine; what these call in turn already does
            out.append(
                f"DO $$ BEGIN EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', 'stanchion.{function}'::regproc::oid::regprocedure); END $$;"
            )
        out.append(f"GRANT EXECUTE ON FUNCTION stanchion.{function} TO {', '.join(logins)};")
    return out


def _rules() -> list[str]:
    """All that has no rows: it is made the same way for a new database and by each migration."""
    return [
        *[f for f in _functions() if not any(f"CREATE FUNCTION {name}(" in f for name in INLINED)],
        *_trigger_functions(),
        *_triggers(),
        *_policies(),
        *[f"ALTER TABLE {t.fullname} OWNER TO {grants.OWNER};" for t in metadata.sorted_tables],
        f"ALTER TABLE stanchion.event_default OWNER TO {grants.OWNER};",
        *_owners_and_grants(),
    ]


_SETTINGS = "SET search_path = stanchion, pg_temp;\nSET check_function_bodies = off;"
_RESET = "RESET search_path;\nRESET check_function_bodies;"


def render() -> str:
    """The whole schema as one SQL script for an empty database, run as a superuser or the database's owner."""
    tables = [_ddl(CreateTable(t)) for t in metadata.sorted_tables]
    indexes = [
        _ddl(CreateIndex(i)) for t in metadata.sorted_tables for i in sorted(t.indexes, key=lambda i: str(i.name))
    ]
    parts = [
        "-- Generated by `make generate` from stanchion/db/tables, stanchion/state and stanchion/db/functions. Do not edit.",
        _roles(),
        f"CREATE SCHEMA stanchion AUTHORIZATION {grants.OWNER};\nGRANT CREATE, USAGE ON SCHEMA stanchion TO {grants.ENGINE};\n{_SETTINGS}",
        "-- these come first: defaults name them",
        *[(files("stanchion.db") / "functions" / f"{name}.sql").read_text().strip() for name in INLINED],
        *tables,
        "CREATE TABLE stanchion.event_default PARTITION OF stanchion.event DEFAULT;",
        f"INSERT INTO stanchion.outbox_partition (part, lease_until) SELECT p, '-infinity' FROM generate_series(0, {limits.OUTBOX_PARTITIONS - 1}) p;",
        "INSERT INTO stanchion.error_cursor DEFAULT VALUES;",
        "INSERT INTO stanchion.cluster (system_identifier) SELECT c.system_identifier FROM pg_control_system() c;",
        *indexes,
        *_rules(),
        "SELECT stanchion.guard_partition('event_default');\nSELECT stanchion.make_partitions(2);",
        _RESET,
    ]
    return "\n\n".join(parts) + "\n"


def _undo_rules() -> str:
    """Take away what `_rules` makes. The inlined functions stay: defaults depend on them, and a database that was restored
    into another cluster has an `event_xid` of its own."""
    kept = ", ".join(f"'{name}'" for name in INLINED)
    roles = (grants.OWNER, grants.ENGINE, *grants.LOGINS)
    return f"""DO $$
DECLARE
  r record;
BEGIN
  FOR r IN SELECT p.policyname, p.tablename FROM pg_policies p WHERE p.schemaname = 'stanchion' LOOP
    EXECUTE format('DROP POLICY %I ON %I', r.policyname, r.tablename);
  END LOOP;
  FOR r IN SELECT t.tgname, c.relname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE c.relnamespace = 'stanchion'::regnamespace AND NOT t.tgisinternal AND t.tgparentid = 0 LOOP
    EXECUTE format('DROP TRIGGER %I ON %I', r.tgname, r.relname);
  END LOOP;
  FOR r IN SELECT p.oid::regprocedure AS signature FROM pg_proc p WHERE p.pronamespace = 'stanchion'::regnamespace AND p.proname NOT IN ({kept}) LOOP
    EXECUTE format('DROP FUNCTION %s', r.signature);
  END LOOP;
  FOR r IN SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'stanchion'::regnamespace AND c.relkind = 'c' LOOP
    EXECUTE format('DROP TYPE %I', r.relname);
  END LOOP;
  FOR r IN SELECT c.relname, c.relkind FROM pg_class c WHERE c.relnamespace = 'stanchion'::regnamespace AND c.relacl IS NOT NULL LOOP
    EXECUTE format('REVOKE ALL ON %s %I FROM {", ".join(roles[1:])}', CASE r.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, r.relname);
  END LOOP;
  FOR r IN SELECT p.oid::regprocedure AS signature, a.name FROM pg_proc p, unnest(ARRAY['{"', '".join(roles)}']) a(name) WHERE p.pronamespace = 'stanchion'::regnamespace AND p.proowner <> a.name::regrole LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM %I', r.signature, r.name);
  END LOOP;
END $$;"""


def render_anew() -> str:
    """All that has no rows, made anew in a database whose tables are right already: the end of a migration."""
    parts = [
        "-- Printed by `python -m stanchion.db.render --anew`, and frozen with this migration. Do not edit.",
        _SETTINGS,
        _undo_rules(),
        *_rules(),
        "SELECT stanchion.guard_partition(c.relname) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'stanchion.event'::regclass;",
        _RESET,
    ]
    return "\n\n".join(parts) + "\n"


def main(argv: list[str]) -> int:
    """Print the schema; `--write` puts it where it belongs, `--check` fails when what stands there differs.

    `--anew` prints the end of a migration.
    """
    if "--anew" in argv:
        sys.stdout.write(render_anew())
        return 0
    rendered = render()
    target = Path(__file__).with_name("schema.sql")
    if "--write" in argv:
        target.write_text(rendered)
    elif "--check" in argv:
        if target.read_text() != rendered:
            sys.stderr.write("stanchion/db/schema.sql is out of date: make generate\n")
            return 1
    else:
        sys.stdout.write(rendered)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
