"""Checks of the whole: nothing is forgotten, nothing is left over, and at the end everything has ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from . import legal
from .facts import Facts
from .verdicts import Said

_IDLE_SECONDS_MOST = 5.0


def ready_means_ready(facts: Facts) -> Iterator[Said]:
    """Each ready step can be found by workers, and nothing else is shown to them."""
    shown = {r["step_id"] for r in facts.ready}
    for step in facts.steps:
        # what is in doubt is shown when a probe of it is due
        if step["state"] != "unknown" and (step["state"] == "ready") != (step["step_id"] in shown):
            found = "has" if step["step_id"] in shown else "has no"
            yield f"step {step['step_id']} ({step['node']})", f"it is {step['state']} and {found} ready row"


def waiting_has_an_end(facts: Facts) -> Iterator[Said]:
    """What waits for a retry or for people has its timer; a fan-out that is not wholly there has somebody who expands it."""
    timers = Counter((t["target_id"], t["kind"]) for t in facts.timers)
    for step in facts.steps:
        where = f"step {step['step_id']} ({step['node']})"
        if step["state"] == "retry_wait" and timers[step["step_id"], "retry"] == 0:
            yield where, "it waits for a retry that is not due at any time"
        if step["kind"] == "step" and step["state"] == "waiting" and timers[step["step_id"], "approval"] == 0:
            yield where, "it waits for people, and there is no end to it"
        opened = any(e["kind"] == "FanExpanding" for e in facts.step_events.get(step["step_id"], []))
        expects = step["kind"] == "fan" and step["state"] == "waiting" and not opened
        if expects and timers[step["step_id"], "expand"] == 0:
            yield where, "it waits to be expanded, and nobody is going to"


def open_is_what_is_open(facts: Facts) -> Iterator[Said]:
    """What a live run counts as open is what is open; a run that ended has nothing open."""
    unsettled: Counter[object] = Counter()
    alive: Counter[object] = Counter()
    for step in facts.steps:
        if step["state"] not in legal.TERMINAL_STEPS:
            alive[step["run_id"]] += 1
        if step["counts"] and step["state"] not in ("succeeded", "skipped", "cancelled"):
            unsettled[step["run_id"]] += 1
    for run in facts.runs:
        where = f"run {run['run_id']}"
        if run["state"] in ("created", "running", "succeeded") and run["open"] != unsettled[run["run_id"]]:
            yield where, f"{run['open']} are open by its row, {unsettled[run['run_id']]} by its steps"
        if run["state"] in legal.TERMINAL_RUNS and alive[run["run_id"]]:
            yield where, f"it is {run['state']}, and {alive[run['run_id']]} of its steps have not ended"


def task_follows_its_run(facts: Facts) -> Iterator[Said]:
    """A task has ended exactly when its newest run has, and in the same way."""
    ends = {"succeeded": {"completed"}, "failed": {"failed"}, "cancelled": {"cancelled", "rejected"}}
    for task in facts.tasks:
        run = facts.run.get(task["run_id"])
        if run is None:
            yield f"task {task['task_id']}", "its run does not exist"
        elif task["state"] not in ends.get(run["state"], {task["state"]}):
            yield f"task {task['task_id']}", f"it is {task['state']}, its run is {run['state']}"
        elif task["state"] in legal.TERMINAL_TASKS and run["state"] not in legal.TERMINAL_RUNS:
            yield f"task {task['task_id']}", f"it is {task['state']}, its run is still {run['state']}"


def everything_ended(facts: Facts) -> Iterator[Said]:
    """At the end: every task has ended, the outbox is drained, no timer, ready row, barrier or attempt is left."""
    if not facts.settled:
        return
    for task in facts.tasks:
        if task["state"] not in legal.TERMINAL_TASKS:
            yield f"task {task['task_id']}", f"it is still {task['state']}"
    for name in ("ready", "timers", "outbox"):
        if rows := getattr(facts, name):
            kinds = Counter(str(r.get("kind") or r.get("type") or r.get("node")) for r in rows)
            yield name, f"{len(rows)} rows are left: {dict(kinds)}"
    for barrier in facts.barriers:
        if barrier["state"] == "waiting":
            yield f"barrier {barrier['barrier_id']}", f"it still waits before {barrier['node']}"
    for attempt in facts.attempts:
        if attempt["is_open"]:
            yield f"step {attempt['step_id']}", f"its attempt of fence {attempt['fence']} is still open"


def no_session_hangs(facts: Facts) -> Iterator[Said]:
    """Nobody sits in a transaction: it would hold locks for as long as its process is frozen."""
    for session in facts.sessions:
        if session["seconds"] > _IDLE_SECONDS_MOST:
            yield (
                f"session {session['pid']}",
                f"{session['application_name']} is idle in transaction for {session['seconds']:.1f} s",
            )
