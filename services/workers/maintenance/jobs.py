"""The jobs by their kinds, each as one bounded part: it goes on from what the last part recorded."""

from __future__ import annotations

from stanchion.authority.maintenance import Job, Maintenance

from .performer import Part

TIDY_ROWS = 1_000


def tidy(maintenance: Maintenance, after_seconds: int, job: Job) -> Part:
    """Remove the rows of maintenance jobs that ended long ago."""
    removed = maintenance.forget(after_seconds, TIDY_ROWS)
    total = int(job.result.get("removed", 0)) + removed
    return Part({"removed": total}, more=removed == TIDY_ROWS)
