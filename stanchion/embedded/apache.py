"""Apache Kafka in KRaft mode as Java processes: one node, or three with replication factor 3."""

from __future__ import annotations

import base64
import signal
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

from stanchion.embedded.apache_install import find_java, install
from stanchion.embedded.apache_settings import LOG4J, Plan, server_properties
from stanchion.embedded.errors import NOT_READY, EmbeddedError
from stanchion.embedded.kafka_probe import probe
from stanchion.embedded.ports import LOOPBACK, free_port, is_free
from stanchion.embedded.processes import Stage, eventually
from stanchion.embedded.server import Server, Workspace, tail
from stanchion.embedded.together import run_together

_FORMAT_SECONDS = 60.0
_CLUSTER_TRIES = 3


class ApacheNode(Server):
    """One broker that is also a controller; keeps its topics, records and offsets over restarts."""

    ending = (Stage(signal.SIGTERM, 8.0),)
    start_seconds = 90.0

    def __init__(self, workspace: Workspace, plan: Plan, node: int) -> None:
        super().__init__(workspace)
        self.name = f"kafka-{node}"
        self.node = node
        self._plan = plan

    @property
    def url(self) -> str:
        """`127.0.0.1:PORT` of this node."""
        return f"{LOOPBACK}:{self.port}"

    def assign(self, port: int) -> None:
        """Take a port: the nodes must know each other's before they start."""
        self._port = port

    def folder(self) -> Path:
        """Its own folder in the cluster's."""
        folder = self._plan.folder(self.node)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def command(self) -> Sequence[str]:
        """The broker's main class; the jars bring no scripts."""
        return [
            *_java(self._plan),
            "-Xms256m",
            "-Xmx512m",
            "-XX:+UseSerialGC",
            f"-Dlog4j2.configurationFile={self._plan.home / 'log4j2.xml'}",
            "kafka.Kafka",
            str(self._properties()),
        ]

    def prepare(self) -> None:
        """Write the settings of this run; format the storage on the first."""
        self._properties().write_text(server_properties(self._plan, self.node), "utf-8")
        if (self._plan.data(self.node) / "meta.properties").exists():
            return
        command = [*_java(self._plan), "kafka.tools.StorageTool", "format"]
        command += ["-t", self._plan.cluster_id, "-c", str(self._properties())]
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
                timeout=_FORMAT_SECONDS,
            )
        if done.returncode != 0:
            raise EmbeddedError(
                NOT_READY,
                f"the storage of {self.name} can't be formatted",
                where=str(self.folder()),
                why=tail(self.log_path),
                fix="see the log; EmbeddedServers.clean gives a fresh start",
            )

    def answers(self) -> bool:
        """This node answers for our cluster and stands in its own metadata, that is, has registered."""
        cluster = probe(LOOPBACK, self.port)
        return cluster is not None and cluster.cluster_id == self._plan.cluster_id and self.node in cluster.brokers

    def sees(self) -> int:
        """Return how many live brokers this node knows; 0 when it does not answer."""
        cluster = probe(LOOPBACK, self.port)
        return len(cluster.brokers) if cluster else 0

    def _properties(self) -> Path:
        return self.folder() / "server.properties"


class ApacheKafka:
    """The cluster as one handle; `nodes` are handles of their own, so that a test can kill just one."""

    def __init__(self, workspace: Workspace, *, size: int, cache: Path | None = None) -> None:
        home = workspace.root / "apache-kafka"
        self._workspace = workspace
        self._plan = Plan(home=home / f"cluster-{size}", cache=cache or home, size=size)
        self.nodes = tuple(ApacheNode(workspace, self._plan, node) for node in range(1, size + 1))

    @property
    def supervise(self) -> bool:
        """Whether nodes that die are started again; setting it sets all."""
        return all(node.supervise for node in self.nodes)

    @supervise.setter
    def supervise(self, value: bool) -> None:
        for node in self.nodes:
            node.supervise = value

    @property
    def url(self) -> str:
        """`host:port` of every node, with commas between."""
        return ",".join(node.url for node in self.nodes)

    @property
    def pid(self) -> int:
        """The process id of the first node."""
        return self.nodes[0].pid

    def start(self) -> None:
        """Fetch the jars, format the storage, start all nodes and wait until all have registered.

        Raises EmbeddedError: `E-SERVER-08` without Java, Maven or the artifacts, `E-SERVER-04` if it does not come up.
        """
        find_java()
        self._plan.libs = install(self._plan.cache, self._workspace.closing)
        self._plan.home.mkdir(parents=True, exist_ok=True)
        self._plan.cluster_id = _cluster_id(self._plan.home)
        (self._plan.home / "log4j2.xml").write_text(LOG4J, encoding="utf-8")
        for remaining in reversed(range(_CLUSTER_TRIES)):
            self._assign_ports()
            try:
                run_together([node.start for node in self.nodes])
                break
            except EmbeddedError:
                for node in self.nodes:
                    node.stop()
                if not remaining or self._workspace.closing.is_set() or all(map(is_free, self._ports())):
                    raise  # it was not a port that somebody else has taken
        self.wait_ready(ApacheNode.start_seconds)

    def kill(self, signal_number: int = signal.SIGKILL) -> None:
        """Send a signal to every node."""
        for node in self.nodes:
            node.kill(signal_number)

    def restart(self) -> None:
        """Stop and start every node on its port, and wait until all have registered."""
        run_together([node.restart for node in self.nodes])
        self.wait_ready(ApacheNode.start_seconds)

    def wait_ready(self, seconds: float = 30.0) -> None:
        """Return when every node knows all of them: topics with three replicas can be created only then."""
        if not eventually(self._complete, seconds):
            raise EmbeddedError(
                NOT_READY,
                "the brokers do not find each other",
                where=self.url,
                why=f"after {seconds:g} s they see {[node.sees() for node in self.nodes]} of {self._plan.size}",
                fix=f"see the logs in {self._workspace.root / 'logs'}",
            )

    def _complete(self) -> bool:
        return self._workspace.closing.is_set() or all(node.sees() == self._plan.size for node in self.nodes)

    def _assign_ports(self) -> None:
        taken: set[int] = set()
        for node in self.nodes:
            for book in (self._plan.ports, self._plan.controller_ports):
                book[node.node] = free_port(frozenset(taken))
                taken.add(book[node.node])
            node.assign(self._plan.ports[node.node])

    def _ports(self) -> list[int]:
        return [*self._plan.ports.values(), *self._plan.controller_ports.values()]


def _java(plan: Plan) -> list[str]:
    # -UsePerfData: no file per process in /tmp.
    return [str(find_java()), "-XX:-UsePerfData", "-Djava.net.preferIPv4Stack=true", "-cp", f"{plan.libs}/*"]


def _cluster_id(home: Path) -> str:
    """Return the id of the cluster in `home`, made on the first start: 16 random bytes in Kafka's form."""
    path = home / "cluster-id"
    if not path.exists():
        made = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")
        path.write_text(made if not made.startswith("-") else f"A{made[1:]}", encoding="ascii")
    return path.read_text(encoding="ascii")
