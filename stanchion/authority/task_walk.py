"""A way through the tasks of a tenant that fit a filter: window by window, until enough are found or the time is over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, func, select, text, true

from stanchion.contracts.filters import Filter, Term
from stanchion.db import tables
from stanchion.db.engine import Database
from stanchion.errors import Unavailable
from stanchion.runtime.clock import Deadline, monotonic

from .queries import TASK_COLUMNS, rows_of
from .rows import Row
from .task_terms import Bounds, Plan, conditions, gathering, plan, window

TOO_SLOW: Final = "E-DB-05"
_FIRST: Final = {True: 500, False: 5_000}  # rows of the first window, by whether looking at one is dear
_LARGEST: Final = 50_000
_QUICK_SECONDS: Final = 0.2

_RUN = tables.run.c


@dataclass(slots=True)
class Walk:
    """A way through the tasks of a tenant, window by window, until enough are found or the time is over."""

    database: Database
    tenant_id: UUID
    wanted: Filter
    within: Bounds
    forward: bool
    deadline: Deadline
    looked: int = 0
    ended: bool = False
    at: UUID | None = None

    def rows(self, most: int) -> Iterator[Row]:
        """At most so many tasks in order; `ended` and `at` say afterwards how far it came."""
        way = plan(self.wanted)
        size = _FIRST[way.is_dear] if way.rest else most
        gathers = bool(way.rest) and not way.is_dear
        while most > 0 and not self.ended and not self.deadline.passed:
            began = monotonic()
            try:
                count, edge, rows = self._look(way.branches, way.rest, size, most)
                yield from rows
                self.looked += count if way.rest else 0
                most -= len(rows)
                self._step(edge if most > 0 or not rows else rows[-1]["task_id"])
                self.ended = count < size and most > 0
                if gathers and most > 0 and not self.ended:
                    gathers = False
                    rows = self._gather(way, most)
                    yield from rows
                    self.ended = len(rows) < most
                    most -= len(rows)
                    self._step(rows[-1]["task_id"] if rows else None)
            except Unavailable as error:
                if error.code != TOO_SLOW:
                    raise
                if size == 1:
                    return
                size = max(1, size // 8)  # rows that are dear to look at: the next window has fewer
                continue
            if monotonic() - began < _QUICK_SECONDS and way.rest:
                size = min(size * 4, _LARGEST)

    def _gather(self, way: Plan, most: int) -> list[Row]:
        """What is left, at once: it is rare, so that several indexes together find it."""
        found = gathering(self.tenant_id, way, self.within, most, forward=self.forward)
        with bounded(self.database, self.tenant_id, self.deadline.left) as connection:
            return rows_of(connection, found)

    def _step(self, to: UUID | None) -> None:
        if to is not None:
            self.at = to
            self.within = replace(self.within, **{"after" if self.forward else "before": to})

    def _look(self, branches: Any, rest: tuple[Term, ...], size: int, most: int) -> tuple[int, UUID | None, list[Row]]:
        seen = window(self.tenant_id, branches, self.within, size, forward=self.forward).cte("seen")
        order, back = seen.c.task_id.desc(), seen.c.task_id.asc()
        order, back = (back, order) if self.forward else (order, back)
        fits = (
            select(*_shown(seen), _RUN.paused_at)
            .outerjoin(tables.run, _RUN.run_id == seen.c.run_id)
            .where(*conditions(rest, seen.c))
            .order_by(order)
            .limit(most)
            .subquery("fits")
        )
        edge = select(seen.c.task_id).order_by(back).limit(1).scalar_subquery()
        stats = select(
            select(func.count()).select_from(seen).scalar_subquery().label("n"), edge.label("edge")
        ).subquery()
        with bounded(self.database, self.tenant_id, self.deadline.left) as connection:
            rows = rows_of(connection, select(stats, fits).select_from(stats.outerjoin(fits, true())))
        count, last = rows[0].pop("n"), rows[0].pop("edge")
        found = [{name: value for name, value in row.items() if name not in ("n", "edge")} for row in rows]
        return count, last, sorted_of([row for row in found if row["task_id"] is not None], forward=self.forward)


def sorted_of(rows: list[Row], *, forward: bool) -> list[Row]:
    """By id: a join keeps no order."""
    return sorted(rows, key=lambda row: row["task_id"].int, reverse=not forward)


def _shown(seen: Any) -> list[Any]:
    return [seen.c[column.key] for column in TASK_COLUMNS]


@contextmanager
def bounded(database: Database, tenant_id: UUID, seconds: float) -> Iterator[Connection]:
    """A connection that shows one tenant, whose statements end after so many seconds."""
    with database.tenant(tenant_id) as connection:
        milliseconds = str(max(1, round(seconds * 1_000)))
        connection.execute(text("SELECT set_config('statement_timeout', :ms, true)"), {"ms": milliseconds})
        yield connection
