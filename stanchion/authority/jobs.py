"""Jobs in bulk: one act on all tasks that fit a filter, at a rate, in the name of who asked for it.

A job is a maintenance job of the kind `bulk`: the maintenance worker goes through the tasks, oldest first, and acts on
each once. Rights are checked when it is asked for; the filter is settled then, so that `2h` means two hours before that.
What was born later is not touched, and what does not fit any more when its turn comes is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb
from sqlalchemy import Select, select

from stanchion.contracts import limits
from stanchion.contracts.actions import ACTIONS
from stanchion.contracts.filters import Filter, Term, parse
from stanchion.db import tables
from stanchion.db.engine import Database
from stanchion.errors import Conflict, Unavailable, Unprocessable, register_code

from .queries import rows_of
from .rows import Row, missing
from .task_search import Count, Sample, TaskSearch

KIND: Final = "bulk"

ACTS: Final[dict[str, str]] = {
    "task.cancel": "is:open",
    "task.pause": "is:open -is:paused",
    "task.resume": "is:paused",
    "task.retry": "state:failed,cancelled,rejected",
    "task.reopen": "is:open",
}
"""What a job may do, and which tasks it may be done to: others would only be skipped."""
TRIES_AGAIN: Final = ("task.retry", "task.reopen")
"""Acts whose targets may fail again: these jobs watch what becomes of them."""

NO_ACT = register_code(
    "E-JOB-01",
    "no such job",
    status=422,
    meaning="A job in bulk does one of a few acts, to all tasks that fit a filter.",
    fix=f"Use one of {', '.join(ACTS)}; task.reopen needs a node, task.cancel a reason.",
)
TOO_MANY = register_code(
    "E-JOB-02",
    "too many jobs",
    status=503,
    meaning=f"A tenant has at most {limits.JOBS_OPEN} jobs that have not ended.",
    fix="Wait for one to end, or stop one: stanchion job list.",
)
OTHER_COUNT = register_code(
    "E-JOB-03",
    "another number fits",
    status=409,
    meaning="The filter fits another number of targets than was expected, or the number can't be known in time.",
    fix="Look again at what fits; narrow the filter.",
)
BAD_RATE = register_code(
    "E-JOB-04",
    "bad rate",
    status=422,
    meaning=f"A job does 1 to {limits.JOB_RATE_MAX} acts a second.",
    fix="Leave it out, or choose one within these bounds.",
)
SO_ALREADY = register_code(
    "E-JOB-05",
    "nothing to do",
    status=409,
    meaning="The target was in the wanted state already; a job skips it.",
    fix="Nothing.",
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for. `node`: whose failed steps are reopened; `canary`: one first, the others if it did not fail."""

    action: str
    filter: Filter
    reason: str = ""
    rate: int = limits.JOB_RATE
    node: str | None = None
    canary: bool | None = None

    def checked(self) -> Wanted:
        """The same with the tasks that it may be done to; raises Unprocessable E-JOB-01, E-JOB-04."""
        if self.action not in ACTS:
            what = f"there is no job {self.action[:40]!a}"
            raise Unprocessable(NO_ACT, what, where="$.action", fix=f"one of {', '.join(ACTS)}")
        if (self.action == "task.reopen") != (self.node is not None):
            what = "task.reopen needs the node whose failed steps it is about, and no other job takes one"
            raise Unprocessable(NO_ACT, what, where="$.node", fix="send node with task.reopen alone")
        if ACTIONS[self.action].final and not self.reason:
            what = f"{self.action} of many can't be taken back: it needs a reason"
            raise Unprocessable(NO_ACT, what, where="$.reason", fix="say why; it stands in the history of each task")
        if not 1 <= self.rate <= limits.JOB_RATE_MAX:
            what = f"a rate is 1 to {limits.JOB_RATE_MAX} a second, not {self.rate:,}"
            raise Unprocessable(BAD_RATE, what, where="$.rate")
        canary = self.action == "task.reopen" if self.canary is None else self.canary and self.action in TRIES_AGAIN
        terms = (*self.filter.terms, *parse(ACTS[self.action]).terms)
        return replace(self, filter=Filter(tuple(dict.fromkeys(terms))), canary=canary)


@dataclass(frozen=True, slots=True)
class Report:
    """How a job stands. `state`: waiting, running, stopping, stopped, halted (too many failed again), done, failed."""

    job_id: UUID
    state: str
    action: str
    filter: str
    node: str | None
    reason: str
    rate: int
    by: str
    count: Count
    done: int
    skipped: int
    failed: int
    reasons: dict[str, int]
    canary: str | None
    halted: dict[str, Any] | None
    stopped: dict[str, Any] | None
    error: dict[str, Any] | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class Jobs:
    """Asked for under the task service's login, looked at under any that reads them."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.search = TaskSearch(database)

    def plan(self, tenant_id: UUID, wanted: Wanted) -> Sample:
        """What a job would be about, without doing anything; raises as `create`."""
        return self.search.sample(tenant_id, wanted.checked().filter, reopens=wanted.node)

    def create(
        self, tenant_id: UUID, job_id: UUID, wanted: Wanted, *, actor: str, expect_count: int | None = None
    ) -> None:
        """Ask for a job; the same id again is the same job. The filter is settled by the caller.

        Raises Unprocessable, Conflict E-JOB-03 when another number fits, Unavailable E-JOB-02.
        """
        wanted = wanted.checked()
        count = self.search.sample(tenant_id, wanted.filter, first=0, reopens=wanted.node).count
        if expect_count is not None and count != Count(expect_count):
            raise Conflict(
                OTHER_COUNT, f"{count} fit, {expect_count:,} were expected: nothing was done", count=str(count)
            )
        request = {
            "action": wanted.action,
            "filter": str(wanted.filter),
            "node": wanted.node,
            "reason": wanted.reason,
            "rate": wanted.rate,
            "canary": wanted.canary,
            "until": self.search.now(tenant_id).isoformat(),
            "count": count.number,
            "exact": count.exact,
        }
        rows = self.database.call(
            "maintain", "SELECT stanchion.create_job(%s, %s, %s, %s)", (tenant_id, job_id, Jsonb(request), actor)
        )
        if not rows[0][0]:
            raise Unavailable(
                TOO_MANY, f"there are {limits.JOBS_OPEN} jobs that have not ended", fix="stanchion job list"
            )

    def stop(self, tenant_id: UUID, job_id: UUID, *, reason: str, actor: str) -> Report:
        """Stop a job: nothing is acted on any more, what was done stays. Raises NotFound."""
        rows = self.database.call(
            "maintain", "SELECT stanchion.stop_job(%s, %s, %s, %s)", (tenant_id, job_id, reason, actor)
        )
        if rows[0][0] is None:
            raise missing("job")
        return self.show(tenant_id, job_id)

    def show(self, tenant_id: UUID, job_id: UUID) -> Report:
        """One job; raises NotFound."""
        with self.database.tenant(tenant_id) as connection:
            rows = rows_of(connection, _jobs(tenant_id).where(tables.maintenance_job.c.key == str(job_id)))
        if not rows:
            raise missing("job")
        return _report(rows[0])

    def page(self, tenant_id: UUID, *, limit: int, before: UUID | None = None) -> list[Report]:
        """Jobs, the newest first."""
        found = _jobs(tenant_id).order_by(tables.maintenance_job.c.key.desc()).limit(limit)
        if before is not None:
            found = found.where(tables.maintenance_job.c.key < str(before))
        with self.database.tenant(tenant_id) as connection:
            return [_report(row) for row in rows_of(connection, found)]

    def targets(
        self, tenant_id: UUID, job_id: UUID, *, outcome: str | None = None, limit: int, after: UUID | None = None
    ) -> list[Row]:
        """What a job came to, target by target, in the order of their ids."""
        target = tables.job_target.c
        names = ("target_id", "outcome", "code", "what", "made_id", "at")
        found = select(*(target[name] for name in names)).where(target.tenant_id == tenant_id, target.job_id == job_id)
        if outcome is not None:
            found = found.where(target.outcome == outcome)
        if after is not None:
            found = found.where(target.target_id > after)
        with self.database.tenant(tenant_id) as connection:
            return rows_of(connection, found.order_by(target.target_id).limit(limit))


def _jobs(tenant_id: UUID) -> Select[Any]:
    job = tables.maintenance_job.c
    columns = (job.key, job.state, job.request, job.result, job.created_at, job.started_at, job.finished_at)
    return select(*columns).where(job.tenant_id == tenant_id, job.kind == KIND)


def _report(row: Row) -> Report:
    request, result = row["request"], row["result"] or {}
    return Report(
        job_id=UUID(row["key"]),
        state=_state(row["state"], row, request, result),
        action=request["action"],
        filter=request["filter"],
        node=request.get("node"),
        reason=request.get("reason") or "",
        rate=request["rate"],
        by=request["by"],
        count=Count(request["count"], request["exact"]),
        done=result.get("done", 0),
        skipped=result.get("skipped", 0),
        failed=result.get("failed", 0),
        reasons=result.get("reasons", {}),
        canary=result.get("canary"),
        halted=result.get("halted"),
        stopped=request.get("stopped"),
        error=result.get("error"),
        created_at=row["created_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
    )


def _state(state: str, row: Row, request: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    if row["finished_at"] is None:
        return "stopping" if "stopped" in request else "running" if row["started_at"] else "waiting"
    if state == "done" and "halted" in result:
        return "halted"
    # who stopped it after its last target stopped nothing
    return "stopped" if state == "done" and "stopped" in result else state


def tasks_of(request: Mapping[str, Any]) -> Filter:
    """The filter of a job that was asked for."""
    return parse(request["filter"])


def named(task_id: UUID) -> Filter:
    """The filter that one task fits."""
    return Filter((Term("id", (str(task_id),)),))
