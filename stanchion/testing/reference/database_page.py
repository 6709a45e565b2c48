"""database.md: the functions that are the only way to write, who may call them, and the tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from sqlalchemy import CheckConstraint, Table
from sqlalchemy.dialects import postgresql

from stanchion.db import grants
from stanchion.db.columns import metadata
from stanchion.db.tables import GLOBAL_TABLES

from .markdown import code, fence, flow, page, section, table

_INTRO = """
PostgreSQL holds every fact, and a database function is the only way to write one: one function is the work of one
transaction, called in one round trip. The services' logins have `EXECUTE` on what is listed for them and `SELECT` under
row-level security; the worker's and the relay's have nothing but functions. Each function says which locks it takes, in
order, so that two that meet never wait for each other in a circle.
"""
_SECURITY = """
Row-level security is forced on every table: a login sees the rows of the tenant that its transaction names, and gets an
error when it names none. These carry no tenant in their keys, since they belong to none:
"""
_HEAD = ("purpose", "transition", "fenced by", "locks")
_SIGNATURE = re.compile(r"CREATE FUNCTION (\w+)\((.*?)\)(?=\s+(?:RETURNS|LANGUAGE)|\s*\n)", re.DOTALL)
_LOGINS = {login: login.removeprefix("stanchion_").replace("_", " ") for login in grants.LOGINS}


@dataclass(frozen=True, slots=True)
class Function:
    """One file of `stanchion/db/functions`: its header lines and its signature."""

    name: str
    signature: str
    header: dict[str, str]

    @property
    def callers(self) -> tuple[str, ...]:
        """The logins that may call it."""
        return grants.FUNCTION_GRANTS.get(self.name, ())


@cache
def functions() -> tuple[Function, ...]:
    """All functions with a header, by name."""
    paths = sorted((files("stanchion.db") / "functions").iterdir(), key=lambda one: one.name)
    return tuple(
        _read(path.name.removesuffix(".sql"), path.read_text(encoding="utf-8"))
        for path in paths
        if path.name.endswith(".sql") and not path.name.startswith("_")
    )


def _read(name: str, text: str) -> Function:
    header = {}
    for line in text.splitlines():
        key, colon, value = line.removeprefix("--").strip().partition(": ")
        if not line.startswith("--") or not colon:
            break
        header[key] = value.strip()
    if missing := [key for key in _HEAD if key not in header]:
        raise ValueError(f"{name}.sql has no header line {missing[0]}")
    match = _SIGNATURE.search(text)
    arguments = " ".join(match.group(2).split()) if match else ""
    return Function(name, f"{name}({arguments})", header)


def database_page() -> str:
    """The page of functions and tables."""
    grouped = [
        section(
            f"Called by {_LOGINS[login]}",
            *(_function(f) for f in functions() if f.callers and f.callers[0] == login),
            level=3,
        )
        for login in grants.LOGINS
    ]
    inner = section("Called by other functions", *(_function(f) for f in functions() if not f.callers), level=3)
    return page("Database", _INTRO, _logins(), section("Functions", *grouped, inner), _tables())


def _function(function: Function) -> str:
    lines = [f"- **{key}**: {function.header[key]}" for key in _HEAD]
    if others := function.callers[1:]:
        lines.append(f"- **also called by**: {', '.join(_LOGINS[one] for one in others)}")
    return "\n\n".join([f"#### {function.name}", fence(function.signature, "sql"), "\n".join(lines)])


def _logins() -> str:
    rows = [
        (
            code(login),
            sum(login in callers for callers in grants.FUNCTION_GRANTS.values()),
            len(grants.READABLE.get(login, ())) or "none",
        )
        for login in grants.LOGINS
    ]
    text = f"""
    `{grants.OWNER}` owns the tables, `{grants.ENGINE}` owns the functions and is the only role that writes; nobody logs
    in as either. Even it can only add to {", ".join(code(name) for name in grants.ENGINE_NEVER)}.
    """
    return section("Logins", flow(text), table(("login", "functions it may call", "tables it may read"), rows))


def _tables() -> str:
    blocks = [_table(one) for one in sorted(metadata.tables.values(), key=lambda one: one.name)]
    text = f"{flow(_SECURITY)} {', '.join(code(name) for name in sorted(GLOBAL_TABLES))}."
    return section("Tables", text, *blocks)


def _table(one: Table) -> str:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy leaves this constructor untyped
    keys = {column.name for column in one.primary_key.columns}
    rows = [
        (
            code(column.name),
            str(column.type.compile(dialect)).lower(),
            "key" if column.name in keys else ("" if column.nullable else "always set"),
        )
        for column in one.columns
    ]
    rules = sorted(
        (str(c.name), str(c.sqltext)) for c in one.constraints if isinstance(c, CheckConstraint) and c.name is not None
    )
    held = "\n".join(f"- {name.replace('_', ' ')}: `{' '.join(text.split())}`" for name, text in rules)
    return section(one.name, table(("column", "type", ""), rows), held, level=3)
