"""What the reasons say: rows of the database in words, with what to type."""

from __future__ import annotations

from stanchion.contracts import ids
from stanchion.contracts.failures import cause_of, told

from .queries import BARRIER
from .rows import Row
from .why_codes import Reason


def ordered(reasons: list[Reason]) -> list[Reason]:
    """Those that need somebody first, of one kind the oldest first."""
    return sorted(reasons, key=lambda reason: (reason.rank, reason.since.timestamp() if reason.since else 0.0))


def paused(run: Row) -> list[Reason]:
    """Whether somebody paused the run."""
    if run["paused_at"] is None or run["ended_at"] is not None:
        return []
    fix = f"stanchion task resume {ids.public(ids.TASK, run['task_id'])}"
    return [Reason("W-PAUSED", "the run is paused: nothing new of it is started", run["paused_at"], fix=(fix,))]


def ended(task: Row, run: Row) -> list[Reason]:
    """A run that ended badly."""
    if run["state"] not in ("failed", "cancelled"):
        return []
    what = run["reason"].get("what") if isinstance(run["reason"], dict) else None
    cause = cause_of(run["reason"])
    current = task["run_id"] == run["run_id"]
    more = " --budget UNIT=NUMBER" if "E-BUD-0" in told(run["reason"]) else ""
    fix = (f"stanchion task retry {ids.public(ids.TASK, task['task_id'])}{more}",) if current else ()
    text = f"it is {run['state']}{f': {what}' if what else ''}{f': {cause}' if cause else ''}"
    return [Reason("W-ENDED", text, run["ended_at"], fix=fix, details={"reason": run["reason"]})]


def lease(row: Row) -> Reason:
    """What one worker holds, or held until its lease ran out."""
    steps = f"{row['count']} {'step' if row['count'] == 1 else 'steps'}"
    worker = row["name"] or ids.public(ids.WORKER, row["worker_id"])
    details = {"worker": worker, "steps": row["count"]}
    if row["expired"]:
        text = f"the lease of {worker} on {steps} has run out: another worker gets them"
        return Reason(
            "W-LOST", text, row["since"], fix=("stanchion doctor",), details=details | {"lease": row["until"]}
        )
    return Reason("W-RUNNING", f"{worker} holds {steps}", row["since"], row["until"], details=details)


def doubt(row: Row) -> Reason:
    """An operation whose outcome nobody knows."""
    operation = ids.public(ids.OPERATION, row["operation_id"])
    details = {"operation": operation, "kind": row["kind"], "probes": row["probes"]}
    show = f"stanchion op show {operation}"
    if row["asked"]:
        text = f"nobody knows whether {row['kind']} was done; it is asked after, {row['probes']} times so far"
        fix = (show, f"stanchion op reconcile {operation}")
        return Reason("W-UNKNOWN", text, row["unknown_since"], row["due"], fix=fix, details=details)
    text = f"nobody knows whether {row['kind']} was done, and only a person can find out"
    tell = (show, f"stanchion op mark-done {operation}", f"stanchion op mark-not-done {operation}")
    return Reason("W-TELL", text, row["unknown_since"], fix=tell, details=details)


def approval(row: Row) -> Reason:
    """What people are asked, and how many of them have approved it."""
    shown = ids.public(ids.APPROVAL, row["approval_id"])
    asked = ", ".join([*row["teams"], *row["people"]]) or "any approver"
    text = f"{row['node']} waits for {row['needs'] - row['approved']} of {row['needs']} approvals ({asked})"
    details = {"approval": shown, "node": row["node"], "needs": row["needs"], "approved": row["approved"]}
    fix = (f"stanchion approval show {shown}", f"stanchion approval approve {shown}")
    return Reason("W-APPROVAL", text, row["created_at"], row["expires_at"], fix, details)


def planning(row: Row, run: Row) -> Reason:
    """A fan-out whose children are not all there."""
    if not row["late"]:
        text = f"the children of {row['node']} are to be made"
        return Reason("W-PLANNING", text, row["since"], fix=("stanchion doctor",))
    task, run_id = ids.public(ids.TASK, run["task_id"]), run["run_id"]
    text = f"the next children of {row['node']} are overdue: no orchestrator runs, or it fails on this run"
    fix = ("stanchion doctor", f"look for {run_id} in the orchestrator's log", f"stanchion task cancel {task}")
    return Reason("W-STALLED", text, row["since"], fix=fix)


def barrier(row: Row, run: Row) -> Reason:
    """What a barrier waits for."""
    barrier_id = ids.public(BARRIER, row["barrier_id"])
    details = {name: row[name] for name in ("rule", "need", "expected", "failed", "skipped")}
    details |= {
        "barrier": barrier_id,
        "arrived": int(row["arrived"]),
        "node": row["node"],
        "holding": row["holding"],
        "lost": row["lost"],
    }
    if row["kind"] == "after":
        text = f"{row['node']} waits for what it comes after: {row['arrived']:,} of {row['expected']:,} are there"
        return Reason("W-STEP", text, row["created_at"], details=details)
    text = f'the join "{row["rule"]}" before {row["node"]} has {row["arrived"]:,} of {row["need"]:,}'
    if row["on_failed"] == "hold" and (row["holding"] or row["lost"]):
        fix: tuple[str, ...] = (f'stanchion task open-barrier {barrier_id} --reason "..."',)
        if row["holding"]:
            task = ids.public(ids.TASK, run["task_id"])
            fix = (f'stanchion task reopen {task} --reason "..."', *fix)
            text += f"; {row['holding']:,} failed {'step holds' if row['holding'] == 1 else 'steps hold'} it"
        if row["lost"]:
            inside = f" at the join before {row['inner']}" if row["inner"] else ""
            text += f"; {row['lost']:,} {'branch' if row['lost'] == 1 else 'branches'} failed{inside} for good"
        return Reason("W-HELD", text, row["created_at"], row["deadline_at"], fix, details)
    return Reason("W-BARRIER", text, row["created_at"], row["deadline_at"], details=details)
