"""Fixtures of the database's tests."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest
from kit.engine import Admin, Engine

from stanchion.db.engine import Database


@pytest.fixture
def engine(db: Callable[[str], Database], admin: Admin, tenant: UUID) -> Engine:
    """Runs driven by hand, for one tenant."""
    return Engine(db, admin, tenant)
