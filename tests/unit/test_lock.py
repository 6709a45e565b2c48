"""What is pinned can be installed with the oldest Python that we promise, and nothing names a registry."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

CHECKOUT = Path(__file__).parents[2]
BROWSER_LOCK = (CHECKOUT / "requirements-browser.lock").read_text()
LOCK = (CHECKOUT / "requirements.lock").read_text() + BROWSER_LOCK
PINNED = re.findall(r"^([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?==([^ ;\\]+)", LOCK, re.MULTILINE)
OLDEST = "3.11.0"


@pytest.mark.parametrize(("name", "version"), PINNED)
def test_a_pin_takes_the_oldest_python(name: str, version: str) -> None:
    """Distributions ship early releases of a version: with a lock made by a later one, nothing could be installed."""
    try:
        found = distribution(name)
    except PackageNotFoundError:
        pytest.skip("not for this platform, or not installed: make test-browser")
    assert found.version == version
    wanted = found.metadata.get("Requires-Python")
    assert wanted is None or SpecifierSet(wanted).contains(OLDEST), f"{name} {version} needs Python {wanted}"


def test_no_address_is_recorded() -> None:
    """The lock names versions and hashes, wherever they come from."""
    assert "://" not in LOCK
    assert "--index" not in LOCK
