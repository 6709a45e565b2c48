"""The settings of Apache Kafka, one node or three: as `server.properties` and as a container's environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stanchion.embedded.ports import LOOPBACK

LOG4J = """<Configuration status="WARN">
  <Appenders><Console name="out"><PatternLayout pattern="%d %p %c{1} %m%n"/></Console></Appenders>
  <Loggers><Root level="WARN"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""


@dataclass(slots=True)
class Plan:
    """What the nodes of one cluster agree on before any of them starts."""

    home: Path
    cache: Path
    size: int
    cluster_id: str = ""
    libs: Path = Path()
    ports: dict[int, int] = field(default_factory=dict)
    controller_ports: dict[int, int] = field(default_factory=dict)

    def folder(self, node: int) -> Path:
        """Return the folder of one node."""
        return self.home / f"kafka-{node}"

    def data(self, node: int) -> Path:
        """Return the folder of one node's log segments."""
        return self.folder(node) / "data"


def policy(size: int) -> dict[str, str]:
    """Return how a cluster of `size` nodes treats topics, groups and dead brokers, whatever its addresses."""
    replicas, in_sync = ("3", "2") if size >= 3 else ("1", "1")
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        # 50 partitions each otherwise: a slow first use.
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "num.partitions": "4",
        # A topic that nobody created is a mistake that must be seen.
        "auto.create.topics.enable": "false",
        # Development sessions are 2 s; the broker refuses less than 6 s otherwise, and lets a first join wait 3 s.
        "group.min.session.timeout.ms": "500",
        "group.initial.rebalance.delay.ms": "0",
        # A killed broker's leaders move within some 3 s instead of 9.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
    }


def server_properties(plan: Plan, node: int) -> str:
    """Return the `server.properties` of one node, a broker and a controller at once."""
    port, controller = plan.ports[node], plan.controller_ports[node]
    settings: dict[str, object] = {
        "process.roles": "broker,controller",
        "node.id": node,
        "controller.quorum.voters": ",".join(
            f"{other}@{LOOPBACK}:{where}" for other, where in sorted(plan.controller_ports.items())
        ),
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": plan.data(node),
        **policy(plan.size),
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def container_environment(host: str, port: int) -> Mapping[str, str]:
    """Return the environment of the `apache/kafka` image for one node that clients reach at `host:port`."""
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": "1@localhost:9093",
        "listeners": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://localhost:9093",
        "advertised.listeners": f"PLAINTEXT://{host}:{port}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        **policy(1),
    }
    return {f"KAFKA_{name.upper().replace('.', '_')}": value for name, value in settings.items()}
