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


def test_months_are_prepared(hand: Hand, admin: Admin) -> None:
    """Partitions of events exist before their month, and making them again makes none."""
    run(hand, admin, "partitions", partial(jobs.partitions, Retention(hand.database)))
    found = admin.execute("SELECT count(*) FROM pg_inherits WHERE inhparent = 'stanchion.event'::regclass").fetchone()
    assert found is not None
    assert found[0] >= 3


def test_every_periodic_kind_has_its_work(hand: Hand) -> None:
    """What is derived can be done."""
    settings = MaintenanceSettings(**SETTINGS)  # type: ignore[arg-type]  # by name
    found = works(settings, hand.maintenance, hand.database, Producer(settings.kafka))
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
