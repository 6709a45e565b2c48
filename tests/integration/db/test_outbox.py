"""The outbox under relays: partitions change hands by fence, nothing is skipped, and what is written can be read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from kit.engine import Engine
from kit.flows import fan, nested, single

from stanchion.authority.dead_letters import DeadLetters
from stanchion.authority.intake import Asked, Intake
from stanchion.authority.outbox import Outbox
from stanchion.authority.rows import missing
from stanchion.contracts import limits
from stanchion.contracts.commands import COMMANDS, CancelTask
from stanchion.contracts.envelope import Envelope
from stanchion.contracts.events import EVENTS
from stanchion.db.engine import Database
from stanchion.db.grants import RELAY
from stanchion.workflow import All, AtLeast

TTL_MS = 2_000
PARTITIONS = set(range(limits.OUTBOX_PARTITIONS))


@pytest.fixture
def relay(db: Callable[[str], Database]) -> Callable[[str], Outbox]:
    """Makes relays that share one login."""
    database = db(RELAY)
    return lambda name: Outbox(database, uuid4(), name, TTL_MS)


def published(engine: Engine) -> list[dict[str, Any]]:
    """All that stands in the outbox."""
    rows = engine.all("SELECT type, topic, body, sequence, key FROM stanchion.outbox ORDER BY id")
    return [dict(zip(("type", "topic", "body", "sequence", "key"), r, strict=True)) for r in rows]


def test_one_relay_has_all_partitions(relay: Callable[[str], Outbox]) -> None:
    """And keeps them with their fences while it asks again."""
    one = relay("one")
    first = one.claim()
    assert set(first) == PARTITIONS
    assert one.claim() == first


def test_two_relays_share(relay: Callable[[str], Outbox]) -> None:
    """The first gives up what is above its share, the second takes it; no partition has two owners."""
    one, two = relay("one"), relay("two")
    one.claim()
    assert two.claim() == {}
    mine = one.claim()
    theirs = two.claim()
    assert len(mine) == len(theirs) == 4
    assert set(mine) | set(theirs) == PARTITIONS


def test_a_silent_relay_is_replaced(engine: Engine, relay: Callable[[str], Outbox]) -> None:
    """After its time all its partitions are another one's, each with a higher fence."""
    one, two = relay("one"), relay("two")
    old = one.claim()
    two.claim()
    engine.forward(5)
    new = two.claim()
    assert set(new) == PARTITIONS
    assert all(new[p] > old[p] for p in PARTITIONS)


def test_a_stale_relays_delete_does_nothing(engine: Engine, relay: Callable[[str], Outbox]) -> None:
    """It was frozen after it had sent: the rows stay and are sent once more by their new owner."""
    engine.submit(single("stale"))
    one, two = relay("one"), relay("two")
    old = one.claim()
    rows = one.read(list(old), 100)
    assert rows
    engine.forward(5)
    new = two.claim()
    assert one.read(list(old), 100) == [], "what is not its own any more it does not even read"
    assert one.delete(old, [r.id for r in rows]) == 0
    assert [r.id for r in two.read(list(new), 100)] == [r.id for r in rows]
    assert two.delete(new, [r.id for r in rows]) == len(rows)
    assert one.lag() == (0, 0.0)


def test_a_late_delete_is_accepted_while_nobody_took_over(engine: Engine, relay: Callable[[str], Outbox]) -> None:
    """The current fence is the law here too."""
    engine.submit(single("late_delete"))
    one = relay("one")
    mine = one.claim()
    rows = one.read(list(mine), 100)
    engine.forward(60)
    assert one.delete(mine, [r.id for r in rows]) == len(rows)


def test_a_row_that_is_committed_late_is_not_skipped(
    engine: Engine, relay: Callable[[str], Outbox], database_url: str
) -> None:
    """Its id is lower than those of rows that were sent and deleted already; it is simply there at the next look."""
    one = relay("one")
    mine = one.claim()
    insert = "INSERT INTO stanchion.outbox (part, tenant_id, topic, key, type, body) VALUES (3, %s, 't', 'k', 'T', %s)"
    with psycopg.connect(database_url) as slow:
        slow.execute(insert, (engine.tenant, "late"))
        engine.admin.execute(insert, (engine.tenant, "early"))
        rows = one.read(list(mine), 100)
        assert [r.body for r in rows] == ["early"]
        one.delete(mine, [r.id for r in rows])
        slow.commit()
    late = one.read(list(mine), 100)
    assert [r.body for r in late] == ["late"]
    assert late[0].id < rows[0].id


def test_rows_come_in_order_and_in_bounds(engine: Engine, relay: Callable[[str], Outbox]) -> None:
    """By id within each partition, at most so many of each."""
    insert = "INSERT INTO stanchion.outbox (part, tenant_id, topic, key, type, body) SELECT mod(n, 8), %s, 't', 'k', 'T', n::text FROM generate_series(1, 80) n"
    engine.admin.execute(insert, (engine.tenant,))
    one = relay("one")
    rows = one.read(list(one.claim()), 5)
    assert len(rows) == 40
    for part in PARTITIONS:
        ids = [r.id for r in rows if r.part == part]
        assert ids == sorted(ids)


def test_a_message_that_can_not_be_sent_is_parked_once(engine: Engine, relay: Callable[[str], Outbox]) -> None:
    """Its bytes and its reason are kept, what is behind it goes on."""
    engine.submit(single("park"))
    one = relay("one")
    rows = one.read(list(one.claim()), 100)
    for _ in range(2):
        one.park(rows[0].id, "E-NET-03", "too large")
    assert engine.all("SELECT code, reason FROM stanchion.dead_letter") == [("E-NET-03", "too large")]
    assert len(one.read(list(one.claim()), 100)) == len(rows) - 1


def test_every_message_can_be_read_by_its_contract(engine: Engine) -> None:
    """What the functions write into the outbox has the fields that its type promises."""
    wf = nested("contracts", AtLeast(2), All(on_failed="collect"))
    engine.submit(wf)
    engine.submit(fan("contracts_fail", "all", ["bad", "b"]))
    cancelled = engine.submit(single("contracts_cancel"))
    engine.cancel(cancelled)
    engine.worker().work()
    seen = set()
    for message in published(engine):
        model = EVENTS.get(message["type"]) if message["topic"] == "stanchion.events.v1" else COMMANDS[message["type"]]
        assert model is not None, message["type"]
        model.from_value(message["body"].encode())
        seen.add(message["type"])
    assert seen >= {"TaskAccepted", "TaskCompleted", "TaskFailed", "TaskCancelled", "BarrierReleased", "BarrierFailed"}
    assert seen >= {"ExecuteSteps", "PlanRun"}


def test_a_runs_events_are_numbered_without_a_gap(engine: Engine) -> None:
    """A reader drops what is lower and looks for what is missing: the numbers of each run are 1, 2, 3 and so on."""
    tasks = [
        engine.submit(nested("numbers", "all", "all")),
        engine.submit(fan("numbers_fail", "all", ["bad", "b"])),
    ]
    engine.worker().work()
    for task in tasks:
        numbers = [
            m["sequence"]
            for m in published(engine)
            if m["topic"] == "stanchion.events.v1" and m["key"] == str(task.run_id)
        ]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) >= 2


def offered(engine: Engine) -> list[int]:
    """How many steps each offer in the outbox names, and that every ready step is named once."""
    offers = [m["body"] for m in published(engine) if m["type"] == "ExecuteSteps"]
    named = [step for body in offers for step in json.loads(body)["steps"]]
    assert sorted(named) == sorted(str(s) for s in engine.all("SELECT step_id FROM stanchion.ready"))
    return sorted(len(json.loads(body)["steps"]) for body in offers)


def test_short_steps_are_offered_together(engine: Engine) -> None:
    """A message names up to a sixteenth of a batch when its steps are known to take milliseconds, and one otherwise."""
    wf = single("short")
    engine.submit_all(wf, [({}, None)] * 64)
    assert offered(engine) == [1] * 64
    engine.worker().finish_all(engine.worker().take("only"), 1)
    engine.admin.execute("DELETE FROM stanchion.outbox")
    engine.worker().leases.note_durations({("short", 1, "only"): (3, 64)})
    engine.submit_all(wf, [({}, None)] * 65)
    assert offered(engine) == [1] + [4] * 16
    engine.admin.execute("DELETE FROM stanchion.outbox")
    engine.admin.execute("UPDATE stanchion.ready SET offered_at = NULL, offers = 0")
    engine.orchestrator.call("offer", "SELECT stanchion.offer_ready(1000, 5000)")
    assert offered(engine) == [1] + [4] * 16
    engine.admin.execute("DELETE FROM stanchion.outbox")
    engine.worker().seen()
    engine.admin.execute("UPDATE stanchion.ready SET offered_at = offered_at - interval '1 hour'")
    engine.orchestrator.call("offer", "SELECT stanchion.offer_ready(1000, 5000)")
    assert offered(engine) == [1] * 65, "what nobody took together is offered one by one"


def test_a_wide_fan_out_of_unknown_steps_is_offered_in_handfuls(engine: Engine) -> None:
    """Eight to a message from 500 on; a narrow one goes out child by child."""
    for width, sizes in ((40, {1}), (500, {8, 4})):
        name = f"wide_{width}"
        engine.submit(fan(name, "all", []))
        worker = engine.worker()
        worker.finish(next(x for x in worker.take("plan") if x.workflow == name), ["x"] * width)
        engine.admin.execute("DELETE FROM stanchion.outbox")
        engine.expand()
        assert set(offered(engine)) == sizes
        worker.finish_all(worker.take("visit"), "x")
        worker.finish_all(worker.take("gather"), {})


def test_what_is_parked_and_sent_again_is_the_same_message(
    engine: Engine, db: Callable[[str], Database], relay: Callable[[str], Outbox]
) -> None:
    """Readers know it by its id, place it by its sequence, and the sender of a command knows its answer by correlation."""
    task = engine.submit(single("parked"))
    asked = Asked(Envelope.new("CancelTask", "test", "t"), engine.tenant)
    errors = {"missing": missing("task"), "too_late": missing("task")}
    Intake(engine.service).cancel(asked, CancelTask(task_id=task.task_id), actor="ann", **errors)
    columns = "part, tenant_id, message_id, topic, key, type, correlation_id, causation_id, sequence, at, body"
    before = engine.all(f"SELECT {columns} FROM stanchion.outbox ORDER BY message_id")
    assert {bool(row[8]) for row in before} == {bool(row[7]) for row in before} == {True, False}
    one = relay("one")
    for (row,) in engine.admin.execute("SELECT id FROM stanchion.outbox").fetchall():
        one.park(row, "E-NET-03", "no")
    assert engine.all("SELECT id FROM stanchion.outbox") == []
    letters = DeadLetters(engine.service)
    for letter in letters.page(engine.tenant, limit=100):
        assert (
            letters.claim(engine.tenant, letter["dead_letter_id"], again=False, by=engine.tenant, actor="ann") is None
        )
    assert engine.all(f"SELECT {columns} FROM stanchion.outbox ORDER BY message_id") == before
