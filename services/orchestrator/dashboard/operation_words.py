"""An operation in plain words: what may be done about it, and what follows from each answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from stanchion.authority.rows import Row
from stanchion.state import OperationState

ALIVE: Final = ("created", "running")
SPARE: Final = timedelta(seconds=1)
"""A key that is kept for less than this is as good as gone: so the database looks at it too."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What follows from one answer. `glyph` is the shape of the state that it leads to."""

    answer: str
    glyph: str
    then: str


def ways(row: Row) -> tuple[str, ...]:
    """What can be done about it as it stands."""
    if row["state"] == OperationState.UNKNOWN:
        check = ("operation.reconcile",) if can_be_checked(row) else ()
        return (*check, "operation.mark-done", "operation.mark-not-done")
    if row["state"] == OperationState.CONFIRMED and row["undo_kind"] and not row["undone_by"]:
        return ("operation.compensate",)
    return ()


def can_be_checked(row: Row) -> bool:
    """Whether a worker can ask the outside system: a step that has ended asks nothing any more."""
    return bool(row["can_query"]) and row["step_state"] in ("unknown", "reconciling")


def key_holds(row: Row) -> bool:
    """Whether the other side still keeps the key, so that the same request does nothing a second time."""
    return row["key_until"] is not None and bool(row["key_until"] > row["now"] + SPARE)


def landed(row: Row) -> bool:
    """Whether what was sent can't arrive any more."""
    return row["lands_until"] is not None and bool(row["lands_until"] < row["now"])


def twice(row: Row) -> bool:
    """Whether a wrong word of "not done" may have it done twice."""
    return not key_holds(row) and not landed(row)


def outcomes(row: Row) -> list[Outcome]:
    """What follows from each answer that the outside system, or a person, may give about an unknown one."""
    wanted = row["run_state"] in ALIVE or row["step_kind"] == "undo"
    by_hand = _not_done(row, wanted=row["run_state"] != "cancelling" or row["step_kind"] == "undo")
    found = [Outcome("It was done", "succeeded", "It is confirmed, its step goes on, and it is never sent again.")]
    if can_be_checked(row):
        found.append(_not_found(row, wanted=wanted))
        found.append(Outcome("No answer that tells", "unknown", _no_answer(row)))
    found.append(Outcome("A person marks it done", "succeeded", "The same, in that person's name."))
    found.append(Outcome("A person marks it not done", by_hand.glyph, by_hand.then))
    return found


def _not_found(row: Row, *, wanted: bool) -> Outcome:
    answer = "It is not found"
    if wanted and key_holds(row):
        then = "It is sent again with the same key. The other side still keeps that, so a second one does nothing."
        return Outcome(answer, "waiting", then)
    if landed(row):
        return Outcome(answer, *(("waiting", _AGAIN) if wanted else ("cancelled", _ENDS)))
    if row["lands_until"] is not None:
        then = "That proves nothing yet: what was sent may still arrive. It is asked after again."
        return Outcome(answer, "unknown", then)
    then = "That proves nothing, since nobody says how long a request may be under way. It is asked after again."
    return Outcome(answer, "unknown", then)


_AGAIN: Final = "What was sent can't arrive any more, so it is sent again, with the same key."
_ENDS: Final = "It was not done, and nobody wants it any more: it is never sent again."


def _not_done(row: Row, *, wanted: bool) -> Outcome:
    if not wanted or row["step_state"] in ("succeeded", "failed", "cancelled"):
        return Outcome("", "cancelled", _ENDS)
    warning = " The other side may not hold a second one back: if it was done after all, it is done twice."
    return Outcome("", "waiting", "Its step sends it again, with the same key." + (warning if twice(row) else ""))


def _no_answer(row: Row) -> str:
    if row["asked"]:
        return "It stays unknown, and is asked after again, each time a little later, for a day."
    return "It stays unknown until a person tells: nothing asks by itself any more."
