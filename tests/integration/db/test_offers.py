"""What is offered to whom: the window of a queue, what nobody can lease, and steps that end their workers."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from kit.engine import Engine, Worker
from kit.flows import fan, single

from services.workers.offers import Offers
from stanchion.authority.dead_letters import DeadLetters, headers_from_json
from stanchion.authority.leases import Leases, Reach
from stanchion.authority.submission import Answer
from stanchion.bus.consumer import Consumer
from stanchion.bus.messages import Record
from stanchion.contracts import limits
from stanchion.runtime.kafka_settings import KafkaSettings


def wide(engine: Engine, name: str) -> tuple[Answer, Worker]:
    """A fan-out that fills the window of its queue, and more."""
    task = engine.submit(fan(name, "all", []))
    worker = engine.worker()
    (plan,) = worker.take("plan")
    worker.finish(plan, ["x"] * (limits.OFFER_WINDOW + 1_000))
    engine.expand()
    return task, worker


def is_offered(engine: Engine, task: Answer) -> bool:
    """Whether the one ready step of a task has an offer that is out."""
    return bool(
        engine.one(
            "SELECT coalesce(r.offered_at <= stanchion.clock(), false) FROM stanchion.ready r JOIN stanchion.step s ON s.step_id = r.step_id WHERE s.run_id = %s",
            task.run_id,
        )[0]
    )


def look(engine: Engine, worker: Worker) -> None:
    """The dispatcher's passes over half a minute and more, while a worker reports."""
    for _ in range(8):
        engine.forward(6)
        worker.seen()
        engine.upkeep.offer()


def test_a_paused_run_leaves_the_window_to_others(engine: Engine) -> None:
    """Six thousand steps of a paused run: another task's step is offered; resumed, all of them are again."""
    big, worker = wide(engine, "paused")
    engine.pause(big)
    other = engine.submit(single("other"))
    assert not is_offered(engine, other)
    look(engine, worker)
    assert is_offered(engine, other)
    engine.pause(big, False)
    look(engine, worker)
    out = "SELECT count(*) FROM stanchion.ready WHERE workflow = 'paused' AND offered_at <= stanchion.clock()"
    assert engine.all(out) == [limits.OFFER_WINDOW - 1]


def test_steps_that_no_worker_serves_leave_the_window_until_one_comes(engine: Engine) -> None:
    """They are put aside; a worker that has their version gets them offered as soon as it reports."""
    wide(engine, "unserved")
    engine.definitions.remove("unserved@1")
    other = engine.submit(single("served"))
    look(engine, engine.worker())
    assert is_offered(engine, other)
    aside = "SELECT count(*) FROM stanchion.ready WHERE workflow = 'unserved' AND offered_at > stanchion.clock()"
    assert engine.all(aside)[0] >= limits.OFFER_WINDOW
    engine.definitions.append("unserved@1")
    engine.worker().seen()
    assert engine.all(aside) == [0]


def test_a_worker_of_another_tenant_brings_nothing_back(engine: Engine) -> None:
    """What was put aside waits for a worker that may lease it, and for no other."""
    _, worker = wide(engine, "of_tenants")
    engine.definitions.remove("of_tenants@1")
    look(engine, worker)
    aside = "SELECT count(*) FROM stanchion.ready WHERE offered_at > stanchion.clock()"
    before = engine.all(aside)
    assert before[0] >= limits.OFFER_WINDOW
    engine.definitions.append("of_tenants@1")
    for tenants, left in (([uuid4()], before), ([engine.tenant], [0])):
        other = engine.worker()
        other.leases.reach = Reach(tenants, engine.definitions, engine.queues)
        other.seen()
        assert engine.all(aside) == left


def test_a_worker_counts_as_there_for_as_long_as_people_are_told(engine: Engine) -> None:
    """The database and `why` have the same number of seconds."""
    engine.worker().seen()
    alive = "SELECT stanchion.is_alive(w) FROM stanchion.worker w"
    engine.forward(limits.WORKER_SEEN_SECONDS - 1)
    assert engine.all(alive) == [True]
    engine.forward(2)
    assert engine.all(alive) == [False]


def test_an_offer_gives_a_worker_only_what_it_serves(engine: Engine) -> None:
    """A message that names a step of another workflow or queue leases nothing: the worker could not run it."""
    engine.submit(single("mine"))
    engine.submit(single("theirs"))
    ready = engine.worker().ready()
    for definitions, queues, granted in (
        (["mine@1"], ["default"], 1),
        (["mine@2"], ["default"], 0),
        (["theirs@1"], ["elsewhere"], 0),
    ):
        leases = Leases(engine.worker_database, uuid4(), Reach(None, definitions, queues), 30_000)
        assert len(leases.lease(ready, 10)) == granted
    assert len(engine.worker().ready()) == 1


def crash(engine: Engine, worker: Worker, steps: list[UUID]) -> None:
    """The worker leases these, begins them, and is not heard of again."""
    assert worker.leases.lease(steps, len(steps))
    engine.forward(60)
    engine.upkeep.reap()


def test_a_step_that_ends_its_workers_spends_no_attempts_of_its_neighbours(engine: Engine) -> None:
    """From its third loss on it alone is to blame; and a worker runs only one such at a time."""
    engine.submit(single("poison", retries=9))
    (poison,) = engine.worker().ready()
    for _ in range(2):
        crash(engine, engine.worker(), [poison])
    engine.submit_all(single("neighbour"), [({}, None)] * 3)
    for _ in range(3):
        crash(engine, engine.worker(), engine.worker().ready())
    assert (
        engine.all("SELECT attempts, losses FROM stanchion.step WHERE node = 'only' AND workflow = 'neighbour'")
        == [(0, 2)] * 3
    )
    assert engine.one("SELECT attempts, losses FROM stanchion.step WHERE workflow = 'poison'") == (5, 5)
    worker = engine.worker()
    alone = worker.leases.lease(worker.ready(), 10)
    assert len(alone) == 1, "each of the four was lost more than once"
    assert worker.leases.lease(worker.ready(), 10) == []
    fresh = engine.submit(single("fresh"))
    (last,) = engine.all("SELECT step_id FROM stanchion.step WHERE run_id = %s", fresh.run_id)
    assert len(worker.leases.lease([*worker.ready(), last], 10)) == 1, "what was never lost may run beside it"
    worker.finish_all(alone, 1)
    assert len(worker.leases.lease(worker.ready(), 10)) == 1


@pytest.mark.parametrize("way", ["given back before the deadline", "given back after it"])
def test_the_time_to_start_runs_on_while_a_step_is_only_handed_out(engine: Engine, way: str) -> None:
    """Leased ahead and given back before it began: its time to start still ends it."""
    engine.submit(single("start", start_within="1h"))
    worker = engine.worker(ttl_ms=10_000_000)
    (held,) = worker.leases.lease(worker.ready(), 0)
    if way == "given back after it":
        engine.forward(3_700)
        engine.fire_once()
    worker.leases.give_back([held], "leased ahead")
    engine.forward(3_700)
    engine.fire()
    assert engine.all("SELECT state FROM stanchion.step WHERE node = 'only'") == ["failed"]


def test_a_step_that_began_in_time_may_be_retried_later(engine: Engine) -> None:
    """The time to start is about the first beginning."""
    engine.submit(single("began", start_within="1h"))
    worker = engine.worker()
    worker.fail(*worker.leases.lease(worker.ready(), 1), final=False, delay_ms=1)
    engine.forward(4_000)
    engine.fire()
    assert engine.all("SELECT state FROM stanchion.step WHERE node = 'only'") == ["ready"]


def test_what_is_no_offer_is_parked_without_its_secrets(engine: Engine) -> None:
    """A record on a queue's topic that a worker can't read stands among the dead letters as any other: headers that are
    named as secret hidden, bytes that are no text kept."""
    consumer = Consumer(KafkaSettings("127.0.0.1:1"), "none", ["none"])
    offers = Offers(consumer, lambda *_: True, DeadLetters(engine.worker_database).bury)
    headers = [("authorization", b"Bearer stn_secret"), ("x", b"\xff\xfe")]
    offers._take_in(Record("stanchion.workers.default.commands.v1", 0, 1, 0, b"k", headers, b"v", None))
    code, value, kept = engine.one("SELECT code, value, headers FROM stanchion.dead_letter")
    assert (code, value) == ("E-MSG-01", b"v")
    assert "stn_secret" not in str(kept)
    assert headers_from_json(kept) == [("x", b"\xff\xfe")]
