"""A store behind the S3 API: AWS, or any server that has multipart uploads and conditional writes.

An upload becomes visible with one request: a small object by its only one, a large one when its parts are put together.
Where the hash is known only at the end, that happens under a temporary name, and the server copies it to the final one.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import chain

from stanchion.contracts.limits import MIB
from stanchion.errors import NotFound, StanchionError, Unavailable
from stanchion.objects import names
from stanchion.objects.intake import Intake, parts
from stanchion.objects.reader import Reader, bounds
from stanchion.objects.s3_client import S3Client, Taken
from stanchion.objects.store import Listed, ObjectStore, Stored, zoned

PART_BYTES = 8 * MIB
PARTS_MOST = 10_000  # of one upload, a rule of S3
COPY_BYTES = 1024 * MIB  # one request copies so much: S3 allows 5 GiB, and answers only when it is done
PAGE = 1_000  # keys of one listing request, the most that S3 gives


class S3Store(ObjectStore):
    """Objects under one prefix of a bucket; use a bucket without versions, they would keep what is deleted.

    An upload holds a few parts in memory: some tens of MiB, more only where `most_bytes` is above 80 GiB.
    """

    def __init__(self, client: S3Client, prefix: str = "", *, copy_bytes: int = COPY_BYTES, page: int = PAGE) -> None:
        self._client = client
        self._prefix = f"{prefix}/" if prefix else ""
        self._copy_bytes = copy_bytes
        self._page = page

    def put(
        self,
        chunks: Iterable[bytes],
        *,
        expected_sha256: bytes | None = None,
        expected_size: int | None = None,
        most_bytes: int,
    ) -> Stored:
        expected = self._prefix + names.object_key(expected_sha256) if expected_sha256 is not None else None
        intake = Intake(chunks, most_bytes=most_bytes, expected_sha256=expected_sha256, expected_size=expected_size)
        coming = parts(intake, _part_bytes(most_bytes))
        first, second = next(coming, b""), next(coming, None)
        if second is None:
            stored = intake.finish()
            self._client.put(self._prefix + names.object_key(stored.sha256), first)
            return stored
        rest = chain((first, second), coming)
        del first, second  # or they stay in memory until all is uploaded
        if expected is not None:
            with self._upload(expected) as upload:
                upload.take(rest)
                stored = intake.finish()
                upload.complete()
        else:
            stored = self._put_by_copy(intake, rest)
        self._check(stored)
        return stored

    def open(self, sha256: bytes, *, start: int = 0, end: int | None = None) -> Reader:
        return self._read(names.object_key(sha256), start, end)

    def stat(self, sha256: bytes) -> int | None:
        found = self._client.head(self._prefix + names.object_key(sha256))
        return None if found is None else int(found["ContentLength"])

    def delete(self, sha256: bytes) -> None:
        self._client.delete(self._prefix + names.object_key(sha256))

    def within(self, scope: str) -> ObjectStore:
        prefix = f"{self._prefix}{names.scope_key(scope)}"
        return _Scoped(self._client, prefix, copy_bytes=self._copy_bytes, page=self._page)

    def list(self, older_than: datetime, after: bytes | None = None) -> Iterator[Listed]:
        before = zoned(older_than)
        behind = self._prefix + names.object_key(after) if after else None
        for entry in self._client.entries(f"{self._prefix}{names.HASHED}/", self._page, behind):
            sha256 = names.hash_of(entry.key.removeprefix(self._prefix))
            if sha256 and entry.modified < before:
                yield Listed(sha256, entry.size, entry.modified)

    def sweep_temporary(self, older_than: datetime) -> int:
        before, swept = zoned(older_than), 0
        for entry in self._client.entries(f"{self._prefix}{names.TEMPORARY}/", self._page):
            if entry.modified < before:
                self._client.delete(entry.key)
                swept += 1
        for folder in (names.TEMPORARY, names.HASHED, names.PUBLISHED):
            for upload in self._client.uploads(f"{self._prefix}{folder}/"):
                if upload.initiated < before:
                    self._client.abort(upload.key, upload.upload_id)
                    swept += 1
        return swept

    def put_if_absent(self, name: str, chunks: Iterable[bytes], *, most_bytes: int | None = None) -> bool:
        key = self._prefix + names.published_key(name)
        if self._client.head(key) is not None:
            return False  # before anything is uploaded; and servers that know no conditions fail less often so
        token = uuid.uuid4().hex
        intake = Intake(chunks, most_bytes=most_bytes)
        coming = parts(intake, _part_bytes(most_bytes or 0))
        first, second = next(coming, b""), next(coming, None)
        try:
            if second is None:
                self._client.put(key, first, token=token)
                return True
            with self._upload(key, token) as upload:
                upload.take(chain((first, second), coming))
                upload.complete()
        except Taken:
            return self._is_ours(key, token)
        return True

    def open_published(self, name: str, *, start: int = 0, end: int | None = None) -> Reader:
        return self._read(names.published_key(name), start, end)

    def remove_published(self, name: str) -> None:
        self._client.delete(self._prefix + names.published_key(name))

    def close(self) -> None:
        self._client.close()

    def _put_by_copy(self, intake: Intake, rest: Iterable[bytes]) -> Stored:
        temporary = self._prefix + names.temporary_key()
        try:
            with self._upload(temporary) as upload:
                upload.take(rest)
                stored = intake.finish()
                upload.complete()
            self._copy(temporary, self._prefix + names.object_key(stored.sha256), stored.size)
        finally:
            with suppress(StanchionError):  # what stays is swept; the object, or the error, is what counts
                self._client.delete(temporary)
        return stored

    def _copy(self, source: str, target: str, size: int) -> None:
        if size <= self._copy_bytes:
            self._client.copy(source, target)
            return
        with self._upload(target) as upload:
            for first in range(0, size, self._copy_bytes):
                upload.take_copy(source, first, min(first + self._copy_bytes, size))
            upload.complete()

    def _check(self, stored: Stored) -> None:
        size = self.stat(stored.sha256)
        if size != stored.size:
            what = f"{stored.size:,} bytes were put, the store has {size}"
            raise Unavailable("E-OBJ-04", what, where=stored.sha256.hex(), fix="put it again")

    def _is_ours(self, key: str, token: str) -> bool:
        """Whether a name that is taken was taken by us: a request is sent again when only its answer was lost."""
        found = self._client.head(key)
        if found is None:  # of two that raced both were turned away, or the other's was deleted
            raise Unavailable("E-OBJ-04", "another publication of this name is going on", where=key, fix="try again")
        return bool(found.get("Metadata", {}).get("stanchion-put") == token)

    def _read(self, key: str, start: int, end: int | None) -> Reader:
        found = self._client.head(self._prefix + key)
        if found is None:
            raise NotFound("E-OBJ-01", f"{key} is not in the store")
        first, after = bounds(int(found["ContentLength"]), start, end)
        if first == after:
            return Reader(iter(()), 0, lambda: None)
        body = self._client.get(self._prefix + key, first, after)
        return Reader(body.chunks(), after - first, body.close)

    @contextmanager
    def _upload(self, key: str, token: str | None = None) -> Iterator[_Upload]:
        """A multipart upload that is dropped unless it was completed, whatever ends it."""
        upload = _Upload(self._client, key, token)
        try:
            yield upload
        finally:
            if not upload.completed:
                with suppress(StanchionError):  # what stays is swept
                    upload.abort()


class _Scoped(S3Store):
    """A part of a bucket that does not own its connections."""

    def close(self) -> None:
        pass


class _Upload:
    """The parts of one multipart upload, one after the other."""

    def __init__(self, client: S3Client, key: str, token: str | None) -> None:
        self._client = client
        self._key = key
        self._token = token
        self._tags: list[str] = []
        self._id = client.begin(key, token)
        self.completed = False

    def take(self, bodies: Iterable[bytes]) -> None:
        for body in bodies:
            self._tags.append(self._client.part(self._key, self._id, len(self._tags) + 1, body))

    def take_copy(self, source: str, first: int, after: int) -> None:
        number = len(self._tags) + 1
        self._tags.append(self._client.part_copy(self._key, self._id, number, source, first, after))

    def complete(self) -> None:
        self._client.complete(self._key, self._id, self._tags, token=self._token)
        self.completed = True

    def abort(self) -> None:
        self._client.abort(self._key, self._id)


def _part_bytes(most_bytes: int) -> int:
    """The size of a part: the same for all parts of an upload (some servers ask for it), and enough of them for all."""
    return max(PART_BYTES, -(-most_bytes // PARTS_MOST // MIB) * MIB)
