"""From the outbox to the lease: who holds it, how far readers are, what is stuck, and what nobody knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from kit.engine import Engine
from kit.flows import single

from stanchion.authority.outbox import Outbox
from stanchion.authority.pipeline import Pipeline
from stanchion.authority.queues import Pace, Queues, advise
from stanchion.authority.why import Asking
from stanchion.contracts import ids
from stanchion.contracts.topics import WORKERS_GROUP, worker_commands
from stanchion.db.engine import Database
from stanchion.db.grants import RELAY
from stanchion.errors import NotAllowed, NotFound, Unavailable

CRAWL = worker_commands("crawl")


@pytest.fixture
def watcher(engine: Engine) -> Pipeline:
    """As an orchestrator has it."""
    return Pipeline(engine.orchestrator)


@pytest.fixture
def pipeline(engine: Engine) -> Pipeline:
    """As the API has it."""
    return Pipeline(engine.service)


def standing(
    partition: int, end: int, committed: int | None, topic: str = CRAWL, owner: str | None = "w-1"
) -> dict[str, Any]:
    return {
        "group": WORKERS_GROUP,
        "topic": topic,
        "partition": partition,
        "end": end,
        "committed": committed,
        "owner": owner,
    }


def note(
    watcher: Pipeline, standings: Sequence[dict[str, Any]], state: str = "steady", members: Sequence[str] = ("a",)
) -> None:
    """What a look found."""
    watcher.turn("test")
    watcher.note([{"name": WORKERS_GROUP, "state": state, "members": list(members)}], standings)


def group_of(pipeline: Pipeline, tenant: UUID) -> dict[str, Any]:
    (found,) = pipeline.lag(tenant, of_all=True)["groups"]
    return found  # type: ignore[no-any-return]  # a row


def parts(pipeline: Pipeline, tenant: UUID) -> list[dict[str, Any]]:
    return group_of(pipeline, tenant)["topics"][0]["partitions"]  # type: ignore[no-any-return]  # rows


def codes(engine: Engine, run_id: UUID) -> list[str]:
    why = Asking(engine.service).about(engine.tenant, ids.public(ids.RUN, run_id))
    return [reason.code for reason in why.reasons]


def test_one_orchestrator_at_a_time_asks_the_broker(engine: Engine, watcher: Pipeline) -> None:
    """Whoever comes first in five seconds; the others leave it alone."""
    assert [watcher.turn(name) for name in "abc"] == [True, False, False]
    engine.forward(5)
    assert [watcher.turn(name) for name in "bca"] == [True, False, False]


def test_lag_is_in_messages_and_in_time(engine: Engine, watcher: Pipeline, pipeline: Pipeline) -> None:
    """At the rate of the last looks; a partition of which nothing was committed is behind by all that it has."""
    note(watcher, [standing(0, 1_000, 0), standing(1, 7, None), standing(2, 9, 9)])
    for step in range(1, 5):
        engine.forward(5)
        note(watcher, [standing(0, 1_000 + step * 50, step * 100), standing(1, 7, None), standing(2, 9, 9)])
    first, second, third = parts(pipeline, engine.tenant)
    assert first["lag"] == 800
    assert 15 < first["rate_out"] < 21
    assert 7 < first["rate_in"] < 11
    assert first["drain_seconds"] == pytest.approx(800 / first["rate_out"], rel=0.01)
    assert (second["lag"], second["committed"], second["drain_seconds"]) == (7, None, None)
    assert (third["lag"], third["drain_seconds"]) == (0, 0.0)
    assert group_of(pipeline, engine.tenant)["lag"] == 807
    assert group_of(pipeline, engine.tenant)["topics"][0]["queue"] == "crawl"


def test_a_partition_that_stands_while_others_move_is_stuck(
    engine: Engine, watcher: Pipeline, pipeline: Pipeline
) -> None:
    """When none moves it is the whole group that stands: that is another thing."""
    note(watcher, [standing(0, 100, 10), standing(1, 100, 10)])
    engine.forward(20)
    note(watcher, [standing(0, 100, 10), standing(1, 100, 10)])
    assert [part["stuck"] for part in parts(pipeline, engine.tenant)] == [False, False]
    engine.forward(5)
    note(watcher, [standing(0, 100, 10), standing(1, 100, 60)])
    assert [part["stuck"] for part in parts(pipeline, engine.tenant)] == [True, False]
    assert group_of(pipeline, engine.tenant)["topics"][0]["stuck"] == 1
    engine.forward(5)
    note(watcher, [standing(0, 100, 11), standing(1, 100, 100)])
    assert [part["stuck"] for part in parts(pipeline, engine.tenant)] == [False, False]


def test_a_message_after_a_long_silence_is_not_stuck(engine: Engine, watcher: Pipeline, pipeline: Pipeline) -> None:
    """A reader that had nothing before it has not been standing since."""
    note(watcher, [standing(0, 10, 10), standing(1, 10, 0)])
    engine.forward(3_600)
    note(watcher, [standing(0, 11, 10), standing(1, 20, 5)])
    assert [part["stuck"] for part in parts(pipeline, engine.tenant)] == [False, False]
    engine.forward(16)
    note(watcher, [standing(0, 11, 10), standing(1, 20, 9)])
    assert [part["stuck"] for part in parts(pipeline, engine.tenant)] == [True, False]


def test_a_look_writes_what_changed_and_forgets_what_is_gone(
    engine: Engine, watcher: Pipeline, pipeline: Pipeline
) -> None:
    """Thousands of quiet partitions are not written anew every five seconds."""
    quiet = [standing(number, 7, 7) for number in range(500)]
    note(watcher, quiet)
    versions = "SELECT count(*) FROM stanchion.consumer_lag WHERE xmin = (SELECT xmin FROM stanchion.consumer_group)"
    assert engine.all(versions) == [500]
    engine.forward(5)
    note(watcher, [*quiet[:499], standing(499, 8, 7)])
    assert engine.all(versions) == [1]
    engine.forward(5)
    note(watcher, quiet[:3])
    assert len(parts(pipeline, engine.tenant)) == 3


def test_asking_out_of_turn_writes_nothing(engine: Engine, watcher: Pipeline) -> None:
    """Every orchestrator asks every other second whether it is its turn."""
    assert watcher.turn("a")
    before = engine.one("SELECT xmin, xmax, ctid FROM stanchion.lag_look")
    assert not any(watcher.turn("b") for _ in range(5))
    assert engine.one("SELECT xmin, xmax, ctid FROM stanchion.lag_look") == before


def test_what_is_not_known_is_not_zero(engine: Engine, watcher: Pipeline, pipeline: Pipeline) -> None:
    """Nobody has looked, the broker is away, it refuses, nobody looks any more: four answers, and the last numbers stay."""
    assert pipeline.lag(engine.tenant, of_all=True)["state"] == "unknown"
    note(watcher, [standing(0, 10, 4)])
    assert pipeline.lag(engine.tenant, of_all=True)["state"] == "known"
    for fault, state in (
        (Unavailable("E-NET-01", "the broker does not answer"), "unreachable"),
        (NotAllowed("E-NET-06", "the broker refuses"), "not_allowed"),
    ):
        engine.forward(5)
        assert watcher.turn("test")
        watcher.note_fault(fault)
        found = pipeline.lag(engine.tenant, of_all=True)
        assert (found["state"], found["fault"]["code"]) == (state, fault.code)
        assert found["groups"][0]["lag"] == 6
        assert found["failing_since"] > found["answered_at"]
    engine.forward(5)
    note(watcher, [standing(0, 10, 4)])
    assert pipeline.lag(engine.tenant, of_all=True)["fault"] is None
    engine.forward(60)
    assert pipeline.lag(engine.tenant, of_all=True)["state"] == "unknown"
    with pytest.raises(NotFound):
        pipeline.lag(engine.tenant, of_all=True, group="nobody")


def test_rebalances_are_counted(engine: Engine, watcher: Pipeline, pipeline: Pipeline) -> None:
    """One that is seen, and one that only left other members behind; a restful group has none."""
    seen = [
        ("steady", "a"),
        ("rebalancing", "ab"),
        ("rebalancing", "ab"),
        ("steady", "ab"),
        ("steady", "bc"),
        ("steady", "bc"),
    ]
    for state, members in seen:
        note(watcher, [standing(0, 1, 1)], state, list(members))
        engine.forward(5)
    found = group_of(pipeline, engine.tenant)
    assert (found["rebalances_lately"], found["state"], found["members"]) == (2, "steady", 2)
    engine.forward(400)
    assert group_of(pipeline, engine.tenant)["rebalances_lately"] == 0


def test_a_tenant_sees_topics_of_its_own_queues(engine: Engine, watcher: Pipeline, pipeline: Pipeline) -> None:
    """Those with ready steps of its own, and those whose workers serve it; nobody's name."""
    note(
        watcher,
        [standing(0, 5, 1), standing(0, 5, 1, worker_commands("default")), standing(0, 5, 1, worker_commands("x"))],
    )
    engine.submit(single("mine"))
    found = pipeline.lag(engine.tenant, of_all=False)["groups"][0]
    assert [topic["queue"] for topic in found["topics"]] == ["default"]
    assert found["topics"][0]["partitions"][0]["owner"] is None
    engine.queues.append("crawl")
    engine.worker().seen()
    topics = pipeline.lag(engine.tenant, of_all=False)["groups"][0]["topics"]
    assert [topic["queue"] for topic in topics] == ["crawl", "default"]


def test_the_outbox_says_what_waits_and_who_publishes_it(
    engine: Engine, pipeline: Pipeline, db: Callable[[str], Database]
) -> None:
    """By age, topic and partition, with the relay's lease and fence; names and topics only for those above tenants."""
    engine.submit(single("one"))
    engine.forward(40)
    engine.submit(single("two"))
    before = pipeline.outbox(engine.tenant, of_all=True)
    assert before["held"] == 0
    assert before["waiting"] == before["own"] == sum(age["waiting"] for age in before["ages"]) > 2
    assert {age["below_seconds"]: age["waiting"] > 0 for age in before["ages"]} == {
        1: True,
        5: False,
        30: False,
        300: True,
        None: False,
    }
    assert sum(topic["waiting"] for topic in before["topics"]) == before["waiting"]
    assert 39 < before["oldest_seconds"] < 60
    relay = Outbox(db(RELAY), uuid4(), "relay-1", 2_000)
    fences = relay.claim()
    held = pipeline.outbox(engine.tenant, of_all=True)["partitions"]
    assert {part["part"]: part["fence"] for part in held if part["held"]} == fences
    assert {part["relay"] for part in held} == {"relay-1"}
    assert sum(part["waiting"] for part in held) == before["waiting"]
    mine = pipeline.outbox(engine.tenant, of_all=False)
    assert mine["topics"] is None
    assert {part["relay"] for part in mine["partitions"]} == {None}
    engine.forward(10)
    assert pipeline.outbox(engine.tenant, of_all=True)["held"] == 0


def test_why_names_a_paused_queue_and_no_worker_beside_it(engine: Engine) -> None:
    """Who paused it and why, and what to type; once it goes on, the next reason shows."""
    run = engine.submit(single("held")).run_id
    assert run is not None
    assert codes(engine, run)[0] == "W-NO-WORKER"
    Queues(engine.service).pause(engine.tenant, "default", reason="vendor outage", actor="person:li")
    why = Asking(engine.service).about(engine.tenant, ids.public(ids.RUN, run))
    (reason,) = [one for one in why.reasons if one.code != "W-OUTBOX"]
    assert (reason.code, reason.text) == ("W-PAUSED", "queue default is paused by person:li: vendor outage")
    assert reason.fix == ("stanchion queue resume default",)
    assert isinstance(reason.since, datetime)
    Queues(engine.service).resume(engine.tenant, "default", actor="person:li")
    assert codes(engine, run)[0] == "W-NO-WORKER"


def test_why_names_lag_and_a_rebalance_that_hold_offers(engine: Engine, watcher: Pipeline) -> None:
    """Only while they are known to; readers that keep up hold nothing."""
    run = engine.submit(single("behind")).run_id
    assert run is not None
    topic = worker_commands("default")
    note(watcher, [standing(0, 10, 10, topic)])
    assert "W-LAG" not in codes(engine, run)
    engine.forward(5)
    note(watcher, [standing(0, 5_000, 10, topic)], "rebalancing")
    assert {"W-LAG", "W-REBALANCE"} <= set(codes(engine, run))
    why = Asking(engine.service).about(engine.tenant, ids.public(ids.RUN, run))
    (reason,) = [one for one in why.reasons if one.code == "W-LAG"]
    assert reason.details["lag"] == 4_990
    assert "partition 0" in reason.text
    engine.forward(120)
    assert not {"W-LAG", "W-REBALANCE"} & set(codes(engine, run))


@pytest.mark.parametrize(
    ("ready", "workers", "pace", "paused", "said", "needed"),
    [
        (0, 2, (1, 1), False, "nothing waits", None),
        (9, 0, (1, 1), False, "no live worker serves it", None),
        (9, 2, None, False, "no rate is known", None),
        (9, 2, (5, 0), False, "nothing of it was started", None),
        (9, 2, (1, 1), True, "paused", None),
        (12_300, 4, (240, 198), False, "workers needed to drain in 5 min: 6 (you have 4)", 6),
        (100, 4, (10, 20), False, "drained in about 10 s", 3),
    ],
)
def test_advice(
    ready: int, workers: int, pace: tuple[float, float] | None, paused: bool, said: str, needed: int | None
) -> None:
    """One sentence, with real numbers, and never a guess."""
    until = datetime.fromisoformat("2026-12-01T00:00:00+00:00")
    found = advise(ready, workers, pace and Pace(*pace, until), paused=paused)
    assert said in found.text
    assert found.workers_needed == needed
