"""Alembic's environment: migrations run on the connection that `stanchion.db.migrate` hands over, under its lock."""

from alembic import context

from stanchion.db import tables

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=tables.metadata,
    version_table="schema_version",
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
