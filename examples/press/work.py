"""The work itself: to publish and to retract. Each call is inside of one transaction, with the count of its doing."""

from __future__ import annotations

import json
import uuid
from sqlite3 import Connection
from typing import Any

from . import keys, times
from .answers import Answer, problem
from .orders import Order


def publish(db: Connection, order: Order, retention_seconds: float) -> Answer:
    """A receipt for a new publication, or the first receipt of its key."""
    settled = too_late(order) or _known(db, order, retention_seconds)
    payload = json.loads(order.payload)
    settled = settled or _moved_on(db, order, payload["channel"])
    if settled is not None:
        return settled
    name = f"pub_{uuid.uuid4().hex}"
    receipt = {
        "id": name,
        "url": f"/publications/{name}",
        "channel": payload["channel"],
        "title": payload["title"],
        "key": order.key,
        "payload_hash": order.payload_hash,
        "at": times.text(times.now()),
    }
    db.execute(
        "INSERT INTO publication (id, channel, title, payload, receipt) VALUES (?, ?, ?, ?, ?)",
        (name, payload["channel"], payload["title"], order.payload, json.dumps(receipt)),
    )
    _note(db, "publish", order, receipt)
    return Answer(201, "published", receipt, {"Location": receipt["url"]})


def retract(db: Connection, order: Order, retention_seconds: float) -> Answer:
    """A receipt for a retraction. What was retracted before is not retracted again: its first receipt is answered."""
    settled = too_late(order) or _known(db, order, retention_seconds)
    if settled is not None:
        return settled
    row = db.execute("SELECT * FROM publication WHERE id = ?", (order.publication_id,)).fetchone()
    if row is None:
        return unknown_publication(order.publication_id)
    if row["retraction"] is not None:
        return Answer(200, "replayed", json.loads(row["retraction"]))
    settled = _moved_on(db, order, row["channel"])
    if settled is not None:
        return settled
    receipt = {
        "id": row["id"],
        "retracted": True,
        "channel": row["channel"],
        "title": row["title"],
        "key": order.key,
        "payload_hash": order.payload_hash,
        "at": times.text(times.now()),
    }
    db.execute("UPDATE publication SET retraction = ? WHERE id = ?", (json.dumps(receipt), row["id"]))
    _note(db, "retract", order, receipt)
    return Answer(200, "retracted", receipt)


def version_of(db: Connection, channel: str) -> int:
    """How often something was published in a channel or retracted from it."""
    row = db.execute("SELECT version FROM channel WHERE name = ?", (channel,)).fetchone()
    return int(row["version"]) if row else 0


def unknown_publication(name: str | None) -> Answer:
    """A 404."""
    return problem(404, "unknown_publication", f"there is no publication {name}")


def too_late(order: Order) -> Answer | None:
    """A 410 for a request whose deadline has passed, whatever it wants."""
    if order.deadline is None or times.now() <= order.deadline:
        return None
    return problem(410, "deadline_passed", f"this request was to be done before {times.text(order.deadline)}")


def _known(db: Connection, order: Order, retention_seconds: float) -> Answer | None:
    known = keys.recall(db, order.key, retention_seconds) if order.key else None
    if known is None or not known.inside:
        return None
    if known.payload_hash != order.payload_hash:
        why = "this Idempotency-Key was used for another payload"
        return problem(422, "key_reused", why, key=order.key, first_payload_hash=known.payload_hash)
    return Answer(200, "replayed", known.receipt)


def _moved_on(db: Connection, order: Order, channel: str) -> Answer | None:
    version = version_of(db, channel)
    if order.version is None or order.version == version:
        return None
    return problem(412, "channel_moved_on", f"the channel {channel} is at version {version}", version=version)


def _note(db: Connection, work: str, order: Order, receipt: dict[str, Any]) -> None:
    """What belongs to every doing, in the same transaction: its count, the channel's version, its key."""
    channel = receipt["channel"]
    db.execute(
        "INSERT INTO execution (work, publication_id, channel, key, payload_hash, request_id, at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (work, receipt["id"], channel, order.key, receipt["payload_hash"], order.request_id, receipt["at"]),
    )
    db.execute(
        "INSERT INTO channel (name, version) VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET version = version + 1",
        (channel,),
    )
    if order.key is not None:
        keys.remember(db, order.key, work, receipt["payload_hash"], receipt)
