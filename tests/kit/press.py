"""The press as a process of its own, and how its tests speak to it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2

CHECKOUT = Path(__file__).parents[2]
PATIENCE = 30.0
"""Seconds that anything may take before it counts as never."""
RECEIPT = {"id", "url", "channel", "title", "key", "payload_hash", "at"}
NO_ANSWER = (httpx2.RemoteProtocolError, httpx2.ReadError)


class Press:
    """A press on a file: started, killed, ended, started again. `logs` is shown when a test fails."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "press.db"
        self.logs = folder / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.process: subprocess.Popen[str] | None = None
        self.url = ""
        self.web = httpx2.Client()

    def start(self, *options: str) -> Press:
        """Start it, and return when it says where it listens."""
        with (self.logs / "press.log").open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "examples.press", "--port", "0", "--data", str(self.data), *options],
                cwd=CHECKOUT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout is not None
        self.url = json.loads(self.process.stdout.readline())["url"]
        self.web.close()
        self.web = self.client()
        return self

    def client(self) -> httpx2.Client:
        """A client of its own, for a thread."""
        return httpx2.Client(base_url=self.url, timeout=PATIENCE)

    def kill(self) -> None:
        """Kill -9."""
        assert self.end(signal.SIGKILL) == -signal.SIGKILL

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; its exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None
        return code

    def close(self) -> None:
        """End it, however it is."""
        self.web.close()
        if self.process is not None:
            self.kill()

    # -- speaking to it --

    def publish(self, channel: str, key: str | None = None, **more: Any) -> httpx2.Response:
        """Post a publication; `headers`, `web` and fields of the payload by name."""
        headers = dict(more.pop("headers", {}))
        if key is not None:
            headers["Idempotency-Key"] = key
        web = more.pop("web", self.web)
        return web.post("/publications", json=payload(channel, **more), headers=headers)

    def get(self, path: str, **query: Any) -> Any:
        """The body of a look-up that is expected to succeed."""
        answer = self.web.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def fault(self, kind: str, **more: Any) -> None:
        """Tell a fault; `channel`, `key` and `method` by name are what it matches."""
        match = {name: more.pop(name) for name in ("channel", "key", "method") if name in more}
        answer = self.web.post("/faults", json={"kind": kind, "match": match, **more})
        assert answer.status_code == 201, answer.text

    def fired(self) -> list[int]:
        """How often each fault has fired."""
        return [one["fired"] for one in self.get("/faults")["items"]]

    def done(self, **query: Any) -> int:
        """How often work was really done."""
        return int(self.get("/executions", **query)["count"])

    def outcomes(self, **query: Any) -> list[str]:
        """What came of each request."""
        return [one["outcome"] for one in self.get("/requests", **query)["items"]]


def payload(channel: str, **more: Any) -> dict[str, Any]:
    """A publication as it is posted."""
    return {"channel": channel, "title": "On stars", "artifact": {"sha256": "a" * 64, "version": 1}} | more


def fresh(prefix: str = "c") -> str:
    """A name that no other test uses, for a channel or a key."""
    return f"{prefix}-{uuid4().hex[:12]}"


def moment(seconds: float) -> str:
    """A time as it stands in a header, so many seconds from now."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def code_of(answer: httpx2.Response) -> str:
    """The code of a problem, which has the form of one."""
    assert answer.headers["Content-Type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == answer.status_code
    assert body["title"]
    assert body["detail"]
    return str(body["code"])


def at_once(count: int, call: Callable[[int], Any]) -> list[Any]:
    """The results of `call(i)` in as many threads, which start together."""
    results: list[Any] = [None] * count
    gate = threading.Barrier(count)

    def one(number: int) -> None:
        gate.wait(PATIENCE)
        results[number] = call(number)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    return results
