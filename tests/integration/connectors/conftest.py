"""A press of its own for each module, and an engine that publishes through it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID

import pytest
from kit.engine import Admin, Engine
from kit.press import Press, fresh

from stanchion.db.engine import Database


@pytest.fixture(scope="module")
def shared_press(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Press]:
    """A running press."""
    made = Press(tmp_path_factory.mktemp("press")).start()
    yield made
    made.close()


@pytest.fixture
def press(shared_press: Press) -> Press:
    """The module's press, without faults."""
    shared_press.web.delete("/faults")
    return shared_press


@pytest.fixture
def channel() -> str:
    """A channel that no other test uses."""
    return fresh()


@pytest.fixture
def engine(db: Callable[[str], Database], admin: Admin, tenant: UUID) -> Engine:
    """Runs driven by hand, for one tenant."""
    return Engine(db, admin, tenant)
