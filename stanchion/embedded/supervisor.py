"""PostgreSQL, a broker and Valkey as child processes: started together, restarted when they die, never orphaned."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
import time
import uuid
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from stanchion.embedded import leftovers
from stanchion.embedded.apache import ApacheKafka
from stanchion.embedded.endpoints import DATABASE_VARIABLE, KAFKA_VARIABLE, REDIS_VARIABLE, Endpoints, Overrides
from stanchion.embedded.handle import External, Handle
from stanchion.embedded.postgres import Postgres
from stanchion.embedded.processes import end_all
from stanchion.embedded.server import Server, Workspace
from stanchion.embedded.state import RootLock, StateFile
from stanchion.embedded.tansu import Tansu
from stanchion.embedded.together import run_together
from stanchion.embedded.valkey import Valkey
from stanchion.embedded.watching import Watcher

_log = logging.getLogger("stanchion.embedded")

DEFAULT_ROOT = Path(".stanchion")
KafkaKind = Literal["tansu", "apache", "apache-3"]

_LOOK_SECONDS = 0.2
_BACKOFF_SECONDS = (0.2, 0.5, 1.0, 5.0)


class EmbeddedServers:
    """The servers of one root (`.stanchion/` by default), as a context manager or with `start` and `stop`.

    A server that `STANCHION_DATABASE_URL`, `STANCHION_KAFKA_BOOTSTRAP` or `STANCHION_REDIS_URL` names is not started.
    `fsync=False` is for tests: a power cut may then damage the database (a killed process still does not).
    An `ephemeral` root is removed at the end. `cache` keeps Apache Kafka's artifacts for several roots.
    """

    def __init__(
        self,
        root: Path = DEFAULT_ROOT,
        *,
        kafka: KafkaKind = "tansu",
        fsync: bool = True,
        ephemeral: bool = False,
        cache: Path | None = None,
    ) -> None:
        self.root = root.absolute()
        self._kind = kafka
        self._ephemeral = ephemeral
        self._cache = cache
        self._overrides = Overrides.from_environment()
        self._workspace = Workspace(self.root, uuid.uuid4().hex[:12], StateFile(self.root), fsync=fsync)
        self._lock = RootLock(self.root)
        self._owner = 0
        self._watcher = Watcher(self.root, self._workspace.run_id)
        self._thread: threading.Thread | None = None
        self.postgres, self.kafka, self.valkey = self._handles()

    def _handles(self) -> tuple[Handle, Handle, Handle]:
        real = self._overrides
        postgres: Handle = (
            External(real.database_url, DATABASE_VARIABLE) if real.database_url else Postgres(self._workspace)
        )
        kafka: Handle = External(real.kafka_bootstrap, KAFKA_VARIABLE) if real.kafka_bootstrap else self._broker()
        valkey: Handle = External(real.redis_url, REDIS_VARIABLE) if real.redis_url else Valkey(self._workspace)
        return postgres, kafka, valkey

    def _broker(self) -> Handle:
        if self._kind == "tansu":
            return Tansu(self._workspace)
        return ApacheKafka(self._workspace, size=3 if self._kind == "apache-3" else 1, cache=self._cache)

    @property
    def endpoints(self) -> Endpoints:
        """Where the servers answer; the same from `start` to `stop`."""
        return Endpoints(self.postgres.url, self.kafka.url, self.valkey.url)

    def start(self) -> Endpoints:
        """Start all servers side by side and return when each has answered a real request.

        Ends the servers that an earlier, killed supervisor of this root has left. Raises EmbeddedError with the code
        of what went wrong (`E-SERVER-02` when another supervisor uses this root); nothing is left running then.
        """
        parts = self._parts()
        if not parts:
            return self.endpoints  # all three are real servers
        self.root.mkdir(parents=True, exist_ok=True)
        self._lock.acquire()
        self._owner = os.getpid()
        self._workspace.closing.clear()
        try:
            if self._ephemeral:
                leftovers.refuse_foreign_content(self.root)
            leftovers.end_leftovers(self.root)
            self._workspace.state.begin(self._workspace.run_id, ephemeral=self._ephemeral)
            self._watcher.start()
            atexit.register(self.stop)
            for server in self._servers():
                server.forget_port()
            run_together([part.start for part in parts], abort=self._workspace.closing)
            self._watcher.wait_ready()
        except BaseException:
            self.stop()
            raise
        endpoints = self.endpoints
        self._workspace.state.publish(endpoints.as_dict())
        self._thread = threading.Thread(target=self._supervise, name="stanchion-embedded", daemon=True)
        self._thread.start()
        return endpoints

    def stop(self) -> None:
        """End all servers, each by its own escalation (20 s at most together); harmless when nothing runs."""
        if self._owner != os.getpid():
            return  # never started, stopped already, or a forked copy of the supervisor
        self._workspace.closing.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        servers = self._servers()
        with contextlib.ExitStack() as held:
            for server in servers:
                held.enter_context(server.hold())  # a test's thread may be restarting one
            end_all([server.record for server in servers if server.record is not None])
            for server in servers:
                server.reap()
        self._workspace.state.clear()
        self._watcher.stop()
        if self._ephemeral:
            leftovers.remove_all(self.root)
        self._lock.release()
        self._owner = 0
        atexit.unregister(self.stop)

    @staticmethod
    def clean(root: Path = DEFAULT_ROOT) -> None:
        """End leftovers and remove all that was made for a root, also outside of it.

        Raises EmbeddedError (`E-SERVER-02`) while a supervisor uses it. What else lies in the root stays.
        """
        leftovers.clean(root.absolute())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _parts(self) -> list[Server | ApacheKafka]:
        """What is ours to start."""
        handles = (self.postgres, self.kafka, self.valkey)
        return [handle for handle in handles if isinstance(handle, Server | ApacheKafka)]

    def _servers(self) -> list[Server]:
        """The single processes."""
        return [
            server for part in self._parts() for server in (part.nodes if isinstance(part, ApacheKafka) else (part,))
        ]

    def _supervise(self) -> None:
        closing = self._workspace.closing
        deaths: dict[str, int] = {}
        not_before: dict[str, float] = {}
        while not closing.wait(_LOOK_SECONDS):
            self._watcher.keep()
            for server in self._servers():
                now = time.monotonic()
                if server.is_running() or not server.supervise or now < not_before.get(server.name, 0.0):
                    continue
                # A server that dies at once every time must not keep a core busy; one that lived is back at once.
                died = deaths[server.name] = deaths.get(server.name, 0) + 1
                not_before[server.name] = now + _BACKOFF_SECONDS[min(died, len(_BACKOFF_SECONDS)) - 1]
                self._revive(server)

    def _revive(self, server: Server) -> None:
        try:
            if server.revive():
                _log.warning("%s had died and runs again on port %d", server.name, server.port)
        except Exception:  # noqa: BLE001  # the top of the supervisor's loop
            # Whatever it is, the other servers still need their supervisor; the next look tries again.
            _log.exception("%s has died and could not be started again", server.name)
