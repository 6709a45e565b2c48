"""Fixtures of the database's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID

import pytest
from kit.deciding import Deciding
from kit.engine import Admin, Engine
from kit.outside import Outside

from stanchion.authority.check import check
from stanchion.db.engine import Database


@pytest.fixture
def engine(db: Callable[[str], Database], admin: Admin, tenant: UUID) -> Engine:
    """Runs driven by hand, for one tenant."""
    return Engine(db, admin, tenant)


@pytest.fixture
def agrees(engine: Engine, database_url: str) -> Iterator[None]:
    """After the test, the rows are what the events tell."""
    yield
    root = Database(database_url, name="check")
    found = [str(difference) for difference in check(root)]
    root.close()
    assert found == []


@pytest.fixture
def outside() -> Outside:
    """An outside system that keeps what it was asked for."""
    return Outside()


@pytest.fixture
def people(engine: Engine) -> Deciding:
    """Ann and Bob are editors, Cat is an admin of no team, Eve is an editor who may not decide."""
    deciding = Deciding(engine)
    deciding.person("ann", "editors")
    deciding.person("bob", "editors")
    deciding.person("cat", role="admin")
    deciding.person("eve", "editors", role="operator")
    return deciding
