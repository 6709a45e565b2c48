"""The look-ups: publications, keys, channels."""

from __future__ import annotations

import json
from dataclasses import dataclass
from sqlite3 import Connection, Row
from typing import Any

from . import keys, times
from .answers import Answer, problem
from .orders import Order
from .work import unknown_publication, version_of


def by_key(db: Connection, order: Order, retention_seconds: float) -> Answer:
    """What was done under a key. Whether it is inside its retention says whether sending it again would be safe."""
    known = keys.recall(db, order.key, retention_seconds) if order.key else None
    if known is None:
        why = "nothing is remembered under this key"
        return problem(404, "unknown_key", why, key=order.key, retention_seconds=retention_seconds)
    body = {
        "key": order.key,
        "work": known.work,
        "receipt": known.receipt,
        "inside_retention": known.inside,
        "remembered_until": times.text(known.until),
        "retention_seconds": retention_seconds,
    }
    return Answer(200, "found", body)


def by_id(db: Connection, order: Order, _retention_seconds: float) -> Answer:
    """One publication: its receipt, what it was made of, and its retraction."""
    row = db.execute("SELECT * FROM publication WHERE id = ?", (order.publication_id,)).fetchone()
    if row is None:
        return unknown_publication(order.publication_id)
    return Answer(200, "found", _shown(row))


@dataclass(frozen=True, slots=True)
class Page:
    """A part of the list of publications, oldest first: those behind the publication `after`."""

    after: str | None
    limit: int

    def __call__(self, db: Connection, order: Order, _retention_seconds: float) -> Answer:
        """The items, and what to ask `after` for more: null at the end."""
        start = 0
        if self.after is not None:
            row = db.execute("SELECT seq FROM publication WHERE id = ?", (self.after,)).fetchone()
            if row is None:
                return problem(400, "bad_input", f"after: there is no publication {self.after}")
            start = row["seq"]
        rows = db.execute(
            "SELECT * FROM publication WHERE seq > ? AND (? IS NULL OR channel = ?) ORDER BY seq LIMIT ?",
            (start, order.channel, order.channel, self.limit + 1),
        ).fetchall()
        items = [_shown(row) for row in rows[: self.limit]]
        more = len(rows) > self.limit
        return Answer(200, "found", {"items": items, "next": items[-1]["id"] if more else None})


def channel(db: Connection, order: Order, _retention_seconds: float) -> Answer:
    """The version of a channel, and the newest publication that is out. One that nobody used is at version 0."""
    assert order.channel is not None
    version = version_of(db, order.channel)
    row = db.execute(
        "SELECT id FROM publication WHERE channel = ? AND retraction IS NULL ORDER BY seq DESC LIMIT 1",
        (order.channel,),
    ).fetchone()
    body = {"name": order.channel, "version": version, "head": row["id"] if row else None}
    return Answer(200, "found", body, {"ETag": f'"{version}"'})


def newest(db: Connection, limit: int) -> list[dict[str, Any]]:
    """The newest publications, for people."""
    rows = db.execute("SELECT * FROM publication ORDER BY seq DESC LIMIT ?", (limit,)).fetchall()
    return [_shown(row) for row in rows]


def _shown(row: Row) -> dict[str, Any]:
    payload = json.loads(row["payload"])
    retraction = json.loads(row["retraction"]) if row["retraction"] else None
    receipt: dict[str, Any] = json.loads(row["receipt"])
    return receipt | {
        "body": payload.get("body"),
        "artifact": payload["artifact"],
        "retraction": retraction,
    }
