"""What is left of errors and events for somebody who may not see payloads.

An error's text is written by a step's author and may quote what the step was given. So texts go, and what the engine
itself wrote stays: codes, ids, numbers, names of nodes and workflows. What is left says that something was withheld.
"""

from __future__ import annotations

import re
from typing import Any, Final

from stanchion.errors import CODES

from .why_codes import WHY, Reason

MARK: Final = "withheld"
SHOWN: Final = {
    "Budget": ("unit",),
    "Operation": ("key", "hash", "verdict"),
    "Artifact": ("name", "media_type", "sha256"),
    "Approval": ("hash", "operation", "key", "people", "teams", "vote", "delegate_to", "expires_at"),
}
"""Of events whose kinds begin so, what everybody with task.read sees at the ledger, at budgets, artifacts and approvals as well."""
PAYLOADS: Final = ("input", "result", "progress", "given", "value", "constraints")
"""Fields that are withheld as a whole, numbers included."""

# Fields whose texts the engine writes, or that name something which everybody with task.read sees anyway.
_OPEN_NAMES = """
actor barrier by code edited fan kept kind node nodes on_failed outcome over payload rest rule run state step task via
workflow worker
"""
_OPEN: Final = frozenset(_OPEN_NAMES.split())
_TELL_OF_ERRORS: Final = frozenset(
    f"W-{name}"
    for name in (
        "BUDGET",
        "CANCELLED",
        "CANCELLING",
        "DEAD",
        "FAILING",
        "POISON",
        "REJECTED",
        "RETRY",
        "SET-ASIDE",
        "SKIPPED",
    )
)
"""Reasons with words that the engine did not write: of a step's author, of somebody who said why, of the database."""
_ID = re.compile(r"[a-z]{2,3}_[0-9A-HJKMNP-TV-Z]{26}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def withheld(value: Any) -> Any:
    """A copy without what may hold payloads; an object that lost something has `withheld: true`."""
    kept, _ = _without(value, "")
    return kept


def withheld_of(kind: str, body: dict[str, Any] | None) -> Any:
    """The body of an event of this kind without what may hold payloads."""
    names = next((names for begins, names in SHOWN.items() if kind.startswith(begins)), ())
    if not body or not names:
        return withheld(body)
    kept = {name: body[name] for name in names if name in body}
    return kept | withheld({name: value for name, value in body.items() if name not in kept})


def reason_text(reason: Reason, *, whole: bool) -> str:
    """What a reason says; not `whole`: without the words of a step's author in it."""
    return reason.text if whole or reason.code not in _TELL_OF_ERRORS else WHY[reason.code].meaning


def reason_details(reason: Reason, *, whole: bool) -> dict[str, Any]:
    """The facts of a reason; not `whole`: without texts of errors."""
    if whole or reason.code not in _TELL_OF_ERRORS:
        return reason.details
    found: dict[str, Any] = withheld(reason.details)
    return found


def _without(value: Any, key: str) -> tuple[Any, bool]:
    if value is None or isinstance(value, bool | int | float):
        return value, False
    if isinstance(value, str):
        return (value, False) if key in _OPEN or _ID.fullmatch(value) else (None, True)
    if isinstance(value, list | tuple):
        pairs = [_without(item, key) for item in value]
        return [item for item, lost in pairs if not lost or item is not None], any(lost for _, lost in pairs)
    if not isinstance(value, dict):
        return None, True
    return _object(value), False


def _object(value: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    lost = False
    for name, item in value.items():
        if name in PAYLOADS:
            lost = lost or item is not None
            continue
        shown, gone = _without(item, name)
        lost = lost or gone
        if not gone or shown:
            kept[name] = shown
    if "what" in value and (info := CODES.get(str(value.get("code")))) is not None:
        kept["what"] = info.title  # in words of ours
    return kept | {MARK: True} if lost else kept
