"""A database for each test, copied from a template that was migrated once."""

from __future__ import annotations

import itertools
import os
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg import sql
from sqlalchemy.engine import make_url

from stanchion.db.migrate import migrate


class Databases:
    """Creates and drops test databases on one server; the template is made at the first call."""

    def __init__(self, admin_url: str) -> None:
        self.admin_url = admin_url
        self.template = f"test_template_{os.getpid()}"
        self._numbers = itertools.count(1)
        self._ready = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ready:
            self._drop(self.template)

    def url_of(self, name: str) -> str:
        """The administrator's URL of another database on the same server."""
        return make_url(self.admin_url).set(database=name).render_as_string(hide_password=False)

    def create(self, *, empty: bool = False) -> str:
        """The URL of a new database: migrated, or with `empty` as PostgreSQL makes it."""
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        if empty:
            self._execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
            return self.url_of(name)
        self._prepare()
        # copying files takes a tenth of the time of copying blocks through the log, where nothing waits for a disk
        self._execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY").format(
                sql.Identifier(name), sql.Identifier(self.template)
            )
        )
        self._copy_role_settings(name)
        return self.url_of(name)

    def drop(self, url: str) -> None:
        """End all sessions of a database and drop it."""
        name = make_url(url).database
        assert name is not None
        self._drop(name)

    def _prepare(self) -> None:
        if not self._ready:
            self._execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(self.template)))
            self._ready = True
            migrate(self.url_of(self.template))

    def _copy_role_settings(self, name: str) -> None:
        """Settings of a role in a database (the timeouts of the logins) are not copied with the template."""
        with self._connection() as connection:
            found = connection.execute(
                "SELECT r.rolname, x.setting FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase JOIN pg_roles r ON r.oid = s.setrole, unnest(s.setconfig) x(setting) WHERE d.datname = %s",
                (self.template,),
            ).fetchall()
            statement = sql.SQL("; ").join(
                sql.SQL("ALTER ROLE {} IN DATABASE {} SET {} = {}").format(
                    sql.Identifier(role), sql.Identifier(name), sql.Identifier(key), sql.Literal(value)
                )
                for role, (key, _, value) in ((role, setting.partition("=")) for role, setting in found)
            )
            connection.execute(statement)

    def _drop(self, name: str) -> None:
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _connection(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.admin_url, autocommit=True)

    def _execute(self, statement: sql.Composed) -> None:
        with self._connection() as connection:
            connection.execute(statement)
