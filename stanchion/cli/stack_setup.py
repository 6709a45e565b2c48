"""What a stack needs before its services start: the schema, the topics, a tenant and a key."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from stanchion.cli.launches import admin_password, service_url
from stanchion.db import grants
from stanchion.embedded.together import run_together
from stanchion.runtime.redaction import redact_text

if TYPE_CHECKING:
    from stanchion.cli.stack_notes import StackNotes
    from stanchion.embedded import Endpoints


def quieten() -> None:
    """Send this process's own log to stderr, warnings only, unless somebody has configured it: stdout is for data."""
    import structlog

    from stanchion.runtime.logging import configure_logging

    if not structlog.is_configured():
        configure_logging(level="warning", stream=sys.stderr)


def prepare(
    endpoints: Endpoints, tenant: str, queues: Iterable[str], notes: StackNotes, say: Callable[[str], None]
) -> str:
    """Migrate, create the topics, and return a key of the tenant, which is kept for the next time."""
    wanted = tuple(queues)
    run_together(
        [lambda: migrate(endpoints.database_url, say), lambda: ensure_topics(endpoints.kafka_bootstrap, wanted)]
    )
    key = ensure_key(endpoints.database_url, tenant, notes.key())
    notes.keep_key(key)
    return key


def migrate(admin_url: str, say: Callable[[str], None]) -> None:
    """Bring the schema to this release's version."""
    from stanchion.db import grants
    from stanchion.db import migrate as migrations

    password = admin_password(admin_url)
    status = migrations.migrate(admin_url, passwords=dict.fromkeys(grants.LOGINS, password) if password else None)
    say(f"the database is at schema {status.current}")


def ensure_topics(bootstrap: str, queues: Iterable[str] = ()) -> None:
    """Create what is missing: the engine's topics, the default queue's, and those of `queues`."""
    from stanchion.bus import admin
    from stanchion.contracts import topics
    from stanchion.runtime.kafka_settings import KafkaSettings

    names = dict.fromkeys([topics.DEFAULT_QUEUE, *queues])
    wanted = topics.specs(names, partitions=topics.PARTITIONS_EMBEDDED)
    admin.ensure_topics(KafkaSettings.dev(bootstrap, "stanchion-stack"), wanted)


def ensure_key(admin_url: str, tenant: str, known: str | None) -> str:
    """A key with every right in `tenant`: `known` if it still works, else a new one."""
    from stanchion.authority.keys import ensure_dev_key
    from stanchion.db.engine import Database

    database = Database(service_url(admin_url, grants.TASK_SERVICE), name="stack", pool_size=1, overflow=0)
    try:
        return ensure_dev_key(database, tenant, known)
    finally:
        database.close()


def described(endpoints: Endpoints) -> str:
    """The three addresses for people, without passwords."""
    return ", ".join(redact_text(address) for address in endpoints.as_dict().values())
