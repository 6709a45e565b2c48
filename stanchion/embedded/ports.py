"""Free loopback ports that clients cannot take while a server is down."""

from __future__ import annotations

import random
import socket
from contextlib import closing
from pathlib import Path

from stanchion.embedded.errors import NO_FREE_PORT, EmbeddedError

LOOPBACK = "127.0.0.1"
_TRIES = 200
_LOWEST = 15_000
_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def ephemeral_floor() -> int:
    """Return the first port that the kernel gives to outgoing connections (32768 where it does not say)."""
    try:
        return int(_EPHEMERAL_RANGE.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return 32_768


def is_free(port: int) -> bool:
    """Return whether nothing listens or lingers on this loopback port."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        # As the servers do: connections in TIME_WAIT of the server's own last life do not count as taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def free_port(avoid: frozenset[int] = frozenset()) -> int:
    """Return a free loopback port below the ephemeral range.

    A port inside that range may be given to a client's outgoing connection while the server is down: a client that
    retries `connect` to it can even connect to itself, and the restarted server then finds its port taken.

    Raises EmbeddedError (`E-SERVER-01`) when 200 random candidates were all taken.
    """
    # Two supervisors that start at the same moment must not walk the same sequence: the operating system seeds this.
    chooser = random.SystemRandom()
    floor = ephemeral_floor()
    low, high = (_LOWEST, floor) if floor > _LOWEST + 1_000 else (1_024, 65_536)
    for _ in range(_TRIES):
        port = chooser.randrange(low, high)
        if port not in avoid and is_free(port):
            return port
    raise EmbeddedError(
        NO_FREE_PORT,
        f"none of {_TRIES} ports tried is free",
        where=f"{LOOPBACK}, ports {low} to {high - 1}",
        why="other programs listen there, or this user may not open sockets",
        fix="stop what listens there, or point STANCHION_* variables at real servers",
    )
