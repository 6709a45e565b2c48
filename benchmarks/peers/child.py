"""One process of a peer: JSON lines from it, a line to it, and its end."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

_TERM_SECONDS = 5.0


class PeerError(Exception):
    """A peer's process ended, was too slow, or did not do what it was asked to do."""


class Child:
    """A process in a session of its own, so that all of it can be ended by the id that we got when we started it."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=dict(environment),
                text=True,
                start_new_session=True,
            )
        self._messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def pid(self) -> int:
        """Its process id, which is also that of its group."""
        return self._process.pid

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with contextlib.suppress(ValueError):  # banners and warnings of the peer are no messages
                message = json.loads(line)
                if isinstance(message, dict):
                    self._messages.put(message)
        self._messages.put(None)

    def expect(self, at: str, seconds: float) -> dict[str, Any]:
        """The next message, which must be this one. Raises PeerError when it does not come."""
        try:
            message = self._messages.get(timeout=seconds)
        except queue.Empty:
            raise PeerError(f"{self.name}: no {at!a} within {seconds:g} s; see {self.log}") from None
        if message is None:
            raise PeerError(f"{self.name} ended before {at!a}; see {self.log}")
        if message.pop("at", None) != at:
            raise PeerError(f"{self.name} said {message} instead of {at!a}")
        return message

    def tell(self, line: str) -> None:
        """Write one line to it. Raises PeerError when it is gone."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise PeerError(f"{self.name} is gone; see {self.log}") from error

    def signal_family(self, number: int) -> None:
        """Send a signal to it and to all that descend from it."""
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self.pid)
            for member in (process, *process.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    member.send_signal(number)

    def wait(self, seconds: float) -> int:
        """Its exit code. Raises PeerError when it takes longer."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise PeerError(f"{self.name} did not end within {seconds:g} s; see {self.log}") from None

    def end(self) -> None:
        """End it and all of its group: asked first, then killed."""
        self.signal_family(signal.SIGCONT)
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_TERM_SECONDS)
        deadline = time.monotonic() + _TERM_SECONDS
        while time.monotonic() < deadline:
            try:
                os.killpg(self.pid, signal.SIGKILL)  # what is left of the group; empty in most cases
            except (ProcessLookupError, PermissionError):
                break
            threading.Event().wait(0.02)
        self._process.wait(_TERM_SECONDS)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
