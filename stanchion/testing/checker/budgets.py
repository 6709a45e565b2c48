"""Checks of budgets: what is spent is what was booked, and what left was paid for, by the log alone."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from uuid import UUID

from .facts import Facts, Row
from .verdicts import Said

_SIGNS = {"BudgetSpent": 1, "BudgetReturned": -1}


def budgets_by_their_events(facts: Facts) -> Iterator[Said]:
    """Each sum is that of its bookings, over all runs; no operation was charged beyond the limit that its run had."""
    limits: dict[UUID, dict[str, Decimal]] = {}
    sums: dict[tuple[UUID, str], Decimal] = {}
    for event in facts.events:
        body = event["body"] or {}
        task = facts.run[event["run_id"]]["task_id"]
        if event["kind"] in ("TaskAccepted", "TaskRetried"):
            limits.setdefault(task, {}).update({u: Decimal(str(a)) for u, a in body.get("budget", {}).items()})
        if event["kind"] not in _SIGNS:
            continue
        key = (task, body["unit"])
        sums[key] = sums.get(key, Decimal(0)) + _SIGNS[event["kind"]] * Decimal(str(body["amount"]))
        limit = limits.get(task, {}).get(body["unit"])
        charged = event["kind"] == "BudgetSpent" and "operation" in body and not _undoes(facts, body)
        if sums[key] < 0 or (charged and limit is not None and sums[key] > limit):
            yield f"task {task}", f"{event['kind']} makes it {sums[key]} {body['unit']} of {limit}"
    for row in facts.budgets:
        told = sums.pop((row["task_id"], row["unit"]), Decimal(0))
        if told != row["spent"]:
            yield f"task {row['task_id']}", f"its events say {told} {row['unit']} spent, the row says {row['spent']}"
    for (task, unit), told in sums.items():
        yield f"task {task}", f"its events say {told} {unit} spent, and there is no row"


def _undoes(facts: Facts, body: Row) -> bool:
    operation = UUID(body["operation"])
    return any(o["operation_id"] == operation and o["compensates"] is not None for o in facts.operations)
