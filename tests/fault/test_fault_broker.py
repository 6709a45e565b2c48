"""The broker loses, repeats, reorders and delays; a relay dies in the middle. PostgreSQL knows what there is to do."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress

import pytest
from fault_lanes import Lane, RelayLane, Shot
from fault_topics import COMMANDS, EVENTS, OFFERS, again, header, lag_of, read_all, send, settings
from kit.world import PATIENCE, Task, World, until

from stanchion.bus.admin import with_admin
from stanchion.bus.lag import committed_offsets
from stanchion.contracts.topics import ORCHESTRATOR_COMMANDS
from stanchion.errors import StanchionError
from stanchion.runtime.kafka_settings import KafkaSettings
from stanchion.sdk.kafka_client import KafkaClient


def in_the_middle(world: World, count: int = 2_000, pause_ms: int = 10) -> Task:
    """A wide fan-out of which a part has succeeded and the rest has not."""
    task = world.submit("fault_wide", count=count, pause_ms=pause_ms)
    sql = "SELECT count(*) FROM stanchion.step WHERE run_id = %s AND node = 'single' AND state = 'succeeded'"
    until(lambda: world.sql(sql, task.run_id)[0] >= count // 20, 2 * PATIENCE, "the first children")
    return task


def sums_up(world: World, task: Task, count: int = 2_000) -> None:
    """The fan-out came to what it comes to without faults, and its history is beyond reproach."""
    assert world.ended(task, 3 * PATIENCE) == "completed"
    assert world.result(task, "sum_up") == [count, count * (count - 1) // 2]
    world.judge(task, seconds=2 * PATIENCE)


def test_the_broker_comes_back_empty(world: World) -> None:
    """Killed in the middle of 2,000 children and restarted without its messages: nothing that was accepted is lost."""
    task = in_the_middle(world)
    world.stack.servers.kafka.kill()
    assert world.state(task) == "running"
    sums_up(world, task)


def test_the_broker_flaps(world: World) -> None:
    """Five times away within seconds: consumers, producers and the intake go on without anybody's help."""
    task = world.submit("fault_wide", count=200, pause_ms=20)
    for _ in range(5):
        world.stack.servers.kafka.kill()
        world.stack.servers.kafka.restart()  # not by the supervisor, which lets one that dies often wait
    sums_up(world, task, 200)
    with KafkaClient(KafkaSettings.dev(world.stack.endpoints.kafka_bootstrap), tenant=world.stack.tenant) as client:
        receipt = client.submit("fault_simple", number=1, timeout=2 * PATIENCE)
    assert receipt.state == "accepted"


def test_offers_repeated_shuffled_and_late_change_nothing(world: World) -> None:
    """Every offer there ever was, twice and in any order, while new work goes on: no step runs for it once more."""
    before = world.submit("fault_busy")
    assert world.ended(before) == "completed"
    attempts = world.sql("SELECT count(*) FROM stanchion.attempt WHERE run_id = %s", before.run_id)[0]
    offers = again(read_all(world, OFFERS)) * 2
    assert offers, "nothing was ever offered"
    random.Random(1).shuffle(offers)
    task = world.submit("fault_busy")
    send(world, offers)
    assert world.ended(task) == "completed"
    until(lambda: lag_of(world, "stanchion-workers", OFFERS) == 0, 2 * PATIENCE, "the end of the offers")
    assert world.sql("SELECT count(*) FROM stanchion.attempt WHERE run_id = %s", before.run_id)[0] == attempts
    world.judge(before, task)


CONSUMERS = {"worker": OFFERS, "orchestrator": ORCHESTRATOR_COMMANDS, "task-service": COMMANDS}
"""What each kind of service reads, in a group of that name."""


def group_of(kind: str) -> str:
    """The consumer group of a kind of service."""
    return f"stanchion-{kind}s" if kind == "worker" else f"stanchion-{kind}"


def forget_offsets(world: World) -> None:
    """Set every group back to the beginning, as a person does: nobody may read meanwhile, so all readers die first."""
    left = {group_of(kind) for kind in CONSUMERS}

    def forgotten() -> bool:
        for group in list(left):
            # members that were killed keep the group alive until their sessions are over
            with suppress(StanchionError):
                with_admin(settings(world), lambda admin, g=group: admin.delete_groups([g]), timeout=1.0)
            if not any(committed_offsets(settings(world), group).values()):
                left.discard(group)
        return not left

    until(forgotten, PATIENCE, "groups without offsets")


def test_offsets_go_back_to_the_beginning_in_the_middle(world: World) -> None:
    """All groups forget what they have read, in the middle of a fan-out: every message there ever was comes again, and
    nothing is executed but under a lease of its own, no task is made twice, and what has ended stays as it is."""
    before = world.submit("fault_busy")
    assert world.ended(before) == "completed"
    with KafkaClient(settings(world), tenant=world.stack.tenant) as client:
        client.submit("fault_simple", number=1, timeout=2 * PATIENCE)
    attempts = "SELECT count(*) FROM stanchion.attempt WHERE run_id = %s"
    had = world.sql(attempts, before.run_id)
    readers = [one for one in world.stack.services if one.kind in CONSUMERS]
    task = in_the_middle(world, 400)
    tasks = world.sql("SELECT count(*) FROM stanchion.task")
    world.owned |= {one.name for one in readers}
    try:
        for one in readers:
            one.kill()
        forget_offsets(world)
        for kind, topic in CONSUMERS.items():
            assert lag_of(world, group_of(kind), topic) == len(read_all(world, topic))
    finally:
        world.owned -= {one.name for one in readers}
    sums_up(world, task, 400)
    for kind, topic in CONSUMERS.items():
        until(lambda k=kind, t=topic: lag_of(world, group_of(k), t) == 0, 2 * PATIENCE, f"the end of {topic}")
    assert world.sql(attempts, before.run_id) == had
    assert world.sql("SELECT count(*) FROM stanchion.task") == tasks
    world.judge(before, task)


def test_commands_are_applied_once_however_often_they_come(world: World) -> None:
    """A SubmitTask that is delivered again, in any order, is the same task: by its message id, also without a key."""
    with KafkaClient(KafkaSettings.dev(world.stack.endpoints.kafka_bootstrap), tenant=world.stack.tenant) as client:
        made = {client.submit("fault_simple", number=n, timeout=2 * PATIENCE).task_id for n in range(5)}
    assert len(made) == 5
    tasks = world.sql("SELECT count(*) FROM stanchion.task")[0]
    commands = [m for m in again(read_all(world, COMMANDS)) if ("ce_type", b"SubmitTask") in list(m.headers)] * 2
    random.Random(2).shuffle(commands)
    send(world, commands)
    until(lambda: lag_of(world, "stanchion-task-service", COMMANDS) == 0, 2 * PATIENCE, "the end of the commands")
    assert world.sql("SELECT count(*) FROM stanchion.task")[0] == tasks


def relay_lane(world: World, shot: Shot) -> Lane:
    """A lane for one shot at a relay."""
    service = world.stack.service
    return RelayLane(world, service("outbox-relay-2"), [service("outbox-relay-1")], [shot])


def events_of(world: World, task: Task) -> dict[int, Counter[str]]:
    """What the events topic holds of a task's run: for each sequence number the message ids, and how often each came."""
    found: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for record in read_all(world, EVENTS):
        if record.key == str(task.run_id).encode() and (sequence := header(record, "ce_sequence")):
            found[int(sequence)][header(record, "ce_id") or ""] += 1
    return found


def test_what_a_killed_relay_sends_twice_has_the_same_id(world: World) -> None:
    """Killed after the broker's acknowledgement, before the delete: copies that readers know as copies, and no gap."""
    lane = relay_lane(world, Shot("relay.sent", "kill", nth=2))
    lane.run()
    lane.verify()
    for one in lane.expected:
        events = events_of(world, one.task)
        assert sorted(events) == list(range(1, len(events) + 1))
        assert all(len(ids) == 1 for ids in events.values())


def test_a_frozen_relay_is_replaced_at_once(world: World) -> None:
    """Frozen with a batch in its hands: another relay sends it; thawed, it finds that its fence is gone."""
    lane = relay_lane(world, Shot("relay.read", "stop"))
    with lane.still():
        task = world.submit("fault_wide", count=20)
        until(lambda: world.sql("SELECT count(*) = 0 FROM stanchion.outbox")[0], PATIENCE, "the other relay")
        owners = (
            "SELECT DISTINCT r.name FROM stanchion.outbox_partition p JOIN stanchion.relay r ON r.relay_id = p.owner"
        )
        assert world.sql(owners) == [one.name for one in lane.peers]
        assert world.ended(task) == "completed"
    lane.expect(lane.shots[0], task, "completed", "sum_up", [20, 190])
    lane.verify()
    until(lambda: len(world.sql("SELECT DISTINCT owner FROM stanchion.outbox_partition")) == 2, what="a fair share")


def test_a_late_commit_is_not_passed_over(world: World) -> None:
    """A message whose transaction stays open while a hundred others commit is sent when it commits."""
    import psycopg

    insert = """INSERT INTO stanchion.outbox (part, tenant_id, topic, key, type, body)
        SELECT 3, tenant_id, 'stanchion.events.v1', %s, 'TaskAccepted', '{}' FROM stanchion.tenant LIMIT 1"""
    with psycopg.connect(world.database_url) as late:
        late.execute(insert, ("late",))
        for number in range(100):
            world.sql(insert, f"early-{number}")
        until(lambda: world.sql("SELECT count(*) = 0 FROM stanchion.outbox WHERE part = 3")[0], what="the early ones")
        late.commit()
    until(lambda: world.sql("SELECT count(*) = 0 FROM stanchion.outbox")[0], what="the late one")
    keys = [r.key for r in read_all(world, EVENTS)]
    assert keys.count(b"late") >= 1
    assert {f"early-{n}".encode() for n in range(100)} <= set(keys)


def test_a_message_that_is_too_large_blocks_nobody(world: World) -> None:
    """It is parked with its reason; what stands behind it in the same partition is sent."""
    world.sql(
        """INSERT INTO stanchion.outbox (part, tenant_id, topic, key, type, body)
        SELECT p, tenant_id, 'stanchion.events.v1', 'huge', 'TaskAccepted', '"' || repeat('x', 11000000) || '"'
        FROM stanchion.tenant, generate_series(0, 1) p WHERE name = %s""",
        world.stack.tenant,
    )
    task = world.submit("fault_wide", count=50)
    sums_up(world, task, 50)
    until(lambda: world.sql("SELECT count(*) = 0 FROM stanchion.outbox")[0], what="an empty outbox")
    assert world.sql("SELECT count(*) FROM stanchion.dead_letter WHERE key = 'huge'")[0] == 2


def test_missing_topics_are_made_again(world: World, request: pytest.FixtureRequest) -> None:
    """The topic of the offers is deleted under everybody's feet: work goes on, by other ways and then by a new topic."""
    if request.config.getoption("--kafka") == "tansu":
        pytest.skip("the embedded broker keeps the records of a deleted topic, and then takes no more")
    with_admin(settings(world), lambda admin: admin.delete_topics([OFFERS]), timeout=PATIENCE)
    task = world.submit("fault_busy")
    assert world.ended(task, 2 * PATIENCE) == "completed"
    world.judge(task)
    assert read_all(world, OFFERS), "the new topic carries offers"


@pytest.mark.parametrize("kind", ["worker", "orchestrator"])
def test_rubbish_is_parked_and_the_partition_goes_on(kind: str, world: World, say: Callable[[str], None]) -> None:
    """Bytes that are no message, on every partition: each is kept with its reason, and nobody dies of it."""
    from fault_lanes import send_rubbish

    topic = OFFERS if kind == "worker" else "stanchion.orchestrator.commands.v1"
    pids = {s.name: s.pid for s in world.stack.services}
    before = world.sql("SELECT count(*) FROM stanchion.dead_letter WHERE topic = %s", topic)[0]
    send_rubbish(world, topic)
    task = world.submit("fault_busy")
    assert world.ended(task) == "completed"
    if kind == "worker":
        sql = "SELECT count(*) FROM stanchion.dead_letter WHERE topic = %s"
        until(lambda: world.sql(sql, topic)[0] >= before + 16, 2 * PATIENCE, "the rubbish in the dead letters")
    assert {s.name: s.pid for s in world.stack.services} == pids
