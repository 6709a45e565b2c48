"""The supervisor's side of the watcher: start it, see that it works, replace it when it dies."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import subprocess
import sys
import time
from pathlib import Path

from stanchion.embedded.errors import NOT_READY, EmbeddedError
from stanchion.embedded.server import tail

_log = logging.getLogger("stanchion.embedded")

_READY_SECONDS = 20.0
_STOP_SECONDS = 5.0
_REPLACE_SECONDS = 1.0


class Watcher:
    """A child process that ends the servers when this process is gone (see `watcher.py`)."""

    def __init__(self, root: Path, run_id: str) -> None:
        self._root = root
        self._run_id = run_id
        self._child: subprocess.Popen[bytes] | None = None
        self._not_before = 0.0

    def start(self) -> None:
        """Start it; it says `ready` when it watches."""
        log_path = self._log_path()
        log_path.parent.mkdir(exist_ok=True)
        # In the root folder, with this process's own module path: the caller's folder may be removed, or hold modules
        # that would take the place of the standard ones.
        path = [str(Path(__file__).parents[2]), *(entry for entry in sys.path if entry)]
        with log_path.open("ab") as log:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "stanchion.embedded.watcher", self._root, self._run_id, str(os.getpid())],
                cwd="/",
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )

    def wait_ready(self) -> None:
        """Return when it watches. Raises EmbeddedError (`E-SERVER-04`): without it, orphans would be possible."""
        assert self._child is not None
        assert self._child.stdout is not None
        readable, _, _ = select.select([self._child.stdout], [], [], _READY_SECONDS)
        if not readable or self._child.stdout.readline() != b"ready\n":
            raise EmbeddedError(
                NOT_READY,
                "the watcher of the embedded servers does not start",
                where=str(self._log_path()),
                why=tail(self._log_path()),
                fix="see the log: this Python can't run `-m stanchion.embedded.watcher`",
            )

    def keep(self) -> None:
        """Replace it when it has died."""
        now = time.monotonic()
        if self._child is None or self._child.poll() is None or now < self._not_before:
            return
        self._not_before = now + _REPLACE_SECONDS
        _log.warning("the watcher of the embedded servers has died and is replaced; its log: %s", self._log_path())
        self._close_pipes(self._child)
        self.start()

    def stop(self) -> None:
        """Let it go: nothing is left for it to end."""
        child, self._child = self._child, None
        if child is None:
            return
        self._close_pipes(child)
        try:
            child.wait(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()  # a forked copy of this process holds the pipe open
            child.wait(timeout=_STOP_SECONDS)

    def _log_path(self) -> Path:
        return self._root / "logs" / "watcher.log"

    @staticmethod
    def _close_pipes(child: subprocess.Popen[bytes]) -> None:
        for pipe in (child.stdin, child.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
