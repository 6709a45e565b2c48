"""An approval in plain words: what it allows, whom it waits for, what follows from each answer, and why it is over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stanchion.authority.rows import Row
from stanchion.state import ApprovalState, OperationState

PERSON: Final = "person:"
FINAL_SAY: Final = ("approve", "reject", "delegate")
OPEN: Final = ApprovalState.REQUESTED.value
CLOSED: Final = tuple(state.value for state in ApprovalState if state.value != OPEN)
SHAPES: Final = {"granted": "succeeded", "spent": "succeeded", "rejected": "dead", "expired": "dead"}
"""Where an approval's shape is not that of the same word elsewhere: an attempt that is granted runs."""
MAY_STILL_LEAVE: Final = (OperationState.PREPARED, OperationState.DISPATCHED, OperationState.UNKNOWN)
OUTCOMES: Final = {
    "granted": "It was approved, and what it allows has not left yet",
    "spent": "It was approved, and what it allows has left",
    "rejected": "It was rejected",
    "expired": "Its time was over before it was decided or used",
    "revoked": "It was taken back",
    "replaced": "What it asks was changed, and is asked anew",
}

NO_SAY: Final = {
    "key": "A key decides nothing: it needs somebody who has read it.",
    "role": "You have no vote: approvers and admins decide.",
    "requester": "You have no vote: four eyes, and whoever asked for it, or changed it, does not decide it.",
    "delegated": "You have passed your vote on.",
    "expired": "Its time is over: nobody can decide it any more.",
    "not asked": "You have no vote: {asked} was asked.",
}


def moved_on(found: Row, shown: str) -> str | None:
    """Why nobody can decide on what was shown (a hash in hex, or empty: nothing was); None: they can."""
    if found["state"] != OPEN:
        by = f" by {found['decided_by']}" if found["decided_by"] else ""
        return f"Changed since you opened it, review again. {OUTCOMES[found['state']]}{by}."
    if not shown:
        return "Look at what it asks first: a decision is about what was shown."
    if shown != found["payload_hash"].hex():
        return "Changed since you opened it, review again."
    return None


def allows(row: Row) -> str:
    """What may leave under it, in a few words."""
    if not row["operation_kind"]:
        return "nothing outside: the next step gets the answer"
    key = f" “{row['operation_key']}”" if row["operation_key"] else ""
    return f"1 {row['operation_kind']}{key}"


def asked(row: Row) -> str:
    """Who was asked."""
    return ", ".join([*(f"team {team}" for team in row["teams"]), *row["people"]]) or "any approver"


def said_yes(votes: Sequence[Row]) -> int:
    """How many have approved it."""
    return len({vote["subject"] for vote in votes if vote["vote"] == "approve"})


def missing(row: Row, votes: Sequence[Row]) -> str:
    """Whom it waits for."""
    spoken = {vote["subject"].removeprefix(PERSON) for vote in votes if vote["vote"] in FINAL_SAY}
    given = [vote["delegate_to"] for vote in votes if vote["vote"] == "delegate"]
    names = [name for name in [*row["people"], *given] if name not in spoken]
    teams = [f"team {team}" for team in row["teams"]]
    left = row["needs"] - said_yes(votes)
    return f"{left} of {', '.join(dict.fromkeys([*teams, *names])) or 'any approver'}"


def ways(row: Row, operation_state: str | None) -> tuple[str, ...]:
    """What can be done with it as it stands; `operation_state` is that of what it was used for."""
    names: tuple[str, ...] = ()
    if row["state"] == OPEN:
        names = ("approve", "reject", "ask-back", "answer", "delegate", "edit", "revoke")
    elif row["state"] == "granted" or (row["state"] == "spent" and operation_state in MAY_STILL_LEAVE):
        names = ("revoke",)
    return tuple(f"approval.{name}" for name in names)


def yes_title(row: Row, votes: Sequence[Row]) -> str:
    """What the button of a yes says: its effect, once no other yes is needed."""
    given = said_yes(votes)
    if given + 1 < row["needs"]:
        return f"Approve, {given + 1} of {row['needs']}"
    return f"Approve and send 1 {row['operation_kind']}" if row["operation_kind"] else "Approve"


def after_yes(row: Row, votes: Sequence[Row]) -> str:
    """What follows from a yes."""
    left = row["needs"] - said_yes(votes) - 1
    more = f"{left} more of those asked {'has' if left == 1 else 'have'} to approve it; then the" if left > 0 else "The"
    if not row["operation_kind"]:
        return f"{more} task goes on with the answer. Nothing outside is allowed by it."
    return f"{more} task goes on, and {allows(row)} may leave: once, with exactly this payload, and before its time is over."


def after_no(row: Row) -> str:
    """What follows from a no."""
    nothing = f"No {row['operation_kind']} leaves" if row["operation_kind"] else "One no is enough"
    if row["on_rejected"] == "end":
        return f"{nothing}, and the task ends as rejected."
    return f"{nothing}, and the task goes on with the answer."


def after_silence(row: Row) -> str:
    """What follows when nobody decides in time."""
    if row["on_timeout"] == "fail":
        return "Its step fails. Silence never approves."
    return "It counts as a no. Silence never approves."


def no_say(why: str | None, row: Row, name: str) -> str | None:
    """What is told somebody who has no say; `why` as the database gives it, or key."""
    if row["state"] != OPEN:
        return None
    if why != "said":
        found = NO_SAY.get(why or "")
        return found and found.format(asked=asked(row))
    mine = [vote for vote in row["votes"] if vote["subject"] == name and vote["vote"] in FINAL_SAY]
    said = mine[-1]["vote"] if mine else ""
    if said == "delegate":
        return f"You have passed your vote on to {mine[-1]['delegate_to']}."
    return "You have rejected it." if said == "reject" else "You have approved it."
