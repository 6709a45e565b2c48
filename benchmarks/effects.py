"""What the ledger, approvals and artifacts cost, each beside the same without them, in one run."""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from uuid import UUID

from stanchion.contracts import ids
from stanchion.objects import open_store
from stanchion.sdk.client import Client

from .ours import Ours

MIB = 1024 * 1024
ASKED = "SELECT approval_id, encode(payload_hash, 'hex') FROM stanchion.approval WHERE task_id = %s"


def operations(ours: Ours, count: int, seconds: float) -> dict[str, Any]:
    """Effects a second through the ledger and called directly, by children of a fan-out; the other side takes `seconds`."""
    rates: dict[str, list[float]] = {"direct": [], "ledger": []}
    for _ in range(2):
        for how, found in rates.items():
            task = ours.submit(f"bench_{how}", {"n": count, "seconds": seconds})
            ours.await_end([task])
            found.append(count / _between(ours, task))
    direct, ledger = max(rates["direct"]), max(rates["ledger"])
    return {
        "operations": count,
        "other_side_ms": round(seconds * 1e3),
        "direct_per_second": round(direct),
        "ledger_per_second": round(ledger),
        "ratio": round(ledger / direct, 2),
    }


def _between(ours: Ours, task: UUID) -> float:
    """From the first child's grant to the last one's end."""
    sql = (
        "SELECT extract(epoch FROM max(a.ended_at) - min(a.granted_at)) FROM stanchion.attempt a"
        " JOIN stanchion.step s ON s.step_id = a.step_id JOIN stanchion.run r ON r.run_id = a.run_id"
        " WHERE r.task_id = %s AND s.node = 'child'"
    )
    return float(ours.one(sql, task))


def decision(ours: Ours, repeats: int) -> dict[str, Any]:
    """From a person's yes over HTTP to the grant of the step that waited for it; beside it what the request takes."""
    resumed, answered = [], []
    with Client(ours.stack.api_url, None) as client:
        token = client.act("/v1/session/dev", {"name": "ann", "role": "approver"})["token"]
    with Client(ours.stack.api_url, token) as somebody:
        for _ in range(repeats):
            task = ours.submit("bench_asking", {})
            approval, shown = ours.until(lambda task=task: ours.row(ASKED, task))
            before, started = ours.now(), time.perf_counter()
            somebody.act(f"/v1/approvals/{ids.public(ids.APPROVAL, approval)}/approve", {"payload_hash": shown})
            answered.append((time.perf_counter() - started) * 1e3)
            ours.await_end([task])
            granted = ours.one(
                "SELECT min(a.granted_at) FROM stanchion.attempt a JOIN stanchion.step s ON s.step_id = a.step_id"
                " JOIN stanchion.run r ON r.run_id = a.run_id WHERE r.task_id = %s AND s.node = 'go_on'",
                task,
            )
            resumed.append((granted - before).total_seconds() * 1e3)
    return {
        "decisions": repeats,
        "resumed_p50_ms": round(statistics.median(resumed), 1),
        "resumed_max_ms": round(max(resumed), 1),
        "answered_p50_ms": round(statistics.median(answered), 1),
    }


def artifacts(ours: Ours, mib: int, repeats: int) -> dict[str, Any]:
    """MiB a second up and down through the API, beside a put and a verified read of the same store by itself."""
    task = ours.submit("bench_one", {"n": 0})
    ours.await_end([task])
    public = ids.public(ids.TASK, task)
    found = []
    with (
        Client(ours.stack.api_url, ours.stack.api_key) as client,
        open_store(ours.stack.objects_url).within("bench") as store,
    ):
        for turn in range(repeats):
            clock = [time.perf_counter()]
            stored = store.put(_content(mib, 2 * turn), most_bytes=mib * MIB)
            clock.append(time.perf_counter())
            version = client.artifacts.put(public, "bench", _content(mib, 2 * turn + 1))
            clock.append(time.perf_counter())
            store.verify(stored.sha256)
            clock.append(time.perf_counter())
            assert _read(client, version["version_id"]) == mib * MIB
            clock.append(time.perf_counter())
            found.append([mib / (after - before) for before, after in pairwise(clock)])
    store_put, api_put, store_get, api_get = (max(rates) for rates in zip(*found, strict=True))
    return {
        "mib": mib,
        "store_put_mib_per_second": round(store_put),
        "api_put_mib_per_second": round(api_put),
        "put_ratio": round(api_put / store_put, 2),
        "store_get_mib_per_second": round(store_get),
        "api_get_mib_per_second": round(api_get),
        "get_ratio": round(api_get / store_get, 2),
    }


def _content(mib: int, seed: int) -> Iterator[bytes]:
    for number in range(mib):
        yield hashlib.sha256(f"{seed} {number}".encode()).digest() * (MIB // 32)


def _read(client: Client, version: str) -> int:
    with client.artifacts.open(version) as chunks:
        return sum(len(chunk) for chunk in chunks)
