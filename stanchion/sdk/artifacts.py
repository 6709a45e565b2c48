"""What a step does with artifacts: writes a version, whole or as a stream, and reads one.

The content goes straight from the step into the store, a few chunks at a time; the database learns of it before the
first byte, and shows it after the last one. An attempt that lost its step promotes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from stanchion.authority.artifact_flips import SWEPT, public, stored, verify
from stanchion.authority.held_artifacts import HeldArtifacts
from stanchion.authority.leases import Lease, Leases
from stanchion.contracts import ids, limits
from stanchion.contracts.artifacts import check_media_type, check_name
from stanchion.errors import InvariantViolated, TooLarge, Unavailable, Unprocessable
from stanchion.objects import Reader, Stored
from stanchion.objects.feed import cut_to
from stanchion.runtime.backoff import Backoff
from stanchion.runtime.clock import pause
from stanchion.sdk.asking import Ask
from stanchion.workflow.artifact import Artifact

__all__ = ["ArtifactDoor", "Content", "MadeFrom", "Source", "source_of"]

Content = bytes | bytearray | memoryview | str | Path | Iterable[bytes]
"""What can be stored: bytes, text (as UTF-8), a file, or chunks."""
MadeFrom = Sequence[Artifact | str]
"""The versions that a new one is made from, as references or ids."""

TRIES: Final = 4
JSON: Final = "application/json"


class Source:
    """Chunks to be stored; `again` says whether they can be had a second time."""

    def __init__(self, chunks: Callable[[], Iterable[bytes]], *, again: bool) -> None:
        self.chunks = chunks
        self.again = again


class ArtifactDoor:
    """The way of one attempt to the artifacts of its tenant. Blocking; any thread may use it."""

    def __init__(self, leases: Leases, lease: Lease, ask: Ask) -> None:
        self.objects = leases.objects
        self._held = HeldArtifacts(leases.database, leases.worker_id)
        self._lease = lease
        self._ask = ask

    def put(self, name: str, source: Source, media_type: str, made_from: MadeFrom = ()) -> Artifact:
        """Write one version. What can be had again is put again while the store is away, a few times.

        Raises LeaseLost, TooLarge E-SIZE-01, Unavailable, NotFound for a source that is not there, Unprocessable.
        """
        check_name(name)
        check_media_type(media_type)
        parents = [_version(one) for one in made_from]
        if len(parents) > limits.MADE_FROM:
            raise TooLarge("E-SIZE-01", f"{name} is made from {len(parents):,} versions", limit=limits.MADE_FROM)
        self.objects.of(self._lease.tenant_id)  # a store that is not set is said before a row is written
        backoff = Backoff(0.1, 2.0)
        for _ in range(TRIES):
            version = self._ask(lambda: self._held.begin(self._lease, name, media_type, parents))
            content = self._stored(source)
            outcome, number = self._ask(lambda v=version, c=content: self._held.flip(self._lease, v, c))  # type: ignore[misc]  # defaults bind the loop's variables
            if outcome == "available" and number is not None:
                return Artifact(public(version), name, number, content.sha256.hex(), content.size, media_type)
            if not source.again:
                break
            pause(backoff.next())
        raise Unavailable(SWEPT, f"{name} was {outcome} while it was uploaded", fix="write it again")

    def keep_value(self, data: bytes) -> bytes:
        """Store a value that is too large for the database; returns its name."""
        found = self.put(f"values/{self._lease.node}", Source(lambda: [data], again=True), JSON)
        return bytes.fromhex(found.sha256)

    def value(self, sha256: bytes) -> bytes | None:
        """A value that `keep_value` stored, verified; None when it is not there for this attempt."""
        size = self._ask(lambda: self._held.value_size(self._lease, sha256))
        if size is None:
            return None
        data = b"".join(self.objects.of(self._lease.tenant_id).open(sha256))
        if len(data) != size or hashlib.sha256(data).digest() != sha256:
            raise InvariantViolated("E-DATA-22", f"value {sha256.hex()[:16]}… does not have the content it is named by")
        return data

    def open(self, artifact: Artifact | str, start: int = 0, end: int | None = None) -> Reader:
        """The content of a version, verified at its end when all of it is read.

        Raises NotFound for one that is not there (any more), LeaseLost, Unavailable.
        """
        version = _version(artifact)
        found = self._ask(lambda: self._held.find(self._lease, version))
        store = self.objects.of(self._lease.tenant_id)
        sha256 = bytes.fromhex(found.sha256)
        return store.open_verified(sha256) if (start, end) == (0, None) else store.open(sha256, start=start, end=end)

    def verify(self, artifact: Artifact | str) -> None:
        """Read all of a version, and raise InvariantViolated or NotFound when it is not what its row says."""
        version = _version(artifact)
        found = self._ask(lambda: self._held.find(self._lease, version))
        fault = verify(self.objects.of(self._lease.tenant_id), bytes.fromhex(found.sha256), found.size)
        if fault is not None:
            raise fault

    def _stored(self, source: Source) -> Stored:
        backoff = Backoff(0.1, 2.0)
        store = self.objects.of(self._lease.tenant_id)
        for left in reversed(range(TRIES if source.again else 1)):
            try:
                return stored(store, source.chunks())
            except Unavailable:
                if not left:
                    raise
                pause(backoff.next())
        raise AssertionError("the last try returns or raises")


def source_of(content: Content) -> Source:
    """The chunks of what a step hands over; raises TypeError for what has none."""
    if isinstance(content, str):
        content = content.encode()
    if isinstance(content, bytes | bytearray | memoryview):
        data = bytes(content)
        return Source(lambda: cut_to(data, limits.ARTIFACT_CHUNK_BYTES), again=True)
    if isinstance(content, Path):
        path = content
        return Source(lambda: _file(path), again=True)
    if isinstance(content, Iterable):
        chunks: Any = content
        return Source(
            lambda: (piece for chunk in chunks for piece in cut_to(chunk, limits.ARTIFACT_CHUNK_BYTES)), again=False
        )
    raise TypeError(f"{type(content).__name__} is no content: bytes, a text, a path, or chunks of bytes")


def _file(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(limits.ARTIFACT_CHUNK_BYTES):
            yield chunk


def _version(artifact: Artifact | str) -> UUID:
    text = artifact.id if isinstance(artifact, Artifact) else artifact
    if not isinstance(text, str):
        raise Unprocessable("E-DATA-11", f"{type(artifact).__name__} is no reference to an artifact")
    return ids.parse(text, ids.ARTIFACT)
