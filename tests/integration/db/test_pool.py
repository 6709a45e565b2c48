"""The pool of connections: bounded, kept, emptied when the server that they belong to is gone."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from kit.engine import Engine
from sqlalchemy.engine import make_url

from stanchion.db.engine import Database
from stanchion.errors import Unavailable, Unprocessable

PID = "SELECT pg_backend_pid()"


@pytest.fixture
def database(engine: Engine) -> Iterator[Database]:
    """Two connections are kept, a third may be made, nobody waits long."""
    made = Database(engine.worker_database.url, name="pool", pool_size=2, overflow=1, wait_seconds=0.05)
    yield made
    made.close()


def test_no_more_than_its_bound_at_once(database: Database) -> None:
    """The fourth caller is told that all are in use; one that is given back serves again."""
    with ExitStack() as stack:
        pids = {stack.enter_context(database.connection()).info.backend_pid for _ in range(3)}
        assert len(pids) == database.taken == 3
        with pytest.raises(Unavailable, match="E-DB-10"), database.connection():
            pass
    assert database.taken == 0
    assert database.read(PID)[0][0] in pids


def test_what_is_over_its_size_is_closed(database: Database) -> None:
    """Two of three stay."""
    with ExitStack() as stack:
        taken = [stack.enter_context(database.connection()) for _ in range(3)]
    assert sum(not connection.closed for connection in taken) == 2


def test_the_last_one_used_serves_next(database: Database) -> None:
    """A quiet process comes to use one connection, whose plans are prepared."""
    with database.connection() as first, database.connection() as second:
        pids = {first.info.backend_pid, second.info.backend_pid}
    assert len(pids) == 2
    assert len({database.read(PID)[0][0] for _ in range(5)}) == 1


def test_a_transaction_that_was_left_open_goes_with_its_connection(database: Database) -> None:
    """The next caller never finds itself inside somebody else's transaction."""
    with database.connection() as connection:
        connection.execute("BEGIN")
    assert connection.closed
    assert not database.read("SELECT pg_current_xact_id_if_assigned() IS NOT NULL")[0][0]


def die(database: Database, engine: Engine) -> None:
    """A caller whose connection is ended under its hands."""
    with database.connection() as connection:
        engine.admin.execute("SELECT pg_terminate_backend(%s)", [connection.info.backend_pid])
        connection.execute(PID)


def test_all_go_when_one_dies(database: Database, engine: Engine) -> None:
    """A server that restarted fails one caller, and not one after the other; also what is in use is not kept."""
    with database.connection() as held:
        idle = database.read(PID)[0][0]
        with pytest.raises(Unavailable):
            die(database, engine)
    assert held.closed
    assert database.read(PID)[0][0] != idle
    assert database.taken == 0


def test_a_refused_connection_takes_no_room(engine: Engine) -> None:
    """What can't connect is told so, as often as it is tried."""
    nowhere = make_url(engine.worker_database.url).set(port=1).render_as_string(hide_password=False)
    database = Database(nowhere, name="pool", pool_size=1, overflow=0)
    for _ in range(3):
        with pytest.raises(Unavailable, match="E-DB-01"):
            database.read(PID)
    assert database.taken == 0


def test_many_threads_share_it(engine: Engine) -> None:
    """Nobody gets a connection that another one holds."""
    database = Database(engine.worker_database.url, name="pool", pool_size=2, overflow=1, wait_seconds=30)

    def ask(number: int) -> bool:
        with database.connection() as connection:
            connection.execute("SELECT set_config('stanchion.test', %s, false)", [str(number)])
            found = connection.execute("SELECT current_setting('stanchion.test')").fetchone()
            return found == (str(number),)

    with ThreadPoolExecutor(16) as threads:
        assert all(threads.map(ask, range(400)))
    assert database.taken == 0
    database.close()


@pytest.mark.parametrize("url", ["", "postgres", "mysql://a@b/c", "postgresql://u:s3cret@[/x"])
def test_what_is_no_address_is_told_at_once(url: str) -> None:
    """Without the password that may stand in it."""
    with pytest.raises(Unprocessable, match="E-CONF-01") as told:
        Database(url, name="pool")
    assert "s3cret" not in str(told.value)
