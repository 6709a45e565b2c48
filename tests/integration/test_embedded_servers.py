"""The embedded servers inside one process: real requests, crashes, restarts on the same port, side by side."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
import redis

from stanchion.embedded import EmbeddedError, EmbeddedServers, Server
from stanchion.embedded import server as server_module
from stanchion.embedded.kafka_probe import probe
from stanchion.embedded.ports import ephemeral_floor, free_port, is_free
from stanchion.embedded.postgres import Postgres
from stanchion.embedded.postgres_home import outside_folder
from stanchion.embedded.processes import ProcessRecord, birth_of, eventually, is_alive
from stanchion.embedded.state import RootLock, StateFile

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

# kafka-python reads its schemas with a deprecated call while it is imported, which happens inside the tests.
pytestmark = pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated")


@pytest.fixture(autouse=True)
def _no_real_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STANCHION_DATABASE_URL", "STANCHION_KAFKA_BOOTSTRAP", "STANCHION_REDIS_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServers]:
    """One set for the tests that crash and restart; each leaves all three running and supervised."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("STANCHION_DATABASE_URL", "STANCHION_KAFKA_BOOTSTRAP", "STANCHION_REDIS_URL"):
            patch.delenv(name, raising=False)
        made = EmbeddedServers(tmp_path_factory.mktemp("servers") / "root", fsync=False, ephemeral=True)
    with made:
        yield made


@pytest.fixture
def unsupervised(servers: EmbeddedServers) -> Iterator[EmbeddedServers]:
    """The same set, where what dies stays dead until the test restarts it."""
    handles = (servers.postgres, servers.kafka, servers.valkey)
    for handle in handles:
        handle.supervise = False
    yield servers
    for handle in handles:
        handle.supervise = True
        handle.wait_ready()


def query(url: str, statement: str) -> object:
    """One statement in a connection of its own; the first column of its first row."""
    with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
        cursor = connection.execute(statement)
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


def admin_of(bootstrap: str) -> KafkaAdminClient:
    """A client for topics, to be used as a context manager."""
    from kafka import KafkaAdminClient

    return KafkaAdminClient(bootstrap_servers=bootstrap)


def topics(bootstrap: str) -> set[str]:
    """The names of all topics."""
    with admin_of(bootstrap) as admin:
        return set(admin.list_topics())


def valkey_call(url: str, call: Callable[[redis.Redis], object]) -> object:
    """One command in a connection of its own."""
    with redis.Redis.from_url(url) as client:
        return call(client)


def processes_of(servers: EmbeddedServers) -> list[ProcessRecord]:
    """What the set has written down of its processes."""
    state = StateFile(servers.root).read()
    assert state is not None
    return state.processes


def test_each_server_answers_a_real_request(servers: EmbeddedServers) -> None:
    """A query as superuser in the database `stanchion`, a topic made and seen, a value set and read."""
    endpoints = servers.endpoints
    assert query(endpoints.database_url, "select current_database() || usesuper from pg_user") == "stanchiontrue"
    assert str(query(endpoints.database_url, "show server_version")).startswith("18.")
    assert query(endpoints.database_url, "select uuidv7() is not null") is True
    with admin_of(endpoints.kafka_bootstrap) as admin:
        admin.create_topics({"answers": {"num_partitions": 2, "replication_factor": 1}})
        assert "answers" in admin.list_topics()
    assert valkey_call(endpoints.redis_url, lambda client: client.set("k", "v")) is True


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("listen_addresses", "127.0.0.1"),
        ("synchronous_commit", "on"),
        ("max_connections", "300"),
        ("shared_buffers", "256MB"),
        ("max_wal_size", "512MB"),
        ("TimeZone", "UTC"),
    ],
)
def test_postgres_has_the_settings_that_the_engine_counts_on(servers: EmbeddedServers, name: str, value: str) -> None:
    """Durable, enough connections for all services, and a bounded recovery."""
    assert query(servers.endpoints.database_url, f"show {name}") == value


def test_servers_listen_on_loopback_only(servers: EmbeddedServers) -> None:
    """Nothing is reachable from another machine: the same port on another address of this host stays free."""
    for handle in (servers.postgres, servers.kafka, servers.valkey):
        assert isinstance(handle, Server)
        with socket.socket() as other:
            other.bind(("127.0.0.2", handle.port))  # taken by nobody, as it would be by a listener on all addresses


def test_a_killed_postgres_comes_back_with_its_data(unsupervised: EmbeddedServers) -> None:
    """SIGKILL of the postmaster with a session open, then a restart: same port, committed rows there."""
    postgres, url = unsupervised.postgres, unsupervised.endpoints.database_url
    query(url, "create table survives as select 42 as answer")
    old = postgres.pid
    with closing(psycopg.connect(url)) as session:
        session.execute("select 1")
        postgres.kill(signal.SIGKILL)
        postgres.restart()
    assert postgres.pid != old
    assert postgres.url == url
    assert query(url, "select answer from survives") == 42


def test_a_busy_backend_of_a_killed_postgres_does_not_keep_it_from_coming_back(unsupervised: EmbeddedServers) -> None:
    """A backend in the middle of a long computation does not notice the postmaster's death; it is ended."""
    url = unsupervised.endpoints.database_url
    with closing(psycopg.connect(url)) as session:
        pid = session.info.backend_pid
        session.pgconn.send_query(b"select count(*) from generate_series(1, 1000000000) a, generate_series(1, 10) b")
        session.pgconn.flush()
        active = f"select state = 'active' from pg_stat_activity where pid = {pid}"
        assert eventually(lambda: query(url, active) is True, 10)
        unsupervised.postgres.kill(signal.SIGKILL)
        unsupervised.postgres.restart()
    assert birth_of(pid) is None
    assert query(url, "select 1") == 1


def test_a_killed_broker_comes_back_empty_on_its_port(unsupervised: EmbeddedServers) -> None:
    """Tansu keeps everything in memory."""
    bootstrap = unsupervised.endpoints.kafka_bootstrap
    with admin_of(bootstrap) as admin:
        admin.create_topics({"forgotten": {"num_partitions": 1, "replication_factor": 1}})
    assert "forgotten" in topics(bootstrap)
    unsupervised.kafka.kill(signal.SIGKILL)
    unsupervised.kafka.restart()
    assert unsupervised.kafka.url == bootstrap
    assert "forgotten" not in topics(bootstrap)


def test_a_killed_valkey_comes_back_empty_on_its_port(unsupervised: EmbeddedServers) -> None:
    """Valkey saves nothing."""
    url = unsupervised.endpoints.redis_url
    valkey_call(url, lambda client: client.set("forgotten", "1"))
    unsupervised.valkey.kill(signal.SIGKILL)
    unsupervised.valkey.restart()
    assert unsupervised.valkey.url == url
    assert valkey_call(url, lambda client: client.get("forgotten")) is None


def test_a_restart_of_a_running_server_is_clean(unsupervised: EmbeddedServers) -> None:
    """Without a crash before it, PostgreSQL shuts down and starts again with nothing to recover."""
    url = unsupervised.endpoints.database_url
    query(url, "create table kept as select 1 as one")
    unsupervised.postgres.restart()
    assert query(url, "select one from kept") == 1


@pytest.mark.parametrize("name", ["postgres", "kafka", "valkey"])
def test_a_server_that_dies_is_started_again(servers: EmbeddedServers, name: str) -> None:
    """The supervisor notices by itself; the address stays."""
    handle = getattr(servers, name)
    url, old = handle.url, handle.pid
    handle.kill(signal.SIGKILL)
    assert eventually(lambda: handle.pid != old, 20)
    handle.wait_ready()
    assert handle.url == url


def test_an_unsupervised_server_stays_dead(unsupervised: EmbeddedServers) -> None:
    """A fault test decides itself when the server is back; the supervisor has looked at it meanwhile."""
    valkey, kafka = unsupervised.valkey, unsupervised.kafka
    assert isinstance(valkey, Server)
    valkey.kill(signal.SIGKILL)
    kafka.supervise = True
    old = kafka.pid
    kafka.kill(signal.SIGKILL)
    assert eventually(lambda: kafka.pid != old, 20)  # one whole look of the supervisor has passed
    assert not valkey.is_running()
    valkey.restart()
    assert valkey.is_running()


def test_a_frozen_server_does_not_answer_until_it_is_thawed(unsupervised: EmbeddedServers) -> None:
    """The whole of PostgreSQL is frozen, the backends of open sessions too."""
    postgres, url = unsupervised.postgres, unsupervised.endpoints.database_url
    assert isinstance(postgres, Server)
    with closing(psycopg.connect(url, autocommit=True)) as session:
        session.execute("select 1")
        postgres.freeze()
        session.pgconn.send_query(b"select 2")
        session.pgconn.flush()
        with socket.socket(fileno=os.dup(session.pgconn.socket)) as line:
            line.settimeout(0.3)
            with pytest.raises(TimeoutError):
                line.recv(1, socket.MSG_PEEK)
            postgres.thaw()
            line.settimeout(10)
            assert line.recv(1, socket.MSG_PEEK)


def test_a_taken_port_is_replaced_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody takes the port between choice and start: the server moves on, and is not mistaken for the other."""
    with EmbeddedServers(tmp_path / "squatter", fsync=False, ephemeral=True) as squatter:
        handles = (squatter.postgres, squatter.kafka, squatter.valkey)
        taken = [handle.port for handle in handles if isinstance(handle, Server)]
        offered: list[int] = []

        def choose() -> int:
            offered.append(taken[len(offered)] if len(offered) < len(taken) else free_port())
            return offered[-1]

        monkeypatch.setattr(server_module, "free_port", choose)
        with EmbeddedServers(tmp_path / "other", fsync=False, ephemeral=True) as other:
            assert query(other.endpoints.database_url, "select 1") == 1
            assert len(offered) >= 2 * len(taken)
            assert not set(taken) & {
                h.port for h in (other.postgres, other.kafka, other.valkey) if isinstance(h, Server)
            }


def test_a_real_server_takes_the_place_of_one(
    servers: EmbeddedServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable's server is used as it is, the two others are started, and stopping leaves the real one alone."""
    monkeypatch.setenv("STANCHION_DATABASE_URL", servers.endpoints.database_url)
    with EmbeddedServers(tmp_path / "root", fsync=False, ephemeral=True) as mixed:
        assert mixed.endpoints.database_url == servers.endpoints.database_url
        assert {record.name for record in processes_of(mixed)} == {"tansu", "valkey"}
        with pytest.raises(EmbeddedError, match="STANCHION_DATABASE_URL"):
            mixed.postgres.restart()
    assert query(servers.endpoints.database_url, "select 1") == 1


def test_two_roots_side_by_side_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Each has its own ports and data; stopping one leaves the other running."""
    with EmbeddedServers(tmp_path / "b", fsync=False, ephemeral=True) as second:
        with EmbeddedServers(tmp_path / "a", fsync=False, ephemeral=True) as first:
            assert not set(first.endpoints.as_dict().values()) & set(second.endpoints.as_dict().values())
            query(first.endpoints.database_url, "create table only_here (id int)")
            assert query(second.endpoints.database_url, "select to_regclass('only_here')") is None
        assert not (tmp_path / "a").exists()
        assert all(is_alive(record) for record in processes_of(second))
        assert query(second.endpoints.database_url, "select 1") == 1


def test_a_second_supervisor_of_one_root_is_refused(servers: EmbeddedServers) -> None:
    """The error names the process that holds the root, and what to do; the first goes on."""
    with pytest.raises(EmbeddedError, match=str(os.getpid())) as caught:
        EmbeddedServers(servers.root).start()
    assert caught.value.code == "E-SERVER-02"
    assert caught.value.fix
    with pytest.raises(EmbeddedError):
        EmbeddedServers.clean(servers.root)
    assert all(is_alive(record) for record in processes_of(servers))


def test_a_forked_copy_does_not_keep_the_root_locked(tmp_path: Path) -> None:
    """A worker forked from the supervisor may outlive it: the next start must not be refused because of that."""
    lock = RootLock(tmp_path)
    lock.acquire()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    try:
        other = RootLock(tmp_path)
        assert not other.try_acquire()  # the copy's closing has not unlocked it
        lock.release()
        assert eventually(other.try_acquire, 10)
        other.release()
    finally:
        os.close(writing)
        os.close(reading)
        os.waitpid(child, 0)


def test_data_outlives_a_stop_and_not_a_clean(tmp_path: Path) -> None:
    """A second start of the same root has the rows of the first; after clean nothing of the root is left."""
    root = tmp_path / "root"
    with EmbeddedServers(root) as servers:
        query(servers.endpoints.database_url, "create table kept as select 7 as seven")
        records = processes_of(servers)
        assert query(servers.endpoints.database_url, "show fsync") == "on"
    assert not any(is_alive(record) for record in records)
    assert StateFile(root).read() is None
    with servers:  # the same object may start again
        assert query(servers.endpoints.database_url, "select seven from kept") == 7
    EmbeddedServers.clean(root)
    assert not root.exists()
    assert not outside_folder(root).exists()


def test_a_start_that_fails_leaves_nothing_running(tmp_path: Path) -> None:
    """A damaged data directory: a clear error with the end of PostgreSQL's log, and no broker left behind."""
    root = tmp_path / "root"
    with EmbeddedServers(root, fsync=False) as servers:
        assert isinstance(servers.postgres, Postgres)
        version = servers.postgres.data / "PG_VERSION"
    version.write_text("9.1\n")
    broken = EmbeddedServers(root, fsync=False)
    with pytest.raises(EmbeddedError, match="postgres does not become ready") as caught:
        broken.start()
    assert caught.value.why is not None
    assert "version" in caught.value.why
    assert not any(handle.is_running() for handle in (broken.postgres, broken.kafka) if isinstance(handle, Server))
    EmbeddedServers.clean(root)


def test_ports_lie_below_those_of_outgoing_connections() -> None:
    """A client's connection can never take a server's port while that is down."""
    for _ in range(20):
        port = free_port()
        assert port < ephemeral_floor() or ephemeral_floor() <= 16_000
        assert is_free(port)


def test_a_listening_port_is_not_free() -> None:
    """Also for programs that listen on every address."""
    with socket.socket() as listener:
        listener.bind(("0.0.0.0", free_port()))
        listener.listen(1)
        assert not is_free(listener.getsockname()[1])


def test_a_probe_of_something_else_is_none(servers: EmbeddedServers) -> None:
    """PostgreSQL and Valkey are no brokers, a closed port is none."""
    for handle in (servers.postgres, servers.valkey):
        assert isinstance(handle, Server)
        assert probe("127.0.0.1", handle.port) is None
    assert probe("127.0.0.1", free_port()) is None
