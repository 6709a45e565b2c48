"""What reasons say of ends: runs, steps and joins that are decided, and what no row would move any more."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from stanchion.contracts import ids
from stanchion.contracts.actions import Way, act
from stanchion.contracts.failures import cause_of, told

from .rows import Row
from .why_codes import Reason
from .why_look import Look, evidence
from .why_words import DOCTOR, bar, span, tsk

_NOTHING_LEFT: Final = "Nothing is left to do."
_STAYS: Final = "Nothing: what has ended stays so."
_VERBS: Final = {
    "succeeded": "succeeded",
    "failed": "failed",
    "cancelled": "was cancelled",
    "skipped": "was skipped",
    "rejected": "was rejected",
    "released": "opened",
}


def ended(look: Look, task: Row, run: Row) -> Reason:
    """A run that has ended, well or badly; what can be done depends on whether the task went on without it."""
    later = task["run_id"] != run["run_id"]
    seen = evidence("run", run["run_id"]) + (evidence("run", task["run_id"]) if later else ())
    reason = run["reason"] if isinstance(run["reason"], dict) else {}
    code = _code_of(run)
    words = _VERBS["rejected" if run["outcome"] == "rejected" else run["state"]]
    what = f"run {run['number']}" if later else "it"
    text = f"{what} {words} {span(look.passed(run['ended_at']))} ago"
    if code != "W-DONE":
        text += _because(reason, told_why=code in ("W-CANCELLED", "W-REJECTED"))
    if later:
        ask = Way(f"stanchion why {tsk(run)}")
        then = f"{_STAYS} The task is {task['state']}, in run {task['runs']}."
        return Reason(
            code, text, run["ended_at"], None, then, (ask,), seen, {"reason": run["reason"], "run": run["number"]}
        )
    if code == "W-DONE":
        return Reason(code, text, run["ended_at"], None, _NOTHING_LEFT, (), seen)
    retry = act("task.retry", tsk(run))
    if code == "W-BUDGET":
        retry = Way(f"{retry.command} --budget UNIT=NUMBER", retry.action, retry.target)
    return Reason(
        code, text, run["ended_at"], None, "", (retry,), seen, {"reason": run["reason"], "run": run["number"]}
    )


def _code_of(run: Row) -> str:
    if run["state"] == "succeeded":
        return "W-DONE"
    if "E-BUD-0" in told(run["reason"]):
        return "W-BUDGET"
    if run["outcome"] == "rejected":
        return "W-REJECTED"
    return "W-CANCELLED" if run["state"] == "cancelled" else "W-DEAD"


def _because(reason: Row, *, told_why: bool) -> str:
    """What ended it, who did, why, and what lies behind that."""
    parts = (
        f": {reason['what']}" if reason.get("what") else "",
        f" by {reason['by']}" if reason.get("by") else "",
        f" ({reason['why']})" if told_why and reason.get("why") else "",
        f": {cause_of(reason)}" if cause_of(reason) else "",
    )
    return "".join(parts)


def settled(look: Look, step: Row, why: Any) -> Reason:
    """A step that is at its end, well or not at all."""
    code = {"succeeded": "W-DONE", "skipped": "W-SKIPPED", "cancelled": "W-CANCELLED"}[step["state"]]
    text = f"{step['node']} {_VERBS[step['state']]} {span(look.passed(step['updated_at']))} ago"
    if why:
        text += f": {told(why, 'why')}"
    if step["replaced_by"] is not None:
        text += "; a further round does it again"
    return Reason(
        code,
        text,
        step["updated_at"],
        None,
        _NOTHING_LEFT,
        (),
        evidence("step", step["step_id"]),
        {"reason": why} if why else {},
    )


def failed(look: Look, step: Row, error: Any, then: str, ways: tuple[Way, ...], held: Row | None) -> Reason:
    """A step that failed for good."""
    what = told(error)
    text = f"{step['node']} failed {span(look.passed(step['updated_at']))} ago"
    text += f" after {step['attempts']} attempts" if step["attempts"] > 1 else ""
    text += f": {what}" if what else ""
    seen = evidence("step", step["step_id"])
    if held is not None:
        seen += evidence("barrier", held["barrier_id"])
        if not held["is_own"]:
            text += f"; the join over it is decided, and its branch holds the one before {held['node']}"
    return Reason("W-DEAD", text, step["updated_at"], None, then, ways, seen, {"error": error})


def way_out(step: Row, run: Row, held: Row) -> Way:
    """Of a failed step that a join holds for: reopen it, or open the join further out that its branch holds."""
    if held["is_own"]:
        return act("task.reopen", tsk(run), node=step["node"])
    return act("barrier.open", bar(held["barrier_id"]))


def decided(look: Look, row: Row, why: Any) -> Reason:
    """A join that is decided."""
    code = {"released": "W-DONE", "failed": "W-DEAD", "cancelled": "W-CANCELLED"}[row["state"]]
    ago = f" {span(look.passed(row['released_at']))} ago" if row["released_at"] is not None else ""
    text = f"the join before {row['node']} {_VERBS[row['state']]}{ago}"
    text += f" ({told(why)})" if why and row["state"] == "failed" else ""
    text += f": {row['arrived']:,} of {row['expected']:,} arrived, {row['failed']:,} failed, {row['skipped']:,} skipped"
    details = {name: row[name] for name in ("rule", "need", "expected", "failed", "skipped")}
    then = "Nothing: what is decided stays so."
    return Reason(code, text, row["released_at"], None, then, (), evidence("barrier", row["barrier_id"]), details)


def damaged(run: Row, what: str, step_id: UUID | None = None) -> Reason:
    """Nothing is there that would move it."""
    rebuild = Way(f"stanchion db rebuild --run {ids.public(ids.RUN, run['run_id'])}")
    seen = evidence("run", run["run_id"]) + evidence("step", step_id)
    text = f"nothing would move it: {what}"
    return Reason("W-DAMAGED", text, run["updated_at"], None, "", (Way("stanchion db check"), rebuild, DOCTOR), seen)
