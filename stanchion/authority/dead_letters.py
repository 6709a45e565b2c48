"""Dead letters: messages that could not be handled, kept with bytes, place and reason; and the way back.

Headers are kept as `[name, text]`, or `[name, null, base64]` where the bytes are no text that PostgreSQL can store.
What is marked as secret by its name is kept hidden; signatures are not secret, and a redriven message needs its own.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb

from stanchion.bus.dead_letters import reason_of
from stanchion.bus.messages import Message, Record
from stanchion.contracts import limits
from stanchion.contracts.signing import SIGNATURE_HEADER
from stanchion.db.engine import Database
from stanchion.errors import Conflict, register_code
from stanchion.runtime.redaction import HIDDEN, is_marked

from .rows import Row, missing

KEPT_BYTES: Final = limits.MESSAGE_BYTES  # of a value; the whole of a larger one stands in the dead-letter topic
KEPT_HEADERS: Final = 100
OUTBOX: Final = "outbox:"  # topic of what the relay could not publish

NOT_REDRIVEN: Final = register_code(
    "E-DEAD-01",
    "dead letter is not sent again",
    status=409,
    meaning="It was sent again before, or not all of it was kept.",
    fix='Send {"again": true} to send it once more; what was cut stands in the dead-letter topic.',
)


@dataclass(frozen=True, slots=True)
class Letter:
    """A record to be parked, whose it is (None: nobody knows), and why."""

    record: Record
    error: BaseException
    tenant_id: UUID | None = None

    def row(self) -> dict[str, Any]:
        """The row, as the functions of the database take it."""
        code, reason = reason_of(self.error)
        value, headers = self.record.value, headers_to_json(self.record.headers)
        if value is not None and len(value) > KEPT_BYTES:
            headers = [*headers, ["stanchion_cut", str(len(value))]]
            value = value[:KEPT_BYTES]
        return {
            "tenant_id": str(self.tenant_id) if self.tenant_id else None,
            "topic": self.record.topic,
            "partition": self.record.partition,
            "offset": self.record.offset,
            "key": _base64(self.record.key[: limits.HEADER_BYTES] if self.record.key else self.record.key),
            "value": _base64(value),
            "headers": headers,
            "code": code,
            "reason": _storable(reason),
        }


@dataclass(frozen=True, slots=True)
class Kept:
    """A dead letter as it is kept; `headers` as in `headers_to_json`."""

    dead_letter_id: UUID
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[list[str | None]]
    code: str
    reason: str
    at: datetime
    redriven_at: datetime | None

    @property
    def whole(self) -> bool:
        """Whether all of its value was kept."""
        return not any(header[0] == "stanchion_cut" for header in self.headers)

    def message(self) -> Message:
        """The message as it came, to be sent to its topic again; without what was hidden."""
        return Message(self.topic, self.key, headers_from_json(self.headers), self.value)


def headers_to_json(headers: Iterable[tuple[str, bytes | None]]) -> list[list[str | None]]:
    """Headers of a record in the form that is kept."""
    kept: list[list[str | None]] = []
    for name, value in list(headers)[:KEPT_HEADERS]:
        shown = _storable(name)[: limits.NAME_CHARACTERS]
        if _is_secret(name):
            kept.append([shown, HIDDEN])
            continue
        content = (value or b"")[: limits.HEADER_BYTES]
        try:
            text = content.decode()
        except UnicodeDecodeError:
            text = "\x00"
        kept.append([shown, text] if "\x00" not in text else [shown, None, _base64(content)])
    return kept


def without_secrets(record: Record) -> Record:
    """The same record, with what is marked as secret by its name hidden."""
    headers = [(name, HIDDEN.encode() if _is_secret(name) else value) for name, value in record.headers]
    return replace(record, headers=headers, source=None)


def _is_secret(name: str) -> bool:
    return is_marked(name) and name != SIGNATURE_HEADER


def headers_from_json(kept: Iterable[Sequence[str | None]]) -> list[tuple[str, bytes]]:
    """Headers in the form that a message takes; hidden ones are left out."""
    headers: list[tuple[str, bytes]] = []
    for name, text, *rest in kept:
        if name is None or text == HIDDEN:
            continue
        content = base64.b64decode(rest[0] or "") if text is None and rest else (text or "").encode()
        headers.append((name, content))
    return headers


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


class DeadLetters:
    """Under the task service's login (parking also under the worker's and the orchestrator's)."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def bury(self, letters: Sequence[Letter]) -> int:
        """Park records; returns how many are new. Parking the same record again changes nothing."""
        rows = self.database.call("bury", "SELECT stanchion.bury(%s)", (Jsonb([letter.row() for letter in letters]),))
        return int(rows[0][0])

    def page(self, tenant_id: UUID | None, *, limit: int, before: UUID | None = None) -> list[Row]:
        """A tenant's dead letters (None: those of none), newest first, without bytes."""
        names = ("dead_letter_id", "topic", "partition", "offset", "bytes", "code", "reason", "at", "redriven_at")
        rows = self.database.read("SELECT * FROM stanchion.list_dead_letters(%s, %s, %s)", (tenant_id, before, limit))
        return [dict(zip(names, row, strict=True)) for row in rows]

    def get(self, tenant_id: UUID | None, letter_id: UUID) -> Kept:
        """One dead letter with its bytes; raises NotFound."""
        rows = self.database.read("SELECT * FROM stanchion.get_dead_letter(%s, %s)", (tenant_id, letter_id))
        if not rows:
            raise missing("dead letter")
        return Kept(*rows[0])

    def claim(self, tenant_id: UUID | None, letter_id: UUID, *, again: bool, by: UUID, actor: str) -> Kept | None:
        """The right to send a letter again, given once; None when the database has put it back into the outbox itself.

        Raises NotFound, and Conflict E-DEAD-01 when it was redriven before (unless `again`), or was not kept whole.
        """
        letter = self.get(tenant_id, letter_id)
        if not letter.whole:
            raise Conflict(NOT_REDRIVEN, "it was too large to be kept whole", fix=f"send it from {letter.topic}.dlq")
        rows = self.database.call(
            "bury", "SELECT stanchion.claim_redrive(%s, %s, %s, %s, %s)", (tenant_id, letter_id, again, by, actor)
        )
        if not rows[0][0]:
            raise Conflict(NOT_REDRIVEN, "it was sent again before")
        return None if letter.topic.startswith(OUTBOX) else letter

    def release(self, letter_id: UUID) -> None:
        """A letter could not be sent after all."""
        self.database.call("bury", "SELECT stanchion.release_redrive(%s)", (letter_id,))
