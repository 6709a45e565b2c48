"""The way from a command to the events: a database of one connection, and what was found as rows for people."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final
from uuid import UUID

from stanchion.authority.check import check
from stanchion.authority.rebuild import rebuild
from stanchion.contracts import ids
from stanchion.db.engine import Database

_PREFIXES: Final = {"task": ids.TASK, "run": ids.RUN, "step": ids.STEP, "barrier": "bar"}


def differences(url: str, run_id: str | None) -> Iterator[dict[str, Any]]:
    """What stands in rows and is told otherwise by the events, one row each."""
    wanted = _run(run_id)
    with closing(Database(url, name="check", pool_size=1)) as database:
        for one in check(database, wanted):
            yield {
                "run_id": ids.public(ids.RUN, one.run_id),
                "what": one.what,
                "which": _shown(one.what, one.which),
                "field": one.field,
                "stored": _plain(one.stored),
                "told": _plain(one.told),
            }


def repairs(url: str, run_id: str | None, *, apply: bool) -> Iterator[dict[str, Any]]:
    """What is wrong in derived rows, one row each; with `apply` it is put right."""
    wanted = _run(run_id)
    with closing(Database(url, name="rebuild", pool_size=1)) as database:
        for one in rebuild(database, wanted, apply=apply):
            yield {
                "run_id": one.run_id and ids.public(ids.RUN, one.run_id),
                "what": one.what,
                "which": _shown(one.what, one.which),
                "detail": one.detail,
            }


def _run(text: str | None) -> UUID | None:
    return None if text is None else ids.parse(text, ids.RUN)


def _shown(what: str, which: UUID | None) -> str | None:
    if which is None:
        return None
    return ids.public(_PREFIXES[what], which) if what in _PREFIXES else str(which)


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str | list | dict) else str(value)
