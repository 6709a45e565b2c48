"""Maintenance workers as real processes: two at once, killed, without Redis, without a database."""

from __future__ import annotations

import json
import signal
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import redis
from maintenance_kit import Process, keys_without_end, rows

from stanchion.embedded.server import Server, Workspace
from stanchion.embedded.state import StateFile
from stanchion.embedded.valkey import Valkey

if TYPE_CHECKING:
    pass

Admin = psycopg.Connection[tuple[Any, ...]]
Eventually = Callable[..., Any]
PATIENCE = 150  # seconds; a process may take half a minute to start while the machine is busy
PERIODIC = {"partitions", "retention", "dead-letters", "recount", "tidy", "sweep", "orphans", "errors", "samples"}
QUICK = {
    "partitions_every_seconds": "1",
    "retention_every_seconds": "1",
    "recount_every_seconds": "1",
    "tidy_every_seconds": "1",
}


@pytest.fixture
def own_valkey() -> Iterator[Server]:
    """A Valkey that a test may kill and start again."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace(Path(folder), uuid.uuid4().hex[:12], StateFile(Path(folder)))
        workspace.state.begin(workspace.run_id, ephemeral=True)
        server = Valkey(workspace)
        server.start()
        yield server
        server.stop()


def done(admin: Admin, kind: str | None = None) -> int:
    """How many jobs have ended well."""
    return sum(row["state"] == "done" for row in rows(admin, kind))


def lines(process: Process, event: str) -> list[dict[str, Any]]:
    """What a process has logged under one event name."""
    return [line for text in process.text().splitlines() if event in text and (line := json.loads(text))]


def test_it_does_its_jobs_and_ends_when_asked(
    start: Callable[..., Process], admin: Admin, eventually: Eventually
) -> None:
    """All kinds within the first seconds; SIGTERM ends it with 0."""
    process = start()
    eventually(
        lambda: {row["kind"] for row in rows(admin) if row["state"] == "done"} == PERIODIC,
        40,
    )
    assert process.stop() == 0
    assert not lines(process, "maintenance.job_failed")


def test_three_workers_do_each_job_once(start: Callable[..., Process], admin: Admin, eventually: Eventually) -> None:
    """While Redis is emptied again and again; no job has two rows or two ends, nor claims without a reason."""
    processes = [start(**QUICK, job_lease_seconds="90") for _ in range(3)]
    with redis.Redis.from_url(processes[0].redis_url) as client:
        for goal in (6, 12, 18):
            eventually(lambda goal=goal: done(admin) >= goal, PATIENCE)
            client.flushall()
        eventually(lambda: done(admin) >= 24, PATIENCE)
        for process in processes:
            assert process.stop() == 0
        assert keys_without_end(client) == []
    found = rows(admin)
    assert len({(row["kind"], row["key"]) for row in found}) == len(found)
    claims = [line for process in processes for line in lines(process, "maintenance.job_done")]
    ended = [(line["kind"], line["key"]) for line in claims if line["state"] == "done"]
    assert sorted(ended) == sorted({(row["kind"], row["key"]) for row in found if row["state"] == "done"})
    # who drains hands its job over: that is a claim more, and the only reason for one
    claimed = Counter((line["kind"], line["key"]) for line in claims)
    assert all(row["fence"] == claimed[row["kind"], row["key"]] for row in found if row["state"] == "done")
    assert len({row["worker"] for row in found if row["state"] == "done"}) > 1


@pytest.mark.parametrize("moment", ["claimed", "worked"])
def test_a_killed_worker_is_replaced(
    start: Callable[..., Process], admin: Admin, eventually: Eventually, tmp_path: Path, moment: str
) -> None:
    """Killed before or after the work: the job is taken over with a higher fence once the lease is over, and done."""
    victim = start(failpoints=f"maintenance.{moment}[kind=recount]=kill", failpoint_dir=str(tmp_path))
    assert victim.child.wait(PATIENCE) == -signal.SIGKILL
    assert [(row["state"], row["fence"]) for row in rows(admin, "recount")] == [("running", 1)]
    start()
    eventually(lambda: done(admin, "recount") == 1, PATIENCE)
    (row,) = rows(admin, "recount")
    assert (row["fence"], row["tries"]) == (2, 0)


def test_a_frozen_worker_changes_nothing_any_more(
    start: Callable[..., Process], admin: Admin, eventually: Eventually, tmp_path: Path
) -> None:
    """Stopped in the middle, replaced, and woken again: its end is refused, and it goes on with other jobs."""
    frozen = start(failpoints="maintenance.worked[kind=recount]=1*hold", failpoint_dir=str(tmp_path))
    mark = tmp_path / f"maintenance.worked.{frozen.child.pid}.held"
    eventually(mark.exists, PATIENCE)
    frozen.child.send_signal(signal.SIGSTOP)
    other = start()
    eventually(lambda: done(admin, "recount") == 1, PATIENCE)
    other.stop()
    mark.with_suffix(".release").touch()
    frozen.child.send_signal(signal.SIGCONT)
    eventually(lambda: lines(frozen, "maintenance.job_lost"), PATIENCE)
    (row,) = rows(admin, "recount")
    assert (row["state"], row["fence"]) == ("done", 2)
    assert frozen.stop() == 0


def test_without_redis_it_waits_and_says_so_once(
    start: Callable[..., Process], own_valkey: Server, admin: Admin, eventually: Eventually
) -> None:
    """It starts, waits, works once Redis is there, waits while it is away, and goes on."""
    url = f"redis://127.0.0.1:{own_valkey.port}/0"
    own_valkey.kill(signal.SIGKILL)
    process = start(redis_url=url, tidy_every_seconds="1")
    eventually(lambda: lines(process, "maintenance.redis_away"), PATIENCE)
    eventually(lambda: {row["kind"] for row in rows(admin)} == PERIODIC, PATIENCE)
    assert done(admin) == 0
    own_valkey.restart()
    eventually(lambda: done(admin) >= len(PERIODIC), PATIENCE)
    own_valkey.kill(signal.SIGKILL)
    eventually(lambda: len(lines(process, "maintenance.redis_away")) == 2, PATIENCE)
    own_valkey.restart()
    before = done(admin, "tidy")
    eventually(lambda: done(admin, "tidy") > before, PATIENCE)
    assert process.child.poll() is None
    assert len(lines(process, "maintenance.redis_away")) == 2
    assert process.stop() == 0


def test_sessions_that_end_cost_nothing(start: Callable[..., Process], admin: Admin, eventually: Eventually) -> None:
    """The database drops all of its sessions, five times; jobs go on."""
    process = start(tidy_every_seconds="1")
    for _ in range(5):
        before = done(admin, "tidy")
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'stanchion_maintenance'")
        eventually(lambda before=before: done(admin, "tidy") > before, PATIENCE)
    assert process.stop() == 0


def test_a_server_that_evicts_is_refused_in_production(start: Callable[..., Process], own_valkey: Server) -> None:
    """Exit code 2 with the setting; with STANCHION_ALLOW_EVICTION it starts and warns."""
    url = f"redis://127.0.0.1:{own_valkey.port}/0"
    with redis.Redis.from_url(url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
    process = start(redis_url=url, profile="production")
    assert process.child.wait(PATIENCE) == 2
    assert "E-MAINT-01" in process.text()
