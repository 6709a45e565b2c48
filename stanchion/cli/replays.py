"""The way from a command to the replay of events: a database of one connection, and differences as rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields, is_dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from uuid import UUID

from stanchion.contracts import ids
from stanchion.db.engine import Database
from stanchion.errors import NotFound


def differences(url: str, run_id: str | None) -> Iterator[dict[str, Any]]:
    """What differs between the stored rows and those derived from the events, one row each."""
    check = _function("stanchion.authority.check", "check")
    with closing(Database(url, name="check", pool_size=1)) as database:
        for difference in check(database, _run(run_id)):
            yield _row(difference)


def rebuilt(url: str, run_id: str | None) -> int:
    """Store what the events say in place of what is stored; how many runs."""
    rebuild = _function("stanchion.authority.rebuild", "rebuild")
    with closing(Database(url, name="rebuild", pool_size=1)) as database:
        return int(rebuild(database, _run(run_id)) or 0)


def _run(text: str | None) -> UUID | None:
    return None if text is None else ids.parse(text, ids.RUN)


def _function(module: str, name: str) -> Any:
    if find_spec(module) is None:
        raise NotFound("E-FIND-01", f"this release has no {module}")
    return getattr(import_module(module), name)


def _row(difference: Any) -> dict[str, Any]:
    if not is_dataclass(difference):
        return {"what": str(difference)}
    return {one.name: _plain(getattr(difference, one.name)) for one in fields(difference)}


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, UUID) else value
