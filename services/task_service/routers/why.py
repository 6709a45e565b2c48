"""Why something does not move, and what to type."""

from __future__ import annotations

from fastapi import APIRouter

from stanchion.authority.keys import Principal
from stanchion.authority.queries import BARRIER
from stanchion.authority.rows import Row
from stanchion.authority.why import Why
from stanchion.authority.why_codes import WHY, Reason
from stanchion.authority.withholding import reason_details, reason_text
from stanchion.contracts import ids
from stanchion.contracts.actions import Way

from ..access import Caller, needs
from ..deps import Has
from ..params import StrictRoute
from ..views_inventory import WhyView

router = APIRouter(route_class=StrictRoute, tags=["why"])

_PREFIXES = {"task": ids.TASK, "run": ids.RUN, "step": ids.STEP, "barrier": BARRIER}


@router.get("/v1/tasks/{task_id}/why", response_model=WhyView, **needs("task.read"))
def why_task(deps: Has, caller: Caller, task_id: str) -> Row:
    """The reasons why a task does not go on, the ones that need somebody first."""
    return _shown(caller, deps.asking.about(caller.tenant_id, ids.public(ids.TASK, ids.parse(task_id, ids.TASK))))


@router.get("/v1/why/{any_id}", response_model=WhyView, **needs("task.read"))
def why_any(deps: Has, caller: Caller, any_id: str) -> Row:
    """The same for a task, run, step or barrier."""
    return _shown(caller, deps.asking.about(caller.tenant_id, any_id))


def _shown(caller: Principal, why: Why) -> Row:
    return {
        "kind": why.kind,
        "id": ids.public(_PREFIXES[why.kind], why.id),
        "task_id": why.task_id,
        "state": why.state,
        "reasons": [_reason(reason, whole=caller.sees_payloads) for reason in why.reasons],
        "unchecked": why.unchecked,
    }


def _reason(reason: Reason, *, whole: bool) -> Row:
    return {
        "code": reason.code,
        "text": reason_text(reason, whole=whole),
        "meaning": WHY[reason.code].meaning,
        "since": reason.since,
        "until": reason.until,
        "by_itself": reason.by_itself,
        "next": reason.next,
        "fix": list(reason.fix),
        "actions": [_action(way) for way in reason.ways if way.action is not None],
        "evidence": [{"kind": one.kind, "id": one.id} for one in reason.evidence],
        "details": reason_details(reason, whole=whole),
    }


def _action(way: Way) -> Row:
    return {
        "name": way.action,
        "title": way.title,
        "target": way.target,
        "given": dict(way.given),
        "command": way.command,
    }
