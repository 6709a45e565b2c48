"""A job in bulk: the next targets at the rate that was asked for, each once; it stops itself when trying again is no use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from stanchion.authority.job_acts import JobActs, Watched
from stanchion.authority.jobs import TRIES_AGAIN
from stanchion.authority.maintenance import Job
from stanchion.contracts import limits
from stanchion.runtime import failpoints

from .performer import Part

MOST: Final = 50  # targets of one part
ENOUGH: Final = 10  # targets that came to an end, before their share of failures says something
CANARY_SECONDS: Final = 3.0  # between two looks at the first one

ACTED = failpoints.declare("maintenance.acted", "a job has acted on a target; nobody has recorded how far it is")


@dataclass(frozen=True, slots=True)
class Bulk:
    """Acts on the next targets. `wake` tells the relay and the orchestrator that there is work."""

    acts: JobActs
    wake: Callable[[], None] = lambda: None

    def __call__(self, job: Job) -> Part:
        """One part: look what became of the last ones, then act on the next ones."""
        if "stopped" in job.request:
            return Part(job.result | {"stopped": job.request["stopped"]})
        verdict = self._verdict(job)
        if verdict is not None:
            return verdict
        return self._go_on(job)

    def _verdict(self, job: Job) -> Part | None:
        """Whether to stop, or to wait for the canary; None: go on."""
        if job.request["action"] not in TRIES_AGAIN or not job.result.get("done"):
            return None
        watched = self.acts.watch(job)
        if self._awaits_canary(job):
            if watched.settled == 0:
                return Part(job.result | {"canary": "running"}, more=True, wait_seconds=CANARY_SECONDS)
            job.result["canary"] = "failed" if watched.failed else "passed"
            return self._halted(job, watched) if watched.failed else None
        if watched.settled >= ENOUGH and watched.failed > limits.JOB_FAILED_SHARE * watched.settled:
            return self._halted(job, watched)
        return None

    def _awaits_canary(self, job: Job) -> bool:
        return bool(job.request.get("canary")) and job.result.get("canary") != "passed"

    def _halted(self, job: Job, watched: Watched) -> Part:
        told = {"failed": watched.failed, "settled": watched.settled, "acted": watched.acted}
        return Part(job.result | {"halted": told})

    def _go_on(self, job: Job) -> Part:
        rate = int(job.request["rate"])
        size = 1 if self._awaits_canary(job) else min(MOST, max(1, rate // 2))
        targets, ended = self.acts.next(job, size)
        result, acted = dict(job.result), 0
        for target in targets:
            if target.target_id is not None:
                counts = self.acts.act(job, target.target_id)
                failpoints.hit(ACTED, job=job.key)
                if counts is None:
                    return Part(job.result)  # another worker has the job, and the performer will learn it
                result = _with_place(counts, result)
                if "stopped" in counts:
                    return Part(result)
                acted += 1
            result |= target.place
            if self._awaits_canary(job) and result.get("done"):
                break
        if acted:
            self.wake()
        return Part(result, more=not ended, wait_seconds=acted / rate)


def _with_place(counts: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """The counts as the database has them, with what only this worker knows yet."""
    return counts | {name: known[name] for name in ("last", "at", "step", "canary") if name in known}
