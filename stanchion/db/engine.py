"""The way to the database: pooled connections in autocommit, so that one call of a function is one transaction.

Every transaction has a name, and with it three failpoints: `<name>.before_commit`, `<name>.mid_commit` (COMMIT sent, not
answered) and `<name>.after_commit`. Only while one of them is armed is the call wrapped in a transaction of its own;
otherwise it is one round trip.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, LiteralString
from uuid import UUID

import psycopg

from stanchion.errors import StanchionError, Unavailable, Unprocessable, Unstorable, from_sqlstate
from stanchion.runtime import failpoints

from .pool import STATEMENT_TIMEOUT_MS, Driver, Pool, connect_options, pool_is_empty

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

PHASES = ("before_commit", "mid_commit", "after_commit")

TRANSACTIONS: dict[str, str] = {
    "submit": "a batch of tasks is accepted",
    "cancel": "a task is asked to be cancelled",
    "pause": "a run is paused or resumed",
    "reopen": "failed steps are reopened",
    "open_barrier": "a barrier is opened by hand",
    "retry": "a task gets a new run",
    "lease": "a worker leases steps",
    "renew": "a worker's heartbeat",
    "complete": "results are accepted",
    "steer": "a result that steers the run is accepted",
    "fail": "attempts are recorded as failed",
    "give_back": "leases are handed back",
    "expand": "branches of a fan-out are inserted",
    "timers": "what is due is done",
    "reap": "expired leases are taken back",
    "offer": "ready steps are offered",
    "sweep_run": "a run is wound down",
    "sweep_barrier": "branches that a decided join leaves over are cancelled",
    "set_aside": "a damaged item of upkeep is set aside",
    "relay_claim": "a relay claims outbox partitions",
    "relay_delete": "sent messages are deleted",
    "bury": "a message is parked",
    "begin_artifact": "a version of an artifact is begun",
    "flip_artifact": "a version of an artifact becomes available",
    "curate": "a version of an artifact is pinned, let go, or deleted",
    "ask": "people are asked, and the step waits for them",
    "vote": "a person says something about an approval",
    "revoke": "an approval is taken back",
    "op_prepare": "an operation is decided on",
    "op_dispatch": "an operation is about to be sent",
    "op_settle": "what a request came to is recorded",
    "op_probe": "what the outside system said is recorded",
    "op_doubt": "a step ends in doubt, or its probe ends",
    "spend": "what an attempt used is booked",
    "act_for_job": "a job in bulk acts on a target, and notes it",
    "op_tell": "a person says what became of an operation",
}
"""Every transaction that changes facts, by its name in failpoints."""

for _name, _meaning in TRANSACTIONS.items():
    failpoints.declare(f"{_name}.before_commit", f"{_meaning}; nothing is committed yet")
    failpoints.declare(f"{_name}.mid_commit", f"{_meaning}; COMMIT was sent, its answer has not been read")
    failpoints.declare(f"{_name}.after_commit", f"{_meaning}; it is committed, nobody was told")


# In one round trip. The login's second of patience with idle transactions is for those that hold locks: a reader holds
# none, and on a machine that is short of time it must not lose its connection between two questions.
_AS_TENANT = (
    "SELECT set_config('stanchion.tenant', %(t)s, true), set_config('transaction_read_only', 'on', true),"
    " set_config('idle_in_transaction_session_timeout', '15s', true)"
)


def login_url(url: str, login: str, database: str | None = None) -> str:
    """`url` with another login, without its password (trust or peer authentication), and maybe another database."""
    from sqlalchemy.engine import make_url

    parsed = make_url(url).set(username=login, password=None)
    if database is not None:
        parsed = parsed.set(database=database)
    return parsed.render_as_string(hide_password=False)


def driver_url(url: str) -> str:
    """`url` as the driver reads it: without SQLAlchemy's name for it; raises Unprocessable E-CONF-01."""
    plain = re.sub(r"^(postgres|postgresql\+psycopg)://", "postgresql://", url)
    if not plain.startswith("postgresql://"):
        raise _unreadable()
    try:
        psycopg.conninfo.conninfo_to_dict(plain)
    except psycopg.ProgrammingError as error:
        raise _unreadable() from error
    return plain


def _unreadable() -> Unprocessable:
    return Unprocessable(
        "E-CONF-01",
        "the address of the database can't be read",
        why="it is no PostgreSQL URL",  # the driver's own words may hold the password
        fix="postgresql://login@host:port/database, with special characters as %XX",
    )


def translated(error: psycopg.Error) -> StanchionError:
    """The error of ours that a driver's error means."""
    if error.sqlstate is None and isinstance(error, psycopg.DataError | psycopg.ProgrammingError):
        return Unstorable("E-DB-11", str(error))  # the driver itself can't send the value: it was never asked
    diag = error.diag
    return from_sqlstate(error.sqlstate, diag.message_primary or str(error), diag.message_detail, diag.message_hint)


class Database:
    """Pooled access under one login. Thread-safe; never keep a connection across user code.

    At most `pool_size + overflow` connections at once for calls, and as many for `tenant`.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str,
        pool_size: int = 4,
        overflow: int = 4,
        wait_seconds: float = 10.0,
        statement_timeout_ms: int = STATEMENT_TIMEOUT_MS,
    ) -> None:
        self.url = driver_url(url)
        self.name = name
        self._size, self._overflow, self._wait_seconds = pool_size, overflow, wait_seconds
        self._options = connect_options(name, statement_timeout_ms)
        self._pool = Pool(self.url, self._options, pool_size, overflow, wait_seconds)
        self._lock = Lock()
        self._engine: Engine | None = None

    @property
    def taken(self) -> int:
        """How many connections are in use for calls at this moment."""
        return self._pool.taken

    @contextmanager
    def connection(self) -> Iterator[Driver]:
        """A driver's connection in autocommit; raises Unavailable when there is none or it breaks."""
        try:
            driver = self._pool.take()
        except psycopg.Error as error:
            raise translated(error) from error
        try:
            yield driver
        except psycopg.Error as error:
            meant = translated(error)
            if driver.closed or driver.broken or (error.sqlstate is None and isinstance(meant, Unavailable)):
                self.close()  # the others died with the same server: let none of them fail a caller
            raise meant from error
        except UnicodeEncodeError as error:
            raise Unstorable("E-DB-11", f"a text holds {error.object[error.start : error.end]!a}") from error
        finally:
            self._pool.give(driver)

    def call(self, transaction: str, sql: LiteralString, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement as one transaction, and return its rows."""
        names = [f"{transaction}.{phase}" for phase in PHASES]
        with self.connection() as connection:
            if failpoints.armed(*names):
                return _call_in_phases(connection, transaction, sql, parameters)
            cursor = connection.execute(sql, parameters, prepare=True, binary=True)
            return cursor.fetchall() if cursor.description else []

    def read(self, sql: LiteralString, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement that changes nothing, and return its rows."""
        with self.connection() as connection:
            cursor = connection.execute(sql, parameters, prepare=True, binary=True)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def tenant(self, tenant_id: UUID) -> Iterator[Connection]:
        """A read-only SQLAlchemy connection that sees one tenant, by row-level security, as of one moment."""
        from sqlalchemy.exc import DBAPIError
        from sqlalchemy.exc import TimeoutError as PoolTimeout

        try:
            with self.engine.connect() as scoped, scoped.begin():
                scoped.exec_driver_sql(_AS_TENANT, {"t": str(tenant_id)})
                yield scoped
        except DBAPIError as error:
            if isinstance(error.orig, psycopg.Error):
                raise translated(error.orig) from error
            raise
        except PoolTimeout as error:
            raise pool_is_empty() from error

    @property
    def engine(self) -> Engine:
        """SQLAlchemy's, for `tenant`, made at its first use: most processes only call functions, and start without it."""
        with self._lock:
            if self._engine is None:
                self._engine = self._make_engine()
            return self._engine

    def _make_engine(self) -> Engine:
        from sqlalchemy import create_engine
        from sqlalchemy.engine import make_url

        return create_engine(
            make_url(self.url).set(drivername="postgresql+psycopg"),
            isolation_level="REPEATABLE READ",  # what is read by several statements fits together
            pool_size=self._size,
            max_overflow=self._overflow,
            pool_timeout=self._wait_seconds,
            pool_pre_ping=False,  # a dead connection shows at its first use, as Unavailable, and every caller retries
            connect_args=self._options,
        )

    def close(self) -> None:
        """Close all connections that nobody uses, and keep none of the others."""
        self._pool.empty()
        if self._engine is not None:
            self._engine.dispose()


def _call_in_phases(
    connection: Driver, transaction: str, sql: LiteralString, parameters: Sequence[Any]
) -> list[tuple[Any, ...]]:
    connection.execute("BEGIN")
    try:
        cursor = connection.execute(sql, parameters, binary=True)
        rows = cursor.fetchall() if cursor.description else []
        failpoints.hit(f"{transaction}.before_commit")
        if failpoints.armed(f"{transaction}.mid_commit"):
            connection.pgconn.send_query(b"COMMIT")
            while connection.pgconn.flush():
                pass
            failpoints.hit(f"{transaction}.mid_commit")
            _await_commit(connection)
        else:
            connection.execute("COMMIT")
    except BaseException:
        if not connection.closed:
            connection.rollback()
        raise
    failpoints.hit(f"{transaction}.after_commit")
    return rows


def _await_commit(connection: Driver) -> None:
    """Read the answer to a COMMIT: on a lost connection there is none, and a transaction that failed is told ROLLBACK."""
    confirmed = False
    while (result := connection.pgconn.get_result()) is not None:
        confirmed = confirmed or result.command_status == b"COMMIT"
    if not confirmed:
        raise psycopg.OperationalError("the connection was lost before the commit was confirmed")
