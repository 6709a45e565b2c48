"""Imports the whole program: codes, failpoints and metrics are declared where they are used."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from types import ModuleType

import stanchion
from stanchion.runtime.homes import SERVICES, service_module


@cache
def import_everything() -> None:
    """Import every module of the package and of the services; raises what a module raises."""
    homes = {service_module(name).partition("." + folder)[0] for name, folder in SERVICES.items()}
    for root in (stanchion, *(importlib.import_module(home) for home in sorted(homes))):
        for name in _modules(root):
            importlib.import_module(name)


def _modules(root: ModuleType) -> Iterator[str]:
    for found in pkgutil.walk_packages(root.__path__, root.__name__ + "."):
        if not found.name.endswith(".__main__") and ".migrations" not in found.name:
            yield found.name
