"""Sweeping the object store as jobs: bounded parts, every tenant, and nothing that somebody names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest
from kit.engine import Admin, Engine
from kit.flows import single
from kit.shelf import Shelf, named
from maintenance_kit import Hand
from test_maintenance_retention import run

from services.workers.maintenance import jobs
from stanchion.authority.objects import Objects
from stanchion.authority.sweeping import Sweeping
from stanchion.db.engine import Database


@pytest.fixture
def shelf(
    db: Callable[[str], Database], admin: Admin, tenant: UUID, tmp_path: Path, database_url: str
) -> Iterator[Shelf]:
    """One tenant's artifacts."""
    made = Shelf(Engine(db, admin, tenant), tmp_path / "objects", database_url)
    yield made
    made.close()


def test_orphans_of_all_tenants_go(shelf: Shelf, hand: Hand, admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    """In parts that go on where the last one ended; what a version names stays."""
    monkeypatch.setattr(jobs, "OBJECTS_LISTED", 4)
    task = shelf.engine.submit(single("orphans"))
    shelf.uploaded(task.task_id, b"named")
    for n in range(10):
        shelf.put(str(n).encode())
    (other,) = admin.execute("SELECT stanchion.create_tenant('other')").fetchone() or (None,)
    shelf.objects.of(other).put([b"theirs"], most_bytes=10)
    sweeping = Sweeping(hand.database, shelf.objects, timedelta(seconds=-5))
    assert run(hand, admin, "orphans", partial(jobs.find_orphans, sweeping))["orphans"] == 11
    assert run(hand, admin, "sweep", partial(jobs.sweep, sweeping))["removed"] == 11
    assert shelf.objects_there() == {named(b"named")}
    assert shelf.objects.of(other).stat(named(b"theirs")) is None


def test_an_upload_that_takes_too_long_is_given_up(shelf: Shelf, hand: Hand, admin: Admin) -> None:
    """And a younger one is not."""
    task = shelf.engine.submit(single("slow"))
    shelf.begun(task.task_id)
    day = Sweeping(hand.database, shelf.objects, timedelta(days=1))
    assert run(hand, admin, "sweep", partial(jobs.sweep, day))["abandoned"] == 0
    admin.execute("DELETE FROM stanchion.maintenance_job")
    now = Sweeping(hand.database, shelf.objects, timedelta(seconds=-5))
    assert run(hand, admin, "sweep", partial(jobs.sweep, now))["abandoned"] == 1
    assert shelf.states() == {"deleted": 1}


def test_without_a_store_there_is_nothing_to_sweep(hand: Hand, admin: Admin) -> None:
    """The jobs end well all the same."""
    sweeping = Sweeping(hand.database, Objects(None), timedelta(days=1))
    assert run(hand, admin, "orphans", partial(jobs.find_orphans, sweeping))["orphans"] == 0
    assert run(hand, admin, "sweep", partial(jobs.sweep, sweeping))["removed"] == 0
