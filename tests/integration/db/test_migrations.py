"""Migrations: applied once, also when many start together, and a wrong version is refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread

import psycopg
import pytest
from kit.databases import Databases

from stanchion.db.engine import login_url
from stanchion.db.grants import WORKER
from stanchion.db.migrate import migrate, newest, require, status
from stanchion.errors import Unavailable, Unprocessable


@pytest.fixture
def empty(databases: Databases) -> Iterator[str]:
    """A database without a schema."""
    url = databases.create(empty=True)
    yield url
    databases.drop(url)


def test_an_empty_database_is_brought_up(empty: str) -> None:
    """From nothing to this release's version; a second call changes nothing."""
    assert status(empty).current is None
    assert migrate(empty).up_to_date
    assert migrate(empty) == status(empty)
    require(empty)
    require(login_url(empty, WORKER))


def test_replicas_that_start_together_migrate_once(empty: str) -> None:
    """Four at once: all return with the schema in place."""
    found: list[bool] = []
    threads = [Thread(target=lambda: found.append(migrate(empty).up_to_date)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [True] * 4


def test_a_service_says_which_way_the_versions_differ(empty: str) -> None:
    """Not migrated: it says how to. Migrated by a newer release: it says to upgrade, and touches nothing."""
    with pytest.raises(Unprocessable, match="stanchion db migrate") as behind:
        require(empty)
    assert behind.value.code == "E-DB-02"
    migrate(empty)
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute("UPDATE public.schema_version SET version_num = '9999'")
    for act in (require, migrate):
        with pytest.raises(Unprocessable, match="newer release"):
            act(empty)
    assert status(empty).current == "9999"
    assert newest() < "9999"


def test_a_server_that_is_away_is_unavailable() -> None:
    """Not a traceback of the driver."""
    with pytest.raises(Unavailable):
        status("postgresql://nobody@127.0.0.1:1/none")
