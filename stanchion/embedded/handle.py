"""What a test or a tool can do to a server, be it ours or a real one."""

from __future__ import annotations

import signal
from typing import Protocol

from stanchion.embedded.errors import NOT_OURS, EmbeddedError


class Handle(Protocol):
    """What a test can do to a server, one process or several (Apache Kafka with three nodes)."""

    supervise: bool

    @property
    def url(self) -> str:
        """Where clients connect."""
        ...

    @property
    def pid(self) -> int:
        """The server's process id (of the first node). Raises EmbeddedError (`E-SERVER-07`) when it is not ours."""
        ...

    def kill(self, signal_number: int = signal.SIGKILL) -> None:
        """Send a signal; after SIGKILL return once the process is gone."""
        ...

    def restart(self) -> None:
        """Stop it when it still runs, start it on the same port, return when it is ready."""
        ...

    def wait_ready(self, seconds: float = 30.0) -> None:
        """Return when it answers. Raises EmbeddedError (`E-SERVER-04`) when it does not within `seconds`."""
        ...


class External:
    """A real server named by a variable: it has an address, and is not ours to kill."""

    def __init__(self, url: str, variable: str) -> None:
        self.url = url
        self.supervise = False
        self._variable = variable

    @property
    def pid(self) -> int:
        """Raise EmbeddedError (`E-SERVER-07`)."""
        raise self._not_ours()

    def kill(self, signal_number: int = signal.SIGKILL) -> None:  # noqa: ARG002  # the signature is the protocol's
        """Raise EmbeddedError (`E-SERVER-07`)."""
        raise self._not_ours()

    def restart(self) -> None:
        """Raise EmbeddedError (`E-SERVER-07`)."""
        raise self._not_ours()

    def wait_ready(self, seconds: float = 30.0) -> None:
        """Return at once: whoever runs the server answers for it."""

    def _not_ours(self) -> EmbeddedError:
        return EmbeddedError(
            NOT_OURS,
            "this server was not started here",
            where=self._variable,
            why="the variable names a real server, so none was embedded",
            fix=f"unset {self._variable}",
        )
