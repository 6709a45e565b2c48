"""Jobs in bulk: one act on all tasks that fit a filter; how far each has come, and what became of its targets."""

from __future__ import annotations

from typing import Final

from stanchion.contracts import ids

from ..view import Asked, Page, Shown, Twin

SHOWN: Final = 50
OUTCOMES: Final = ("done", "skipped", "failed")
ENDED: Final = ("stopped", "halted", "done", "failed")


def show(asked: Asked) -> Shown:
    """The jobs of the tenant, the newest first."""
    before = asked.chosen_id("before", ids.JOB)
    rows = asked.reads.jobs.page(asked.visitor.tenant_id, limit=SHOWN + 1, before=before)
    more = ids.public(ids.JOB, rows[SHOWN - 1].job_id) if len(rows) > SHOWN else None
    return Shown(
        "jobs",
        "Jobs",
        ("list",),
        {"rows": rows[:SHOWN], "before": before, "next": more, "ended": ENDED},
        Twin("stanchion job list", "GET /v1/jobs"),
        "tasks",
        (("Tasks", "/tasks"),),
    )


def job(asked: Asked) -> Shown:
    """One job: what it does, how far it is, what was skipped or failed and why."""
    job_id, tenant_id = asked.id("job_id", ids.JOB), asked.visitor.tenant_id
    outcome = asked.one_of("outcome", OUTCOMES)
    after = asked.chosen_id("after", ids.TASK)
    report = asked.reads.jobs.show(tenant_id, job_id)
    rows = asked.reads.jobs.targets(tenant_id, job_id, outcome=outcome, limit=SHOWN + 1, after=after)
    more = ids.public(ids.TASK, rows[SHOWN - 1]["target_id"]) if len(rows) > SHOWN else None
    public = ids.public(ids.JOB, job_id)
    return Shown(
        "job",
        f"Job {report.action} {report.state}",
        ("head", "targets"),
        {
            "job": report,
            "public_id": public,
            "rows": rows[:SHOWN],
            "outcome": outcome,
            "outcomes": OUTCOMES,
            "after": after,
            "next": more,
            "is_over": report.state in ENDED,
        },
        Twin(f"stanchion job show {public}", f"GET /v1/jobs/{public}"),
        "tasks",
        (("Tasks", "/tasks"), ("Jobs", "/jobs")),
        every=1.0,
        ended=report.state in ENDED,
        said=f"{report.done + report.skipped + report.failed:,} of {report.count} looked at",
    )


PAGES: Final = (Page("/jobs", show, query=("before",)), Page("/jobs/{job_id}", job, query=("outcome", "after")))
