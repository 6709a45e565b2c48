"""Jobs in bulk: one act on all tasks that fit a filter."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from stanchion.authority.jobs import Report, Wanted
from stanchion.authority.keys import Principal
from stanchion.authority.rows import Row
from stanchion.contracts import ids, limits
from stanchion.contracts.actions import ACTIONS
from stanchion.contracts.filters import needed
from stanchion.contracts.ids import new_id
from stanchion.runtime.hints import MAINTENANCE

from ..access import Caller, needs
from ..bodies import ReasonBody, body_schema
from ..bodies_lists import JobBody
from ..deps import Deps, Has
from ..params import Body, Cursor, Limit, StrictRoute, cursor_of, message, one_of
from ..views import Paged
from ..views_lists import JobPlan, JobTarget, JobView

router = APIRouter(route_class=StrictRoute, tags=["jobs"])

OUTCOMES = ("done", "skipped", "failed")
FIRST = 20


@router.post(
    "/v1/jobs",
    status_code=202,
    response_model=JobView | JobPlan,
    responses={200: {"model": JobPlan, "description": "What it would be about (`dry_run`)"}},
    **body_schema(needs("task.operate", or_own="task.cancel"), JobBody),
)
def create_job(response: Response, deps: Has, caller: Caller, body: Body) -> JobView | JobPlan:
    """Ask for one act on all tasks that fit a filter, at a rate; the maintenance worker does it, in the caller's name.

    The caller needs the right of the act itself.
    """
    given = message(JobBody, body)
    wanted = _wanted(deps, caller, given)
    if given.dry_run:
        response.status_code = 200
        sample = deps.jobs.plan(caller.tenant_id, wanted)
        return JobPlan.model_validate(
            {
                "action": wanted.action,
                "filter": str(wanted.checked().filter),
                "count": sample.count,
                "first": sample.first[:FIRST]
                if caller.sees_payloads
                else [row | {"reason": None} for row in sample.first],
            }
        )
    job_id = new_id() if given.job_id is None else ids.parse(given.job_id, ids.JOB)
    deps.jobs.create(caller.tenant_id, job_id, wanted, actor=caller.actor, expect_count=given.expect_count)
    deps.handlers.hints.publish(MAINTENANCE)
    return JobView.model_validate(deps.jobs.show(caller.tenant_id, job_id))


@router.get("/v1/jobs", response_model=Paged[JobView], **needs("task.read"))
def list_jobs(deps: Has, caller: Caller, limit: Limit = limits.PAGE_ROWS, cursor: Cursor = None) -> Row:
    """Jobs, the newest first."""
    found = deps.jobs.page(caller.tenant_id, limit=limit + 1, before=cursor_of(cursor, ids.JOB))
    more = ids.public(ids.JOB, found[limit - 1].job_id) if len(found) > limit else None
    return {"items": found[:limit], "next": more}


@router.get("/v1/jobs/{job_id}", response_model=JobView, **needs("task.read"))
def get_job(deps: Has, caller: Caller, job_id: str) -> Report:
    """How a job stands."""
    return deps.jobs.show(caller.tenant_id, ids.parse(job_id, ids.JOB))


@router.get("/v1/jobs/{job_id}/targets", response_model=Paged[JobTarget], **needs("task.read"))
def list_targets(
    *,
    deps: Has,
    caller: Caller,
    job_id: str,
    outcome: Annotated[str | None, Query(description="done, skipped or failed")] = None,
    limit: Limit = limits.PAGE_ROWS,
    cursor: Cursor = None,
) -> Row:
    """What became of each target so far, in the order of their ids."""
    parsed = ids.parse(job_id, ids.JOB)
    report = deps.jobs.show(caller.tenant_id, parsed)
    prefix = ids.TASK if report.node is None else ids.STEP
    rows = deps.jobs.targets(
        caller.tenant_id,
        parsed,
        outcome=one_of(outcome, "outcome", OUTCOMES),
        limit=limit + 1,
        after=cursor_of(cursor, prefix),
    )
    items = [
        row
        | {
            "target": ids.public(prefix, row["target_id"]),
            "made": row["made_id"] and ids.public(ids.RUN, row["made_id"]),
        }
        for row in rows[:limit]
    ]
    return {"items": items, "next": items[-1]["target"] if len(rows) > limit else None}


@router.post(
    "/v1/jobs/{job_id}/stop",
    response_model=JobView,
    **body_schema(needs("task.operate", or_own="task.cancel"), ReasonBody, required=False),
)
def stop_job(deps: Has, caller: Caller, job_id: str, body: Body) -> Report:
    """Stop a job: nothing is acted on any more, what was done stays. One's own, or with task.operate anybody's."""
    parsed = ids.parse(job_id, ids.JOB)
    if deps.jobs.show(caller.tenant_id, parsed).by != caller.actor:
        caller.require("task.operate")
    reason = message(ReasonBody, body).reason
    report = deps.jobs.stop(caller.tenant_id, parsed, reason=reason, actor=caller.actor)
    deps.handlers.hints.publish(MAINTENANCE)
    return report


def _wanted(deps: Deps, caller: Principal, given: JobBody) -> Wanted:
    found = needed(given.filter, "$.filter")
    if given.action in ACTIONS:
        caller.require(ACTIONS[given.action].right)
    if found.needs_payload:
        caller.require("payload.read")
    settled = found.settled(caller.subject, deps.search.now(caller.tenant_id))
    wanted = Wanted(given.action, settled, given.reason, given.rate, given.node, given.canary)
    wanted.checked()
    return wanted
