"""A whole stack on this machine: servers, schema, topics, a key, and the services as real processes.

    with Stack(Path(".stanchion/dev"), workers=3, targets=["examples.studio:report"]) as stack:
        stack.api_url, stack.api_key, stack.endpoints
        stack.service("worker-2").kill()          # it is started again
        stack.scale_workers(8)

`stanchion dev`, the demo, benchmarks and tests all use it. Nothing outlives it: not an error in the middle of a start,
not Ctrl-C, not a SIGKILL of the supervisor (a watcher process ends what is left).
"""

from __future__ import annotations

import atexit
import os
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from stanchion.cli import stack_setup
from stanchion.cli.launches import LOGINS, Surroundings, WorkerOptions
from stanchion.cli.service_process import ServiceProcess, end_stragglers
from stanchion.cli.stack_keeper import StackKeeper
from stanchion.cli.stack_notes import StackNotes
from stanchion.embedded import EmbeddedServers, Endpoints
from stanchion.embedded.leftovers import end_leftovers
from stanchion.embedded.ports import free_port, is_free
from stanchion.embedded.processes import end_all
from stanchion.embedded.server import Server, Workspace
from stanchion.embedded.state import RootLock, StateFile
from stanchion.embedded.together import run_together
from stanchion.embedded.watching import Watcher
from stanchion.errors import NotFound
from stanchion.runtime.homes import service_module

DEFAULT_ROOT: Final = Path(".stanchion/dev")
TENANT: Final = "dev"

# Nothing new comes in, then workers hand back what they hold while the others still carry it, then the loops end.
_STOP_ORDER: Final = (("task-service", "worker", "maintenance"), ("orchestrator",), ("outbox-relay",))

Say = Callable[[str], None]


class Stack:
    """The servers and services of one root; see the module.

    `replicas` says how many of a kind there are (default one each; `{"maintenance": 0}` leaves it out), `workers` how
    many workers. `env` holds for all services, `service_env` for one kind or one name ("worker", "worker-2").
    `endpoints` are servers that somebody else runs: then none are embedded. `port` is the API's (default: that of the
    last time, or a free one). An `ephemeral` root is removed at the end. `say` gets one line for each event.
    """

    def __init__(
        self,
        root: Path = DEFAULT_ROOT,
        *,
        workers: int = 1,
        targets: Sequence[str] = (),
        slots: int | None = None,
        lease_seconds: float | None = None,
        queues: Sequence[str] = (),
        replicas: Mapping[str, int] | None = None,
        env: Mapping[str, str] | None = None,
        service_env: Mapping[str, Mapping[str, str]] | None = None,
        kafka: Literal["tansu", "apache", "apache-3"] = "tansu",
        fsync: bool = True,
        cache: Path | None = None,
        endpoints: Endpoints | None = None,
        ephemeral: bool = False,
        drain_seconds: float = 10.0,
        port: int | None = None,
        cwd: Path | None = None,
        beside: Mapping[str, Callable[[Workspace], Server]] | None = None,
        say: Say | None = None,
    ) -> None:
        self.root = root.absolute()
        self.replicas = {**dict.fromkeys(LOGINS, 1), **(replicas or {}), "worker": workers}
        if unknown := set(self.replicas) - set(LOGINS):
            raise NotFound("E-CONF-04", f"there is no service {sorted(unknown)[0]!a}", fix=f"use {', '.join(LOGINS)}")
        self.servers = None if endpoints else EmbeddedServers(self.root, kafka=kafka, fsync=fsync, cache=cache)
        self.say: Say = say or (lambda _line: None)
        self.service_env = {name: dict(values) for name, values in (service_env or {}).items()}
        self.api_key = ""
        self.tenant = TENANT
        self._endpoints = endpoints
        self._options = WorkerOptions(tuple(targets), slots, lease_seconds, tuple(queues))
        self._env = dict(env or {})
        self._drain_seconds = drain_seconds
        self._port = port
        self._cwd = (cwd or Path.cwd()).absolute()
        self._ephemeral = ephemeral
        self._services: list[ServiceProcess] = []
        self._changing = threading.RLock()
        self._owner = 0
        self._run = self.root / "run"
        self._workspace = Workspace(self._run, uuid.uuid4().hex[:12], StateFile(self._run))
        self.beside = {variable: make(self._workspace) for variable, make in (beside or {}).items()}
        self._lock = RootLock(self._run)
        self._watcher = Watcher(self._run, self._workspace.run_id)
        self._notes = StackNotes(self.root)
        self._keeper = StackKeeper(self, self._workspace.closing, self._watcher)

    # -- what it is --

    @property
    def endpoints(self) -> Endpoints:
        """Where PostgreSQL (as administrator), the broker and Valkey answer."""
        if self._endpoints is not None:
            return self._endpoints
        assert self.servers is not None
        return self.servers.endpoints

    @property
    def services(self) -> list[ServiceProcess]:
        """All services that belong to the stack now."""
        with self._changing:
            return list(self._services)

    @property
    def workers(self) -> list[ServiceProcess]:
        """The workers among them."""
        return [service for service in self.services if service.kind == "worker"]

    @property
    def objects_url(self) -> str:
        """Where artifacts lie: beside the servers, unless a variable names another store."""
        return os.environ.get("STANCHION_OBJECTS_URL") or (self.root / "objects").as_uri()

    @property
    def api_url(self) -> str:
        """The address of the (first) task service."""
        return self.service("task-service").url

    @property
    def page_url(self) -> str:
        """Where a person looks: the pages are the orchestrator's."""
        return self.service("orchestrator").url

    @property
    def logs(self) -> Path:
        """The folder of all logs."""
        return self.root / "logs"

    def queues(self) -> tuple[str, ...]:
        """The queues that workers were told to serve; empty: all that their workflows name."""
        return self._options.queues

    def service(self, name: str) -> ServiceProcess:
        """A service by its name ("worker-2") or the first of its kind; raises NotFound."""
        found = self.services
        for service in (*(one for one in found if one.name == name), *(one for one in found if one.kind == name)):
            return service
        raise NotFound("E-FIND-01", f"the stack has no {name!a}", fix=", ".join(one.name for one in found) or None)

    # -- its life --

    def start(self) -> Self:
        """Start everything and return when every service is ready; nothing is left running when it raises."""
        stack_setup.quieten()
        self._run.mkdir(parents=True, exist_ok=True)
        self._lock.acquire()
        self._owner = os.getpid()
        self._workspace.closing.clear()
        try:
            end_leftovers(self._run)
            self._workspace.state.begin(self._workspace.run_id, ephemeral=False)
            self._watcher.start()
            if self.servers is not None:
                self.servers.start()
                self.say(f"servers are up: {stack_setup.described(self.endpoints)}")
            atexit.register(self.stop)  # after the servers' own: so it runs before it
            self.api_key = stack_setup.prepare(self.endpoints, TENANT, self._options.queues, self._notes, self.say)
            self._watcher.wait_ready()
            run_together([one.start for one in self.beside.values()], abort=self._workspace.closing)
            self._start_services()
        except BaseException:
            self.stop()
            raise
        self.publish()
        self._keeper.start()
        return self

    def stop(self) -> None:
        """Stop services in order, then the servers; harmless when nothing runs. Bounded by drain time plus 20 s."""
        if self._owner != os.getpid():
            return  # never started, stopped already, or a forked copy
        self._workspace.closing.set()
        self._keeper.stop()
        services = self.services
        for kinds in _STOP_ORDER:
            end_all([one.record for one in services if one.kind in kinds and one.record is not None])
        for service in services:
            service.reap()
        end_stragglers(set().union(*(service.groups for service in services)))
        for one in self.beside.values():
            one.stop()
        with self._notes.writing:
            self._notes.remove_endpoints()  # for good: it is closing
        self._workspace.state.clear()
        self._watcher.stop()
        if self.servers is not None:
            self.servers.stop()
        self._lock.release()
        self._owner = 0
        atexit.unregister(self.stop)
        if self._ephemeral:
            self._notes.remove_all()
            if self.servers is not None:
                EmbeddedServers.clean(self.root)

    def hurry(self) -> None:
        """A second signal to services that drain: they skip the wait."""
        for service in self.services:
            service.kill(15)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- changes at run time --

    def add(self, kind: str, *, env: Mapping[str, str] | None = None, wait: bool = True) -> ServiceProcess:
        """One more service of a kind; `env` is its own. Returns when it is ready, unless `wait` is False."""
        service = self._made(kind, env)
        try:
            service.start() if wait else service.launch()
        except BaseException:
            self.remove(service)
            raise
        self.publish()
        return service

    def remove(self, service: ServiceProcess) -> None:
        """Stop a service (it drains first) and forget it."""
        service.wanted = False
        service.stop()
        with self._changing:
            self._services = [one for one in self._services if one is not service]
        end_stragglers(service.groups)
        self.publish()

    def scale_workers(self, count: int) -> None:
        """Have `count` workers: start what is missing side by side, let the youngest drain and end."""
        now = self.workers
        surplus = now[count:]
        if surplus:
            run_together([lambda one=one: self.remove(one) for one in surplus])  # type: ignore[misc]  # a default binds the loop variable
        if count > len(now):
            run_together([lambda: _ignored(self.add("worker")) for _ in range(count - len(now))])

    def restart_workers(self) -> None:
        """Restart every worker gracefully, side by side; for changed code."""
        run_together([worker.restart for worker in self.workers])
        self.publish()

    @contextmanager
    def unsupervised(self) -> Iterator[None]:
        """Within the block nothing is started again when it dies."""
        services = self.services
        for service in services:
            service.supervise = False
        try:
            yield
        finally:
            for service in services:
                service.supervise = True

    def publish(self) -> None:
        """Write down where everything answers, for tools that look from outside."""
        if self._owner != os.getpid():
            return  # a forked copy, in which nobody would let go of the lock
        with self._notes.writing:
            if not self._workspace.closing.is_set():
                self._notes.publish(self)

    # -- inside --

    def _start_services(self) -> None:
        for kind in LOGINS:
            if find_spec(service_module(kind)) is None or find_spec(service_module(kind) + ".__main__") is None:
                self.say(f"{kind} is not there yet")
                continue
            if kind == "worker" and not self._has_targets():
                self.say("no targets were named, so there are no workers")
                continue
            for _ in range(self.replicas[kind]):
                self._made(kind)
        services = self.services
        run_together([service.start for service in services], abort=self._workspace.closing)
        self.say(f"services are ready: {', '.join(service.name for service in services)}")

    def _made(self, kind: str, env: Mapping[str, str] | None = None) -> ServiceProcess:
        with self._changing:
            name = self._free_name(kind)
            port = None
            if name == "task-service-1":
                port = self._port or self._notes.last_port()
                port = (
                    port if port is not None and is_free(port) else free_port()
                )  # the dashboard is told before it starts
            service = ServiceProcess(
                self._workspace,
                self._surroundings(),
                kind=kind,
                name=name,
                logs=self.logs,
                cwd=self._cwd,
                env={**self.service_env.get(kind, {}), **self.service_env.get(name, {}), **(env or {})},
                port=port,
            )
            self._services.append(service)
            return service

    def _surroundings(self) -> Surroundings:
        """What the services share."""
        ports, drain = self._run / "ports", self._drain_seconds
        env = {**{variable: one.url for variable, one in self.beside.items()}, **self._env}
        doors = [one.url for one in self._services if one.name == "task-service-1"]
        return Surroundings(
            self.endpoints,
            ports,
            drain,
            self._options,
            objects_url=self.objects_url,
            task_service_url=doors[0] if doors else "",
            env=env,
        )

    def _has_targets(self) -> bool:
        own = [self._env, *(values for name, values in self.service_env.items() if name.startswith("worker"))]
        return bool(self._options.targets) or any(values.get("STANCHION_TARGETS") for values in own)

    def _free_name(self, kind: str) -> str:
        taken = {service.name for service in self._services}
        return next(name for number in range(1, 10_000) if (name := f"{kind}-{number}") not in taken)


def _ignored(_service: ServiceProcess) -> None:
    """The service is in the stack's own list."""
