"""Lines at the end of stderr that are drawn again in place; on anything but a terminal, nothing is drawn at all."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from typing import Final

from stanchion.cli.ink import for_people

_ESCAPES: Final = re.compile(r"\x1b\[[0-9;]*m")


class Region:
    """Some lines that change; what else is written goes above them through `above`."""

    def __init__(self, *, lively: bool) -> None:
        self.lively = lively
        self._drawn = 0
        self._before: list[str] = []

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines in place of those before; longer ones are cut, so that none wraps."""
        if not self.lively:
            return
        size = shutil.get_terminal_size()
        shown = [cut(for_people(line), size.columns) for line in lines[: max(1, size.lines - 1)]]
        if shown == self._before and self._drawn:
            return
        sys.stderr.write(self._erased() + "".join(f"{line}\n" for line in shown))
        sys.stderr.flush()
        self._drawn, self._before = len(shown), shown

    def above(self, text: str) -> None:
        """Write a line that stays, above the region."""
        sys.stderr.write(f"{self._erased()}{for_people(text)}\n")
        self._drawn = 0
        sys.stderr.flush()

    def clear(self) -> None:
        """Take the region away."""
        if self._drawn:
            sys.stderr.write(self._erased())
            sys.stderr.flush()
        self._drawn = 0

    def _erased(self) -> str:
        return f"\x1b[{self._drawn}F\x1b[J" if self._drawn else ""


def cut(line: str, width: int) -> str:
    """A line with at most `width` visible characters."""
    if len(_ESCAPES.sub("", line)) <= width:
        return line
    kept, room = [], width - 1
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if part.startswith("\x1b"):
            kept.append(part)
        else:
            kept.append(part[: max(0, room)])
            room -= len(part)
    return "".join(kept) + "\x1b[0m" if "\x1b" in line else "".join(kept)
