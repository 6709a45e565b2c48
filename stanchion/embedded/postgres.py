"""PostgreSQL from the wheel: TCP on loopback only, every commit on disk unless a test says otherwise."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psycopg
from psycopg import sql

from stanchion.embedded.errors import NOT_READY, EmbeddedError
from stanchion.embedded.ports import LOOPBACK
from stanchion.embedded.postgres_home import Home, find_home
from stanchion.embedded.processes import Account, Stage, eventually, pids_in_folder
from stanchion.embedded.server import Server, Workspace, tail

USER = "stanchion"
DATABASE = "stanchion"

_INITDB_SECONDS = 60.0
_ORPHAN_SECONDS = 1.0


class Postgres(Server):
    """Keeps its data over restarts and crashes of the process."""

    name = "postgres"
    # SIGINT is a fast shutdown with a checkpoint; SIGQUIT leaves at once and recovers at the next start.
    ending = (Stage(signal.SIGINT, 10.0), Stage(signal.SIGQUIT, 7.0))

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._home: Home | None = None

    @property
    def url(self) -> str:
        """`postgresql://stanchion@127.0.0.1:PORT/stanchion`, the superuser's."""
        return f"postgresql://{USER}@{LOOPBACK}:{self.port}/{DATABASE}"

    @property
    def data(self) -> Path:
        """The data directory."""
        return self._place.data / "data"

    @property
    def _place(self) -> Home:
        if self._home is None:
            self._home = find_home(self._workspace.root)
        return self._home

    def folder(self) -> Path:
        """Its own folder: the account that it runs as may not be able to enter the supervisor's."""
        return self._place.data

    def account(self) -> Account | None:
        """`nobody` under root."""
        return self._place.account

    def command(self) -> Sequence[str]:
        """The server with its settings on the command line, so that none is left behind in the data directory."""
        settings = server_settings(fsync=self._workspace.fsync)
        return [
            str(self._place.binaries / "postgres"),
            "-D",
            str(self.data),
            "-p",
            str(self.port),
            *(word for name, value in settings.items() for word in ("-c", f"{name}={value}")),
        ]

    def prepare(self) -> None:
        """Make the data directory on the first start; clear away what a killed server left running."""
        if not self.data.exists():
            self._initdb()
        self._end_orphans()

    def answers(self) -> bool:
        """A query, answered from our own data directory."""
        try:
            with self._connect("postgres") as connection:
                row = connection.execute("show data_directory").fetchone()
        except psycopg.Error:
            return False
        return row is not None and Path(row[0]) == self.data

    def after_start(self) -> None:
        """Create the database on the first start."""
        with self._connect("postgres") as connection:
            found = connection.execute("select 1 from pg_database where datname = %s", [DATABASE]).fetchone()
            if found is None:
                connection.execute(sql.SQL("create database {}").format(sql.Identifier(DATABASE)))

    def _connect(self, database: str) -> psycopg.Connection[tuple[str, ...]]:
        return psycopg.connect(
            host=LOOPBACK,
            port=self.port,
            user=USER,
            dbname=database,
            connect_timeout=2,
            sslmode="disable",
            gssencmode="disable",
            application_name="stanchion-embedded",
            autocommit=True,
        )

    def _initdb(self) -> None:
        # Into a draft that is renamed when it is whole: a run killed in the middle must not leave half a cluster.
        for old in self.folder().glob("data.draft-*"):
            shutil.rmtree(old, ignore_errors=True)
        draft = self.folder() / f"data.draft-{self._workspace.run_id}"
        account = self.account()
        command = [str(self._place.binaries / "initdb"), "-D", str(draft), "-U", USER]
        command += ["--auth=trust", "--encoding=UTF8"]
        command += ["--no-locale", "--data-checksums", *([] if self._workspace.fsync else ["--no-sync"])]
        with self.log_path.open("ab") as log:
            done = subprocess.run(
                command,
                check=False,
                cwd=self.folder(),
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=account.uid if account else None,
                group=account.gid if account else None,
                extra_groups=[] if account else None,
                timeout=_INITDB_SECONDS,
            )
        if done.returncode != 0:
            raise EmbeddedError(
                NOT_READY,
                f"initdb failed with exit code {done.returncode}",
                where=str(draft),
                why=tail(self.log_path),
                fix="see the log; a full disk and an unwritable folder are the usual reasons",
            )
        draft.rename(self.data)

    def _end_orphans(self) -> None:
        """Wait for backends of a killed postmaster: while one lives, a new one refuses to start on the same data.

        They notice its death by themselves unless they are busy; after that they are killed, which is safe because
        nothing that they had not committed counts.
        """
        if not eventually(lambda: not self._orphans(), _ORPHAN_SECONDS):
            for pid in self._orphans():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            eventually(lambda: not self._orphans(), _ORPHAN_SECONDS)
        if not self._orphans():
            (self.data / "postmaster.pid").unlink(missing_ok=True)  # its id may belong to another process by now

    def _orphans(self) -> list[int]:
        return pids_in_folder("postgres", self.data)


def server_settings(*, fsync: bool) -> dict[str, str]:
    """Return the settings by name; the same in a container."""
    durable = "on" if fsync else "off"
    return {
        "listen_addresses": LOOPBACK,
        "unix_socket_directories": "",
        "max_connections": "300",
        "shared_buffers": "256MB",
        "synchronous_commit": "on",
        "fsync": durable,
        "full_page_writes": durable,
        # Recovery after a crash replays at most this much; the defaults allow 1 GB and 5 minutes.
        "max_wal_size": "512MB",
        "checkpoint_timeout": "2min",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "log_line_prefix": "%m [%p] %q%u@%d ",
    }
