"""Checks of joins: each barrier opened once, not before its rule held, and its counts are what can be counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from uuid import UUID

from . import legal
from .facts import Facts, Row
from .verdicts import Said


def released_once(facts: Facts) -> Iterator[Said]:
    """A released barrier has one release row and one event; any other has none."""
    rows = Counter(r["barrier_id"] for r in facts.releases)
    for barrier in facts.barriers:
        wanted = int(barrier["state"] == "released")
        events = [e for e in facts.barrier_events.get(barrier["barrier_id"], []) if e["kind"] == "BarrierReleased"]
        if rows[barrier["barrier_id"]] != wanted:
            yield _of(barrier), f"it is {barrier['state']} and has {rows[barrier['barrier_id']]} release rows"
        if len(events) != wanted:
            yield _of(barrier), f"it is {barrier['state']} and was released {len(events)} times by the log"


def released_after_enough(facts: Facts) -> Iterator[Said]:
    """When a barrier was released its rule held, and so many had settled by then, in the order of the log."""
    releases = {r["barrier_id"]: r for r in facts.releases}
    settled_at = _settled_at(facts)
    for barrier in facts.barriers:
        release = releases.get(barrier["barrier_id"])
        events = [e for e in facts.barrier_events.get(barrier["barrier_id"], []) if e["kind"] == "BarrierReleased"]
        if release is None or not events:
            continue
        counted = release["included"] + release["failed"] + release["skipped"]
        if not _rule_held(barrier, release):
            yield _of(barrier), f"its rule is {barrier['rule']} {barrier['need']}, and it was released by {counted}"
        arrived = sum(
            1
            for child in facts.feeders.get(barrier["barrier_id"], [])
            if settled_at.get(child["step_id"], events[0]["event_id"]) < events[0]["event_id"]
        )
        if arrived < counted and barrier["on_failed"] != "hold":
            yield _of(barrier), f"released with {counted} arrivals when {arrived} had settled"


def held_until_released(facts: Facts) -> Iterator[Said]:
    """A step behind barriers is not leased before each of them was released; it became ready once."""
    released = {
        barrier: events[-1]["event_id"]
        for barrier, events in facts.barrier_events.items()
        if events[-1]["kind"] == "BarrierReleased"
    }
    for barrier in facts.barriers:
        step = facts.step.get(barrier["step_id"]) if barrier["step_id"] else None
        if step is None:
            continue
        events = facts.step_events.get(step["step_id"], [])
        starts = [e for e in events if e["kind"] in ("StepLeased", "FanOpened")]
        chosen = step["kind"] == "step" and barrier["state"] != "released"
        if starts and barrier["barrier_id"] not in released and not chosen:
            yield _of(barrier), f"{step['node']} started, and the barrier before it never opened"
        elif starts and released.get(barrier["barrier_id"], 0) > starts[0]["event_id"]:
            yield _of(barrier), f"{step['node']} started before the barrier opened"


def counts_are_recounts(facts: Facts) -> Iterator[Said]:
    """The counts of a barrier are those of the steps that feed it; slots are empty when all have arrived."""
    slots: Counter[UUID] = Counter()
    for slot in facts.slots:
        slots[slot["barrier_id"]] += slot["remaining"]
    for barrier in facts.barriers:
        run = facts.run[barrier["run_id"]]
        children = [c for c in facts.feeders.get(barrier["barrier_id"], []) if c["replaced_by"] is None]
        ok, bad, skipped = _recount(children)
        stored = (barrier["succeeded"], barrier["failed"], barrier["skipped"])
        if run["state"] in ("failed", "cancelled", "cancelling") or barrier["state"] == "cancelled":
            # what was cancelled with its run arrives nowhere
            if any(s > r for s, r in zip(stored, (ok + bad, bad + ok, skipped + bad), strict=True)):
                yield _of(barrier), f"counts {stored}, and {(ok, bad, skipped)} are there"
            continue
        left, unsettled = slots[barrier["barrier_id"]], barrier["expected"] - ok - bad - skipped
        if barrier["slots"] and barrier["slots_left"]:
            if left != unsettled:
                yield _of(barrier), f"{left} left in its slots, {unsettled} have not settled"
        elif stored != (ok, bad, skipped):
            yield _of(barrier), f"counts {stored}, and {(ok, bad, skipped)} are there"
        if barrier["slots"] and not barrier["slots_left"] and left:
            yield _of(barrier), "all its slots are full by its row, and not by theirs"
        if run["state"] == "succeeded" and barrier["kind"] == "gather" and len(children) != barrier["expected"]:
            yield _of(barrier), f"{len(children)} children feed it, {barrier['expected']} were expected"


def each_child_once(facts: Facts) -> Iterator[Said]:
    """A fan-out has each of its branches once, as many as it announced; a node stands once in its place."""
    places: Counter[tuple[object, ...]] = Counter()
    for step in facts.steps:
        places[
            step["run_id"], step["fan_id"], step["idx"], step["node"], step["kind"], step["round"], step["answers"]
        ] += 1
    for (run_id, fan_id, idx, node, *_rest), times in places.items():
        if times > 1:
            yield f"run {run_id}", f"{node}[{idx}] of fan-out {fan_id} stands there {times} times"
    for step in facts.steps:
        if step["kind"] != "fan" or step["state"] != "succeeded":
            continue
        opened = [e for e in facts.step_events.get(step["step_id"], []) if e["kind"] == "FanExpanding"]
        branches = {s["idx"] for s in facts.steps if s["fan_id"] == step["step_id"]}
        wanted = opened[0]["body"]["children"] if opened else 0
        if branches != set(range(wanted)):
            yield f"step {step['step_id']} ({step['node']})", f"{len(branches)} branches, {wanted} were announced"


def _rule_held(barrier: Row, release: Row) -> bool:
    failed, expected, need = int(release["failed"]), int(barrier["expected"]), int(barrier["need"])
    arrived = int(release["included"]) + (failed if barrier["on_failed"] == "collect" else 0)
    all_there = release["included"] + failed + release["skipped"] == expected
    if barrier["kind"] == "after" or barrier["rule"] == "all":
        return bool(all_there) and (failed == 0 or barrier["on_failed"] in ("collect", "hold"))
    return arrived >= need or (barrier["on_failed"] == "hold" and bool(all_there))


def _recount(children: Sequence[Row]) -> tuple[int, int, int]:
    ok = sum(c["state"] == "succeeded" for c in children)
    bad = sum(c["state"] == "failed" or (c["state"] == "skipped" and c["spoiled"]) for c in children)
    skipped = sum(c["state"] == "cancelled" or (c["state"] == "skipped" and not c["spoiled"]) for c in children)
    return ok, bad, skipped


def _settled_at(facts: Facts) -> dict[UUID, int]:
    ends = ("StepSucceeded", "StepAnswered", "StepFailed", "StepSkipped", "StepCancelled", "StepAdopted")
    found: dict[UUID, int] = {}
    for event in facts.events:
        if event["step_id"] and event["kind"] in ends:
            found.setdefault(event["step_id"], event["event_id"])  # a reopened step settles again, and counted before
    return found


def _of(barrier: Row) -> str:
    assert barrier["state"] in ("waiting", *(target for _, target in legal.BARRIER_MOVES.values()))
    return f"barrier {barrier['barrier_id']} (before {barrier['node']})"
