"""A paused queue: nothing new of it is leased or offered for its tenant, and everything at once when it goes on."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from uuid import UUID

import psycopg
from kit.engine import Engine, Worker
from kit.flows import fan, single
from kit.racing import deadlocks, race
from sqlalchemy import event

from stanchion.authority.queues import Queues
from stanchion.db.engine import Database
from stanchion.db.grants import DASHBOARD
from stanchion.workflow import All

OUT = "SELECT count(*) FROM stanchion.ready WHERE offered_at <= stanchion.clock()"
ASIDE = "SELECT count(*) FROM stanchion.ready WHERE offered_at > stanchion.clock()"
OFFERS = "SELECT count(*) FROM stanchion.outbox WHERE type = 'ExecuteSteps'"


def pause(engine: Engine, queue: str = "default") -> bool:
    return Queues(engine.service).pause(engine.tenant, queue, reason="vendor outage", actor="ann")


def resume(engine: Engine, queue: str = "default") -> bool:
    return Queues(engine.service).resume(engine.tenant, queue, actor="bob")


def wide(engine: Engine, name: str, children: int) -> Worker:
    """A fan-out whose children are ready."""
    engine.submit(fan(name, All(), []))
    worker = engine.worker()
    (plan,) = worker.take("plan")
    worker.finish(plan, ["x"] * children)
    engine.expand()
    return worker


def test_nothing_of_a_paused_queue_is_leased_and_what_runs_goes_on(engine: Engine) -> None:
    """Not by an offer, not by looking, not straight after the step before; what was leased is handed in."""
    worker = wide(engine, "paused", 3)
    (held, *_) = worker.take("visit", limit=1)
    assert pause(engine)
    assert worker.take() == []
    engine.forward(60)
    assert worker.leases.find_ready(0, 10) == []
    assert worker.finish(held, "x")
    assert resume(engine)
    assert len(worker.take("visit")) == 2


def test_what_becomes_ready_while_it_is_paused_is_not_offered(engine: Engine) -> None:
    """A submission, a fan-out, a step behind another: all wait in the table, none of them in the broker."""
    worker = wide(engine, "late", 2)
    held = worker.take("visit")
    pause(engine)
    before = engine.one(OFFERS)
    engine.submit(single("new"))
    engine.submit(fan("wider", All(), []))
    worker.finish_all(held, 1)
    engine.upkeep.offer()
    assert engine.one(OFFERS) == before
    assert engine.all(OUT) == [0]
    assert engine.all("SELECT count(*) FROM stanchion.ready") == [3]
    resume(engine)
    engine.upkeep.offer()
    assert engine.all(OUT) == [3]


def test_a_fan_out_that_grows_while_it_is_paused_is_offered_when_it_goes_on(engine: Engine) -> None:
    """Its children are put aside; the first pass behind the resume offers them."""
    engine.submit(fan("grown", All(), []))
    worker = engine.worker()
    (plan,) = worker.take("plan")
    pause(engine)
    worker.finish(plan, ["x"] * 300)
    engine.expand()
    engine.upkeep.offer()
    assert engine.all(ASIDE) == [300]
    resume(engine)
    assert engine.upkeep.offer() == 300
    assert engine.all(OUT) == [300]


def test_what_is_paused_leaves_the_window_and_the_backlog_to_others(
    engine: Engine, db: Callable[[str], Database]
) -> None:
    """More than a window of one tenant: another tenant's step on the same queue is offered at once."""
    wide(engine, "crowd", 6_000)
    assert engine.all(OUT)[0] > 4_000
    pause(engine)
    assert engine.all(OUT) == [0]
    other = Engine(db, engine.admin, engine.one("SELECT stanchion.create_tenant('neighbour')")[0])
    other.submit(single("theirs"))
    for _ in range(4):
        engine.upkeep.offer()
    assert other.all(
        "SELECT offered_at <= stanchion.clock() FROM stanchion.ready WHERE tenant_id = %s", other.tenant
    ) == [True]
    assert len(other.worker().take()) == 1
    assert engine.all(ASIDE) == [6_000]


def test_a_pause_holds_one_queue_of_one_tenant(engine: Engine, db: Callable[[str], Database]) -> None:
    """Other queues and other tenants go on."""
    pause(engine, "elsewhere")
    engine.submit(single("mine"))
    assert len(engine.worker().take()) == 1
    pause(engine)
    other = Engine(db, engine.admin, engine.one("SELECT stanchion.create_tenant('second')")[0])
    other.submit(single("theirs"))
    assert [lease.tenant_id for lease in other.worker().take()] == [other.tenant]


def test_the_first_who_pauses_is_the_one_who_did(engine: Engine) -> None:
    """A second pause changes nothing and says so; so does a second resume. Both acts are in the audit log, once."""
    assert pause(engine)
    assert not Queues(engine.service).pause(engine.tenant, "default", reason="another", actor="bob")
    (row,) = engine.all("SELECT queue, reason, paused_by FROM stanchion.queue_pause")
    assert row == ("default", "vendor outage", "ann")
    assert resume(engine)
    assert not resume(engine)
    acts = "SELECT action, target, actor, detail->>'reason' FROM stanchion.audit WHERE action LIKE 'queue.%%' ORDER BY audit_id"
    assert engine.all(acts) == [
        ("queue.pause", "default", "ann", "vendor outage"),
        ("queue.resume", "default", "bob", None),
    ]


def test_an_attempt_says_since_when_its_step_had_waited(engine: Engine) -> None:
    """From the moment it became ready, also when it was offered late or tried again; a probe has waited for nothing."""
    engine.submit(single("waits", retries=1))
    engine.forward(7)
    worker = engine.worker()
    (lease,) = worker.take()
    worker.fail(lease, final=False)
    engine.forward(100)
    engine.fire()
    engine.forward(3)
    worker.take()
    waited = "SELECT round(extract(epoch FROM granted_at - ready_at)) FROM stanchion.attempt ORDER BY fence"
    assert [int(seconds) for seconds in engine.all(waited)] == [7, 3]


def test_offering_a_task_again_reaches_its_ready_steps_alone(engine: Engine) -> None:
    """Whatever became of the first offers; a step that is leased twice over is leased once."""
    worker = wide(engine, "lost", 5)
    task: UUID = engine.one("SELECT task_id FROM stanchion.task")[0]
    engine.submit(single("other"))
    held = worker.take("visit", limit=1)
    assert engine.upkeep.offer() == 0
    assert Queues(engine.service).republish(engine.tenant, task, actor="ann") == 4
    before = engine.one(OFFERS)[0]
    assert engine.upkeep.offer() == 4
    assert engine.one(OFFERS)[0] > before
    assert len(worker.take("visit")) == 4
    assert worker.finish_all(held, 1) == {held[0].step_id}


def test_what_is_put_aside_at_the_moment_of_a_resume_is_offered(engine: Engine, database_url: str) -> None:
    """Offers that did not see the resume put the step aside; it waits for them, and brings the step back."""
    engine.submit(single("aside"))
    engine.worker().seen()
    pause(engine)
    engine.admin.execute("UPDATE stanchion.ready SET offered_at = NULL")
    with psycopg.connect(database_url.replace("+psycopg", "")) as offers:
        assert offers.execute("SELECT stanchion.offer_ready(1000, 5000)").fetchone() == (0,)
        comes = Thread(target=resume, args=(engine,))
        comes.start()
        comes.join(0.5)
        offers.commit()
        comes.join(10)
    assert engine.all("SELECT offered_at FROM stanchion.ready") == [None]


def test_pauses_resumes_offers_and_leases_at_the_same_moment(engine: Engine) -> None:
    """None waits for another in a circle; what was resumed last is there for all, and each step ends once."""
    for _ in range(40):
        engine.submit(single("together"))
    worker, before = engine.worker(), deadlocks(engine)
    worker.seen()
    leases = race(
        30,
        lambda _: pause(engine),
        lambda _: resume(engine),
        lambda _: engine.upkeep.offer(),
        lambda _: engine.submit(single("together")),
        lambda _: worker.take(limit=2),
    )[4]
    resume(engine)
    assert deadlocks(engine) == before
    assert engine.all(ASIDE) == [0]
    held = [lease for taken in leases for lease in taken]
    worker.finish_all(held, 1)
    worker.work()
    assert engine.all("SELECT state, count(*) FROM stanchion.task GROUP BY 1") == [("completed", 70)]


def test_queues_take_as_many_statements_however_much_there_is(engine: Engine, db: Callable[[str], Database]) -> None:
    """Under the login of the dashboard, too, which reads the same."""
    reads = db(DASHBOARD)
    taken: list[int] = []
    statements: list[str] = []
    event.listen(reads.engine, "before_cursor_execute", lambda *a: statements.append(a[2]))
    for name, children in (("few", 3), ("many", 700)):
        wide(engine, name, children).take("visit", limit=children // 2)
        engine.worker().seen()
        statements.clear()
        (found,) = Queues(reads).of(engine.tenant)
        taken.append(len(statements))
        assert found["queue"] == "default"
    assert (found["ready"], found["running"]) == (352, 351)
    assert taken == [5, 5]
