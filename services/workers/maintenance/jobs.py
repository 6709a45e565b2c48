"""The jobs by their kinds. Each call is one bounded part, which goes on from what the last one recorded."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Protocol
from uuid import UUID

from stanchion.authority.bulk_redrive import BulkRedrive
from stanchion.authority.dead_letters import OUTBOX, Kept
from stanchion.authority.error_groups import ErrorCollector
from stanchion.authority.maintenance import Job, Maintenance
from stanchion.authority.recounts import Recounts
from stanchion.authority.retention import Retention
from stanchion.authority.samples import Samples
from stanchion.authority.sweeping import Sweeping
from stanchion.bus.messages import Message
from stanchion.errors import Rejected, Unavailable
from stanchion.runtime.logging import get_logger
from stanchion.telemetry import metrics

from .performer import Part

TIDY_ROWS: Final = 1_000
SWEEP_ROWS: Final = 200
SAMPLE_ROWS: Final = 5_000
OBJECTS_LISTED: Final = 500
RECOUNT_ROWS: Final = 500
REDRIVE_LETTERS: Final = 200
FIRST: Final = UUID(int=0)
STAGES: Final = ("payloads", "artifacts", "history", "orphans", "inbox", "months")
"""Payloads before history, history before the months of its events."""

log = get_logger()


def tidy(
    maintenance: Maintenance,
    after_seconds: int,
    retention: Retention,
    gone: timedelta,
    silent: timedelta,
    unseen: timedelta,
    job: Job,
) -> Part:
    """Remove the rows of maintenance jobs and of workers that ended long ago, and of workers that fell silent, and groups
    of errors that nobody has seen any more."""
    removed = maintenance.forget(after_seconds, TIDY_ROWS)
    workers = retention.remove_workers(gone, silent, TIDY_ROWS)
    metrics.removed.labels("jobs").inc(removed)
    metrics.removed.labels("workers").inc(workers)
    errors = retention.remove_error_groups(unseen, TIDY_ROWS)
    metrics.removed.labels("groups of errors").inc(errors)
    counted = _added(job.result, removed=removed, workers=workers, errors=errors)
    return Part(counted, more=TIDY_ROWS in (removed, workers, errors))


def group_errors(collector: ErrorCollector, job: Job) -> Part:
    """Put the failures that are new into groups."""
    grouped, more = collector.collect()
    return Part(_added(job.result, grouped=grouped), more=more)


def dead_letters(retention: Retention, older: timedelta, most: int, most_bytes: int, job: Job) -> Part:
    """Remove parked messages that are too old, and of each tenant the oldest beyond what it may have."""
    expired, crowded = retention.remove_dead_letters(older, most, most_bytes)
    metrics.removed.labels("dead letters").inc(expired + crowded)
    if crowded:
        log.warning("maintenance.dead_letters_crowded", removed=crowded)
    return Part(_added(job.result, expired=expired, crowded=crowded), more=bool(expired or crowded))


def samples(kept: Samples, short: timedelta, long: timedelta, job: Job) -> Part:
    """Put samples together into longer spans, then remove those that were kept for their time."""
    folded = kept.fold()
    removed = 0 if folded else kept.remove(short, long, SAMPLE_ROWS)
    metrics.removed.labels("samples").inc(removed)
    return Part(_added(job.result, folded=folded, removed=removed), more=bool(folded) or removed == SAMPLE_ROWS)


def partitions(retention: Retention, job: Job) -> Part:
    """Make the partitions of the months to come."""
    return Part(job.result | {"made": retention.make_partitions()})


@dataclass(frozen=True, slots=True)
class Retaining:
    """Removes what was kept for its time, one stage after the other."""

    retention: Retention
    payloads: timedelta
    history: timedelta

    def __call__(self, job: Job) -> Part:
        """A chunk of the stage that is on."""
        stage = int(job.result.get("stage", 0))
        name = STAGES[stage]
        removed = getattr(self, f"_{name}")()
        metrics.removed.labels(name).inc(removed)
        counted = _added({name: 0} | job.result, **{name: removed}) | {"stage": stage + (0 if removed else 1)}
        return Part(counted, more=counted["stage"] < len(STAGES))

    def _payloads(self) -> int:
        return self.retention.remove_payloads(self.payloads)

    def _artifacts(self) -> int:
        return self.retention.remove_artifacts()

    def _history(self) -> int:
        return self.retention.remove_history(self.history)

    def _orphans(self) -> int:
        return self.retention.remove_orphans()

    def _inbox(self) -> int:
        return self.retention.trim_inbox()

    def _months(self) -> int:
        return len(self.retention.drop_partitions(self.history))


@dataclass(frozen=True, slots=True)
class Recounting:
    """Compares the counts of joins that have waited for long with their branches, and repairs what differs."""

    recounts: Recounts
    older: timedelta

    def __call__(self, job: Job) -> Part:
        """The next joins, in the order of their birth."""
        found = self.recounts.look(UUID(job.result.get("last", str(FIRST))), self.older, RECOUNT_ROWS)
        repaired = 0
        for barrier_id in found.wrong:
            if (changed := self.recounts.repair(barrier_id)) is not None:
                repaired += 1
                log.error("maintenance.recounted", barrier_id=str(barrier_id), **changed)
        result = _added(job.result, looked=found.waiting, repaired=repaired)
        return Part(result if found.last is None else result | {"last": str(found.last)}, more=found.last is not None)


def sweep(sweeping: Sweeping, job: Job) -> Part:
    """Give up uploads that take too long, and delete content that no version names any more."""
    abandoned, removed = sweeping.abandon(SWEEP_ROWS), sweeping.remove(SWEEP_ROWS)
    forgotten = sweeping.forget(SWEEP_ROWS)
    metrics.removed.labels("uploads").inc(abandoned)
    metrics.removed.labels("objects").inc(removed)
    counted = _added(job.result, abandoned=abandoned, removed=removed)
    return Part(counted, more=SWEEP_ROWS in (abandoned, removed, forgotten))


def find_orphans(sweeping: Sweeping, job: Job) -> Part:
    """Look through the objects of all tenants, one after the other, for those without a version."""
    last = UUID(job.result.get("tenant", str(FIRST)))
    after = job.result.get("after")
    if after is None:
        found = sweeping.next_tenant(last)
        if found is None:
            return Part(_added(job.result, orphans=0))
        metrics.removed.labels("parts of uploads").inc(sweeping.sweep_temporary(found))
        last = found
    behind, asked = sweeping.look(last, bytes.fromhex(after) if after else None, OBJECTS_LISTED)
    counted = _added(job.result, orphans=asked)
    return Part(counted | {"tenant": str(last), "after": behind.hex() if behind else None}, more=True)


class Sender(Protocol):
    """What sends messages: None for one that is stored, else why it is not."""

    def send_all(self, messages: list[Message]) -> list[Exception | None]:
        """Send all and wait for the acknowledgements."""


@dataclass(frozen=True, slots=True)
class Redriving:
    """Sends dead letters to their topics again, at the rate that was asked for, then records them as sent.

    A crash in between sends some twice: they carry the ids that they came with, so whoever reads them knows.
    """

    letters: BulkRedrive
    producer: Sender

    def __call__(self, job: Job) -> Part:
        """The next letters."""
        rate = int(job.request.get("rate", 1))
        size = min(REDRIVE_LETTERS, max(1, rate // 2))
        found = self.letters.next(job, UUID(job.result.get("last", str(FIRST))), size)
        if not found:
            return Part(_added(job.result, sent=0, skipped=0))
        sent, refused = self._send(found)
        if self.letters.note(job, sent) is None:
            return Part(job.result)  # another worker has the job, and the performer will learn it
        reasons = _added(job.result.get("reasons", {}), **refused)
        counted = _added(job.result, sent=len(sent), skipped=len(found) - len(sent))
        result = counted | {"last": str(found[-1].dead_letter_id), "reasons": reasons}
        return Part(result, more=True, wait_seconds=len(found) / rate)

    def _send(self, found: list[Kept]) -> tuple[list[UUID], dict[str, int]]:
        sent = [kept.dead_letter_id for kept in found if kept.whole and kept.topic.startswith(OUTBOX)]
        there = [kept for kept in found if kept.whole and not kept.topic.startswith(OUTBOX)]
        refused: dict[str, int] = {}
        if cut := len(found) - len(sent) - len(there):
            refused["E-DEAD-01"] = cut
        outcomes = self.producer.send_all([kept.message() for kept in there]) if there else []
        for kept, outcome in zip(there, outcomes, strict=True):
            if outcome is None:
                sent.append(kept.dead_letter_id)
            elif isinstance(outcome, Rejected):
                refused = _added(refused, **{outcome.code: 1})
            else:
                raise outcome if isinstance(outcome, Unavailable) else Unavailable("E-NET-04", str(outcome))
        return sent, refused


def _added(counts: dict[str, Any], **more: int) -> dict[str, Any]:
    """The counts, with more added to some of them."""
    return counts | {name: int(counts.get(name, 0)) + count for name, count in more.items()}
