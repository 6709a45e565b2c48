"""How each service is started: the command line, the database login, and the environment that it gets."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stanchion.db import grants
from stanchion.runtime.homes import service_module

if TYPE_CHECKING:
    from stanchion.embedded import Endpoints

LOGINS: Final[dict[str, str]] = {
    "task-service": grants.TASK_SERVICE,
    "orchestrator": grants.ORCHESTRATOR,
    "outbox-relay": grants.RELAY,
    "worker": grants.WORKER,
    "maintenance": grants.MAINTENANCE,
}
"""The kinds of services that a stack has, and the database login of each, in the order in which they start."""

# What a service of the stack must not take from the shell of whoever starts it: addresses and keys of another
# installation, and failpoints, which one service knows and the next refuses.
_NOT_INHERITED: Final = frozenset(
    {
        "STANCHION_ADMIN_DATABASE_URL",
        "STANCHION_API_KEY",
        "STANCHION_API_URL",
        "STANCHION_DASHBOARD_DATABASE_URL",
        "STANCHION_DATABASE_URL",
        "STANCHION_FAILPOINTS",
        "STANCHION_FAILPOINT_DIR",
        "STANCHION_HTTP_HOST",
        "STANCHION_HTTP_PORT",
        "STANCHION_INSTANCE",
        "STANCHION_KAFKA_BOOTSTRAP",
        "STANCHION_LOG_FORMAT",
        "STANCHION_PROFILE",
        "STANCHION_REDIS_URL",
        "STANCHION_RUN_DIR",
        "STANCHION_TARGETS",
        "STANCHION_TASK_SERVICE_URL",
    }
)


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """What a worker is told beyond its addresses; None leaves it to the worker's own default."""

    targets: tuple[str, ...] = ()
    slots: int | None = None
    lease_seconds: float | None = None
    queues: tuple[str, ...] = ()

    def variables(self) -> dict[str, str]:
        """The same as environment variables."""
        given = {
            "STANCHION_TARGETS": ",".join(self.targets),
            "STANCHION_SLOTS": "" if self.slots is None else str(self.slots),
            "STANCHION_LEASE_SECONDS": "" if self.lease_seconds is None else str(self.lease_seconds),
            "STANCHION_QUEUES": ",".join(self.queues),
        }
        return {name: value for name, value in given.items() if value}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all services of one stack share."""

    endpoints: Endpoints
    run_dir: Path
    drain_seconds: float
    worker: WorkerOptions = field(default_factory=WorkerOptions)
    objects_url: str = ""
    task_service_url: str = ""
    env: Mapping[str, str] = field(default_factory=dict)

    def dashboard(self) -> dict[str, str]:
        """What an orchestrator needs beside that for the dashboard."""
        return {
            "STANCHION_DASHBOARD_DATABASE_URL": service_url(self.endpoints.database_url, grants.DASHBOARD),
            **({"STANCHION_TASK_SERVICE_URL": self.task_service_url} if self.task_service_url else {}),
        }

    def environment(self, kind: str, name: str, port: int, own: Mapping[str, str]) -> dict[str, str]:
        """The whole environment of one service; what was given for all, then for this one, has the last word."""
        inherited = {key: value for key, value in os.environ.items() if key not in _NOT_INHERITED}
        ours = {
            **self.endpoints.as_environment(),
            "STANCHION_DATABASE_URL": service_url(self.endpoints.database_url, LOGINS[kind]),
            "STANCHION_OBJECTS_URL": self.objects_url,
            **(self.dashboard() if kind == "orchestrator" else {}),
            "STANCHION_PROFILE": "dev",
            "STANCHION_RUN_DIR": str(self.run_dir),
            "STANCHION_HTTP_PORT": str(port),
            "STANCHION_DRAIN_SECONDS": str(self.drain_seconds),
            "STANCHION_LOG_FORMAT": "json",
            "STANCHION_INSTANCE": name,
            "PYTHONUNBUFFERED": "1",
        }
        workers_own = self.worker.variables() if kind == "worker" else {}
        return {**inherited, **import_path(inherited), **ours, **workers_own, **self.env, **own}


def launch_command(kind: str, *arguments: str) -> list[str]:
    """The command that starts a service with this interpreter.

    `-P`: without it a folder `services` in the user's working directory would be taken for ours.
    """
    return [sys.executable, "-P", "-m", service_module(kind), *arguments]


def import_path(environ: Mapping[str, str]) -> dict[str, str]:
    """PYTHONPATH with the checkout in it, when that is where the services live; nothing for an installed wheel."""
    if service_module("worker").startswith("stanchion."):
        return {}
    checkout = str(Path(__file__).resolve().parents[2])
    known = [entry for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return {"PYTHONPATH": os.pathsep.join([checkout, *(entry for entry in known if entry != checkout)])}


def service_url(admin_url: str, login: str) -> str:
    """The address of the database for one login.

    Embedded PostgreSQL trusts its loopback. A real server asks for a password: a stack for development gives every
    login that has none the administrator's own, so that two stacks on one server don't lock each other out.
    """
    from sqlalchemy.engine import make_url

    from stanchion.db.engine import login_url

    password = admin_password(admin_url)
    plain = login_url(admin_url, login)
    if password is None:
        return plain
    return make_url(plain).set(password=password).render_as_string(hide_password=False)


def admin_password(admin_url: str) -> str | None:
    """The password in the administrator's address, if it has one."""
    from sqlalchemy.engine import make_url

    password = make_url(admin_url).password
    return str(password) if password else None
