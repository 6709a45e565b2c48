"""`stanchion worker run | list | drain`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, Final

import click

from stanchion.cli.amounts import age
from stanchion.cli.api import Api
from stanchion.cli.command import verb
from stanchion.cli.connections import Connections
from stanchion.cli.printer import Column, Printer, field, say
from stanchion.cli.session import Session
from stanchion.cli.spans import Span
from stanchion.contracts import ids
from stanchion.errors import NotFound

_SKEWED_MS: Final = 2_000


@verb(
    "run",
    examples=[
        "stanchion worker run reports.py",
        "stanchion worker run my.package:brief other.package --slots 16",
        "stanchion worker run reports.py --queue crawl --queue llm --lease-seconds 60",
    ],
    see_also=["stanchion worker list", "stanchion worker drain", "stanchion serve"],
)
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@click.option("--slots", type=click.IntRange(1, 1_000), help="Steps that it runs at a time.")
@click.option("--lease-seconds", type=Span(2, 3_600), metavar="TIME", help="How long its hold on a step lasts.")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Only this queue; may be given several times.")
def run(
    session: Session,
    targets: tuple[str, ...],
    slots: int | None,
    lease_seconds: float | None,
    queues: tuple[str, ...],
) -> None:
    """Run a worker in the foreground for the workflows that TARGET names: a file, a module, or module:workflow.

    Its servers are those of the STANCHION_* variables, or of the running `stanchion dev` around this folder. Ctrl-C
    lets running steps finish; a second one hands them back at once.
    """
    from stanchion.cli.launches import WorkerOptions, import_path, launch_command

    options = WorkerOptions(tuple(targets), slots, lease_seconds, tuple(queues))
    environ = {**_servers(session), **os.environ, **import_path(os.environ), **options.variables()}
    command = launch_command("worker")
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(command[0], command, environ)  # noqa: S606 - no shell is wanted


@verb(
    "list",
    examples=["stanchion worker list", "stanchion worker list --state active --json"],
    see_also=["stanchion worker drain"],
)
@click.option("--state", type=click.Choice(["active", "draining", "gone"]))
@click.option("--limit", type=click.IntRange(1, 1_000), default=100, help="At most so many; default 100.")
def list_workers(session: Session, state: str | None, limit: int) -> None:
    """List the workers that were seen, the newest first."""
    page = Api(session).client.page("/v1/workers", {"state": state, "limit": limit})
    columns = [
        field("worker", "worker_id"),
        field("name"),
        field("state"),
        Column("busy", lambda row: f"{row['running']}/{row['slots']}", right=True),
        field("queues"),
        field("workflows"),
        Column("seen", lambda row: age(row["seen_at"]), right=True),
        Column("clock", _clock, right=True),
        field("host", optional=True),
        field("pid", optional=True, right=True),
    ]
    if not Printer(session).listing(page.items, columns, ident="worker_id"):
        say(session, "no worker was seen; fix: stanchion worker run TARGET")


@verb(
    "drain",
    examples=["stanchion worker drain worker-2", "stanchion worker drain wrk_01JX4Q2RVY7W6ZJ8Z5K3M9B1C0"],
    see_also=["stanchion worker list"],
)
@click.argument("worker")
def drain(session: Session, worker: str) -> None:
    """Ask a worker to take no new work, and to end after what it runs. WORKER is its id or its name."""
    api = Api(session)
    worker_id = _worker_id(api, worker)
    answer = api.client.act(f"/v1/workers/{worker_id}/drain", {}, repeatable=True)
    text = f"{worker_id} drains: it takes nothing new, and ends after what it runs"
    Printer(session).document(answer, text, ident="worker_id")


def _worker_id(api: Api, text: str) -> str:
    if text.lower().startswith(f"{ids.WORKER}_"):
        return api.find(text, ids.WORKER, lambda: api.client.workers(limit=1_000).items, "worker_id")
    live = [one for one in api.client.workers(limit=1_000).items if one["name"] == text and one["state"] == "active"]
    if not live:
        raise NotFound("E-FIND-01", f"no live worker is called {text[:60]!a}", fix="stanchion worker list")
    return str(live[0]["worker_id"])


def _servers(session: Session) -> dict[str, str]:
    """The servers of a stack around this folder, for what the environment does not name."""
    from stanchion.cli.launches import LOGINS, service_url

    found = Connections(session)
    names = ("admin_database_url", "kafka_bootstrap", "redis_url", "objects_url")
    admin, kafka, redis, objects = (found.find(name) for name in names)
    if admin is None or not admin.origin.startswith("stack ") or os.environ.get("STANCHION_DATABASE_URL"):
        return {}
    given = {"STANCHION_DATABASE_URL": service_url(admin.value, LOGINS["worker"]), "STANCHION_PROFILE": "dev"}
    given |= {"STANCHION_KAFKA_BOOTSTRAP": kafka.value} if kafka else {}
    given |= {"STANCHION_OBJECTS_URL": objects.value} if objects else {}
    return given | ({"STANCHION_REDIS_URL": redis.value} if redis else {})


def _clock(row: Mapping[str, Any]) -> str:
    offset = int(row["clock_offset_ms"])
    return f"off by {offset / 1000:+.1f} s" if abs(offset) > _SKEWED_MS else "ok"
