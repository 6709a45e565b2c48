"""PostgreSQL, a Kafka broker and Valkey without Docker: child processes on loopback, from wheels.

`EmbeddedServers(root).start()` returns `Endpoints`. Nothing is imported or started before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stanchion.embedded.endpoints import Endpoints, Overrides
    from stanchion.embedded.errors import EmbeddedError
    from stanchion.embedded.handle import External, Handle
    from stanchion.embedded.server import Server
    from stanchion.embedded.supervisor import EmbeddedServers

__all__ = ["EmbeddedError", "EmbeddedServers", "Endpoints", "External", "Handle", "Overrides", "Server"]

_HOMES = {
    "EmbeddedError": "errors",
    "EmbeddedServers": "supervisor",
    "Endpoints": "endpoints",
    "External": "handle",
    "Handle": "handle",
    "Overrides": "endpoints",
    "Server": "server",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: importing the package opens nothing and costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
