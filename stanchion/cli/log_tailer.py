"""What the logs of a stack say that a person should see now: warnings, errors, and what steps print."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

_LOOK_SECONDS: Final = 0.25
_LINES_AT_ONCE: Final = 20  # of one service in one look: a flood belongs into the file
_READ_BYTES: Final = 256 * 1024
_LOUD: Final = ("warning", "error", "critical")
_FIXED: Final = ("event", "level", "time", "service", "instance", "exception")


class LogTailer:
    """Follows the files `*-N.log` of a folder from their present end on, in a thread of its own."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._say = say
        self._places: dict[Path, int] = {}
        self._rests: dict[Path, bytes] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="stanchion-logs", daemon=True)

    def start(self) -> None:
        """Begin at the end of what is there."""
        for path in self._files():
            self._places[path] = path.stat().st_size
        self._thread.start()

    def stop(self) -> None:
        """Look once more, and end."""
        self._stopping.set()
        self._thread.join()

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("*-[0-9]*.log"))

    def _follow(self) -> None:
        while not self._stopping.wait(_LOOK_SECONDS):
            self.look()
        self.look()

    def look(self) -> None:
        """Tell what is new."""
        for path in self._files():
            lines = self._new_lines(path)
            told = [text for line in lines if (text := shown(line)) is not None]
            for text in told[:_LINES_AT_ONCE]:
                self._say(f"{path.stem} {text}")
            if len(told) > _LINES_AT_ONCE:
                self._say(f"{path.stem} and {len(told) - _LINES_AT_ONCE} more lines in {path}")

    def _new_lines(self, path: Path) -> list[bytes]:
        try:
            size = path.stat().st_size
            place = self._places.get(path, 0)
            if size < place:  # it was rotated
                place = 0
            with path.open("rb") as file:
                file.seek(place)
                data = file.read(_READ_BYTES)
        except OSError:
            return []
        self._places[path] = place + len(data)
        *lines, self._rests[path] = (self._rests.get(path, b"") + data).split(b"\n")
        return lines


def shown(line: bytes) -> str | None:
    """A line of a log as a person should see it, or None when it can wait in the file."""
    text = line.decode("utf-8", "replace").rstrip()
    if not text:
        return None
    try:
        entry = json.loads(text)
    except ValueError:
        return f"| {text}"  # what a step prints, or the traceback of a process that could not start
    if not isinstance(entry, dict) or "event" not in entry:
        return f"| {text}"
    if entry.get("level") not in _LOUD:
        return None
    return _told(entry)


def _told(entry: dict[str, Any]) -> str:
    facts = " ".join(f"{name}={value}" for name, value in entry.items() if name not in _FIXED)
    last = str(entry.get("exception", "")).strip().splitlines()[-1:]
    return " ".join(filter(None, [f"{entry['level']}:", str(entry["event"]), facts, *last]))
