"""What happened: a row for each request received, and a row for each time that work was really done."""

from __future__ import annotations

from sqlite3 import Connection
from typing import Any, Final

from . import times
from .answers import Answer
from .faults import Fault
from .orders import Order

_EXECUTION: Final = ("work", "publication_id", "channel", "key", "payload_hash", "request_id", "at")
_REQUEST: Final = ("id", "at", "method", "path", "channel", "key", "payload_hash", "fault", "outcome", "status")


def receive(db: Connection, order: Order, channel: str | None) -> None:
    """Note a request before anything is done for it: what a kill leaves without an end stays `received`."""
    db.execute(
        "INSERT INTO request (id, at, method, path, channel, key, payload_hash, outcome)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, 'received')",
        (order.request_id, times.text(times.now()), order.method, order.path, channel, order.key, order.payload_hash),
    )


def strike(db: Connection, order: Order, fault: Fault) -> None:
    """Note which fault a request met."""
    db.execute("UPDATE request SET fault = ? WHERE id = ?", (fault.kind, order.request_id))


def settle(db: Connection, order: Order, outcome: str, answer: Answer | None) -> None:
    """Note what came of a request, and the status that was answered; null when it was not answered."""
    db.execute(
        "UPDATE request SET outcome = ?, status = ?, late_order = NULL WHERE id = ?",
        (outcome, answer.status if answer else None, order.request_id),
    )


def postpone(db: Connection, order: Order, seconds: float) -> None:
    """Keep a late request, which arrives in `seconds`."""
    db.execute(
        "UPDATE request SET outcome = 'late', due = ?, late_order = ? WHERE id = ?",
        (times.now() + seconds, order.dump(), order.request_id),
    )


def next_due(db: Connection) -> float | None:
    """When the next late request arrives."""
    row = db.execute("SELECT min(due) AS due FROM request WHERE late_order IS NOT NULL").fetchone()
    return None if row["due"] is None else float(row["due"])


def due(db: Connection) -> Order | None:
    """A late request that arrives now."""
    row = db.execute(
        "SELECT late_order FROM request WHERE late_order IS NOT NULL AND due <= ? ORDER BY due, seq LIMIT 1",
        (times.now(),),
    ).fetchone()
    return Order.load(row["late_order"]) if row else None


def executions(db: Connection, channel: str | None, key: str | None, limit: int) -> dict[str, Any]:
    """How often work was done, and the newest `limit` doings, oldest first."""
    return _listed(db, "execution", _EXECUTION, channel, key, limit)


def requests(db: Connection, channel: str | None, key: str | None, limit: int) -> dict[str, Any]:
    """How many requests were received, and the newest `limit` of them, oldest first."""
    return _listed(db, "request", _REQUEST, channel, key, limit)


def _listed(
    db: Connection, table: str, columns: tuple[str, ...], channel: str | None, key: str | None, limit: int
) -> dict[str, Any]:
    chosen = f"FROM {table} WHERE (:channel IS NULL OR channel = :channel) AND (:key IS NULL OR key = :key)"
    values = {"channel": channel, "key": key, "limit": limit}
    count = db.execute(f"SELECT count(*) AS n {chosen}", values).fetchone()["n"]
    rows = db.execute(f"SELECT {', '.join(columns)} {chosen} ORDER BY seq DESC LIMIT :limit", values).fetchall()
    return {"count": count, "items": [dict(row) for row in reversed(rows)]}
