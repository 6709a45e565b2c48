"""`python -m benchmarks`: measure Stanchion beside the raw floor of the same servers, in one run."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import effects, floor, lists
from .ours import Ours

RESULTS = Path(".stanchion/bench")


def main() -> int:
    """Run what was asked for, print as it goes, write JSON at the end."""
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--quick", action="store_true", help="small counts")
    parser.add_argument("--only", nargs="*", default=[], help="names of measurements")
    parser.add_argument("--kafka", choices=("tansu", "apache"), default="tansu")
    args = parser.parse_args()
    big = not args.quick
    results: dict[str, Any] = {
        "machine": platform.platform(),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "kafka": args.kafka,
    }

    def measure(name: str, call: Callable[[], Any]) -> None:
        if args.only and not any(name.startswith(o) for o in args.only):
            return
        results[name] = call()
        print(f"{name:24} {json.dumps(results[name])}", flush=True)

    with Ours(RESULTS / "stack", kafka=args.kafka) as ours:
        url, bootstrap = ours.stack.endpoints.database_url, ours.stack.endpoints.kafka_bootstrap
        for clients in (1, 4, 16):
            measure(
                f"floor_commits_{clients}", lambda clients=clients: floor.commits(url, clients, 3.0 if big else 1.0)
            )
        measure("floor_kafka_postgres", lambda: floor.kafka_to_postgres(url, bootstrap, 20_000 if big else 5_000))
        for children in (100, 1_000, 10_000, *((100_000,) if big else ())):
            measure(f"fan_out_{children}", lambda children=children: ours.fan_out(children))
        measure("one_step_tasks", lambda: ours.one_step_tasks(10_000 if big else 2_000))
        measure("chain", lambda: ours.chain(10 if big else 3))
        measure("latency_http", lambda: ours.latency(100 if big else 20, "http"))
        measure("latency_kafka", lambda: ours.latency(100 if big else 20, "kafka"))
        for wait in (0.0, 0.02):
            measure(
                f"operations_{round(wait * 1e3)}_ms",
                lambda wait=wait: effects.operations(ours, 5_000 if big else 1_000, wait),
            )
        measure("decision", lambda: effects.decision(ours, 50 if big else 15))
        measure("artifacts", lambda: effects.artifacts(ours, 256 if big else 64, 5 if big else 3))
        measure("task_lists", lambda: lists.tasks(url, 2_000_000 if big else 100_000))
        measure("fan_out_page", lambda: lists.fan_out(url, 100_000 if big else 10_000))
        measure("idle", lambda: ours.idle(20.0 if big else 5.0))
    if not args.only or "take_over" in args.only:
        with Ours(RESULTS / "stack", kafka=args.kafka, lease_seconds=2.0) as ours:
            measure("take_over", lambda: ours.take_over(5 if big else 2, 2.0))
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / "ours.json"
    path.write_text(json.dumps(results, indent=2) + "\n")
    print(f"written to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
