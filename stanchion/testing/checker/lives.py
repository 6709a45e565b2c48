"""Checks of lives: replaying the events of each step, run, task and barrier must give the row that is stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from . import legal
from .facts import Facts, Row
from .verdicts import Said


def legal_transitions(facts: Facts) -> Iterator[Said]:
    """Every event follows a state from which it may come, and the last one leads to the stored state."""
    for step in facts.steps:
        yield from _step_life(step, facts.step_events.get(step["step_id"], []))
    for run in facts.runs:
        own = [e for e in facts.events if e["run_id"] == run["run_id"] and e["kind"] in legal.RUN_MOVES]
        yield from _life(_named("run", run["run_id"]), own, "created", legal.RUN_MOVES, run["state"])
    for task in facts.tasks:
        own = _events_of_task(facts, task)
        if not own or own[0]["kind"] != legal.TASK_BIRTH:
            yield _named("task", task["task_id"]), "it was never accepted"
            continue
        yield from _life(_named("task", task["task_id"]), own[1:], "accepted", legal.TASK_MOVES, task["state"])
    for barrier in facts.barriers:
        events = facts.barrier_events.get(barrier["barrier_id"], [])
        where = _named("barrier", barrier["barrier_id"], barrier["node"])
        if not events or events[0]["kind"] != legal.BARRIER_BIRTH:
            yield where, "it was never created"
            continue
        yield from _life(where, events[1:], "waiting", legal.BARRIER_MOVES, barrier["state"])


def versions_without_holes(facts: Facts) -> Iterator[Said]:
    """The versions of each thing are 0, 1, 2 … in its events, in the order of the log, up to the stored one."""
    for step in facts.steps:
        events = facts.step_events.get(step["step_id"], [])
        yield from _step_versions(_named("step", step["step_id"], step["node"]), events, step["version"])
    for run in facts.runs:
        moves = [e for e in facts.events if e["run_id"] == run["run_id"] and e["kind"] in legal.RUN_MOVES]
        yield from _versions(_named("run", run["run_id"]), [0, *_numbers(moves)], run["version"])
    for task in facts.tasks:
        yield from _versions(_named("task", task["task_id"]), _numbers(_events_of_task(facts, task)), task["version"])
    for barrier in facts.barriers:
        events = facts.barrier_events.get(barrier["barrier_id"], [])
        yield from _versions(_named("barrier", barrier["barrier_id"]), _numbers(events), barrier["version"])


def every_event_is_known(facts: Facts) -> Iterator[Said]:
    """An event of a kind that this checker does not know would be a transition that it can't judge."""
    known = {
        *legal.STEP_BIRTHS,
        *legal.STEP_MOVES,
        *legal.STEP_REMARKS,
        *legal.RUN_MOVES,
        *legal.RUN_REMARKS,
        *legal.TASK_MOVES,
        legal.TASK_BIRTH,
        *legal.BARRIER_MOVES,
        legal.BARRIER_BIRTH,
        *legal.ARTIFACT_MOVES,
        *legal.OPERATION_MOVES,
        legal.APPROVAL_BIRTH,
        *legal.APPROVAL_MOVES,
        *legal.APPROVAL_REMARKS,
        *legal.BUDGET_REMARKS,
    }
    for event in facts.events:
        if event["kind"] not in known:
            yield _named("run", event["run_id"]), f"an event of an unknown kind {event['kind']}"


def _step_life(step: Row, events: Sequence[Row]) -> Iterator[Said]:
    where = _named("step", step["step_id"], step["node"])
    if not events or events[0]["kind"] not in legal.STEP_BIRTHS:
        yield where, f"it has no birth: {[e['kind'] for e in events[:3]]}"
        return
    born = events[0]
    state = legal.STEP_BIRTHS[born["kind"]] or (born["body"] or {}).get("state", "?")
    for before, event in pairwise(events):
        kind = event["kind"]
        if kind in legal.STEP_REMARKS:
            continue
        if event["version"] == before["version"] and (before["kind"], kind) not in legal.STEP_TOGETHER:
            yield where, f"{before['kind']} and {kind} share version {event['version']}"
        sources, target = legal.STEP_MOVES.get(kind, (frozenset(), "?"))
        if state not in sources:
            yield where, f"{kind} (version {event['version']}) of a step that was {state}"
        state = target
    if state != step["state"]:
        yield where, f"its events end in {state}, the row says {step['state']}"


def _life(where: str, events: Sequence[Row], state: str, moves: legal.Moves, stored: str) -> Iterator[Said]:
    for event in events:
        sources, target = moves.get(event["kind"], (frozenset(), "?"))
        if state not in sources:
            yield where, f"{event['kind']} (version {event['version']}) when it was {state}"
        state = target
    if state != stored:
        yield where, f"its events end in {state}, the row says {stored}"


def _step_versions(where: str, events: Sequence[Row], stored: int) -> Iterator[Said]:
    numbers: list[int] = []
    last = ""
    for event in events:
        if event["kind"] in legal.STEP_REMARKS:
            continue
        together = numbers and event["version"] == numbers[-1] and (last, event["kind"]) in legal.STEP_TOGETHER
        if not together:
            numbers.append(event["version"])
        last = event["kind"]
    yield from _versions(where, numbers, stored)


def _versions(where: str, numbers: Sequence[int], stored: int) -> Iterator[Said]:
    if list(numbers) != list(range(len(numbers))):
        yield where, f"its versions are {_short(numbers)}"
    elif len(numbers) - 1 != stored:
        yield where, f"its events end at version {len(numbers) - 1}, the row says {stored}"


def _events_of_task(facts: Facts, task: Row) -> list[Row]:
    runs = {r["run_id"] for r in facts.runs if r["task_id"] == task["task_id"]}
    kinds = {*legal.TASK_MOVES, legal.TASK_BIRTH}
    return [e for e in facts.events if e["run_id"] in runs and e["kind"] in kinds and e["step_id"] is None]


def _numbers(events: Sequence[Row]) -> list[int]:
    return [e["version"] for e in events]


def _short(numbers: Sequence[int]) -> str:
    return str(list(numbers)) if len(numbers) <= 12 else f"{list(numbers[:12])} …"


def _named(kind: str, key: object, name: str = "") -> str:
    return f"{kind} {key}" + (f" ({name})" if name else "")
