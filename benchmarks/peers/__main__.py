"""`python -m benchmarks.peers`: Stanchion and its peers in one run on the same servers; ratios mean something, rates little."""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.ours import Ours
from stanchion.embedded import EmbeddedServers, Endpoints
from stanchion.errors import StanchionError

from .child import PeerError
from .environment import PEERS, Peer, interpreter_for
from .meter import FamilyMeter
from .runner import PeerRun
from .table import rendered

RESULTS = Path(".stanchion/bench")
OURS = "stanchion"

Results = dict[str, dict[str, Any]]
FAILURES = (PeerError, StanchionError, psycopg.Error, TimeoutError, AssertionError, subprocess.SubprocessError)


@dataclass(frozen=True, slots=True)
class Counts:
    """How much of each; the same for everybody."""

    sizes: tuple[int, ...]
    tasks: int
    chains: int
    latencies: int


@dataclass(frozen=True, slots=True)
class Servers:
    """Where they answer, and the processes that count."""

    endpoints: Endpoints
    pids: dict[str, int]


def main() -> int:
    """Run what was asked for, print as it goes, then one table, and write JSON."""
    args = _arguments()
    counts = Counts((100, 1_000), 1_000, 2, 20) if args.quick else Counts((100, 1_000, 10_000), 10_000, 5, 100)
    counts = Counts(tuple(args.sizes or counts.sizes), counts.tasks, counts.chains, counts.latencies)
    chosen = [peer for peer in PEERS if not args.only or peer.name in args.only]
    with_ours = not args.only or OURS in args.only
    interpreters = {peer.name: _interpreter(peer) for peer in chosen}
    results: Results = {}
    with _servers(with_ours, counts, results) as servers:
        for peer in chosen:
            _measure_peer(peer, interpreters[peer.name], servers, counts, results)
    print()
    print(rendered(results, OURS))
    path = RESULTS / "peers.json"
    path.write_text(json.dumps(_report(counts, results), indent=2) + "\n")
    print(f"\nwritten to {path}")
    return 1 if any("failed" in found for found in results.values()) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-peers")
    parser.add_argument("--quick", action="store_true", help="small counts")
    names = (OURS, *(peer.name for peer in PEERS))
    parser.add_argument("--only", nargs="*", default=[], choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--sizes", nargs="*", type=int, default=[], metavar="N", help="children of the fan-outs")
    return parser.parse_args()


def _interpreter(peer: Peer) -> Path:
    print(f"· environment of {peer.name}", file=sys.stderr, flush=True)
    return interpreter_for(peer, RESULTS / "peers")


@contextmanager
def _servers(with_ours: bool, counts: Counts, results: Results) -> Iterator[Servers]:
    """The servers that all use; Stanchion is measured first, and gone from them when the peers begin."""
    root = RESULTS / "stack"
    if not with_ours:
        with EmbeddedServers(root, ephemeral=True) as servers:
            yield Servers(servers.endpoints, {"postgres": servers.postgres.pid, "valkey": servers.valkey.pid})
        return
    with Ours(root) as ours:
        ours.meter.close()
        ours.meter = FamilyMeter(ours.stack.endpoints.database_url, ours.meter.pids)  # one ruler for all
        with _attempt(OURS, results) as measure:
            for size in counts.sizes:
                measure(f"fan_out_{size}", partial(ours.fan_out, size))
            measure("one_step_tasks", lambda: ours.one_step_tasks(counts.tasks))
            measure("chain", lambda: ours.chain(counts.chains))
            measure("latency", lambda: ours.latency(counts.latencies, "http"))
            measure("latency_kafka", lambda: ours.latency(counts.latencies, "kafka"))
        for service in ours.stack.services:
            ours.stack.remove(service)
        ours.admin.execute("VACUUM (ANALYZE)")  # or autovacuum would do it at the first peer's expense
        assert ours.stack.servers is not None
        pids = {"postgres": ours.stack.servers.postgres.pid, "valkey": ours.stack.servers.valkey.pid}
        yield Servers(ours.stack.endpoints, pids)


def _measure_peer(peer: Peer, python: Path, servers: Servers, counts: Counts, results: Results) -> None:
    with (
        _attempt(peer.name, results) as measure,
        PeerRun(
            peer,
            python,
            database_url=servers.endpoints.database_url,
            redis_url=servers.endpoints.redis_url,
            servers=servers.pids,
            logs=RESULTS / "logs",
        ) as run,
    ):
        for size in counts.sizes:
            measure(f"fan_out_{size}", partial(run.fan_out, size))
        measure("one_step_tasks", lambda: run.one_step_tasks(counts.tasks))
        measure("chain", lambda: run.chain(counts.chains))
        if peer.name == "dbos":
            measure("chain_queued", lambda: run.chain(counts.chains, "chain_queued"))
        measure("latency", lambda: run.latency(counts.latencies))


@contextmanager
def _attempt(name: str, results: Results) -> Iterator[Callable[[str, Callable[[], Any]], None]]:
    """Collect one contestant's numbers; when it fails, say so and let the others go on."""
    found = results[name] = {}

    def measure(what: str, call: Callable[[], Any]) -> None:
        found[what] = call()
        print(f"{name:14} {what:16} {json.dumps(found[what])}", flush=True)

    try:
        yield measure
    except FAILURES as error:
        found["failed"] = f"{type(error).__name__}: {error}"
        print(f"{name:14} failed: {found['failed']}", flush=True)


def _report(counts: Counts, results: Results) -> dict[str, Any]:
    return {
        "machine": platform.platform(),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "requirements": {peer.name: peer.requirements for peer in PEERS if peer.name in results},
        "sizes": counts.sizes,
        "results": results,
    }


if __name__ == "__main__":
    sys.exit(main())
