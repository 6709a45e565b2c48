"""What one invocation was told: how to print, and where the API is. Filled by the common options of every command."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TextIO

VERSION = 1
"""The `v` of everything printed by --json and --jsonl: fields may be added to it, none is renamed or removed."""


@dataclass(slots=True)
class Session:
    """The common options. A flag may stand before or behind the command's name; the later one holds."""

    json: bool = False
    jsonl: bool = False
    quiet: bool = False
    color: str = "auto"
    ascii: bool = False
    debug: bool = False
    format: str | None = None
    columns: str | None = None
    no_headers: bool = False
    no_trunc: bool = False
    api_url: str | None = None
    api_key: str | None = None
    profile: str | None = None
    timeout: float = 30.0

    @property
    def machine(self) -> bool:
        """Whether a program reads the output."""
        return self.json or self.jsonl

    def colored(self, stream: TextIO) -> bool:
        """Whether colour goes to `stream`: the flag, then NO_COLOR, CLICOLOR_FORCE, TERM=dumb, then the terminal."""
        if self.color != "auto":
            return self.color == "always"
        if os.environ.get("NO_COLOR"):
            return False
        if os.environ.get("CLICOLOR_FORCE", "0") not in ("", "0"):
            return True
        return os.environ.get("TERM") != "dumb" and stream.isatty()

    @property
    def lively(self) -> bool:
        """Whether progress may redraw itself: stderr is a terminal that can, and nobody asked for less."""
        return sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not self.quiet and not self.machine
