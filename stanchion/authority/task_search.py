"""Tasks by a filter: pages, counts, and the way of a job through all that fit; bounded in time, and honest about it.

What an index serves is read from it in order. What no index serves is looked at window by window, for
`limits.SEARCH_SECONDS`; the answer says how many rows it looked at, how far back it was asked to look, and whether it
stopped before the end. Where it stopped is the cursor of the next page, so that nothing is passed over.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal
from uuid import UUID

from sqlalchemy import Select, func, literal, select, union_all

from stanchion.contracts import limits
from stanchion.contracts.filters import Filter, Term
from stanchion.db import tables
from stanchion.db.engine import Database
from stanchion.errors import Unavailable
from stanchion.runtime.clock import Deadline

from .queries import rows_of
from .rows import Row
from .task_terms import CLOSED, OPEN, Plain, bounds, conditions, plan
from .task_walk import TOO_SLOW, Walk, bounded

Order = Literal["newest", "oldest", "still"]
ORDERS: Final = ("newest", "oldest", "still")
"""`still`: of what is open, that without a change for longest."""

JOB_SECONDS: Final = 20.0  # for one part of a job's way: nobody waits for it
STILL_TASKS: Final = 5_000  # open tasks whose last change is looked at, the oldest

_TASK = tables.task.c
_RUN = tables.run.c
_EVENT = tables.event.c


@dataclass(frozen=True, slots=True)
class Found:
    """A page of tasks. `scanned`: rows that were looked at one by one; `partial`: it stopped before the end of the page,
    for time; `since`: nothing older was looked at."""

    items: list[Row]
    next: UUID | None = None
    scanned: int = 0
    partial: bool = False
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Count:
    """How many there are; not `exact`: so many or more."""

    number: int
    exact: bool = True

    def __str__(self) -> str:
        return f"{self.number:,}" + ("" if self.exact else "+")


@dataclass(frozen=True, slots=True)
class Sample:
    """How many tasks fit, and the first of them."""

    count: Count
    first: list[Row] = field(default_factory=list)


class TaskSearch:
    """Under any login that reads tasks; every call sees one tenant. Filters are settled: see `Filter.settled`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def now(self, tenant_id: UUID) -> datetime:
        """The database's clock."""
        with self.database.tenant(tenant_id) as connection:
            moment: datetime = connection.execute(select(func.stanchion.clock())).scalar_one()
            return moment

    def since(self, tenant_id: UUID, wanted: Filter, days: float | None = limits.SEARCH_DAYS) -> datetime | None:
        """How far back a filter is looked for: `days` for what no index serves and that says nothing of its time itself."""
        times = {"created", "started", "ended", "id", "key"}
        if days is None or not plan(wanted).is_dear or any(t.name in times and not t.negated for t in wanted.terms):
            return None
        return self.now(tenant_id) - timedelta(days=days)

    def page(
        self,
        tenant_id: UUID,
        wanted: Filter,
        *,
        limit: int,
        order: Order = "newest",
        before: UUID | None = None,
        since: datetime | None = None,
    ) -> Found:
        """Tasks that fit, from `before` (exclusive) on in this order; of `still` there is one page."""
        if order == "still":
            return self._still(tenant_id, wanted, limit, since)
        forward = order == "oldest"
        walk = self._walk(tenant_id, wanted, before, since, forward=forward)
        rows = list(walk.rows(limit + 1))
        if len(rows) > limit:
            return Found(rows[:limit], rows[limit - 1]["task_id"], walk.looked, False, since)
        return Found(rows, None if walk.ended else walk.at or before, walk.looked, not walk.ended, since)

    def part(self, tenant_id: UUID, wanted: Filter, *, limit: int, after: UUID | None, until: datetime) -> Found:
        """The next tasks of a job, oldest first: those that were there at `until` and fit now."""
        born = Term("created", (until.isoformat(),), "<=")
        walk = self._walk(tenant_id, Filter((*wanted.terms, born)), after, None, forward=True)
        walk.deadline = Deadline(JOB_SECONDS)
        rows = list(walk.rows(limit))
        return Found(rows, None if walk.ended else walk.at or after, walk.looked, not walk.ended and len(rows) < limit)

    def sample(
        self,
        tenant_id: UUID,
        wanted: Filter,
        *,
        first: int = 20,
        since: datetime | None = None,
        reopens: str | None = None,
    ) -> Sample:
        """How many fit (with `reopens`: how many failed steps of this node they have), and the first of them."""
        walk = self._walk(tenant_id, wanted, None, since, forward=True)
        rows = list(walk.rows(limits.COUNTED_ROWS + 1))
        number, whole = len(rows), walk.ended
        if reopens is not None:
            number, whole = self._failed_steps(tenant_id, [row["run_id"] for row in rows], reopens), walk.ended
        return Sample(Count(min(number, limits.COUNTED_ROWS), whole and number <= limits.COUNTED_ROWS), rows[:first])

    def counts(self, tenant_id: UUID, wanted: Filter | None = None) -> dict[str, Count | None]:
        """How many tasks of each state fit, without what the filter says of states; None: it can't be counted quickly."""
        terms = tuple(t for t in (wanted or Filter()).terms if t.name not in ("state", "is"))
        if plan(Filter(terms)).is_dear:
            return dict.fromkeys((*OPEN, *CLOSED))
        most = limits.COUNTED_ROWS
        try:
            with bounded(self.database, tenant_id, limits.SEARCH_SECONDS) as connection:
                found = {row["state"]: row["n"] for row in rows_of(connection, _counting(tenant_id, terms, most + 1))}
        except Unavailable as error:
            if error.code != TOO_SLOW:
                raise
            return dict.fromkeys((*OPEN, *CLOSED))
        whole = sum(found.get(state, 0) for state in OPEN) <= most
        opened: dict[str, Count | None] = {str(state): Count(found.get(state, 0), whole) for state in OPEN}
        return opened | {str(s): Count(min(found.get(s, 0), most), found.get(s, 0) <= most) for s in CLOSED}

    def _walk(self, tenant_id: UUID, wanted: Filter, at: UUID | None, since: datetime | None, *, forward: bool) -> Walk:
        within = bounds(wanted.terms, since)
        if at is not None:
            within = replace(within, **{"after" if forward else "before": at})
        if since is not None:
            wanted = Filter((*wanted.terms, Term("created", (since.isoformat(),), ">=")))
        return Walk(self.database, tenant_id, wanted, within, forward, Deadline(limits.SEARCH_SECONDS))

    def _failed_steps(self, tenant_id: UUID, runs: list[UUID], node: str) -> int:
        step = tables.step.c
        found = select(literal(1)).where(step.run_id.in_(runs), step.node == node, step.state == "failed", step.holds)
        with self.database.tenant(tenant_id) as connection:
            return int(
                connection.execute(
                    select(func.count()).select_from(found.limit(limits.COUNTED_ROWS + 1).subquery())
                ).scalar_one()
            )

    def _still(self, tenant_id: UUID, wanted: Filter, limit: int, since: datetime | None) -> Found:
        terms = (Term("is", ("open",)), *(t for t in wanted.terms if t.values != ("open",)))
        walk = self._walk(tenant_id, Filter(terms), None, since, forward=True)
        rows = list(walk.rows(STILL_TASKS))
        last = (
            select(_EVENT.at)
            .where(_EVENT.run_id == _RUN.run_id)
            .order_by(_EVENT.xid.desc(), _EVENT.event_id.desc())
            .limit(1)
            .scalar_subquery()
        )
        changed = func.coalesce(last, _RUN.updated_at).label("changed_at")
        found = select(_RUN.run_id, changed).where(_RUN.run_id.in_([row["run_id"] for row in rows]))
        with bounded(self.database, tenant_id, 2 * limits.SEARCH_SECONDS) as connection:
            moments = {row["run_id"]: row["changed_at"] for row in rows_of(connection, found)}
        shown = [row | {"changed_at": moments.get(row["run_id"], row["updated_at"])} for row in rows]
        shown.sort(key=lambda row: (row["changed_at"], row["task_id"].int))
        return Found(shown[:limit], None, walk.looked, not walk.ended, since)


def _counting(tenant_id: UUID, terms: tuple[Term, ...], most: int) -> Select[Any]:
    """Each closed state from the index that has it; the open ones, of which there are few, together."""

    def limited(*more: Any) -> Any:
        found = select(_TASK.state).where(_TASK.tenant_id == tenant_id, *more)
        if terms:
            found = found.join(tables.run, _RUN.run_id == _TASK.run_id).where(*conditions(terms, Plain()))
        # in the order of the index that is meant: others have rows of all tenants
        return found.order_by(_TASK.task_id.desc()).limit(most).subquery()

    parts = []
    for state in CLOSED:
        one = limited(_TASK.ended_at.is_not(None), _TASK.state == state)
        parts.append(select(literal(str(state)).label("state"), func.count().label("n")).select_from(one))
    opened = limited(_TASK.ended_at.is_(None))
    parts.append(select(opened.c.state, func.count().label("n")).group_by(opened.c.state))
    return select(union_all(*parts).subquery())
