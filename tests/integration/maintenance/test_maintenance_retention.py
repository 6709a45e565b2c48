"""Retention as a job: payloads before history, live tasks never, partitions before their month."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from kit.engine import Admin, Engine
from kit.flows import single
from maintenance_kit import Hand, rows

from services.workers.maintenance import jobs
from services.workers.maintenance.app import periods, works
from services.workers.maintenance.performer import Work
from services.workers.maintenance.settings import MaintenanceSettings
from stanchion.authority.retention import Retention
from stanchion.bus.producer import Producer
from stanchion.db.engine import Database
from stanchion.errors import Unprocessable
from stanchion.runtime.hints import Hints
from stanchion.telemetry import metrics

SETTINGS = {
    "database_url": "postgresql://x@127.0.0.1/x",
    "kafka_bootstrap": "127.0.0.1:9",
    "redis_url": "redis://127.0.0.1:1",
}


@pytest.fixture
def engine(db: Callable[[str], Database], admin: Admin, tenant: UUID) -> Engine:
    """Runs driven by hand, for one tenant."""
    return Engine(db, admin, tenant)


def run(hand: Hand, admin: Admin, kind: str, work: Work) -> dict[str, Any]:
    """Do one job of this kind to its end; its result."""
    hand.periods.clear()
    hand.periods[kind] = 3_600
    hand.works[kind] = work
    hand.planner.run_once()
    hand.drain()
    (row,) = rows(admin, kind)
    assert row["state"] == "done"
    return dict(row["result"])


def test_what_has_ended_goes_in_stages(engine: Engine, hand: Hand, admin: Admin) -> None:
    """45 ended tasks lose their payload and then their history; one that runs keeps everything."""
    workflow = single("keep")
    engine.submit_all(workflow, [({}, None)] * 45)
    worker = engine.worker()
    worker.work()
    live = engine.submit(workflow)
    retention = Retention(hand.database)
    result = run(hand, admin, "retention", jobs.Retaining(retention, timedelta(seconds=-5), timedelta(seconds=-5)))
    assert (result["payloads"], result["history"]) == (45, 45)
    assert engine.all("SELECT task_id FROM stanchion.task") == [live.task_id]
    worker.work()
    assert engine.task(live) == ("completed", "succeeded")


def test_nothing_goes_before_its_time(engine: Engine, hand: Hand, admin: Admin) -> None:
    """Thirty days are thirty days."""
    engine.submit(single("keep"))
    engine.worker().work()
    result = run(
        hand, admin, "retention", jobs.Retaining(Retention(hand.database), timedelta(days=30), timedelta(days=365))
    )
    assert (result["payloads"], result["history"]) == (0, 0)
    assert len(engine.all("SELECT task_id FROM stanchion.task")) == 1


def letters(admin: Admin, tenant_id: UUID | None, count: int, *, days: float = 0, size: int = 10) -> None:
    """Park messages of this size, so many days ago."""
    admin.execute(
        'INSERT INTO stanchion.dead_letter (dead_letter_id, tenant_id, topic, partition, "offset", value, headers, code, reason, at)'
        " SELECT uuidv7(-%(days)s * interval '1 day'), %(tenant)s, 't', 0, g, decode(repeat('00', %(size)s), 'hex'), '[]', 'E-MSG-01', '',"
        " stanchion.clock() - %(days)s * interval '1 day' FROM generate_series(1, %(count)s) g",
        {"days": days, "tenant": tenant_id, "size": size, "count": count},
    )


def kept(admin: Admin) -> dict[Any, int]:
    """How many parked messages each owner has."""
    return dict(admin.execute("SELECT tenant_id, count(*) FROM stanchion.dead_letter GROUP BY 1").fetchall())


def test_dead_letters_go_after_their_time_and_beyond_their_number(hand: Hand, admin: Admin, tenant: UUID) -> None:
    """Old ones of everybody, and of each owner by itself the oldest that are too many or too large; it says how many."""
    letters(admin, tenant, 20, days=31)
    letters(admin, tenant, 60, days=2)
    letters(admin, tenant, 50)
    letters(admin, None, 10, days=31)
    letters(admin, None, 40)
    before = metrics.removed.labels("dead letters")._value.get()
    work = partial(jobs.dead_letters, Retention(hand.database), timedelta(days=30), 100, 10**6)
    result = run(hand, admin, "dead-letters", work)
    assert (result["expired"], result["crowded"]) == (30, 10)
    assert kept(admin) == {tenant: 100, None: 40}
    young = (
        "SELECT count(*) FROM stanchion.dead_letter WHERE at > stanchion.clock() - interval '1 day' AND tenant_id = %s"
    )
    assert admin.execute(young, (tenant,)).fetchone() == (50,), "the oldest go first"
    assert metrics.removed.labels("dead letters")._value.get() == before + 40


def test_a_flood_of_rubbish_keeps_its_bounds(hand: Hand, admin: Admin, tenant: UUID) -> None:
    """Messages that belong to nobody never fill the disk, and cost no tenant its own."""
    letters(admin, None, 6_000, size=1_000)
    letters(admin, tenant, 3, size=1_000)
    work = partial(jobs.dead_letters, Retention(hand.database), timedelta(days=30), 100_000, 500_000)
    assert run(hand, admin, "dead-letters", work)["crowded"] > 5_500
    left = kept(admin)
    assert left[tenant] == 3
    assert 400 < left[None] < 500


def test_workers_that_are_gone_are_forgotten(hand: Hand, admin: Admin) -> None:
    """A day after they ended, a week after they fell silent; one that lives stays."""
    for name, state, days in (
        ("lives", "active", 0), ("ended", "gone", 0.5), ("gone", "gone", 2), ("silent", "active", 5), ("lost", "draining", 8)
    ):  # fmt: skip
        admin.execute(
            "INSERT INTO stanchion.worker (worker_id, name, host, pid, queues, workflows, slots, state, started_at, seen_at)"
            " SELECT uuidv7(), %s, 'h', 1, '{}', '{}', 1, %s, t, t FROM (SELECT stanchion.clock() - %s * interval '1 day' AS t) x",
            (name, state, days),
        )
    retention = Retention(hand.database)
    work = partial(
        jobs.tidy, hand.maintenance, 86_400, retention, timedelta(days=1), timedelta(days=7), timedelta(days=365)
    )
    assert run(hand, admin, "tidy", work)["workers"] == 2
    names = {name for (name,) in admin.execute("SELECT name FROM stanchion.worker").fetchall()}
    assert {"lives", "ended", "silent"} == names


def test_months_are_prepared(hand: Hand, admin: Admin) -> None:
    """Partitions of events exist before their month, and making them again makes none."""
    run(hand, admin, "partitions", partial(jobs.partitions, Retention(hand.database)))
    found = admin.execute("SELECT count(*) FROM pg_inherits WHERE inhparent = 'stanchion.event'::regclass").fetchone()
    assert found is not None
    assert found[0] >= 3


def test_every_periodic_kind_has_its_work(hand: Hand) -> None:
    """What is derived can be done."""
    settings = MaintenanceSettings(**SETTINGS)  # type: ignore[arg-type]  # by name
    found = works(settings, hand.maintenance, hand.database, Producer(settings.kafka), Hints("redis://127.0.0.1:9/0"))
    assert set(periods(settings)) <= set(found)


def test_history_must_outlive_payloads() -> None:
    """E-CONF-02 names the two."""
    with pytest.raises(Unprocessable) as caught:
        MaintenanceSettings(**SETTINGS, payload_days=10, history_days=5)  # type: ignore[arg-type]  # by name
    assert caught.value.code == "E-CONF-02"


def test_redis_is_needed() -> None:
    """E-CONF-01 names the variable."""
    with pytest.raises(Unprocessable, match="STANCHION_REDIS_URL"):
        MaintenanceSettings(**{**SETTINGS, "redis_url": None})  # type: ignore[arg-type]  # by name


def test_two_databases_never_share_a_queue() -> None:
    """Its name has the database in it."""
    one = MaintenanceSettings(**SETTINGS)  # type: ignore[arg-type]  # by name
    two = MaintenanceSettings(**{**SETTINGS, "database_url": "postgresql://x@127.0.0.1/y"})  # type: ignore[arg-type]  # by name
    assert one.queue != two.queue
