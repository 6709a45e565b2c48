"""Runs one peer: its schema, two workers of eight slots, its driver, and the meters around what the driver does."""

from __future__ import annotations

import json
import os
import signal
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from .child import Child, PeerError
from .environment import Peer
from .meter import FamilyMeter

WORKERS = 2
SLOTS = 8
_START_SECONDS = 60.0
_CHECK_SECONDS = 60.0


class PeerRun:
    """A peer under measurement, in a database of its own on the servers that Stanchion used."""

    def __init__(
        self, peer: Peer, python: Path, *, database_url: str, redis_url: str, servers: Mapping[str, int], logs: Path
    ) -> None:
        self.peer = peer
        self._command = [str(python), str(peer.script)]
        self._admin_url = database_url
        self._database = f"bench_{peer.package}"
        self._url = urlunsplit(urlsplit(database_url)._replace(path=f"/{self._database}"))
        self._environment = {
            **{name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")},
            "PEER_DATABASE_URL": self._url,
            "PEER_REDIS_URL": redis_url,
            "PEER_SLOTS": str(SLOTS),
            **peer.settings,
            "PYTHONUNBUFFERED": "1",
        }
        self._servers = servers
        self._logs = logs
        self._workers: list[Child] = []
        self._driver: Child | None = None
        self._meter: FamilyMeter | None = None

    def __enter__(self) -> PeerRun:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._meter is not None:
            self._meter.close()
        for child in (self._driver, *self._workers):
            if child is not None:
                child.end()
        self._admin(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)"))

    def _start(self) -> None:
        self._logs.mkdir(parents=True, exist_ok=True)
        self._admin(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)"), sql.SQL("CREATE DATABASE {}"))
        setup = self._child("setup")
        try:
            if code := setup.wait(_START_SECONDS):
                raise PeerError(f"{setup.name} ended with {code}; see {setup.log}")
        finally:
            setup.end()
        for number in range(1, WORKERS + 1):
            self._workers.append(self._child("worker", str(number)))
        for worker in self._workers:
            worker.expect("up", _START_SECONDS)
        self._driver = self._child("driver")
        self._driver.expect("up", _START_SECONDS)
        pids = {name: [pid] for name, pid in self._servers.items()}
        pids["worker"] = [worker.pid for worker in self._workers]
        pids["driver"] = [self._driver.pid]
        self._meter = FamilyMeter(self._url, pids)
        for _ in range(2):  # code is loaded, connections are open, both workers have taken part
            self.fan_out(64)

    def _child(self, *words: str) -> Child:
        name = "-".join((self.peer.name, *words))
        return Child(name, [*self._command, *words], self._environment, self._logs / f"{name}.log")

    def _admin(self, *statements: sql.SQL) -> None:
        with psycopg.connect(self._admin_url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.format(sql.Identifier(self._database)))
            connection.execute("CHECKPOINT")  # what was written so far is not flushed at the next one's expense

    # -- measurements; the same names and shapes as Stanchion's own --

    def fan_out(self, children: int) -> dict[str, Any]:
        """N children that do nothing, and a join that runs once when the last of them has ended."""
        seconds, found, usage = self._measured("fan_out", children, 60.0 + 0.06 * children)
        return {"children": children, **_rate(children, seconds), "joins": found["joins"], **usage}

    def one_step_tasks(self, count: int) -> dict[str, Any]:
        """Independent jobs: queued while the workers are frozen, then drained."""
        for worker in self._workers:
            worker.signal_family(signal.SIGSTOP)
        seconds, _, usage = self._measured("one_step_tasks", count, 60.0 + 0.03 * count, thaw=True)
        return {"tasks": count, **_rate(count, seconds), **usage}

    def chain(self, repeats: int, measure: str = "chain") -> dict[str, Any]:
        """A chain of 50: from the first link's start to the last one's, over 49."""
        _, found, _ = self._measured(measure, repeats, 60.0 + 30.0 * repeats)
        hops = found["values_ms"]
        return {"links": 50, "hop_ms_p50": round(statistics.median(hops), 2), "hop_ms_max": round(max(hops), 2)}

    def latency(self, count: int) -> dict[str, Any]:
        """From the submitter's call to the start of the job's function, at 10 jobs a second."""
        _, found, _ = self._measured("latency", count, 60.0 + 0.5 * count)
        values = sorted(found["values_ms"])
        return {
            "tasks": count,
            "p50_ms": round(statistics.median(values), 1),
            "p95_ms": round(values[int(len(values) * 0.95)], 1),
            "max_ms": round(values[-1], 1),
        }

    # -- inside --

    def _measured(
        self, measure: str, count: int, seconds: float, *, thaw: bool = False
    ) -> tuple[float, dict[str, Any], dict[str, object]]:
        assert self._driver is not None
        assert self._meter is not None
        self._driver.tell(json.dumps({"measure": measure, "count": count}))
        self._driver.expect("ready", seconds)
        self._meter.start()
        if thaw:
            for worker in self._workers:
                worker.signal_family(signal.SIGCONT)
        self._driver.tell("go")
        done = self._driver.expect("done", seconds)
        usage = self._meter.stop()
        found = self._driver.expect("checked", _CHECK_SECONDS)
        if found["ran"] != count or found.get("joins", 1) != 1:
            raise PeerError(f"{self.peer.name}: {measure} of {count} found {found}")
        return done["seconds"], found, usage.per(count)


def _rate(count: int, seconds: float) -> dict[str, Any]:
    return {"seconds": round(seconds, 3), "per_second": round(count / seconds)}
