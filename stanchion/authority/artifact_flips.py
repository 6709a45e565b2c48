"""The order in which a version of an artifact becomes visible, for all who make one.

A version is a row before it is bytes: the row is written as `pending`, the content put and verified, the row flipped to
`available`. Whatever fails in between leaves a row that nobody reads, and an object that the sweeper removes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple
from uuid import UUID

from stanchion.contracts import ids, limits
from stanchion.errors import Conflict, InvariantViolated, NotFound, StanchionError, Unavailable, register_code
from stanchion.objects import ObjectStore, Stored
from stanchion.runtime import failpoints

PINNED: Final = register_code(
    "E-ART-03",
    "artifact is pinned",
    status=409,
    meaning="A pinned version is neither deleted by hand nor by retention.",
    fix="Unpin it first: stanchion artifact pin --off.",
)
ABANDONED: Final = register_code(
    "E-ART-04",
    "upload was given up",
    status=409,
    meaning=f"A version that is not complete within {limits.ARTIFACT_GRACE_HOURS:g} hours, or whose task lost its payloads, is given up.",
    fix="Upload it again.",
)
SWEPT: Final = register_code(
    "E-ART-05",
    "content was removed meanwhile",
    status=503,
    meaning="The same content was being removed while it was uploaded, so it has to be put once more.",
    fix="Upload it again.",
)
register_code(
    "E-ART-06",
    "artifact is a value",
    status=409,
    meaning="A result or an input above 8 MiB lies in the object store as a version; its row would name nothing.",
    fix="Nothing: it goes with the payloads of its task.",
)

STORED = failpoints.declare("artifact.stored", "the content of an artifact is in the store; no reader sees it yet")


class Flipped(NamedTuple):
    """What became of a flip: `available` with its number, `superseded`, `abandoned` or `swept`."""

    outcome: str
    number: int | None


def stored(
    store: ObjectStore,
    chunks: Iterable[bytes],
    *,
    most_bytes: int = limits.ARTIFACT_BYTES,
    expected_sha256: bytes | None = None,
) -> Stored:
    """Put content and verify that it is there: hashed on its way in, and as long as what was sent.

    Raises TooLarge E-SIZE-01, Unprocessable E-OBJ-02 where it is not what was expected, Unavailable.
    """
    put = store.put(chunks, most_bytes=most_bytes, expected_sha256=expected_sha256)
    if (size := store.stat(put.sha256)) != put.size:
        raise Unavailable("E-OBJ-04", f"{put.size:,} bytes were put, the store has {size}", fix="put it again")
    failpoints.hit(STORED, sha256=put.sha256.hex())
    return put


def refused(outcome: str) -> Conflict | Unavailable:
    """The error for a flip that a person or a key asked for in vain."""
    if outcome == "swept":
        return Unavailable(SWEPT, "the same content was being removed while it was uploaded", fix="upload it again")
    return Conflict(ABANDONED, "the upload took too long, or its task has lost its payloads", fix="upload it again")


def verify(store: ObjectStore, sha256: bytes, size: int) -> StanchionError | None:
    """Read all of a version's content: None when it is what its row says, else what is wrong. Raises Unavailable."""
    try:
        found = store.verify(sha256)
    except (NotFound, InvariantViolated) as error:
        return error
    if found.size != size:
        return InvariantViolated("E-OBJ-03", f"{found.size:,} bytes are stored, its row says {size:,}")
    return None


def public(version_id: UUID) -> str:
    """The id of a version as people see it."""
    return ids.public(ids.ARTIFACT, version_id)
