"""The performer: claims a job by its fence, does it in bounded parts, and records how far it is after each.

Killed in the middle, a job is taken over when its lease has expired, and goes on from the last part that was recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Literal
from uuid import UUID

from stanchion.authority.maintenance import Job, Maintenance
from stanchion.errors import StanchionError, Unavailable
from stanchion.runtime import failpoints
from stanchion.runtime.clock import Deadline, monotonic
from stanchion.runtime.logging import get_logger
from stanchion.runtime.redaction import redact_text

CLAIMED = failpoints.declare("maintenance.claimed", "a maintenance job is claimed; nothing of it is done yet")
WORKED = failpoints.declare("maintenance.worked", "a part of a maintenance job is done; nobody has recorded it")

PAUSE_SECONDS = 2.0  # a shorter pause between two parts is waited for, a longer one gives the job back
AGAIN_SECONDS = 5.0  # after something outside was away
FAILED_MS = 60_000  # after a failure; after so many in a row (`maintenance.TRIES`) it is given up

log = get_logger()


@dataclass(frozen=True, slots=True)
class Part:
    """What one part of a job came to: the counts so far, whether there is more, and the seconds to leave it alone."""

    result: dict[str, Any] = field(default_factory=dict)
    more: bool = False
    wait_seconds: float = 0.0


Work = Callable[[Job], Part]
"""One bounded part of a job, from what `job.result` says on. Done twice it must be as if done once."""


class JobFailed(RuntimeError):  # noqa: N818 - it is what happened
    """What the queue gets to see of a failure; the job's row has the rest."""


class Performer:
    """Does jobs by their kind; `quiesce` ends the one that runs after its part, and it goes on elsewhere."""

    name = "performer"

    def __init__(self, maintenance: Maintenance, works: Mapping[str, Work], lease_seconds: float) -> None:
        self.maintenance = maintenance
        self.works = works
        self.lease_seconds = lease_seconds
        self._stopping = Event()

    def start(self) -> None:
        """Nothing: entries come from the queue."""

    def quiesce(self) -> None:
        """End after the part that runs."""
        self._stopping.set()

    def stop(self, timeout: float = 0.0) -> bool:  # noqa: ARG002 - the signature of a part
        """The same."""
        self._stopping.set()
        return True

    def perform(self, kind: str, key: str, tenant: str, fence: int) -> dict[str, Any]:
        """Do a job whose entry was taken from the queue; raises JobFailed."""
        work = self.works.get(kind)
        if work is None:
            return {"outcome": "unknown kind"}  # of a newer release: its own workers know it
        try:
            job = self.maintenance.claim(kind, key, UUID(tenant), fence, self._lease_ms)
            return {"outcome": "taken"} if job is None else self._perform(job, work)
        except Unavailable as error:
            # the database is away: once it is back, the job is derived again or its lease has expired
            log.warning("maintenance.job_failed", kind=kind, key=key, code=error.code, what=error.what)
            return {"outcome": "away"}

    def _perform(self, job: Job, work: Work) -> dict[str, Any]:
        failpoints.hit(CLAIMED, kind=job.kind)
        started = monotonic()
        try:
            job, last = self._work(job, work)
        except Unavailable as error:
            # something outside is away: that is no failure of the job
            log.warning("maintenance.job_failed", kind=job.kind, key=job.key, code=error.code, what=error.what)
            last = Part(job.result, more=True, wait_seconds=AGAIN_SECONDS)
        except Exception as error:  # noqa: BLE001 - whatever a job does, its row says how it ended
            self._failed(job, error)
            raise JobFailed(f"{job.kind} {job.key}: {_named(error)['code']}") from None
        outcome: Literal["more", "done"] = "more" if last.more else "done"
        state = self.maintenance.finish(job, outcome, last.result, round(last.wait_seconds * 1000))
        self._say(job, state, last, monotonic() - started)
        return {"outcome": outcome if state else "lost"}

    @property
    def _lease_ms(self) -> int:
        return round(self.lease_seconds * 1000)

    def _work(self, job: Job, work: Work) -> tuple[Job, Part]:
        # other jobs wait behind this one: a long one makes room after a third of its lease
        budget = Deadline(self.lease_seconds / 3)
        while True:
            part = work(job)
            failpoints.hit(WORKED, kind=job.kind)
            job = job._replace(result=part.result)
            if not part.more or part.wait_seconds > PAUSE_SECONDS or budget.passed or self._stopping.is_set():
                return job, part
            if not self.maintenance.keep(job, part.result, self._lease_ms):
                return job, part
            self._stopping.wait(part.wait_seconds)

    def _failed(self, job: Job, error: Exception) -> None:
        state = self.maintenance.finish(job, "failed", job.result | {"error": _named(error)}, FAILED_MS)
        log.error("maintenance.job_failed", kind=job.kind, key=job.key, fence=job.fence, state=state, exc_info=True)

    def _say(self, job: Job, state: str | None, last: Part, seconds: float) -> None:
        if state is None:
            log.warning("maintenance.job_lost", kind=job.kind, key=job.key, fence=job.fence)
        else:
            log.info(
                "maintenance.job_done",
                kind=job.kind,
                key=job.key,
                fence=job.fence,
                state=state,
                seconds=round(seconds, 3),
                result=last.result,
            )


def _named(error: Exception) -> dict[str, str]:
    if isinstance(error, StanchionError):
        return {"code": error.code, "what": redact_text(error.what)[:1_000]}
    return {"code": "E-BUG-01", "what": redact_text(f"{type(error).__name__}: {error}")[:1_000]}
