"""Lets kafka-python hand over records that it can't decode, instead of stopping at them for ever.

A header name that is not UTF-8, or a record whose lengths lie, raises inside the library's reader; its consumer then
stays at that record, and one message has stopped a partition. Here such a record comes out as a record: broken names
with U+FFFD in them, or, when its inner structure makes no sense, its raw bytes as the value beside the header
`UNREADABLE`. Its reader parks it, and the partition goes on.

The library is pinned to one minor version; a test holds that this still works.
"""

from __future__ import annotations

from typing import Any, Final

from stanchion.bus.library import DefaultRecord, DefaultRecordBatch, decode_varint

UNREADABLE: Final = "stanchion_unreadable"

_original = DefaultRecordBatch._read_msg


def install() -> None:
    """Put the tolerant reader in place; once, and for the whole process."""
    DefaultRecordBatch._read_msg = _read


def _read(batch: Any) -> Any:
    start = batch._pos
    try:
        return _original(batch)
    except Exception as error:
        record = _recovered(batch, start, error)
        if record is None:
            raise
        return record


def _recovered(batch: Any, start: int, error: Exception) -> Any:
    """The record at `start` as far as it can be read, the position set behind it; None when its end is not known."""
    length, body = decode_varint(batch._buffer, start)
    end = body + length
    if length <= 0 or end > len(batch._buffer):
        return None
    raw = bytes(batch._buffer[body:end])
    batch._pos = end
    offset, timestamp = batch.base_offset + batch._next_record_index, batch.first_timestamp
    try:
        reader = _Reader(raw)
        reader.skip_byte()
        timestamp = batch.first_timestamp + reader.varint()
        offset = batch.base_offset + reader.varint()
        key, value = reader.block(), reader.block()
        headers = [(reader.name(), reader.block()) for _ in range(reader.varint())]
    except (ValueError, IndexError):
        key, value, headers = None, raw, [(UNREADABLE, str(error)[:500].encode(errors="replace"))]
    return DefaultRecord(length, offset, timestamp, batch.timestamp_type, key, value, headers)


class _Reader:
    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.position = 0

    def skip_byte(self) -> None:
        self.position += 1

    def varint(self) -> int:
        value, self.position = decode_varint(self.raw, self.position)
        return int(value)

    def block(self) -> bytes | None:
        length = self.varint()
        if length < 0:
            return None
        if self.position + length > len(self.raw):
            raise ValueError("a length points beyond the record")
        block = self.raw[self.position : self.position + length]
        self.position += length
        return block

    def name(self) -> str:
        return (self.block() or b"").decode(errors="replace")
