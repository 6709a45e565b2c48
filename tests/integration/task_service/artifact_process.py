"""A task service and a client in one process, to be measured: `artifact_process.py DATABASE BROKER STORE KEY TASK MIB`.

Uploads and downloads so many MiB, and prints how far the process grew, as JSON.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from services.task_service.app import Connections, deps_of, event_feed
from services.task_service.http import create_app
from services.task_service.settings import TaskServiceSettings
from stanchion.bus.producer import Producer
from stanchion.runtime.hints import Hints
from stanchion.runtime.http import HttpServer
from stanchion.sdk.client import Client

MIB = 1024 * 1024


def main(database: str, broker: str, store: str, key: str, task: str, mib: int) -> None:
    settings = TaskServiceSettings(
        database_url=database, kafka_bootstrap=broker, profile="dev", http_port=0, objects_url=store
    )
    hints, connections = Hints(None), Connections(settings)
    feed = event_feed(settings, hints, connections)
    deps = deps_of(settings, connections.make("http", 2), hints, Producer(settings.kafka), feed)
    server = HttpServer(create_app(settings, deps, {}), port=0)
    server.start()
    with Client(server.url, key) as client:
        client.artifacts.read(client.artifacts.put(task, "small", b"x")["version_id"])
        before = peak_kib()
        made = client.artifacts.put(task, "large", content(mib))
        found, size = hashlib.sha256(), 0
        with client.artifacts.open(made["version_id"]) as chunks:
            for chunk in chunks:
                found.update(chunk)
                size += len(chunk)
    assert found.hexdigest() == made["sha256"]
    sys.stdout.write(json.dumps({"size": size, "grown_mib": (peak_kib() - before) / 1024}) + "\n")
    sys.stdout.flush()
    server.stop(5)


def content(mib: int) -> Iterator[bytes]:
    """Chunks of 1 MiB, each another."""
    for number in range(mib):
        yield hashlib.sha256(str(number).encode()).digest() * (MIB // 32)


def peak_kib() -> int:
    """The most memory this process had."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found.group(1))


if __name__ == "__main__":
    main(*sys.argv[1:6], int(sys.argv[6]))
