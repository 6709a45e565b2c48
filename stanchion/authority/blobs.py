"""Values too large for a row: content-addressed, compressed, up to 8 MiB; named by the SHA-256 of the plain bytes."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import orjson

from stanchion.contracts import limits, payload
from stanchion.db.engine import Database
from stanchion.errors import InvariantViolated, TooLarge


def pack(value: Any, where: str) -> tuple[Any, bytes | None, bytes | None, int]:
    """(inline value or None, sha256 or None, compressed bytes or None, plain size) of a checked JSON value.

    Raises TooLarge E-SIZE-01 above what a blob may hold.
    """
    data = payload.dumps(value)
    if len(data) <= limits.INLINE_BYTES:
        return value, None, None, len(data)
    if len(data) > limits.BLOB_BYTES:
        raise TooLarge(
            "E-SIZE-01",
            f"{where} is {len(data):,} bytes, the limit is {limits.BLOB_BYTES:,}",
            where=where,
            fix="return less, or store it outside and return where it is",
            limit=limits.BLOB_BYTES,
            size=len(data),
        )
    return None, hashlib.sha256(data).digest(), zlib.compress(data, 1), len(data)


def unpack(body: bytes | None, sha256: bytes) -> Any:
    """The value of a blob; raises InvariantViolated when it is missing or is not what its name says."""
    if body is None:
        raise InvariantViolated(
            "E-DATA-21",
            f"blob {sha256.hex()[:16]}… is not there",
            why="a row names it, so it was stored before that row",
            fix="restore it from a backup",
        )
    data = zlib.decompress(body)
    if hashlib.sha256(data).digest() != sha256:
        raise InvariantViolated(
            "E-DATA-22",
            f"blob {sha256.hex()[:16]}… does not have the content it is named by",
            fix="restore it from a backup",
        )
    return orjson.loads(data)


def unpack_trusted(body: bytes) -> Any:
    """The value of a blob that the database itself found by its name."""
    return orjson.loads(zlib.decompress(body))


def put(database: Database, blobs: Sequence[tuple[UUID, bytes, int, bytes]]) -> None:
    """Store (tenant, sha256, plain size, compressed bytes); storing the same again changes nothing."""
    if blobs:
        database.read(
            "SELECT stanchion.put_blobs(%s, %s, %s, %s)",
            ([b[0] for b in blobs], [b[1] for b in blobs], [b[2] for b in blobs], [b[3] for b in blobs]),
        )


def read(database: Database, tenant_id: UUID, sha256: bytes) -> Any:
    """A stored value, for services."""
    return unpack(database.read("SELECT stanchion.read_blob(%s, %s)", (tenant_id, sha256))[0][0], sha256)
