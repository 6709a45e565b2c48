"""Readiness: whether the database answers, and whether its schema is the one that this release was built for."""

from __future__ import annotations

from functools import cached_property

from stanchion.bus.consumer import Consumer
from stanchion.db.engine import Database


class IntakeCheck:
    """Whether the intake lives. A broker that is away does not count: HTTP goes on without it, and it comes back."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer

    def check(self) -> str | None:
        """None while it reads, or tries to."""
        fault = self.consumer.check()
        return None if fault is None or fault.startswith("E-NET-") else fault


class SchemaCheck:
    """A health check; one short statement each time."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @cached_property
    def wanted(self) -> str:
        """The schema version of this release."""
        from stanchion.db import migrate  # with Alembic behind it, a fifth of the start: not before it is asked for

        return migrate.newest()

    def check(self) -> str | None:
        """None when all is well, else what is wrong and how to mend it; raises Unavailable without a database."""
        rows = self.database.read("SELECT version_num FROM public.schema_version")
        found = rows[0][0] if rows else None
        if found == self.wanted:
            return None
        fix = "upgrade this program" if found is not None and found > self.wanted else "stanchion db migrate"
        return f"the database is at schema {found or 'none'}, this release needs {self.wanted}: {fix}"
