"""Idempotency keys: what was done under each, for as long as the press remembers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from sqlite3 import Connection
from typing import Any

from . import times


@dataclass(frozen=True, slots=True)
class Remembered:
    """What was first done under a key. `inside` says whether the same key would still be recognised."""

    work: str
    payload_hash: str
    receipt: dict[str, Any]
    until: float
    inside: bool


def recall(db: Connection, key: str, retention_seconds: float) -> Remembered | None:
    """What is known of a key, its retention over or not."""
    row = db.execute("SELECT * FROM remembered_key WHERE key = ?", (key,)).fetchone()
    if row is None:
        return None
    until = row["at"] + retention_seconds
    return Remembered(row["work"], row["payload_hash"], json.loads(row["receipt"]), until, inside=times.now() < until)


def remember(db: Connection, key: str, work: str, payload_hash: str, receipt: dict[str, Any]) -> None:
    """Keep a receipt under its key; in place of an older one whose retention is over."""
    db.execute(
        "INSERT OR REPLACE INTO remembered_key (key, work, payload_hash, receipt, at) VALUES (?, ?, ?, ?, ?)",
        (key, work, payload_hash, json.dumps(receipt), times.now()),
    )


def forget(db: Connection) -> None:
    """Drop all keys."""
    db.execute("DELETE FROM remembered_key")
