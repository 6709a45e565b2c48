"""Faults: told beforehand, kept in the file, taken one at a time by the requests that they are for."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from sqlite3 import Connection, Row
from typing import Any, Final

from . import times
from .answers import Answer, problem
from .orders import Order
from .shapes import FaultKind, FaultWish

RETRY_AFTER_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that has fired, for one request."""

    kind: FaultKind
    seconds: float | None


def add(db: Connection, wish: FaultWish) -> dict[str, Any]:
    """Keep a fault; as it is listed."""
    match = wish.match
    row = db.execute(
        "INSERT INTO fault (kind, times, seconds, channel, key, method, at) VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING *",
        (wish.kind, wish.times, wish.seconds, match.channel, match.key, match.method, times.text(times.now())),
    ).fetchone()
    return _shown(row)


def listed(db: Connection) -> list[dict[str, Any]]:
    """All faults, those too that have fired as often as they should."""
    return [_shown(row) for row in db.execute("SELECT * FROM fault ORDER BY id")]


def clear(db: Connection) -> int:
    """Remove all faults; how many there were."""
    return db.execute("DELETE FROM fault").rowcount


def take(db: Connection, order: Order, channel: str | None) -> Fault | None:
    """The oldest fault that is for this request, counted as fired.

    Finding and counting are one statement of the transaction that notes the request: two requests at once can't both
    have the last of a fault, and a kill can't lose one without the request that it was for.
    """
    row = db.execute(
        """
        UPDATE fault SET fired = fired + 1 WHERE id = (
            SELECT id FROM fault
            WHERE fired < times
              AND (channel IS NULL OR channel = :channel)
              AND (key IS NULL OR key = :key)
              AND (method = :method OR (method IS NULL AND (:method <> 'GET' OR kind = 'forget_keys')))
            ORDER BY id LIMIT 1
        ) RETURNING kind, seconds
        """,
        {"channel": channel, "key": order.key, "method": order.method},
    ).fetchone()
    return Fault(FaultKind(row["kind"]), row["seconds"]) if row else None


def refusal(fault: Fault) -> Answer | None:
    """The answer of a fault that keeps the work from being done."""
    after = RETRY_AFTER_SECONDS if fault.seconds is None else fault.seconds
    headers = {"Retry-After": str(ceil(after))}
    if fault.kind is FaultKind.REFUSE:
        return problem(503, "refused", "the press takes nothing now: nothing was done", headers=headers)
    if fault.kind is FaultKind.RATE_LIMIT:
        return problem(429, "rate_limited", "too many requests: nothing was done", headers=headers)
    return None


def spoil(fault: Fault | None, answer: Answer) -> Answer | None:
    """What the asker sees of the answer to work that was done; None when the connection is cut instead."""
    match fault.kind if fault else None:
        case FaultKind.DROP_REPLY | FaultKind.LATE:
            return None
        case FaultKind.ERROR_AFTER:
            return problem(500, "failed_after", "something went wrong on the way back")
        case FaultKind.BAD_ANSWER:
            return Answer(200, answer.outcome, {"message": "thank you for your order"})
        case _:
            return answer


def _shown(row: Row) -> dict[str, Any]:
    match = {name: row[name] for name in ("channel", "key", "method") if row[name] is not None}
    return {
        "id": row["id"],
        "kind": row["kind"],
        "times": row["times"],
        "fired": row["fired"],
        "seconds": row["seconds"],
        "match": match,
        "at": row["at"],
    }
