"""Apache Kafka as Java processes: one node, three nodes, killed brokers, and what is said when Java is missing."""

from __future__ import annotations

import gc
import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stanchion.embedded import EmbeddedError, EmbeddedServers
from stanchion.embedded.apache import ApacheKafka
from stanchion.embedded.apache_install import find_java, install
from stanchion.embedded.processes import birth_of, eventually

if TYPE_CHECKING:
    from kafka import KafkaAdminClient, KafkaProducer

# kafka-python reads its schemas with a deprecated call while it is imported, which happens inside the tests, and leaves
# the sockets of refused connections to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture(autouse=True)
def _collected(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Collect those sockets while their warning is ignored; a logged traceback would keep them until after the test."""
    with caplog.at_level(logging.CRITICAL + 1, "kafka"):
        yield
        gc.collect()


@pytest.fixture
def _wanted(request: pytest.FixtureRequest) -> None:
    """Java, 45 MB of jars and half a minute: only when the run is about Apache Kafka."""
    if not str(request.config.getoption("--kafka", default="tansu")).startswith("apache"):
        pytest.skip("runs with --kafka apache")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The jars, fetched once for this module."""
    return tmp_path_factory.mktemp("jars")


@contextmanager
def cluster(root: Path, size: int, cache: Path) -> Iterator[ApacheKafka]:
    """A cluster without the two other servers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("STANCHION_KAFKA_BOOTSTRAP", raising=False)
        patch.setenv("STANCHION_DATABASE_URL", "postgresql://nowhere/none")
        patch.setenv("STANCHION_REDIS_URL", "redis://nowhere/0")
        servers = EmbeddedServers(root, kafka="apache" if size == 1 else "apache-3", cache=cache, ephemeral=True)
    with servers:
        assert isinstance(servers.kafka, ApacheKafka)
        yield servers.kafka


def admin_of(kafka: ApacheKafka) -> KafkaAdminClient:
    """A client for topics."""
    from kafka import KafkaAdminClient

    return KafkaAdminClient(bootstrap_servers=kafka.url)


def leader_of(admin: KafkaAdminClient, topic: str) -> int:
    """The node that leads the only partition; each look may ask another broker, which may not know the topic yet."""
    found: list[int] = []

    def known() -> bool:
        found.extend(part["leader_id"] for entry in admin.describe_topics([topic]) for part in entry["partitions"])
        return bool(found) and found[-1] > 0

    assert eventually(known, 20)
    return found[-1]


def producer_of(kafka: ApacheKafka) -> KafkaProducer:
    """A client that waits for all replicas in sync."""
    from kafka import KafkaProducer

    return KafkaProducer(bootstrap_servers=kafka.url, acks="all", delivery_timeout_ms=60_000)


def values(kafka: ApacheKafka, topic: str, count: int) -> list[bytes]:
    """Read a topic from its beginning until `count` records are there or 20 s are over."""
    from kafka import KafkaConsumer

    found: list[bytes] = []

    def enough() -> bool:
        batches: dict[Any, list[Any]] = consumer.poll(200)
        found.extend(record.value for batch in batches.values() for record in batch)
        return len(found) >= count

    consumer = KafkaConsumer(topic, bootstrap_servers=kafka.url, auto_offset_reset="earliest")
    with closing(consumer):
        eventually(enough, 20)
    return found


@pytest.mark.kafka
@pytest.mark.usefixtures("_wanted")
def test_one_node_keeps_its_records_over_a_crash(tmp_path: Path, cache: Path) -> None:
    """SIGKILL and a restart by hand, then SIGKILL and a restart by the supervisor: same port, all records there."""
    with cluster(tmp_path / "root", 1, cache) as kafka:
        url = kafka.url
        with admin_of(kafka) as admin:
            admin.create_topics({"kept": {"num_partitions": 1, "replication_factor": 1}})
        with producer_of(kafka) as producer:
            producer.send("kept", b"before").get(timeout=30)
        kafka.supervise = False
        kafka.kill(signal.SIGKILL)
        kafka.restart()
        assert kafka.url == url
        assert values(kafka, "kept", 1) == [b"before"]
        kafka.supervise = True
        old = kafka.pid
        kafka.kill(signal.SIGKILL)
        assert eventually(lambda: kafka.pid != old, 60)
        kafka.wait_ready(60)
        assert values(kafka, "kept", 1) == [b"before"]


@pytest.mark.kafka
@pytest.mark.usefixtures("_wanted")
def test_short_sessions_are_accepted(tmp_path: Path, cache: Path) -> None:
    """Development uses sessions of 2 s; the broker's own lower bound of 6 s would refuse the group."""
    from kafka import KafkaConsumer

    with cluster(tmp_path / "root", 1, cache) as kafka:
        with admin_of(kafka) as admin:
            admin.create_topics({"short": {"num_partitions": 1, "replication_factor": 1}})
        consumer = KafkaConsumer(
            "short",
            bootstrap_servers=kafka.url,
            group_id="short",
            session_timeout_ms=2_000,
            heartbeat_interval_ms=500,
        )
        with closing(consumer):
            assert eventually(lambda: consumer.poll(100) == {} and bool(consumer.assignment()), 20)


@pytest.mark.kafka
@pytest.mark.usefixtures("_wanted")
def test_three_nodes_lose_nothing_when_a_leader_is_killed(tmp_path: Path, cache: Path) -> None:
    """Every acknowledged record is there once after the leader was killed in the middle; the node comes back."""
    with cluster(tmp_path / "root", 3, cache) as kafka:
        assert len(kafka.url.split(",")) == 3
        with admin_of(kafka) as admin:
            admin.create_topics({"sure": {"num_partitions": 1, "replication_factor": 3}})
            leader = leader_of(admin, "sure")
        node = kafka.nodes[leader - 1]
        node.supervise = False
        with producer_of(kafka) as producer:
            for number in range(200):
                if number == 100:
                    node.kill(signal.SIGKILL)
                producer.send("sure", str(number).encode()).get(timeout=60)
        assert sorted(map(int, values(kafka, "sure", 200))) == list(range(200))
        node.restart()
        kafka.wait_ready(60)


def test_missing_java_says_which_package_brings_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the Debian package; nothing else of the start is attempted."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(EmbeddedError, match="apt-get install -y default-jre-headless") as caught:
        find_java()
    assert caught.value.code == "E-SERVER-08"


def test_missing_maven_says_which_package_brings_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Maven is needed once, for the first start; with the jars in the cache it is not asked for."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EmbeddedError, match="apt-get install -y maven") as caught:
        install(tmp_path / "cache")
    assert caught.value.code == "E-SERVER-08"


def test_an_artifact_that_cannot_be_resolved_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Maven's own words are in the error, and no half-filled folder stays behind."""
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho '[ERROR] could not find artifact'\nexit 1\n")
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(EmbeddedError, match="could not find artifact"):
        install(tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_an_interrupted_download_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while Maven fetches the jars: Maven and what it started are gone, and no draft stays behind."""
    started = tmp_path / "started"
    maven = tmp_path / "mvn"
    maven.write_text(f"#!/bin/sh\nsleep 600 &\necho $! > {started}\nwait\n")
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    abort = threading.Event()
    waiter = threading.Thread(target=lambda: eventually(started.exists, 10) and abort.set())
    waiter.start()
    with pytest.raises(EmbeddedError, match="interrupted"):
        install(tmp_path / "cache", abort)
    waiter.join()
    assert list((tmp_path / "cache").iterdir()) == []
    assert eventually(lambda: birth_of(int(started.read_text())) is None, 10)
