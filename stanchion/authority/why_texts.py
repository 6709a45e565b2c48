"""What reasons say of work: rows of the database in words, with what people can do."""

from __future__ import annotations

from typing import Any, Final

from stanchion.contracts import ids
from stanchion.contracts.actions import Way, act
from stanchion.contracts.failures import told

from .rows import Row
from .why_codes import Reason
from .why_look import Look, evidence
from .why_words import DOCTOR, NOBODY, a_second, many, span, stp, tsk, verb

COUNTED: Final = 10_000
LIST_WORKERS: Final = Way("stanchion worker list")


def _ready(group: Row) -> str:
    thing = "probe" if group["probes"] == group["count"] else "ready step"
    return f"{many(group['count'], thing)} in queue {group['queue']}"


def _suspects(group: Row) -> str:
    """What lost its worker twice is run one at a time at each worker: it waits although slots are free."""
    lost = group["suspects"]
    return (
        f"; {many(lost, 'step')} lost {verb(lost, 'its', 'their')} worker twice, and a worker runs one such at a time"
        if lost
        else ""
    )


def _facts(group: Row, **more: Any) -> dict[str, Any]:
    workflow = f"{group['workflow']}@{group['workflow_version']}"
    return {"queue": group["queue"], "workflow": workflow, "ready": group["count"], **more}


def no_worker(look: Look, group: Row, alive: list[Row], last: Row | None) -> Reason:
    """Nobody alive has this version: no worker at all, none with the workflow, or none with the version."""
    name, wanted = group["workflow"], f"{group['workflow']}@{group['workflow_version']}"
    start = Way(f"stanchion worker run <module with {name}>")
    had = sorted(
        {v for w in alive for d in w["workflows"] for n, _, v in [d.rpartition("@")] if n == name and v.isdecimal()},
        key=int,
    )
    seen = evidence("step", group["step_id"]) + evidence("worker", *(w["worker_id"] for w in alive[:3]))
    details = _facts(group, workers=0, others=len(alive), versions=[int(v) for v in had])
    if had:
        able = sum(any(d.rpartition("@")[0] == name for d in w["workflows"]) for w in alive)
        text = (
            f"no worker for {_ready(group)}: {many(able, 'worker')} {verb(able, 'serves', 'serve')} {name} there,"
            f" in version {', '.join(had)}; {verb(group['count'], 'this needs', 'these need')} version {group['workflow_version']}"
        )
        then = f"Once a worker with {wanted} is there, it takes them."
        return Reason("W-VERSION", text, group["since"], None, then, (LIST_WORKERS, start), seen, details)
    why = (
        f"{many(len(alive), 'worker')} {verb(len(alive), 'serves', 'serve')} the queue, none has {name}"
        if alive
        else "none serves this queue"
    )
    if last is not None:
        now = "drains" if last["state"] == "draining" else "has ended" if last["state"] == "gone" else "is silent"
        why += f"; the last one that did, {last['name']}, {now}, and was seen {span(look.passed(last['seen_at']))} ago"
        seen += evidence("worker", last["worker_id"])
    then = f"Once a worker with {wanted} is there, it takes them."
    text = f"no live worker for {_ready(group)}: {why}"
    return Reason("W-NO-WORKER", text, group["since"], None, then, (start, LIST_WORKERS), seen, details)


def untaken(group: Row, able: list[Row], slots: int, busy: int) -> Reason:
    """Offered again and again, and not taken, although there is room."""
    offered = verb(group["count"], "was", "were")
    text = f"{_ready(group)} {offered} offered {group['offers']} times and not taken; {slots - busy} of {slots} slots are free"
    text += _suspects(group)
    worker = ids.public(ids.WORKER, able[0]["worker_id"])
    ways = (DOCTOR, Way("stanchion dead list"), act("worker.drain", worker))
    seen = evidence("step", group["step_id"]) + evidence("worker", *(w["worker_id"] for w in able[:3]))
    details = _facts(group, workers=len(able), offers=group["offers"], free=slots - busy)
    then = "They are offered again, each time later, up to every 5 minutes."
    return Reason("W-UNTAKEN", text, group["since"], None, then, ways, seen, details)


def placed(look: Look, group: Row, able: list[Row], slots: int, busy: int) -> Reason:
    """There is room for it: it is on its way."""
    text = (
        f"{_ready(group)} {verb(group['count'], 'is on its', 'are on their')} way: placed {span(look.passed(group['since']))} ago,"
        f" {slots - busy} of {many(slots, 'slot')} free at {many(len(able), 'worker')}{_suspects(group)}"
    )
    details = _facts(group, workers=len(able), free=slots - busy)
    then = "A worker with a free slot takes them."
    seen = evidence("step", group["step_id"]) + evidence("worker", *(w["worker_id"] for w in able[:3]))
    return Reason("W-OK", text, group["since"], None, then, (), seen, details)


def capacity(group: Row, able: list[Row], slots: int, ahead: int, rate: float) -> Reason:
    """All slots are busy."""
    count = f"{ahead:,}{' or more' if ahead >= COUNTED else ''}"
    text = (
        f"{_ready(group)} {verb(group['count'], 'waits', 'wait')}: {slots} of {slots} slots busy"
        f" at {many(len(able), 'worker')}, {count} ahead"
    )
    then = "They are taken as slots become free."
    left = None
    if rate and ahead < COUNTED:
        left = (ahead + group["count"]) / rate
        text += f"; at {a_second(rate)} about {span(left)}"
        then = f"At the pace of the last seconds all of them are taken in about {span(left)}."
    details = _facts(group, workers=len(able), slots=slots, ahead=ahead, rate=round(rate, 2), seconds_left=left)
    seen = evidence("step", group["step_id"]) + evidence("worker", *(w["worker_id"] for w in able[:3]))
    return Reason("W-CAPACITY", text, group["since"], None, then, (LIST_WORKERS,), seen, details)


def priority(group: Row, higher: int) -> Reason:
    """Others are more urgent."""
    text = f"{many(higher, 'step')} with a priority above {group['priority']} {verb(higher, 'is', 'are')} ahead in queue {group['queue']}"
    details = _facts(group, higher=higher, priority=group["priority"])
    then = "They are taken after those."
    return Reason("W-PRIORITY", text, group["since"], None, then, (), evidence("step", group["step_id"]), details)


def lost(look: Look, row: Row) -> Reason:
    """Leases that ran out, or are about to under silent workers."""
    steps, one = many(row["count"], "step"), row["workers"] == 1
    worker = row["name"] or ids.public(ids.WORKER, row["worker_id"])
    who = worker if one else many(row["workers"], "worker")
    seen = evidence("step", row["step_id"]) + evidence("worker", row["worker_id"])
    details = {"worker": worker, "workers": row["workers"], "steps": row["count"], "lease": row["lease_until"]}
    details |= {"fence": row["fence"]}
    ways: tuple[Way, ...] = (LIST_WORKERS, DOCTOR)
    if row["expired"]:
        text = f"the lease of {who} on {steps} ran out {span(look.passed(row['lease_until']))} ago"
        if look.is_overdue(row["lease_until"]):
            text += f", and was not taken back: {NOBODY}"
            return Reason("W-STALLED", text, row["lease_until"], None, "", (DOCTOR,), seen, details)
        then = f"The orchestrator takes it back; the next attempt has a fence above {row['fence']}."
        return Reason("W-LEASE-LOST", text, row["lease_until"], None, then, ways, seen, details)
    ends, silence = span(-look.passed(row["lease_until"])), span(look.passed(row["seen_at"]))
    how = f"is silent for {silence}" if row["state"] != "gone" else f"has ended {silence} ago"
    text = f"{who} {how if one else f'are silent or have ended, for up to {silence}'}"
    text += f"; {'its lease' if one else 'their leases'} on {steps} {verb(row['workers'], 'ends', 'end')} in {ends}"
    then = f"Unless {verb(row['workers'], 'it renews its lease', 'they renew them')}, others get the steps in {ends}, with a higher fence."
    return Reason("W-LEASE-LOST", text, row["seen_at"], row["lease_until"], then, ways, seen, details)


def lease(look: Look, run: Row, row: Row) -> Reason:
    """What is at work at one node."""
    name = row["name"] or ids.public(ids.WORKER, row["worker_id"])
    ran = span(look.passed(row["since"]))
    if row["count"] == 1:
        text = f"attempt {row['number']} of {row['node']} runs on {name} for {ran}"
    else:
        where = name if row["workers"] == 1 else many(row["workers"], "worker")
        text = f"{row['count']:,} steps of {row['node']} run on {where}, the oldest for {ran}"
    if row["seen_at"] is not None:
        heard = span(look.passed(row["seen_at"]))
        text += f"; heard of {heard} ago" if row["workers"] == 1 else f"; all heard of in the last {heard}"
    then = "When it ends, what comes after it goes on."
    if run["state"] == "cancelling":
        then = "It is asked to stop with its next heartbeat; when it ends, the run goes on to its end."
    if row["deadline_at"] is not None:
        left = -look.passed(row["deadline_at"])
        text += f"; its time {f'is over in {span(left)}' if left > 0 else f'was over {span(-left)} ago'}"
        then = f"In {span(max(left, 0.0) + 2)} at the latest its lease ends, and it counts as failed."
    details = {
        "node": row["node"],
        "steps": row["count"],
        "workers": row["workers"],
        "worker": name,
        "lease": row["lease_until"],
    }
    seen = evidence("step", row["step_id"]) + evidence("worker", row["worker_id"])
    return Reason("W-LEASE", text, row["since"], row["deadline_at"], then, (), seen, details)


def retry(look: Look, run: Row, row: Row) -> Reason:
    """The next attempt, and why the last one failed."""
    others = (
        f"; {many(row['count'] - 1, 'other')} {verb(row['count'] - 1, 'waits', 'wait')} too" if row["count"] > 1 else ""
    )
    error = told(row["error"])
    failed = (
        f"attempt {row['attempts']} of {row['max_attempts']} of {row['node']} failed{f' ({error})' if error else ''}"
    )
    details = {"steps": row["count"], "node": row["node"], "attempts": row["attempts"], "error": row["error"]}
    ways = (Way(f"stanchion step show {stp(row['step_id'])}"),)
    seen = evidence("step", row["step_id"])
    if look.is_overdue(row["due_at"]):
        text = f"the next attempt of {row['node']} was due {span(look.passed(row['due_at']))} ago: {NOBODY}{others}"
        return Reason(
            "W-STALLED",
            text,
            row["due_at"],
            None,
            "",
            _stalled(run),
            seen,
            {"steps": row["count"], "node": row["node"]},
        )
    left = span(-look.passed(row["due_at"]))
    then = f"In {left} it is ready for its next attempt."
    return Reason(
        "W-RETRY",
        f"{failed}; the next one in {left}{others}",
        row["updated_at"],
        row["due_at"],
        then,
        ways,
        seen,
        details,
    )


def _stalled(run: Row) -> tuple[Way, ...]:
    look = Way(f"look for {run['run_id']} in the orchestrator's log")
    return (DOCTOR, look, act("task.cancel", tsk(run)))


def planning(look: Look, run: Row, row: Row) -> Reason:
    """A fan-out whose children are not all there."""
    seen = evidence("step", row["step_id"])
    details = {"node": row["node"], "fan_outs": row["count"]}
    if not look.is_overdue(row["since"]):
        text = f"the children of {row['node']} are to be made, for {span(look.passed(row['since']))}"
        then = "The orchestrator makes them, 5,000 at a time; the first run before the last are there."
        return Reason("W-PLANNING", text, row["since"], None, then, (DOCTOR,), seen, details)
    text = f"the next children of {row['node']} are overdue for {span(look.passed(row['since']))}: {NOBODY} run"
    return Reason("W-STALLED", text, row["since"], None, "", _stalled(run), seen, details)


def deadline(look: Look, run: Row, row: Row) -> Reason:
    """The time at which something ends, finished or not."""
    what = {
        "task_deadline": "the task ends at its deadline",
        "start_deadline": "the step fails unless it has begun",
        "step_deadline": "the step fails unless it is done",
    }[row["kind"]]
    seen = evidence("run", run["run_id"])
    if look.is_overdue(row["due_at"]):
        text = f"{what}, which passed {span(look.passed(row['due_at']))} ago: {NOBODY}"
        return Reason("W-STALLED", text, row["due_at"], None, "", _stalled(run), seen, {"deadline": row["due_at"]})
    left = span(-look.passed(row["due_at"]))
    return Reason("W-DEADLINE", f"{what}, in {left}", None, row["due_at"], f"In {left} it ends.", (), seen)
