"""The press as a process beside a stack, and what the demo asks of it. It ends with the stack, however that ends."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2

from stanchion.embedded.ports import LOOPBACK
from stanchion.embedded.processes import Stage
from stanchion.embedded.server import Server, Workspace

CHECKOUT = Path(__file__).resolve().parents[2]
PROBE_SECONDS = 2.0
PATIENCE_SECONDS = 30.0


class PressProcess(Server):
    """Its file is `data`; what stood there before goes on."""

    name = "press"
    ending = (Stage(15, 5.0),)

    def __init__(self, workspace: Workspace, data: Path) -> None:
        super().__init__(workspace)
        self.data = data

    @property
    def url(self) -> str:
        """Where it serves HTTP."""
        return f"http://{LOOPBACK}:{self.port}"

    def folder(self) -> Path:
        """The checkout, in which its module is."""
        return CHECKOUT

    def command(self) -> Sequence[str]:
        """The press under this interpreter."""
        return [sys.executable, "-m", "examples.press", "--port", str(self.port), "--data", str(self.data)]

    def answers(self) -> bool:
        """It lists its faults, and the process that said that it listens there is ours: another one would have the port."""
        try:
            found = httpx2.get(f"{self.url}/faults", timeout=PROBE_SECONDS)
        except httpx2.TransportError:
            return False
        return found.status_code == httpx2.codes.OK and self.url in self.log_path.read_text(encoding="utf-8")

    # -- what the demo asks of it --

    def fault(self, kind: str, channel: str) -> None:
        """Have the next request to a channel that meets no earlier fault go wrong."""
        wish = {"kind": kind, "match": {"channel": channel}}
        httpx2.post(f"{self.url}/faults", json=wish, timeout=PATIENCE_SECONDS).raise_for_status()

    def executions(self, channel: str | None = None) -> int:
        """How often it has really published something, in one channel or at all."""
        return int(self._get("/executions", {} if channel is None else {"channel": channel})["count"])

    def requests(self) -> list[dict[str, Any]]:
        """The requests to publish that it has received, the oldest first, with what came of each."""
        return [one for one in self._get("/requests")["items"] if one["method"] == "POST"]

    def _get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        return httpx2.get(self.url + path, params=query, timeout=PATIENCE_SECONDS).raise_for_status().json()
