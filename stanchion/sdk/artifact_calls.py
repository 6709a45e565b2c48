"""The artifacts of tasks, from outside of them: `client.artifacts`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

from stanchion.errors import StanchionError, Unavailable
from stanchion.sdk import faults
from stanchion.sdk.models import Page
from stanchion.sdk.transport import Transport

__all__ = ["ArtifactCalls"]

CHUNK_BYTES: Final = 256 * 1024
DEFAULT_MEDIA_TYPE: Final = "application/octet-stream"

Version = Mapping[str, Any]


class ArtifactCalls:
    """Lists, uploads and downloads versions of artifacts; content is streamed, whatever its size."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    def list(
        self, task_id: str, *, name: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> Page[Version]:
        """One page of a task's available versions, the newest first."""
        query = {"name": name, "limit": limit, "cursor": cursor}
        answer = self.transport.call("GET", f"/v1/tasks/{task_id}/artifacts", query=query)
        return Page(tuple(answer.get("items", ())), answer.get("next"))

    def get(self, version_id: str) -> Version:
        """One version; raises NotFound E-FIND-01."""
        found: Version = self.transport.call("GET", f"/v1/artifacts/{version_id}")
        return found

    def put(
        self,
        task_id: str,
        name: str,
        content: bytes | Path | BinaryIO | Iterable[bytes],
        *,
        media_type: str = DEFAULT_MEDIA_TYPE,
        made_from: Sequence[str] = (),
    ) -> Version:
        """Upload a new version. It is not repeated by itself: doing it twice makes two versions.

        A file or bytes are hashed first, so that what arrives is proved to be what was sent. Raises Unavailable when
        the connection breaks; then nothing is visible, or the version is: `list` tells.
        """
        sha256, size, chunks = _prepared(content)
        answer: Version = self.transport.send(
            f"/v1/tasks/{task_id}/artifacts",
            chunks,
            query={"name": name, "made_from": list(made_from) or None, "sha256": sha256},
            media_type=media_type,
            size=size,
        )
        return answer

    @contextmanager
    def open(self, version_id: str) -> Iterator[Iterator[bytes]]:
        """The content as chunks, verified at its end: StanchionError E-API-02 when it was cut short or is another."""
        path = f"/v1/artifacts/{version_id}/content"
        with self.transport.stream(path, headers={"Accept": "*/*"}) as response:
            yield _verified(response, (response.headers.get("ETag") or "").strip('"'))

    def read(self, version_id: str) -> bytes:
        """All of the content, in memory."""
        with self.open(version_id) as chunks:
            return b"".join(chunks)

    def save(self, version_id: str, path: Path) -> int:
        """Write the content to a file, which is there whole or not at all; returns its size in bytes."""
        draft = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            with draft.open("xb") as file, self.open(version_id) as chunks:
                size = sum(file.write(chunk) for chunk in chunks)
            draft.replace(path)
        finally:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
        return size

    def pin(self, version_id: str, *, pinned: bool = True) -> Version:
        """Keep a version from retention and deletion, or let it go."""
        return self._act(version_id, "pin" if pinned else "unpin")

    def verify(self, version_id: str) -> Version:
        """Have the stored content read again: `intact`, or `code` and `why`."""
        return self._act(version_id, "verify", timeout=3_600.0)

    def delete(self, version_id: str, *, reason: str = "") -> Version:
        """Delete a version; raises Conflict E-ART-03 while it is pinned."""
        query = {"reason": reason or None}
        answer: Version = self.transport.call("DELETE", f"/v1/artifacts/{version_id}", query=query, repeatable=True)
        return answer

    def _act(self, version_id: str, act: str, timeout: float | None = None) -> Version:
        path = f"/v1/artifacts/{version_id}/{act}"
        answer: Version = self.transport.call("POST", path, repeatable=True, timeout=timeout)
        return answer


def _prepared(content: bytes | Path | BinaryIO | Iterable[bytes]) -> tuple[str | None, int | None, Iterable[bytes]]:
    """(SHA-256 in hex, size, chunks); hash and size are None where they are known only at the end."""
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest(), len(content), [content]
    if isinstance(content, Path):
        with content.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return digest, content.stat().st_size, _file(content)
    if hasattr(content, "read"):
        return None, None, iter(lambda: content.read(CHUNK_BYTES), b"")
    return None, None, content


def _file(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def _verified(response: Any, expected: str) -> Iterator[bytes]:
    found, size = hashlib.sha256(), 0
    try:
        while chunk := response.read(CHUNK_BYTES):
            found.update(chunk)
            size += len(chunk)
            yield chunk
    except OSError as error:
        raise Unavailable(faults.UNREACHABLE, f"the download broke off after {size:,} bytes", why=str(error)) from error
    if found.hexdigest() != expected:
        raise StanchionError(
            faults.UNREADABLE,
            "what came is not the content of this version",
            why=f"{size:,} bytes came, with another hash",
            fix="download it again; stanchion artifact verify says whether the stored content is right",
        )
