"""Where a service lives: `services.NAME` in a checkout, `stanchion.services.NAME` in a wheel.

A wheel takes no generic top-level name from its user's own code, so the folder moves; this is the one place that knows.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from stanchion.errors import NotFound

SERVICES: Final[dict[str, str]] = {
    "task-service": "task_service",
    "orchestrator": "orchestrator",
    "outbox-relay": "outbox_relay",
    "worker": "workers",
    "maintenance": "workers.maintenance",
}
"""The names that people use, and the folder of each below `services`."""


def service_module(name: str) -> str:
    """The module to run for a service (`python -m ...`); raises NotFound E-CONF-04 with the names there are."""
    folder = SERVICES.get(name) or {path: path for path in SERVICES.values()}.get(name)
    if folder is None:
        raise NotFound(
            "E-CONF-04", f"there is no service {name[:60]!a}", fix="use one of " + ", ".join(sorted(SERVICES))
        )
    return f"{_home()}.{folder}"


def service_command(name: str) -> list[str]:
    """The command line that starts a service with this interpreter."""
    return [sys.executable, "-m", service_module(name)]


def _home() -> str:
    if find_spec("stanchion.services") is not None:
        return "stanchion.services"
    # A user's own package may be called `services` too: ours lies beside the stanchion package.
    spec = find_spec("services")
    ours = Path(__file__).resolve().parents[2] / "services"
    if spec is not None and spec.origin is not None and Path(spec.origin).resolve().parent == ours:
        return "services"
    raise NotFound(
        "E-CONF-04",
        "the services are not part of this installation",
        why=f"neither stanchion/services nor {ours} can be imported",
        fix="install the wheel, or run from the checkout with it on the path",
    )
