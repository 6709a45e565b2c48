"""What a person sees of the demo: lines with the seconds since its start, and a bar that redraws itself."""

from __future__ import annotations

import sys
import time


class Screen:
    """Standard error; without a terminal the bar is shown once, at its end."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self._shown = ""

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self.started

    def say(self, line: str) -> None:
        """One line."""
        clear = "\r\x1b[2K" if sys.stderr.isatty() else ""
        sys.stderr.write(f"{clear}{self.seconds:6.1f} s  {line}\n")
        sys.stderr.flush()

    def bar(self, done: int, of: int) -> None:
        """How many documents are read."""
        if of:
            filled = round(28 * done / of)
            self.draw(f"  read {'█' * filled}{'░' * (28 - filled)} {done}/{of}")

    def draw(self, line: str) -> None:
        """A line that the next one replaces."""
        if line == self._shown:
            return
        self._shown = line
        sys.stderr.write(f"\r\x1b[2K{line}" if sys.stderr.isatty() else "")
        sys.stderr.flush()

    def end_bar(self) -> None:
        """Leave the last drawn line where it is."""
        if self._shown:
            sys.stderr.write("\n" if sys.stderr.isatty() else f"{self._shown}\n")
            self._shown = ""
