"""One database a module, and a transaction a test that is rolled back: thousands of attempts in seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from kit.databases import Databases


@pytest.fixture(scope="module")
def module_url(databases: Databases) -> Iterator[str]:
    """A migrated database for all tests of a module."""
    url = databases.create()
    yield url
    databases.drop(url)


@pytest.fixture(scope="module")
def module_connection(module_url: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A superuser's connection to it."""
    with psycopg.connect(module_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def sql(module_connection: psycopg.Connection[tuple[Any, ...]]) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A transaction that is rolled back after the test."""
    module_connection.execute("BEGIN")
    yield module_connection
    module_connection.execute("ROLLBACK")
