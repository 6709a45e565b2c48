"""Migrations: apply them under an advisory lock, say where a database stands, refuse the wrong direction by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, NullPool, create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, ProgrammingError

from stanchion.errors import Unavailable, Unprocessable

from . import grants

LOCK = "stanchion migrations"
LOCK_WAIT_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Status:
    """Where a database stands: its version (None: empty) and the newest one that this release knows."""

    current: str | None
    newest: str

    @property
    def up_to_date(self) -> bool:
        return self.current == self.newest


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(files("stanchion.db") / "migrations"))
    config.set_main_option("path_separator", "os")
    return config


def _connect(url: str) -> Connection:
    parsed = make_url(url)
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    try:
        # no pool: a connection that stays open would keep the database from being dropped or used as a template
        return create_engine(parsed, poolclass=NullPool, connect_args={"connect_timeout": 5}).connect()
    except DBAPIError as error:
        raise Unavailable(
            "E-DB-01",
            "the database does not answer",
            why=str(error.orig).strip().splitlines()[0],
            fix="check STANCHION_ADMIN_DATABASE_URL, and that the server runs",
        ) from error


def _current(connection: Connection) -> str | None:
    try:
        with connection.begin_nested():
            return connection.execute(text("SELECT version_num FROM public.schema_version")).scalar()
    except ProgrammingError:
        return None


def newest() -> str:
    """The newest schema version that this release knows."""
    found = ScriptDirectory.from_config(_config()).get_current_head()
    assert found is not None
    return found


def status(admin_url: str) -> Status:
    """The database's version against this release's."""
    newest_known = newest()
    with _connect(admin_url) as connection:
        return Status(_current(connection), newest_known)


def migrate(admin_url: str, *, passwords: Mapping[str, str] | None = None, renew_passwords: bool = False) -> Status:
    """Bring the database to this release's version; replicas that start together wait for the one that does it.

    `passwords`, by login, are given to logins that have none; with `renew_passwords` to all that are named.
    """
    config = _config()
    known = {s.revision for s in ScriptDirectory.from_config(config).walk_revisions()}
    with _connect(admin_url) as connection:
        connection.execute(text(f"SET lock_timeout = '{LOCK_WAIT_SECONDS}s'"))
        connection.execute(text("SELECT pg_advisory_lock(hashtextextended(:l, 0))"), {"l": LOCK})
        connection.commit()
        try:
            current = _current(connection)
            if current is not None and current not in known:
                raise _too_new(current, max(known))
            had = _logins_with_password(connection) if passwords and not renew_passwords else set()
            connection.commit()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            _adopt(connection)
            # services look, before they call themselves ready, whether the schema is theirs
            connection.execute(text(f"GRANT SELECT ON public.schema_version TO {', '.join(grants.LOGINS)}"))
            _set_passwords(connection, {k: v for k, v in (passwords or {}).items() if k not in had})
            connection.commit()
        finally:
            connection.rollback()
            connection.execute(text("SELECT pg_advisory_unlock(hashtextextended(:l, 0))"), {"l": LOCK})
            connection.commit()
    return status(admin_url)


def _adopt(connection: Connection) -> None:
    """A database that was restored into another cluster goes on there: see `adopt_cluster`."""
    with connection.begin_nested():
        connection.execute(text(f"SET LOCAL ROLE {grants.OWNER}"))
        connection.execute(text("SELECT stanchion.adopt_cluster()"))
        connection.execute(text("RESET ROLE"))


def _too_new(current: str, newest: str) -> Unprocessable:
    return Unprocessable(
        "E-DB-02",
        f"the database is at schema {current}, this release knows up to {newest}",
        why="a newer release migrated it",
        fix="upgrade this program; never migrate down",
    )


def require(connection_url: str) -> None:
    """Raise E-DB-02, naming the direction, unless the schema is the one that this release was built for."""
    found = status(connection_url)
    if found.up_to_date:
        return
    if found.current is not None and found.current > found.newest:
        raise _too_new(found.current, found.newest)
    raise Unprocessable(
        "E-DB-02",
        f"the database is at schema {found.current or 'none'}, this release needs {found.newest}",
        fix="stanchion db migrate",
    )


def _logins_with_password(connection: Connection) -> set[str]:
    """Those that have one. Only a superuser may look: for any other administrator, those that were there before."""
    ours = {"logins": list(grants.LOGINS)}
    try:
        with connection.begin_nested():
            look = "SELECT rolname FROM pg_authid WHERE rolname = ANY (:logins) AND rolpassword IS NOT NULL"
            return set(connection.execute(text(look), ours).scalars())
    except ProgrammingError:
        return set(
            connection.execute(text("SELECT rolname FROM pg_roles WHERE rolname = ANY (:logins)"), ours).scalars()
        )


def _set_passwords(connection: Connection, passwords: Mapping[str, str]) -> None:
    from psycopg import sql

    driver = connection.connection.driver_connection
    assert driver is not None
    for login, password in passwords.items():
        driver.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(login), sql.Literal(password)))
