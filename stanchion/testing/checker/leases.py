"""Checks of leases: fences, attempts, results, and what user code saw of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from uuid import UUID

from . import legal
from .facts import Facts, Row
from .verdicts import Said


def a_fence_for_each_lease(facts: Facts) -> Iterator[Said]:
    """The fences of a step are 1, 2, 3 … in the order of its leases, and the row holds the last one."""
    for step in facts.steps:
        leases = [e["fence"] for e in facts.step_events.get(step["step_id"], []) if e["kind"] in legal.GRANTS]
        if leases != list(range(1, len(leases) + 1)):
            yield _of(step), f"its leases have the fences {leases}"
        if step["fence"] != len(leases):
            yield _of(step), f"its fence is {step['fence']} after {len(leases)} leases"


def nothing_by_an_old_fence(facts: Facts) -> Iterator[Said]:
    """No event names a fence after a newer one was issued, in the order of the log."""
    for step in facts.steps:
        current = 0
        for event in facts.step_events.get(step["step_id"], []):
            fence = event["fence"]
            if event["kind"] in legal.GRANTS:
                current = max(current, fence or 0)
            elif event["kind"] in legal.FENCED and fence != current:
                yield _of(step), f"{event['kind']} by fence {fence} when {current} was the current one"
            elif fence is not None and fence != current:
                yield _of(step), f"{event['kind']} names fence {fence} when {current} was the current one"


def attempts_match_leases(facts: Facts) -> Iterator[Said]:
    """An attempt for each lease, ended as the events say; one is open exactly while the step is held."""
    for step in facts.steps:
        attempts = facts.attempts_of.get(step["step_id"], [])
        if [a["fence"] for a in attempts] != list(range(1, step["fence"] + 1)):
            yield _of(step), f"attempts of the fences {[a['fence'] for a in attempts]}, leases up to {step['fence']}"
        open_ones = [a["fence"] for a in attempts if a["is_open"]]
        wanted = [step["fence"]] if step["state"] in legal.HELD else []
        if open_ones != wanted:
            yield _of(step), f"it is {step['state']} and has open attempts {open_ones}"
        yield from _endings(step, attempts, facts.step_events.get(step["step_id"], []))


def attempts_within_budget(facts: Facts) -> Iterator[Said]:
    """Counted attempts are what the step says, numbered without holes, and never more than it may have."""
    for step in facts.steps:
        attempts = facts.attempts_of.get(step["step_id"], [])
        counted = 0
        for attempt in attempts:
            if attempt["number"] != counted + 1:
                yield (
                    _of(step),
                    f"attempt of fence {attempt['fence']} has number {attempt['number']}, not {counted + 1}",
                )
            counted += attempt["counted"]
        if counted != step["attempts"]:
            yield _of(step), f"{counted} attempts count, the row says {step['attempts']}"
        if counted > step["max_attempts"]:
            yield _of(step), f"{counted} attempts of at most {step['max_attempts']}"


def one_result_for_each_success(facts: Facts) -> Iterator[Said]:
    """A succeeded step has one result, of the fence that succeeded; no other step has any."""
    results: dict[UUID, Row] = {}
    for row in facts.results:
        if row["step_id"] in results:
            yield f"step {row['step_id']}", "it has two results"
        results[row["step_id"]] = row
    for step in facts.steps:
        result = results.get(step["step_id"])
        events = facts.step_events.get(step["step_id"], [])
        succeeded = [e for e in events if e["kind"] in ("StepSucceeded", "StepAnswered")]
        # an answer is the result of the attempt that asked
        fences = [e["fence"] for e in events if e["kind"] in ("StepSucceeded", "StepAsked")]
        answers = step["kind"] == "step" and step["state"] == "succeeded" and step["replaced_by"] is None
        if len(succeeded) > 1:
            yield _of(step), f"it succeeded {len(succeeded)} times"
        if answers and result is None:
            yield _of(step), "it succeeded and has no result"
        if result is not None and not answers:
            yield _of(step), f"it is {step['state']} and has a result"
        if result is not None and succeeded and result["fence"] != fences[-1]:
            yield _of(step), f"its result is of fence {result['fence']}, fence {fences[-1]} succeeded"


def executions_were_granted(facts: Facts) -> Iterator[Said]:
    """User code ran only under fences that were issued, once under each, and ran for each result that was accepted."""
    if facts.executions is None:
        return
    seen = Counter((e.step_id, e.fence) for e in facts.executions)
    granted = {(a["step_id"], a["fence"]) for a in facts.attempts}
    for (step_id, fence), times in seen.items():
        if (step_id, fence) not in granted:
            yield f"step {step_id}", f"its code ran under fence {fence}, which was never granted"
        if times > 1:
            yield f"step {step_id}", f"its code ran {times} times under fence {fence}"
    noting = {(e.node) for e in facts.executions}
    for result in facts.results:
        step = facts.step.get(result["step_id"])
        if step and step["node"] in noting and result["fence"] and (step["step_id"], result["fence"]) not in seen:
            yield _of(step), f"a result of fence {result['fence']} was accepted, and its code never ran under it"


def refusals_were_due(facts: Facts) -> Iterator[Said]:
    """What was refused was stale: its fence is not the current one, or the step was not held any more."""
    for refused in facts.refused:
        step, fence = facts.step[refused["step_id"]], refused["fence"]
        if refused["attempted"] == "complete" and _accepted(facts, step["step_id"], fence):
            yield _of(step), f"a result of fence {fence} was accepted, and refused as well"


def _accepted(facts: Facts, step_id: UUID, fence: int) -> bool:
    # the same worker asking again after a lost answer is told that it was done, so a refusal of it would be wrong
    return any(a["fence"] == fence and a["state"] == "succeeded" for a in facts.attempts_of.get(step_id, []))


def _endings(step: Row, attempts: list[Row], events: list[Row]) -> Iterator[Said]:
    probes = {e["fence"] for e in events if e["kind"] == "StepProbed"}
    ended = {e["fence"]: _end(e, probes) for e in events if e["kind"] in legal.ATTEMPT_ENDS and e["fence"]}
    lost = {e["fence"] for e in events if e["kind"] == "StepLost"}  # the loss that was one too many failed the step
    for attempt in attempts:
        fence = attempt["fence"]
        wanted = "lost" if fence in lost else ended.get(fence, attempt["state"])
        if attempt["state"] != wanted:
            yield _of(step), f"attempt of fence {fence} is {attempt['state']}, its events say {wanted}"
        if not attempt["is_open"] and fence not in ended:
            yield _of(step), f"attempt of fence {fence} is {attempt['state']}, and no event says so"


def _end(event: Row, probes: set[int]) -> str:
    """How an attempt ends with an event; one that leaves a doubt behind by who ended it, and whether it was a probe."""
    if event["kind"] != "StepDoubted":
        return legal.ATTEMPT_ENDS[event["kind"]]
    by_others = {"reaper": "lost", "canceller": "superseded"}
    return by_others.get(event["actor"] or "", "released" if event["fence"] in probes else "failed")


def _of(step: Row) -> str:
    return f"step {step['step_id']} ({step['node']}[{step['idx']}])"
