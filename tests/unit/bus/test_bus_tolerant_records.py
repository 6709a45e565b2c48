"""The library hands over records that it can't decode, and goes on behind them."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion.bus import client, tolerant_records
from stanchion.bus.consumer import _record
from stanchion.bus.library import DefaultRecordBatch, DefaultRecordBatchBuilder

assert client  # importing it puts the tolerant reader in place


class RawName(str):
    """A header name that is written as the bytes it was given."""

    raw: bytes

    def encode(self, *_: Any, **__: Any) -> bytes:
        return self.raw


def raw_name(raw: bytes) -> RawName:
    name = RawName("x" * len(raw))
    name.raw = raw
    return name


def batch(*bodies: tuple[bytes, list[tuple[str, bytes]]], compression: int = 0) -> bytearray:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=compression,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1_000_000,
    )
    for offset, (value, headers) in enumerate(bodies):
        builder.append(offset, timestamp=1_000 + offset, key=b"k", value=value, headers=headers)
    return bytearray(builder.build())


def read(raw: bytearray) -> list[Any]:
    return list(DefaultRecordBatch(memoryview(raw)))


@pytest.mark.parametrize("compression", [0, 3], ids=["plain", "lz4"])
def test_a_header_name_that_is_not_utf8_is_handed_over(compression: int) -> None:
    """Key, value, offset and the other headers are as they were sent; its neighbours too."""
    good = (b"good", [("ce_id", b"1")])
    bad = (b"bad", [("ce_id", b"2"), (raw_name(b"\xff\xfename"), b"3"), ("z", b"4")])
    found = read(batch(good, bad, good, compression=compression))
    assert [one.value for one in found] == [b"good", b"bad", b"good"]
    assert [one.offset for one in found] == [0, 1, 2]
    assert found[1].headers == [("ce_id", b"2"), ("\ufffd\ufffdname", b"3"), ("z", b"4")]
    assert (found[1].key, found[1].timestamp) == (b"k", 1_001)


def test_a_record_whose_lengths_lie_is_handed_over_as_its_bytes() -> None:
    """It can be parked, and the record behind it is read."""
    raw = batch((b"good", []), (b"A" * 40, []), (b"good", []))
    at = raw.index(b"A" * 40) - 1
    raw[at] = 0x7E  # the length of the value: 63 instead of 40, beyond the record's end
    found = read(raw)
    assert [one.value for one in (found[0], found[2])] == [b"good", b"good"]
    assert found[1].key is None
    assert b"A" * 40 in found[1].value
    ((name, reason),) = found[1].headers
    assert name == tolerant_records.UNREADABLE
    assert reason


def test_it_reaches_the_service_marked_as_unreadable() -> None:
    """With the reason, and its bytes as the value."""
    found = read(_damaged())

    class Raw:
        topic, partition, offset, timestamp, key = "t", 0, 1, 0, None
        headers, value = found[0].headers, found[0].value

    record = _record(Raw())
    assert record.unreadable
    assert record.headers == []


def _damaged() -> bytearray:
    raw = batch((b"A" * 40, []))
    raw[raw.index(b"A" * 40) - 1] = 0x7E
    return raw


def test_a_record_without_an_end_is_still_an_error() -> None:
    """Nothing can be said of what follows it; the consumer skips it by its offset."""
    raw = batch((b"A" * 40, []))
    start = raw.index(b"A" * 40)
    raw[start - 7 : start - 5] = b"\xfe\x7f"
    with pytest.raises(Exception, match=r"."):
        read(raw)
