"""What the maintenance worker asks of the database to do a job in bulk: the next targets, acts, what became of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb
from sqlalchemy import select

from stanchion.contracts import payload
from stanchion.db import tables
from stanchion.db.engine import Database
from stanchion.errors import Rejected, StanchionError, Unavailable

from .jobs import tasks_of
from .maintenance import Job
from .queries import rows_of
from .task_search import TaskSearch
from .tasks import retry_plan
from .workflows import Workflows

WATCHED: Final = 1_000  # of the last targets that were tried again

_STEP = tables.step.c


@dataclass(frozen=True, slots=True)
class Target:
    """What comes next, and the place behind it; without an id there is nothing to do, but the place moves on."""

    target_id: UUID | None
    place: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Watched:
    """Of the last targets: how many were tried again, came to an end since, and failed again."""

    acted: int
    settled: int
    failed: int


class JobActs:
    """Under the maintenance worker's login; each act is one transaction with its note."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.search = TaskSearch(database)
        self.workflows = Workflows(database)

    def next(self, job: Job, limit: int) -> tuple[list[Target], bool]:
        """The next targets behind the job's place, and whether there are none behind them."""
        last = job.result.get("last")
        after = None if last is None else UUID(last)
        until = datetime.fromisoformat(job.request["until"])
        page = self.search.part(job.tenant_id, tasks_of(job.request), limit=limit, after=after, until=until)
        if job.request.get("node") is None:
            targets = [Target(row["task_id"], {"last": str(row["task_id"])}) for row in page.items]
        else:
            targets = self._steps(job, page.items, limit)
        if page.partial and page.next is not None and not targets:
            targets = [Target(None, {"last": str(page.next)})]
        return targets, page.next is None and not page.items

    def _steps(self, job: Job, tasks: list[dict[str, Any]], limit: int) -> list[Target]:
        targets = list[Target]()
        for task in tasks:
            room = limit - len(targets)
            if room <= 0:
                break
            at = str(task["task_id"])
            place = job.result.get("step") if job.result.get("at") == at else None
            steps = self._failed(job, task["run_id"], None if place is None else UUID(place), room)
            targets += [Target(step, {"at": at, "step": str(step)}) for step in steps]
            if len(steps) < room:
                targets.append(Target(None, {"last": at}))
        return targets

    def _failed(self, job: Job, run_id: UUID, after: UUID | None, limit: int) -> list[UUID]:
        found = select(_STEP.step_id).where(
            _STEP.run_id == run_id, _STEP.node == job.request["node"], _STEP.state == "failed", _STEP.holds
        )
        if after is not None:
            found = found.where(_STEP.step_id > after)
        with self.database.tenant(job.tenant_id) as connection:
            return [row["step_id"] for row in rows_of(connection, found.order_by(_STEP.step_id).limit(limit))]

    def act(self, job: Job, target_id: UUID) -> dict[str, Any] | None:
        """Act on a target, unless it was acted on before; the job's counts, None when another worker has the job.

        What refuses is noted as skipped, what breaks as failed: one target never holds up the others.
        """
        try:
            plan = self._plan(job, target_id)
            return self._call(job, target_id, plan, None)
        except Unavailable:
            raise
        except StanchionError as error:
            outcome = "skipped" if isinstance(error, Rejected) else "failed"
            return self._call(job, target_id, None, {"outcome": outcome, "code": error.code, "what": error.what})

    def _plan(self, job: Job, target_id: UUID) -> dict[str, Any] | None:
        if job.request["action"] != "task.retry":
            return None
        plan = retry_plan(self.database, self.workflows, job.tenant_id, target_id)
        kept = {"nodes": plan.kept, "reason": job.request.get("reason") or ""}
        return {
            "run": str(plan.run_id), "open": plan.open, "steps": plan.steps, "barriers": plan.barriers, "kept": kept,
        }  # fmt: skip

    def _call(
        self, job: Job, target_id: UUID, plan: dict[str, Any] | None, fault: dict[str, Any] | None
    ) -> dict[str, Any] | None:
        rows = self.database.call(
            "act_for_job",
            "SELECT stanchion.act_for_job(%s, %s, %s, %s, %s, %s)",
            (job.tenant_id, UUID(job.key), job.fence, target_id, _json(plan), _json(fault)),
        )
        found: dict[str, Any] | None = rows[0][0]
        return found

    def watch(self, job: Job) -> Watched:
        """What became of the last targets."""
        rows = self.database.read(
            "SELECT * FROM stanchion.watch_job(%s, %s, %s)", (job.tenant_id, UUID(job.key), WATCHED)
        )
        return Watched(*rows[0])


def _json(value: Any) -> Jsonb | None:
    return None if value is None else Jsonb(value, dumps=payload.dumps)
