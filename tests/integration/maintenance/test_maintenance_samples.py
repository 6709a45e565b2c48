"""Samples as a job: folded first, then removed, and neither before its time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from kit.engine import Admin
from maintenance_kit import Hand, rows

from services.workers.maintenance import jobs
from stanchion.authority.samples import PLATFORM, Samples
from stanchion.db.engine import Database
from stanchion.db.grants import MAINTENANCE

KEPT = timedelta(days=7), timedelta(days=90)
COUNT = "SELECT count(*) FILTER (WHERE seconds = 10), count(*) FILTER (WHERE seconds = 300) FROM stanchion.sample"


def write(admin: Admin, tenant: UUID, ago: timedelta, slots: int) -> None:
    """So many slots of ten seconds from so long ago on."""
    admin.execute(
        "INSERT INTO stanchion.sample (tenant_id, seconds, slot, body)"
        " SELECT %s, 10, date_bin('300 s', stanchion.clock(), '2000-01-01Z') - %s + g * interval '10 s', %s::jsonb"
        " FROM generate_series(0, %s - 1) g",
        (tenant, ago, '{"counts": {"steps_leased": 1}, "levels": {}}', slots),
    )


def run(hand: Hand, admin: Admin) -> dict[str, Any]:
    """Do the job to its end; its result."""
    admin.execute("DELETE FROM stanchion.maintenance_job")
    hand.periods.clear()
    hand.periods["samples"] = 300
    for _ in range(50):
        hand.planner.run_once()
        hand.drain()
        (job,) = rows(admin)
        if job["state"] == "done":
            return dict(job["result"])
        admin.execute("UPDATE stanchion.maintenance_job SET due_at = stanchion.clock() WHERE state = 'due'")
    raise AssertionError("it did not come to an end")


def test_old_samples_are_folded_and_then_removed(
    hand: Hand, admin: Admin, tenant: UUID, db: Callable[[str], Database]
) -> None:
    """Five hours of eight days ago, five minutes of today: the old go once they are folded, the new stay; a second run
    finds nothing to do."""
    hand.works["samples"] = partial(jobs.samples, Samples(db(MAINTENANCE)), *KEPT)
    write(admin, PLATFORM, timedelta(days=8), 1_800)
    write(admin, tenant, timedelta(days=8), 1_800)
    write(admin, PLATFORM, timedelta(minutes=30), 30)
    assert run(hand, admin) == {"folded": 121, "removed": 3_600}
    assert admin.execute(COUNT).fetchone() == (30, 121)
    sums = "SELECT DISTINCT body->'counts'->>'steps_leased' FROM stanchion.sample WHERE seconds = 300"
    assert admin.execute(sums).fetchall() == [("30",)]
    assert run(hand, admin) == {"folded": 0, "removed": 0}
    admin.execute("UPDATE stanchion.sample SET slot = slot - interval '89 days' WHERE seconds = 300")
    assert run(hand, admin)["removed"] == 120
