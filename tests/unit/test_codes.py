"""Every code that can be shown is registered, with its meaning and its way out."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import stanchion
from stanchion.errors import CODES

ROOT = Path(__file__).parents[2]
CODE = re.compile(r"\bE-[A-Z]+-[0-9]{2}\b")


def used() -> dict[str, str]:
    """Each code in the sources, with a place where it stands."""
    found: dict[str, str] = {}
    folders = ("stanchion", "services")
    for path in sorted(p for f in folders for p in (ROOT / f).rglob("*") if p.suffix in (".py", ".sql")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for code in CODE.findall(line):
                found.setdefault(code, f"{path.relative_to(ROOT)}:{number}")
    return found


def import_all() -> None:
    for package in (stanchion, importlib.import_module("services")):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if "__main__" not in module.name and "migrations" not in module.name:
                importlib.import_module(module.name)


def test_every_code_is_registered() -> None:
    """A code in the sources without an entry would have no page, and nobody would know what to do about it."""
    import_all()
    missing = {code: place for code, place in used().items() if code not in CODES and code != "E-NAME-01"}
    assert not missing


def test_every_registered_code_is_used() -> None:
    """An entry that nothing raises is a promise without a place that keeps it."""
    import_all()
    counts: dict[str, int] = {}
    for path in (p for f in ("stanchion", "services") for p in (ROOT / f).rglob("*") if p.suffix in (".py", ".sql")):
        for code in CODE.findall(path.read_text()):
            counts[code] = counts.get(code, 0) + 1
    assert not {code for code in CODES if counts.get(code, 0) < 1}
