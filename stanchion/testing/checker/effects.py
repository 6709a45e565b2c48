"""Checks of effects: each operation is what its events tell, and nothing of unknown fate is forgotten."""

from __future__ import annotations

from collections.abc import Iterator

from . import legal
from .facts import Facts, Row
from .verdicts import Said


def operations_by_their_events(facts: Facts) -> Iterator[Said]:
    """Each event of an operation follows a state from which it may come, version by version, up to the stored row."""
    for operation in facts.operations:
        where = _named(operation)
        events = facts.operation_events.get(operation["operation_id"], [])
        if not events or events[0]["kind"] != legal.OPERATION_BIRTH:
            yield where, f"it was never prepared: {[e['kind'] for e in events[:3]]}"
            continue
        state, version = "prepared", events[0]["version"]
        for event in events[1:]:
            sources, target = legal.OPERATION_MOVES.get(event["kind"], (frozenset(), "?"))
            taken_over = event["kind"] == legal.OPERATION_BIRTH and (event["body"] or {}).get("taken_over")
            if state not in sources and not (taken_over and state == "prepared"):
                yield where, f"{event['kind']} (version {event['version']}) when it was {state}"
            if event["version"] != version + (state != target):
                yield where, f"{event['kind']} has version {event['version']} after {version}"
            state, version = target, event["version"]
        if (state, version) != (operation["state"], operation["version"]):
            told = f"{state} at version {version}"
            yield where, f"its events end {told}, the row says {operation['state']} at {operation['version']}"
        sends = sum(1 for e in events if e["kind"] == "OperationDispatched")
        if operation["sends"] > sends:
            yield where, f"it was sent {operation['sends']} times, and dispatched {sends} times"


def doubts_are_known(facts: Facts) -> Iterator[Said]:
    """A step counts what it has sent and does not know the fate of; while it does, it has not settled."""
    counted: dict[object, int] = {}
    for operation in facts.operations:
        if operation["state"] in legal.IN_DOUBT and not _left_behind(facts, operation):
            counted[operation["step_id"]] = counted.get(operation["step_id"], 0) + 1
    for step in facts.steps:
        where = f"step {step['step_id']} ({step['node']}[{step['idx']}])"
        doubts = counted.get(step["step_id"], 0)
        if step["doubts"] != doubts:
            yield where, f"it counts {step['doubts']} doubts, its operations say {doubts}"
        if doubts and step["state"] not in (*legal.HELD, "unknown"):
            yield where, f"it is {step['state']}, and nobody knows what became of what it sent"


def _left_behind(facts: Facts, operation: Row) -> bool:
    """Whether its step ended before it was known what became of a request that had not been found: a person has to tell."""
    events = facts.operation_events.get(operation["operation_id"], [])
    return bool(events) and (events[-1]["kind"], events[-1]["actor"]) == ("OperationUnknown", "engine")


def nothing_in_doubt_at_the_end(facts: Facts) -> Iterator[Said]:
    """A run that has ended knows what became of all that it did."""
    for operation in facts.operations:
        run = facts.run.get(operation["run_id"])
        if (
            run is not None
            and run["state"] in legal.TERMINAL_RUNS
            and operation["state"] in legal.IN_DOUBT
            and not _left_behind(facts, operation)
        ):
            step = facts.step.get(operation["step_id"])
            if step is None or step["kind"] != "undo":  # what a person has undone later has a time of its own
                yield _named(operation), f"it is {operation['state']}, and its run is {run['state']}"


def _named(operation: Row) -> str:
    return f"operation {operation['operation_id']} ({operation['kind']} {operation['key']})"
