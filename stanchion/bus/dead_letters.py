"""Dead letters: what could not be read, with its bytes, where it stood and why; and the way back."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from stanchion.bus.messages import Message, Record
from stanchion.contracts import limits, topics
from stanchion.contracts.envelope import BadMessage, Headers, format_time
from stanchion.errors import StanchionError
from stanchion.runtime.clock import utc_now
from stanchion.runtime.redaction import redact_text

PREFIX: Final = "dlq_"


def reason_of(error: BaseException) -> tuple[str, str]:
    """Code and sentence for an error, fit for a header: no secrets, bounded."""
    if isinstance(error, StanchionError):
        text = error.what + (f" ({error.where})" if error.where else "")
        return error.code, redact_text(text)[: limits.REASON_CHARACTERS]
    return "E-BUG-01", type(error).__name__


def refuse_unreadable(record: Record) -> None:
    """Raise BadMessage for a record that even the client library could not decode."""
    if record.unreadable is not None:
        raise BadMessage(f"the record can't be decoded: {record.unreadable}")
    if any("\ufffd" in name for name, _ in record.headers):
        raise BadMessage("a header name is not UTF-8")


def dead_letter(record: Record, error: BaseException, *, service: str = "", now: datetime | None = None) -> Message:
    """The message for `<topic>.dlq`: key, value and headers as they came, and headers that say where, why and when."""
    code, reason = reason_of(error)
    notes = {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "timestamp": str(record.timestamp_ms),
        "code": code,
        "reason": reason,
        "service": service,
        "time": format_time(now or utc_now()),
    }
    kept: Headers = [(name, content) for name, content in record.headers if content is not None and not _is_note(name)]
    return Message(
        topics.dead_letter(record.topic),
        record.key,
        kept + [(PREFIX + name, text.encode(errors="replace")) for name, text in notes.items()],
        record.value if record.value is not None else b"",
    )


def redrive(record: Record) -> Message:
    """The message that a dead letter came from, to be sent to its topic again; ValueError if it names none."""
    notes = dict(record.headers)
    origin = notes.get(PREFIX + "topic")
    if not origin:
        raise ValueError(f"{record.place} does not say which topic it came from")
    kept: Headers = [(name, content) for name, content in record.headers if content is not None and not _is_note(name)]
    return Message(origin.decode(), record.key, kept, record.value)


def _is_note(name: str) -> bool:
    return name.startswith(PREFIX)
