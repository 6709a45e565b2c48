"""What reasons say of waiting and of ends: rows of the database in words, with what people can do."""

from __future__ import annotations

from stanchion.contracts import ids, limits
from stanchion.contracts.actions import Way, act
from stanchion.contracts.failures import told

from .rows import Row
from .why_codes import Reason
from .why_look import Look, evidence
from .why_words import DOCTOR, NOBODY, bar, many, span, stp, tsk, verb

LATE_STATES = ("succeeded", "failed", "cancelled", "skipped")


def paused(look: Look, run: Row, by: str | None, held: int | None = None) -> Reason:
    """Somebody paused the run."""
    who = f" by {by}" if by else ""
    text = f"the run is paused{who} for {span(look.passed(run['paused_at']))}: nothing new of it is started"
    if held:
        text += f"; {many(held, 'step')} that {verb(held, 'runs', 'run')} {verb(held, 'goes', 'go')} on"
    ways = (act("task.resume", tsk(run)),)
    return Reason("W-PAUSED", text, run["paused_at"], None, "", ways, evidence("run", run["run_id"]), {"by": by})


def winding(look: Look, run: Row, counts: Row) -> Reason:
    """A run that ends."""
    failed = run["outcome"] == "failed"
    reason = run["reason"] if isinstance(run["reason"], dict) else {}
    if failed:
        text = f"it has failed ({told(run['reason'])}) and winds down"
    else:
        what = "it was rejected" if run["outcome"] == "rejected" else "cancel was asked"
        by, why = reason.get("by"), reason.get("why")
        text = (
            f"{what} {span(look.passed(run['updated_at']))} ago{f' by {by}' if by else ''}{f' ({why})' if why else ''}"
        )
    then = "What has not started is cancelled, and then the run ends."
    if counts["running"]:
        one = f"{counts['node']} still runs" if counts["running"] == 1 else f"{counts['running']:,} steps still run"
        text += f"; {one}, and {verb(counts['running'], 'was', 'were')} asked to stop {span(look.passed(run['updated_at']))} ago"
        grace = f"{limits.CANCEL_GRACE_SECONDS:.0f} s unless STANCHION_CANCEL_GRACE_SECONDS of the orchestrator says otherwise"
        then = f"After its grace ({grace}) the lease of what runs is taken."
        look.could_not("the grace that this orchestrator gives to what runs: it stands in its settings")
    if counts["undoing"]:
        text += f"; {many(counts['undoing'], 'effect')} of it {verb(counts['undoing'], 'is', 'are')} being undone"
    details = {"running": counts["running"], "undoing": counts["undoing"], "reason": run["reason"]}
    seen = evidence("run", run["run_id"]) + evidence("step", counts["step_id"])
    return Reason("W-FAILING" if failed else "W-CANCELLING", text, run["updated_at"], None, then, (), seen, details)


def doubt(look: Look, row: Row) -> Reason:
    """Operations whose outcome nobody knows."""
    operation = ids.public(ids.OPERATION, row["operation_id"])
    details = {"operation": operation, "kind": row["kind"], "probes": row["probes"], "count": row["count"]}
    seen = evidence("operation", row["operation_id"]) + evidence("step", row["step_id"])
    what = row["kind"] if row["count"] == 1 else f"{row['count']:,} operations {row['kind']}"
    doubtful = (
        f"nobody knows for {span(look.passed(row['since']))} whether {what} {verb(row['count'], 'was', 'were')} done"
    )
    tell = (act("operation.mark-done", operation), act("operation.mark-not-done", operation))
    if row["asked"] in ("never", "ended"):
        why = {
            "ended": "its step has ended, so nobody asks",
            "never": "it declares no check" if not row["can_query"] else "it was asked after as long as it declares",
        }[row["asked"]]
        text = f"{doubtful}: {why}; a person has to find out"
        ways = (Way(f"stanchion op show {operation}"), *tell)
        return Reason("W-UNKNOWN-NOCHECK", text, row["since"], None, "", ways, seen, details)
    text = f"{doubtful}; asked after {many(row['probes'], 'time')} so far"
    if row["asked"] == "now":
        return Reason(
            "W-UNKNOWN", f"{text}, a worker asks now", row["since"], None, "What it finds decides.", tell, seen, details
        )
    if row["asked"] == "lost":
        then = "Once its lease is taken back, it is asked after again."
        return Reason(
            "W-UNKNOWN", f"{text}, the worker that asked is lost", row["since"], None, then, tell, seen, details
        )
    if look.is_overdue(row["due"]):
        text += f"; the next check was due {span(look.passed(row['due']))} ago: {NOBODY}"
        return Reason("W-STALLED", text, row["due"], None, "", (DOCTOR, *tell), seen, details)
    when = f"in {span(-look.passed(row['due']))}" if row["due"] is not None else "once a worker takes it"
    ways = (act("operation.reconcile", operation), *tell)
    then = f"The next check runs {when}."
    return Reason("W-UNKNOWN", f"{text}, the next time {when}", row["since"], row["due"], then, ways, seen, details)


def approval(look: Look, row: Row) -> Reason:
    """What people are asked, who approved it, and what their silence does."""
    shown = ids.public(ids.APPROVAL, row["approval_id"])
    asked = ", ".join([*row["teams"], *row["people"]]) or "any approver"
    approved = row["approved_by"].split(", ") if row["approved_by"] else []
    missing = max(row["needs"] - len(approved), 0)
    if approved:
        look.could_not(f"whether those who approved {row['node']} still may: that is looked at when somebody else does")
    if row["count"] == 1:
        text = f"{row['node']} needs {missing} of {row['needs']} approvals from {asked}"
        text += f"; {', '.join(approved)} approved" if approved else ""
    else:
        text = f"{row['count']:,} approvals of {row['node']} are asked of {asked}"
    seen = evidence("approval", row["approval_id"]) + evidence("step", row["step_id"])
    details = {
        "approval": shown,
        "node": row["node"],
        "needs": row["needs"],
        "approved": len(approved),
        "count": row["count"],
    }
    end = "the answer is no" if row["on_timeout"] == "reject" else "the step fails"
    ways = (
        Way(f"stanchion approval show {shown}"),
        Way(f"stanchion approval approve {shown}"),
        Way(f"stanchion approval reject {shown}"),
    )
    if look.is_overdue(row["expires_at"]):
        text += f"; its time was over {span(look.passed(row['expires_at']))} ago: {NOBODY}"
        return Reason("W-STALLED", text, row["expires_at"], None, "", (DOCTOR,), seen, details)
    left = span(-look.passed(row["expires_at"]))
    then = f"Without a decision {end} in {left}."
    return Reason(
        "W-APPROVAL", f"{text}; times out in {left}", row["created_at"], row["expires_at"], then, ways, seen, details
    )


def _join(row: Row) -> tuple[str, dict[str, object]]:
    """What a join, or many of one node, have and need."""
    one = row["count"] == 1
    name = (
        f'the join "{row["rule"]}" before {row["node"]}'
        if one
        else f'{row["count"]:,} joins "{row["rule"]}" before {row["node"]}'
    )
    arrived, need = int(row["arrived"]), int(row["need"])
    text = f"{name} {verb(row['count'], 'has', 'have')} {arrived:,} of {need:,}"
    left = int(row["expected"]) - arrived - int(row["failed"]) * (row["on_failed"] != "collect") - int(row["skipped"])
    details = {name: int(row[name]) for name in ("need", "expected", "failed", "skipped")}
    more = {
        "rule": row["rule"],
        "barrier": bar(row["barrier_id"]),
        "node": row["node"],
        "arrived": arrived,
        "joins": row["count"],
    }
    return text, details | more | {"left": max(left, 0)}


def barrier(look: Look, row: Row) -> Reason:
    """What a join waits for."""
    text, details = _join(row)
    then = "It opens by itself once its rule holds."
    if row["deadline_at"] is not None:
        left = span(-look.passed(row["deadline_at"]))
        text += f"; its time is over in {left}"
        then = f"It opens once its rule holds; in {left} it fails."
    seen = evidence("barrier", row["barrier_id"])
    return Reason(
        "W-BARRIER", text, row["since"], row["deadline_at"], then, (), seen, details | {"holding": 0, "lost": 0}
    )


def overdue(look: Look, run: Row, row: Row) -> Reason:
    """A join whose time is long over."""
    text = f"the time of the join before {row['node']} was over {span(look.passed(row['deadline_at']))} ago: {NOBODY}"
    ways = (DOCTOR, act("task.cancel", tsk(run)))
    return Reason("W-STALLED", text, row["deadline_at"], None, "", ways, evidence("barrier", row["barrier_id"]))


def held(look: Look, run: Row, row: Row, holding: Row) -> Reason:
    """A join that failed steps hold, and who can let it go."""
    text, details = _join(row)
    which = f" at {holding['joins']:,} of them" if row["count"] > 1 else ""
    if holding["holding"]:
        text += f"; {many(holding['holding'], 'failed step')} {verb(holding['holding'], 'holds', 'hold')} it{which}"
    if holding["lost"]:
        inside = f" at the join before {holding['inner']}" if holding["inner"] else ""
        text += f"; {many(holding['lost'], 'branch', 'branches')} failed{inside} for good"
    ways = [act("task.reopen", tsk(run), node=node) for node in (holding["nodes"] or [])[:2]]
    open_ = int(row["expected"]) - int(row["succeeded"]) - int(row["failed"]) - int(row["skipped"]) - holding["still"]
    if open_ <= 0:
        ways.append(act("barrier.open", bar(holding["barrier_id"])))
    else:
        text += f"; {many(open_, 'branch', 'branches')} {verb(open_, 'is', 'are')} still under way"
    then = ""
    if row["deadline_at"] is not None:
        then = f"In {span(-look.passed(row['deadline_at']))} its time is over, and it fails."
    seen = evidence("barrier", holding["barrier_id"]) + evidence("step", holding["step_id"])
    details |= {"holding": holding["holding"], "lost": holding["lost"], "barrier": bar(holding["barrier_id"])}
    return Reason("W-HELD", text, holding["since"], row["deadline_at"], then, tuple(ways), seen, details)


def upstream(look: Look, step: Row, row: Row) -> Reason:
    """What a step comes after."""
    took = span(look.passed(row["since"]))
    usual = (
        f", usually {span(row['mean_ms'] / 1000)}" if row["mean_ms"] and row["state"] in ("leased", "running") else ""
    )
    what = row["node"] if row["count"] == 1 else f"{row['count']:,} steps of {row['node']}"
    text = f"{step['node']} waits for {what}, {verb(row['count'], 'which is', 'which are')} {row['state']} for {took}{usual}"
    details = {"node": row["node"], "state": row["state"], "steps": row["count"]}
    ways = (Way(f"stanchion why {stp(row['step_id'])}"),)
    then = f"When {row['node']} ends, {step['node']} goes on."
    return Reason("W-UPSTREAM", text, row["since"], None, then, ways, evidence("step", row["step_id"]), details)


def late(step: Row, row: Row) -> Reason:
    """A join that opened without this step."""
    ended = step["state"] in LATE_STATES
    text = f"the join before {row['node']} opened without it: {'its result is' if ended else 'what comes of it will be'} kept as late"
    then = "Nothing is needed." if ended else "When it ends, its result is kept, and the join does not change."
    return Reason("W-BARRIER-LATE", text, row["released_at"], None, then, (), evidence("barrier", row["barrier_id"]))


def late_at(row: Row, counts: Row) -> Reason:
    """What a join that has opened does not have."""
    came = f"{many(counts['late'], 'result')} came too late and {verb(counts['late'], 'is', 'are')} kept beside it"
    still = f"{many(counts['open'], 'branch', 'branches')} {verb(counts['open'], 'is', 'are')} still under way"
    text = f"the join before {row['node']} has opened; " + "; ".join(
        part for part, count in ((came, counts["late"]), (still, counts["open"])) if count
    )
    details = {"late": counts["late"], "open": counts["open"]}
    seen = evidence("barrier", row["barrier_id"])
    return Reason(
        "W-BARRIER-LATE", text, row["released_at"], None, "The join does not change any more.", (), seen, details
    )
