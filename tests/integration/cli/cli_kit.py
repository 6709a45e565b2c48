"""What the tests of the command line share."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FLOWS = Path(__file__).with_name("cli_flows.py")
PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What one command line came to."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The JSON document that it printed."""
        return json.loads(self.out)

    @property
    def id(self) -> str:
        """The id that it printed."""
        return self.out.strip()


Shell = Callable[..., Answer]
Start = Callable[..., "subprocess.Popen[str]"]
