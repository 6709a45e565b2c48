"""Readiness: whether the database answers, and whether its schema is the one that this release was built for."""

from __future__ import annotations

from stanchion.db import migrate
from stanchion.db.engine import Database


class SchemaCheck:
    """A health check; one short statement each time."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.wanted = migrate.newest()

    def check(self) -> str | None:
        """None when all is well, else what is wrong and how to mend it; raises Unavailable without a database."""
        rows = self.database.read("SELECT version_num FROM public.schema_version")
        found = rows[0][0] if rows else None
        if found == self.wanted:
            return None
        fix = "upgrade this program" if found is not None and found > self.wanted else "stanchion db migrate"
        return f"the database is at schema {found or 'none'}, this release needs {self.wanted}: {fix}"
