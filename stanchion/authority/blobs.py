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
from stanchion.errors import InvariantViolated, NotFound, TooLarge

from .objects import Objects


def pack(value: Any, where: str, data: bytes | None = None) -> tuple[Any, bytes | None, bytes | None, int]:
    """(inline value or None, sha256 or None, compressed bytes or None, plain size) of a checked JSON value.

    `data` is its JSON, where that is known. Raises TooLarge E-SIZE-01 above what a blob may hold.
    """
    if data is None:
        data = payload.dumps(value)
    if len(data) <= limits.INLINE_BYTES:
        return value, None, None, len(data)
    if len(data) > limits.BLOB_BYTES:
        raise too_large(where, len(data), limits.BLOB_BYTES)
    return None, hashlib.sha256(data).digest(), zlib.compress(data, 1), len(data)


def too_large(where: str, size: int, most: int) -> TooLarge:
    """The error for a value that is larger than where it goes takes."""
    return TooLarge(
        "E-SIZE-01",
        f"{where} is {size:,} bytes, the limit is {most:,}",
        where=where,
        fix="stream it (async with ctx.artifact(name) as out), and pass the artifact",
        limit=most,
        size=size,
    )


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


def read(database: Database, tenant_id: UUID, sha256: bytes, objects: Objects) -> Any:
    """A stored value, for services: from the database or, above 8 MiB, from the object store."""
    body = database.read("SELECT stanchion.read_blob(%s, %s)", (tenant_id, sha256))[0][0]
    if body is None and objects.is_set:
        try:
            return orjson.loads(b"".join(objects.of(tenant_id).open_verified(sha256)))
        except NotFound:
            pass  # it is nowhere, which is said below
    return unpack(body, sha256)
