"""A peer's side of the conversation with the runner. The standard library alone: it runs in peers' environments.

The runner sends one request a line on stdin, the driver answers in JSON lines on stdout: `ready` (all that need not be
measured is done; the runner reads its meters and says go), `done` (the work is over), `checked` (what really ran).
"""

from __future__ import annotations

import ctypes
import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

_PR_SET_PDEATHSIG = 1


def up() -> queue.SimpleQueue[str]:
    """Say that this process serves from here on; what the runner says arrives in the queue.

    The process ends with whoever started it, its children too: a killed runner would otherwise leave workers behind
    that take the next run's work.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # reaches a frozen worker, which reads nothing
    heard: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(heard,), daemon=True).start()
    _say(at="up")
    return heard


def serve(measurements: Mapping[str, Callable[..., Any]], step: Callable[[Any], Any] = next) -> None:
    """Answer requests until the process is ended.

    A measurement is a generator: what comes before its first yield is preparation, what comes before the second is
    measured, and the third yields what was found when the outcome was checked. `step` advances one.
    """
    heard = up()
    while True:
        request = json.loads(heard.get())
        running = measurements[request.pop("measure")](**request)
        step(running)
        _say(at="ready")
        heard.get()
        started = time.perf_counter()
        step(running)
        _say(at="done", seconds=time.perf_counter() - started)
        _say(at="checked", **step(running))


def _say(**message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _listen(heard: queue.SimpleQueue[str]) -> None:
    # Read past sys.stdin: a worker that forks its pool would hand the lock of its buffer to every child.
    said = b""
    while piece := os.read(0, 4_096):
        *lines, said = (said + piece).split(b"\n")
        for line in lines:
            heard.put(line.decode())
    os.killpg(0, signal.SIGKILL)
