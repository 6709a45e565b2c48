"""Checks of approvals: each is what its events tell, and what left under one is what it covered, by the log alone."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from . import legal
from .facts import Facts, Row
from .verdicts import Said


def approvals_by_their_events(facts: Facts) -> Iterator[Said]:
    """Each event follows a state from which it may come, up to the stored row; a grant has the votes that it needs."""
    for approval in facts.approvals:
        where = f"approval {approval['approval_id']} ({approval['node']})"
        events = facts.approval_events.get(approval["approval_id"], [])
        if not events or events[0]["kind"] != legal.APPROVAL_BIRTH:
            yield where, f"it was never requested: {[e['kind'] for e in events[:3]]}"
            continue
        state, version, votes = "requested", 0, set()
        for event in events[1:]:
            if event["kind"] in legal.APPROVAL_REMARKS:
                if event["kind"] == "ApprovalVoted" and event["body"]["vote"] == "approve":
                    votes.add(event["actor"])
                continue
            sources, target = legal.APPROVAL_MOVES.get(event["kind"], (frozenset(), "?"))
            if state not in sources or event["version"] != version + 1:
                yield where, f"{event['kind']} (version {event['version']}) when it was {state} at {version}"
            if target == "granted" and len(votes) < approval["needs"]:
                yield where, f"it was granted by {len(votes)} of {approval['needs']}"
            state, version = target, event["version"]
        if (state, version) != (approval["state"], approval["version"]):
            told = f"{state} at version {version}"
            yield where, f"its events end {told}, the row says {approval['state']} at {approval['version']}"


def what_left_was_approved(facts: Facts) -> Iterator[Said]:
    """Every dispatch under an approval comes after it was spent on that operation, before it was revoked, with its hash."""
    requested = {approval["approval_id"]: approval for approval in facts.approvals}
    for operation in facts.operations:
        where = f"operation {operation['operation_id']} ({operation['kind']} {operation['key']})"
        under: UUID | None = None
        shown: str | None = None
        for event in facts.operation_events.get(operation["operation_id"], []):
            body = event["body"] or {}
            if event["kind"] == legal.OPERATION_BIRTH and ("hash" in body or "taken_over" in body):
                under = UUID(body["approval"]) if body.get("approval") else None
                shown = body.get("hash", shown)
            if event["kind"] != "OperationDispatched" or under is None:
                continue
            approval = requested.get(under)
            if approval is None or approval["hash"] != shown:
                yield where, f"it was dispatched with {shown}, approved was {approval and approval['hash']}"
            elif not _covers(facts.approval_events.get(under, []), operation, event):
                yield where, f"it was dispatched when its approval {under} did not cover it"


def _covers(events: list[Row], operation: Row, dispatch: Row) -> bool:
    """Whether, by the order of the log, the approval had been spent on this operation and nothing had ended it."""
    before = [e for e in events if e["event_id"] < dispatch["event_id"]]
    spent = [e for e in before if e["kind"] == "ApprovalSpent"]
    over = any(e["kind"] in ("ApprovalRevoked", "ApprovalExpired") for e in before)
    return not over and [UUID(e["body"]["operation"]) for e in spent] == [operation["operation_id"]]
