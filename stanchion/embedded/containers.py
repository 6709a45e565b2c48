"""The same three servers from containers, where a Docker engine answers; needs `testcontainers`.

Not run where this was written (no engine there): images and settings are those of the documentation.
"""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import Any, Self

from stanchion.embedded.apache_install import KAFKA_VERSION
from stanchion.embedded.apache_settings import container_environment
from stanchion.embedded.endpoints import Endpoints
from stanchion.embedded.errors import NOT_READY, EmbeddedError
from stanchion.embedded.kafka_probe import probe
from stanchion.embedded.ports import free_port
from stanchion.embedded.postgres import DATABASE, USER, server_settings
from stanchion.embedded.processes import eventually

POSTGRES_IMAGE = "postgres:18"
KAFKA_IMAGE = f"apache/kafka:{KAFKA_VERSION}"
VALKEY_IMAGE = "valkey/valkey:9"

_PASSWORD = "stanchion"  # noqa: S105  # the container lives for one test run and listens on this machine only
_READY_SECONDS = 60.0


class ContainerServers:
    """PostgreSQL, Apache Kafka and Valkey as containers, as a context manager or with `start` and `stop`."""

    def __init__(self) -> None:
        self._running = contextlib.ExitStack()
        self._endpoints: Endpoints | None = None

    @property
    def endpoints(self) -> Endpoints:
        """Where the servers answer, from `start` to `stop`."""
        assert self._endpoints is not None, "the containers were not started"
        return self._endpoints

    def start(self) -> Endpoints:
        """Start the three and return where they answer. Raises EmbeddedError (`E-SERVER-04`) when Kafka does not."""
        try:
            self._endpoints = Endpoints(self._start_postgres(), self._start_kafka(), self._start_valkey())
        except BaseException:
            self.stop()
            raise
        return self._endpoints

    def stop(self) -> None:
        """Stop and remove the containers."""
        self._running.close()
        self._endpoints = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start_postgres(self) -> str:
        from testcontainers.community.postgres import PostgresContainer

        container: Any = PostgresContainer(
            POSTGRES_IMAGE, username=USER, password=_PASSWORD, dbname=DATABASE, driver=None
        )
        settings = server_settings(fsync=False) | {"listen_addresses": "*"}
        container.with_command(["postgres", *(word for pair in settings.items() for word in ("-c", "=".join(pair)))])
        self._running.enter_context(container)
        return str(container.get_connection_url())

    def _start_kafka(self) -> str:
        from testcontainers.core.container import DockerContainer

        port = free_port()  # it must be known before the start: the broker tells clients where to find it
        container: Any = DockerContainer(KAFKA_IMAGE).with_bind_ports(9092, port)
        host = str(container.get_container_host_ip())
        container.with_envs(**container_environment(host, port))
        self._running.enter_context(container)
        if not eventually(lambda: probe(host, port) is not None, _READY_SECONDS):
            raise EmbeddedError(
                NOT_READY,
                "Kafka in its container does not become ready",
                where=f"{host}:{port}, image {KAFKA_IMAGE}",
                why=f"no answer within {_READY_SECONDS:g} s",
                fix="look at the container's log, or use --servers=embedded",
            )
        return f"{host}:{port}"

    def _start_valkey(self) -> str:
        from testcontainers.community.valkey import ValkeyContainer

        container: Any = ValkeyContainer(VALKEY_IMAGE)
        self._running.enter_context(container)
        return f"redis://{container.get_host()}:{container.get_exposed_port()}/0"
