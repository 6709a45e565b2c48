"""The way to the database: a pooled SQLAlchemy engine in autocommit, so that one call of a function is one transaction.

Every transaction has a name, and with it three failpoints: `<name>.before_commit`, `<name>.mid_commit` (COMMIT sent, not
answered) and `<name>.after_commit`. Only while one of them is armed is the call wrapped in a transaction of its own;
otherwise it is one round trip.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, LiteralString, cast
from uuid import UUID

import psycopg
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from stanchion.errors import StanchionError, Unavailable, Unstorable, from_sqlstate
from stanchion.runtime import failpoints

PHASES = ("before_commit", "mid_commit", "after_commit")
STATEMENT_TIMEOUT_MS = 30_000

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
    "op_prepare": "an operation is decided on",
    "op_dispatch": "an operation is about to be sent",
    "op_settle": "what a request came to is recorded",
    "op_probe": "what the outside system said is recorded",
    "op_doubt": "a step ends in doubt, or its probe ends",
    "op_tell": "a person says what became of an operation",
}
"""Every transaction that changes facts, by its name in failpoints."""

for _name, _meaning in TRANSACTIONS.items():
    failpoints.declare(f"{_name}.before_commit", f"{_meaning}; nothing is committed yet")
    failpoints.declare(f"{_name}.mid_commit", f"{_meaning}; COMMIT was sent, its answer has not been read")
    failpoints.declare(f"{_name}.after_commit", f"{_meaning}; it is committed, nobody was told")


# In one round trip. The login's second of patience with idle transactions is for those that hold locks: a reader holds
# none, and on a machine that is short of time it must not lose its connection between two questions.
_AS_TENANT = text(
    "SELECT set_config('stanchion.tenant', :t, true), set_config('transaction_read_only', 'on', true),"
    " set_config('idle_in_transaction_session_timeout', '15s', true)"
)


def login_url(url: str, login: str, database: str | None = None) -> str:
    """`url` with another login, without its password (trust or peer authentication), and maybe another database."""
    parsed = make_url(url).set(username=login, password=None)
    if database is not None:
        parsed = parsed.set(database=database)
    return parsed.render_as_string(hide_password=False)


def translated(error: psycopg.Error) -> StanchionError:
    """The error of ours that a driver's error means."""
    if error.sqlstate is None and isinstance(error, psycopg.DataError | psycopg.ProgrammingError):
        return Unstorable("E-DB-11", str(error))  # the driver itself can't send the value: it was never asked
    diag = error.diag
    return from_sqlstate(error.sqlstate, diag.message_primary or str(error), diag.message_detail, diag.message_hint)


class Database:
    """Pooled access under one login. Thread-safe; never keep a connection across user code."""

    def __init__(
        self, url: str, *, name: str, pool_size: int = 4, overflow: int = 4, wait_seconds: float = 10.0
    ) -> None:
        parsed = make_url(url)
        if parsed.drivername in ("postgresql", "postgres"):
            parsed = parsed.set(drivername="postgresql+psycopg")
        self.name = name
        self.engine = create_engine(
            parsed,
            isolation_level="AUTOCOMMIT",
            pool_size=pool_size,
            max_overflow=overflow,
            pool_timeout=wait_seconds,
            pool_pre_ping=False,  # a dead connection shows at its first use, as Unavailable, and every caller retries
            connect_args={
                "application_name": f"stanchion {name}"[:60],
                "connect_timeout": 5,
                # a server that vanished without a word (a dead host, a dropped route) shows within half a minute
                "tcp_user_timeout": 20_000,
                "keepalives_idle": 10,
                "keepalives_interval": 5,
                "keepalives_count": 3,
                "prepare_threshold": 1,
                "options": f"-c statement_timeout={STATEMENT_TIMEOUT_MS} -c timezone=UTC",
            },
        )

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        """A driver's connection in autocommit; raises Unavailable when there is none or it breaks."""
        try:
            connection = self.engine.raw_connection()
        except (DBAPIError, psycopg.Error) as error:
            cause = error.orig if isinstance(error, DBAPIError) and isinstance(error.orig, psycopg.Error) else error
            raise (
                translated(cause) if isinstance(cause, psycopg.Error) else Unavailable("E-DB-01", str(cause))
            ) from error
        except PoolTimeout as error:
            raise Unavailable(
                "E-DB-10", "all connections of this process are in use", fix="raise the pool size, or ask less at once"
            ) from error
        driver = cast("psycopg.Connection[tuple[Any, ...]]", connection.driver_connection)
        try:
            yield driver
        except psycopg.Error as error:
            meant = translated(error)
            if driver.closed or driver.broken or (error.sqlstate is None and isinstance(meant, Unavailable)):
                connection.invalidate()
                self.engine.dispose()  # the others of the pool died with the same server: let none of them fail a caller
            raise meant from error
        except UnicodeEncodeError as error:
            raise Unstorable("E-DB-11", f"a text holds {error.object[error.start : error.end]!a}") from error
        finally:
            connection.close()

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
        """A read-only SQLAlchemy connection on which row-level security shows one tenant, for dynamic reads."""
        try:
            # autocommit has no SET LOCAL: an explicit transaction carries the tenant, and ends with it
            engine = self.engine.execution_options(isolation_level="READ COMMITTED")
            with engine.connect() as scoped, scoped.begin():
                scoped.execute(_AS_TENANT, {"t": str(tenant_id)})
                yield scoped
        except DBAPIError as error:
            if isinstance(error.orig, psycopg.Error):
                raise translated(error.orig) from error
            raise
        except PoolTimeout as error:
            raise Unavailable(
                "E-DB-10", "all connections of this process are in use", fix="raise the pool size, or ask less at once"
            ) from error

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def _call_in_phases(
    connection: psycopg.Connection[tuple[Any, ...]], transaction: str, sql: LiteralString, parameters: Sequence[Any]
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


def _await_commit(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Read the answer to a COMMIT: on a lost connection there is none, and a transaction that failed is told ROLLBACK."""
    confirmed = False
    while (result := connection.pgconn.get_result()) is not None:
        confirmed = confirmed or result.command_status == b"COMMIT"
    if not confirmed:
        raise psycopg.OperationalError("the connection was lost before the commit was confirmed")
