"""A driver's side of the conversation with the runner. The standard library alone: it runs in peers' environments.

The runner sends one request a line on stdin, the driver answers in JSON lines on stdout: `ready` (all that need not be
measured is done; the runner reads its meters and says go), `done` (the work is over), `checked` (what really ran).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any


def say(**message: Any) -> None:
    """One line to the runner."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def up() -> None:
    """A worker serves from here on; it ends with whoever started it, its children too.

    Without this a killed runner would leave workers behind that take the next run's work.
    """
    threading.Thread(target=_end_with_parent, daemon=True).start()
    say(at="up")


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)


def serve(measurements: Mapping[str, Callable[..., Any]], step: Callable[[Any], Any] = next) -> None:
    """Answer requests until stdin ends.

    A measurement is a generator: what comes before its first yield is preparation, what comes before the second is
    measured, and the third yields what was found when the outcome was checked. `step` advances one.
    """
    say(at="up")
    for line in iter(sys.stdin.readline, ""):
        request = json.loads(line)
        running = measurements[request.pop("measure")](**request)
        step(running)
        say(at="ready")
        sys.stdin.readline()
        started = time.perf_counter()
        step(running)
        say(at="done", seconds=time.perf_counter() - started)
        say(at="checked", **step(running))
