"""Samples: each slot once however many write, true to the events of its bounds, folded, kept for their time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from threading import Barrier, Thread
from typing import Any
from uuid import UUID

import pytest
from kit.engine import Engine
from kit.flows import fan, single
from psycopg.types.json import Jsonb

from stanchion.authority.samples import (
    BACK_SLOTS,
    COUNTS,
    MARGIN_SECONDS,
    NAMES,
    PLATFORM,
    SLOT_SECONDS,
    Samples,
)
from stanchion.db.engine import Database
from stanchion.db.grants import MAINTENANCE, ORCHESTRATOR
from stanchion.errors import Unprocessable
from stanchion.telemetry.metrics import declared
from stanchion.workflow import All

LATER = SLOT_SECONDS + MARGIN_SECONDS
"""After so long the slot of now can be taken."""


@pytest.fixture
def samples(engine: Engine) -> Samples:
    """As an orchestrator has them."""
    return Samples(engine.orchestrator)


def now(engine: Engine) -> datetime:
    found: datetime = engine.one("SELECT stanchion.clock()")[0]
    return found


def settle(samples: Samples) -> None:
    """Take all slots that can be taken, so that the next one begins with nothing behind it."""
    while samples.take() is not None:
        pass


def align(engine: Engine) -> None:
    """To the beginning of a slot: what follows lies in one."""
    seconds = engine.one("SELECT extract(epoch FROM stanchion.clock())")[0]
    engine.forward(SLOT_SECONDS - float(seconds) % SLOT_SECONDS + 0.001)


def body(engine: Engine, tenant: UUID) -> dict[str, dict[str, float]]:
    """The newest sample of a tenant."""
    return engine.all(
        "SELECT body FROM stanchion.sample WHERE tenant_id = %s AND seconds = 10 ORDER BY slot DESC LIMIT 1", tenant
    )[0]  # type: ignore[no-any-return]  # jsonb


def test_a_slot_counts_what_happened_in_it(engine: Engine, samples: Samples) -> None:
    """Tasks, steps by queue, failures, retries and refused writes; levels of what stands; the same once more for all."""
    settle(samples)
    align(engine)
    engine.submit(fan("counted", All(on_failed="collect"), ["a", "b", "bad"]))
    worker = engine.worker()
    worker.finish(worker.take("plan")[0], ["a", "b", "bad", "c"])
    engine.expand()
    first, second, third, _ = worker.take("visit")
    worker.finish_all([first, second], "x")
    worker.fail(third)
    worker.finish(first, "again")
    assert worker.leases.complete([], 0).accepted == set()
    engine.forward(LATER)
    settle(samples)
    counts, levels = (body(engine, engine.tenant)[part] for part in ("counts", "levels"))
    assert {name: counts[name] for name in ("tasks_submitted", "steps_leased", "steps_succeeded", "steps_failed")} == {
        "tasks_submitted": 1,
        "steps_leased": 5,
        "steps_succeeded": 3,
        "steps_failed": 1,
    }
    assert counts["steps_leased:default"] == counts["steps_made_ready:default"] == 5
    assert levels["steps_running"] == levels["steps_running:default"] == 1
    assert 0 <= levels["queue_wait_seconds_p50"] <= levels["queue_wait_seconds_p95"] < 10
    assert 0 <= levels["step_seconds_p50"] <= levels["step_seconds_p95"] < 10
    platform = body(engine, PLATFORM)
    assert platform["counts"]["steps_leased"] == 5
    assert platform["levels"]["outbox_rows"] > 0
    assert platform["levels"]["db_bytes"] > 1_000_000
    assert 0 < platform["levels"]["db_connections"] <= platform["levels"]["db_connections_max"]
    for part in (counts, levels, *platform.values()):
        assert {name.partition(":")[0] for name in part} <= NAMES


def test_names_are_those_of_metrics_where_both_exist() -> None:
    """A count is a counter's growth: its name without `stanchion_` and `_total`; a level is a gauge without `stanchion_`."""
    metrics = {name.removeprefix("stanchion_") for name in declared()}
    shared = {"steps_leased", "steps_succeeded", "steps_failed", "steps_refused", "leases_reaped", "relay_messages"}
    assert {f"{name}_total" for name in shared} <= metrics
    assert shared <= COUNTS
    assert {"ready_steps", "ready_age_seconds", "outbox_rows", "outbox_lag_seconds", "relay_partitions"} <= metrics & (
        NAMES - COUNTS
    )


def test_one_of_many_orchestrators_takes_each_slot(
    engine: Engine, samples: Samples, db: Callable[[str], Database]
) -> None:
    """Two that come at the same moment: each slot has one row for the platform, and between them they took each once."""
    settle(samples)
    engine.submit(single("once"))
    engine.forward(SLOT_SECONDS * 12)
    others = [samples, Samples(db(ORCHESTRATOR))]
    taken: list[datetime] = []
    together = Barrier(2)

    def work(one: Samples) -> None:
        together.wait()
        empty = 0
        while empty < 3:
            slot = one.take()
            empty = empty + 1 if slot is None else 0
            if slot is not None:
                taken.append(slot)

    threads = [Thread(target=work, args=(one,)) for one in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(taken) == len(set(taken)) >= 11
    rows = engine.all("SELECT count(*), count(DISTINCT slot) FROM stanchion.sample WHERE tenant_id = %s", PLATFORM)
    assert rows[0][0] == rows[0][1]
    assert engine.all(
        "SELECT sum((body->'counts'->>'tasks_submitted')::int) FROM stanchion.sample WHERE tenant_id = %s",
        engine.tenant,
    ) == [1]


def test_an_event_that_commits_within_the_margin_is_counted(
    engine: Engine, samples: Samples, database_url: str
) -> None:
    """Its slot is over when it appears, and is not counted before the margin has passed."""
    import psycopg

    settle(samples)
    align(engine)
    run = engine.run_of(engine.submit(single("slow")))
    with psycopg.connect(database_url) as slow:
        slow.execute(
            "INSERT INTO stanchion.event (tenant_id, run_id, kind, at) VALUES (%s, %s, 'TaskCompleted', stanchion.clock())",
            (engine.tenant, run),
        )
        engine.forward(SLOT_SECONDS + MARGIN_SECONDS - 2)
        settle(samples)
    engine.forward(3)
    settle(samples)
    assert body(engine, engine.tenant)["counts"]["tasks_completed"] == 1


def test_slots_of_an_outage_are_counted_late_and_without_levels(engine: Engine, samples: Samples) -> None:
    """Events tell what happened, not what stood; what lies further back than that stays unknown."""
    settle(samples)
    align(engine)
    engine.submit(single("missed"))
    engine.forward(SLOT_SECONDS * 5)
    settle(samples)
    bodies = engine.all(
        "SELECT body FROM stanchion.sample WHERE tenant_id = %s AND body->'counts' ? 'tasks_submitted'", engine.tenant
    )
    assert len(bodies) == 1
    assert "ready_steps" not in bodies[0]["levels"]
    assert body(engine, engine.tenant)["levels"]["ready_steps"] == 1
    engine.forward(SLOT_SECONDS * (BACK_SLOTS + 50))
    settle(samples)
    start = now(engine) - timedelta(seconds=SLOT_SECONDS * (BACK_SLOTS + 20))
    found = Samples(engine.service).series(PLATFORM, ("tasks_submitted",), start, now(engine), 10)
    assert found.values["tasks_submitted"][0] is None
    assert found.values["tasks_submitted"][-4] == 0


def test_a_tenant_reads_its_own(engine: Engine, samples: Samples, db: Callable[[str], Database]) -> None:
    """Zero where it had nothing, though another had; unknown where nobody looked."""
    settle(samples)
    align(engine)
    start = now(engine)
    engine.submit(single("mine"))
    engine.forward(LATER)
    settle(samples)
    other = engine.one("SELECT stanchion.create_tenant('nobody')")[0]
    until = start + timedelta(seconds=SLOT_SECONDS * 2)
    names = ("tasks_submitted", "ready_steps", "ready_steps:default")
    mine = Samples(engine.service).series(engine.tenant, names, start, until, 10)
    assert [values[0] for values in mine.values.values()] == [1, 1, 1]
    assert [values[1] for values in mine.values.values()] == [None, None, None]
    theirs = Samples(engine.service).series(other, names, start, until, 10)
    assert [values[0] for values in theirs.values.values()] == [0, 0, 0]
    ages = Samples(engine.service).series(other, ("ready_age_seconds",), start, until, 10)
    assert set(ages.values["ready_age_seconds"]) == {None}


def write(engine: Engine, tenant: UUID, slot: datetime, counts: dict[str, Any], levels: dict[str, Any]) -> None:
    engine.admin.execute(
        "INSERT INTO stanchion.sample (tenant_id, seconds, slot, body) VALUES (%s, 10, %s, %s)",
        (tenant, slot, Jsonb({"counts": counts, "levels": levels})),
    )


def test_slots_are_folded_and_removed_in_their_time(engine: Engine, db: Callable[[str], Database]) -> None:
    """Counts add up, of levels the highest stays; what is folded reads the same; nothing goes before it is folded."""
    start = now(engine).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=8)
    for number in range(60):
        slot = start + timedelta(seconds=10 * number)
        write(engine, PLATFORM, slot, {"steps_leased": 2}, {"slots": number})
        if number % 2:
            write(engine, engine.tenant, slot, {"steps_leased": 1}, {"ready_age_seconds": 60 - number})
    tend = Samples(db(MAINTENANCE))
    read = Samples(engine.service)
    until = start + timedelta(minutes=10)
    names = ("steps_leased", "ready_age_seconds")
    before = read.series(engine.tenant, names, start, until, 300)
    assert before.values == {"steps_leased": [15, 15], "ready_age_seconds": [59, 29]}
    assert tend.remove(timedelta(days=7), timedelta(days=90)) == 0
    assert tend.fold() == 4
    assert tend.fold() == 0
    assert read.series(engine.tenant, names, start, until, 300) == before
    assert tend.remove(timedelta(days=7), timedelta(days=90)) == 90
    assert read.series(engine.tenant, names, start, until, 300) == before
    assert read.series(PLATFORM, ("slots",), start, until, 3_600).values == {"slots": [59]}
    engine.forward(86_400 * 83)
    assert tend.remove(timedelta(days=7), timedelta(days=90)) == 4
    assert read.series(engine.tenant, names, start, until, 300).values["steps_leased"] == [None, None]


@pytest.mark.parametrize(
    ("names", "seconds", "resolution", "said"),
    [
        (("tasks_submited",), 60, 10, "no name"),
        (("tasks_submitted",), 60, 7, "spans of 7 s"),
        (("tasks_submitted",), 0, 10, "not before"),
        (("tasks_submitted",), 86_400, 10, "2,000 points"),
    ],
)
def test_what_can_not_be_asked_is_refused(
    samples: Samples, engine: Engine, names: tuple[str, ...], seconds: int, resolution: int, said: str
) -> None:
    """With what could be asked instead."""
    start = now(engine)
    with pytest.raises(Unprocessable, match=said) as caught:
        samples.series(PLATFORM, names, start, start + timedelta(seconds=seconds), resolution)
    assert caught.value.code == "E-DATA-15"
    assert caught.value.fix or seconds == 0
