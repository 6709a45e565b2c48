"""One service of a stack as a real process: start, kill, freeze, restart, and whether it is ready."""

from __future__ import annotations

import http.client
import json
import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from stanchion.cli.launches import Surroundings, launch_command
from stanchion.embedded.ports import LOOPBACK, free_port, is_free
from stanchion.embedded.processes import Stage, birth_of
from stanchion.embedded.server import Server, Workspace

_PROBE_SECONDS = 2.0
_MARGIN_SECONDS = 5.0  # a service that drains needs a moment beyond its drain time to stop its parts


class ServiceProcess(Server):
    """A service on a port that it keeps. `env` may be changed; it holds from the next start on.

    `kill(signal)`, `restart()`, `freeze()`, `thaw()`, `wait_ready()`, `is_running()`, `pid`, `port` and `log_path` are
    those of the embedded servers. `supervise = False` keeps the stack from starting it again when it dies.
    """

    start_seconds = 90.0  # a busy machine needs long to import; what can not start ends at once

    def __init__(
        self,
        workspace: Workspace,
        surroundings: Surroundings,
        *,
        kind: str,
        name: str,
        logs: Path,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        port: int | None = None,
    ) -> None:
        super().__init__(workspace)
        self.kind = kind
        self.name = name
        self.env = dict(env or {})
        self.wanted = True  # False: it was taken out of the stack and is on its way out
        self.groups: set[int] = set()
        self._surroundings = surroundings
        self._logs = logs
        self._cwd = cwd
        self._seen = 0  # where the log of this start begins
        self.ending = (Stage(signal.SIGTERM, surroundings.drain_seconds + _MARGIN_SECONDS),)
        if port is not None and is_free(port):
            self._port = port

    @property
    def url(self) -> str:
        """Where it serves HTTP, without a slash at the end."""
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def log_path(self) -> Path:
        """The file that gets its output."""
        self._logs.mkdir(parents=True, exist_ok=True)
        return self._logs / f"{self.name}.log"

    def folder(self) -> Path:
        """The user's working directory: targets are named as seen from there."""
        return self._cwd

    def command(self) -> Sequence[str]:
        """The module of the service, under this interpreter."""
        return launch_command(self.kind)

    def environment(self) -> dict[str, str]:
        """What the stack gives to this kind of service."""
        return self._surroundings.environment(self.kind, self.name, self.port, self.env)

    def answers(self) -> bool:
        """This very process has written where it listens, and its `/readyz` says yes."""
        if self._noted_port() is None:
            return self._says_ready()
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=_PROBE_SECONDS)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def launch(self) -> None:
        """Start it without waiting until it is ready."""
        with self._lock:
            self._port = self._port or free_port()
            self._launch()

    def revive(self) -> bool:
        """Start it again if it has died and is supervised, without waiting until it is ready.

        Waiting would keep the supervisor from all other services for as long as, say, the database is away.
        """
        with self._lock:
            gone = self._child is not None and not self.is_running()
            if not gone or not self.supervise or not self.wanted or self._workspace.closing.is_set():
                return False
            self._launch()
            self.restarts += 1
            return True

    def exit_status(self) -> int | None:
        """The exit code of the last process (negative: the signal that ended it); None while it runs."""
        return None if self._child is None else self._child.poll()

    def _launch(self) -> None:
        super()._launch()
        if self._child is not None:
            self.groups.add(self._child.pid)

    def _rotate_log(self) -> None:
        super()._rotate_log()
        path = self.log_path
        self._seen = path.stat().st_size if path.exists() else 0

    def _noted_port(self) -> int | None:
        for note in self._surroundings.run_dir.glob(f"*-{self.pid}.json"):
            try:
                return int(json.loads(note.read_text(encoding="utf-8"))["port"])
            except (OSError, ValueError, KeyError, TypeError):
                continue
        return None

    def _says_ready(self) -> bool:
        # A service without HTTP only logs it.
        try:
            with self.log_path.open("rb") as log:
                log.seek(self._seen)
                return b'"service.ready"' in log.read(1024 * 1024)
        except OSError:
            return False


def end_stragglers(groups: Iterable[int]) -> int:
    """Kill what is left of these process groups once their leaders are gone; return in how many something was left.

    A worker that was killed can't end the processes of its isolated steps. A group whose leader lives is left alone:
    its number may have been given to somebody else since.
    """
    ended = 0
    for group in groups:
        if birth_of(group) is not None:
            continue
        with suppress(OSError):
            os.killpg(group, signal.SIGKILL)
            ended += 1
    return ended
