"""Workers that a failpoint holds: which, at what, and letting them go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stanchion.cli.service_process import ServiceProcess


class Holds:
    """The folder in which failpoints and the demo leave each other notes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def clear(self) -> None:
        """Forget what an earlier demo left: process numbers come again."""
        for old in self.folder.glob("*"):
            old.unlink()

    def held(self, name: str, worker: ServiceProcess) -> dict[str, Any] | None:
        """What a worker was doing when its failpoint held it; None while it is not held."""
        if not (self.folder / f"{name}.{worker.pid}.held").exists():
            return None
        for line in reversed((self.folder / "fired.log").read_text().splitlines()):
            fired = json.loads(line)
            if fired["name"] == name and fired["pid"] == worker.pid:
                return dict(fired["context"])
        return None

    def release(self, name: str, worker: ServiceProcess) -> None:
        """Let it go on."""
        (self.folder / f"{name}.{worker.pid}.release").touch()
