"""The S3 API as the store needs it: typed, with our errors. The only module that knows botocore."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

from stanchion.errors import NotFound, StanchionError, Unavailable
from stanchion.objects.reader import CHUNK_BYTES

CONNECT_SECONDS = 5
READ_SECONDS = 60
TRIES = 4  # of one request, with growing pauses
CONNECTIONS = 32  # kept open; more threads than that open their own

_MISSING = {"NoSuchKey", "NotFound", "404"}
_TAKEN = {"PreconditionFailed", "ConditionalRequestConflict"}
_LATER = {"NoSuchUpload", "InvalidPart", "RequestTimeout", "SlowDown", "Throttling", "RequestTimeTooSkewed"}


class Taken(Exception):  # noqa: N818 - an answer, not a fault
    """A conditional write found its name taken, or lost a race for it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One object of a listing: its whole key, size in bytes, last change in UTC."""

    key: str
    size: int
    modified: datetime


@dataclass(frozen=True, slots=True)
class Upload:
    """A multipart upload that has not ended: its whole key, its id, and when it began, in UTC."""

    key: str
    upload_id: str
    initiated: datetime


class S3Client:
    """Requests to one bucket; safe from several threads, not across a fork.

    `endpoint` is None for AWS itself. Credentials are taken from the AWS_* variables: no file, no metadata service and
    no AWS_PROFILE is asked. Every call may raise Unavailable E-OBJ-04 or E-OBJ-05.
    """

    def __init__(self, bucket: str, *, endpoint: str | None, region: str) -> None:
        self.bucket = bucket
        self._bucket_is_there = False
        session = botocore.session.Session(
            session_vars={
                "profile": (None, None, None, None),
                "config_file": (None, None, os.devnull, None),
                "credentials_file": (None, None, os.devnull, None),
            }
        )
        self._client = session.create_client(
            "s3",
            region_name=region,
            endpoint_url=endpoint,
            aws_access_key_id=os.environ.get("AWS_ACCESS_KEY_ID"),
            aws_secret_access_key=os.environ.get("AWS_SECRET_ACCESS_KEY"),
            aws_session_token=os.environ.get("AWS_SESSION_TOKEN"),
            config=Config(
                signature_version="s3v4",
                connect_timeout=CONNECT_SECONDS,
                read_timeout=READ_SECONDS,
                retries={"mode": "standard", "total_max_attempts": TRIES},
                max_pool_connections=CONNECTIONS,
                ignore_configured_endpoint_urls=True,
                # The signature covers the SHA-256 of the body, which every server checks; the newer checksums in
                # trailers are known to AWS, and refused by others.
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
                s3={"addressing_style": "path" if endpoint else "auto", "payload_signing_enabled": True},
            ),
        )

    def head(self, key: str) -> dict[str, Any] | None:
        """`ContentLength`, `Metadata` and so on; None when there is no such key."""
        try:
            with self._asked(key):
                return dict(self._client.head_object(Bucket=self.bucket, Key=key))
        except NotFound:
            self._must_be_there()
            return None

    def get(self, key: str, first: int, after: int) -> Body:
        """The body of the bytes [first, after), at least one; NotFound E-OBJ-01."""
        with self._asked(key):
            answer = self._client.get_object(Bucket=self.bucket, Key=key, Range=f"bytes={first}-{after - 1}")
            return Body(answer["Body"], key)

    def put(self, key: str, body: bytes, *, token: str | None = None) -> None:
        """Write an object in one request; with `token` only where the key is free (else Taken), and marked with it."""
        with self._asked(key):
            self._client.put_object(Bucket=self.bucket, Key=key, Body=body, **_marked(token), **_free(token))

    def delete(self, key: str) -> None:
        """Remove an object, or nothing."""
        with self._asked(key):
            self._client.delete_object(Bucket=self.bucket, Key=key)

    def copy(self, source: str, target: str) -> None:
        """Copy inside the bucket, atomically; at most 5 GiB."""
        with self._asked(target):
            self._client.copy_object(Bucket=self.bucket, Key=target, CopySource=self._source(source))

    def entries(self, prefix: str, page: int, after: str | None = None) -> Iterator[Entry]:
        """The objects whose key opens with `prefix`, behind the key `after`, in order, `page` with each request."""
        start = {"StartAfter": after} if after else {}
        with self._asked(prefix):
            pages = iter(
                self._client.get_paginator("list_objects_v2").paginate(
                    Bucket=self.bucket, Prefix=prefix, PaginationConfig={"PageSize": page}, **start
                )
            )
        while True:
            with self._asked(prefix):
                found = next(pages, None)
            if found is None:
                return
            for entry in found.get("Contents", ()):
                yield Entry(entry["Key"], entry["Size"], entry["LastModified"].astimezone(UTC))

    def begin(self, key: str, token: str | None = None) -> str:
        """Begin a multipart upload, marked with `token`; returns its id."""
        with self._asked(key):
            answer = self._client.create_multipart_upload(Bucket=self.bucket, Key=key, **_marked(token))
            return str(answer["UploadId"])

    def part(self, key: str, upload_id: str, number: int, body: bytes) -> str:
        """Upload part `number`, from 1 on; returns its tag."""
        with self._asked(key):
            answer = self._client.upload_part(
                Bucket=self.bucket, Key=key, UploadId=upload_id, PartNumber=number, Body=body
            )
            return str(answer["ETag"])

    def part_copy(self, key: str, upload_id: str, number: int, source: str, first: int, after: int) -> str:
        """Make part `number` of the bytes [first, after) of another object; returns its tag."""
        with self._asked(key):
            answer = self._client.upload_part_copy(
                Bucket=self.bucket,
                Key=key,
                UploadId=upload_id,
                PartNumber=number,
                CopySource=self._source(source),
                CopySourceRange=f"bytes={first}-{after - 1}",
            )
            return str(answer["CopyPartResult"]["ETag"])

    def complete(self, key: str, upload_id: str, tags: list[str], *, token: str | None = None) -> None:
        """Make the parts the object, atomically; with `token` only where the key is free, else Taken."""
        parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]
        with self._asked(key):
            self._client.complete_multipart_upload(
                Bucket=self.bucket, Key=key, UploadId=upload_id, MultipartUpload={"Parts": parts}, **_free(token)
            )

    def abort(self, key: str, upload_id: str) -> None:
        """Drop an upload and its parts; harmless when it has ended."""
        with self._asked(key):
            try:
                self._client.abort_multipart_upload(Bucket=self.bucket, Key=key, UploadId=upload_id)
            except ClientError as error:
                if _code_of(error) != "NoSuchUpload":
                    raise

    def uploads(self, prefix: str) -> Iterator[Upload]:
        """The multipart uploads under `prefix` that have neither been completed nor aborted."""
        with self._asked(prefix):
            pages = iter(
                self._client.get_paginator("list_multipart_uploads").paginate(Bucket=self.bucket, Prefix=prefix)
            )
        while True:
            with self._asked(prefix):
                found = next(pages, None)
            if found is None:
                return
            for upload in found.get("Uploads", ()):
                yield Upload(upload["Key"], upload["UploadId"], upload["Initiated"].astimezone(UTC))

    def close(self) -> None:
        """Close the connections; harmless to repeat."""
        self._client.close()

    def _must_be_there(self) -> None:
        """What is not found in a bucket that does not exist is not missing; the answer to HEAD does not say which."""
        if not self._bucket_is_there:
            try:
                with self._asked(""):
                    self._client.head_bucket(Bucket=self.bucket)
            except NotFound:
                raise Unavailable("E-OBJ-05", "the bucket does not exist", where=self.bucket) from None
            self._bucket_is_there = True

    def _source(self, key: str) -> dict[str, str]:
        return {"Bucket": self.bucket, "Key": key}

    @contextmanager
    def _asked(self, key: str) -> Iterator[None]:
        with _translated(f"s3://{self.bucket}/{key}"):
            yield


class Body:
    """The body of an answer, as it comes."""

    def __init__(self, stream: Any, where: str) -> None:
        self._stream = stream
        self._where = where

    def chunks(self) -> Iterator[bytes]:
        """Chunks of at most 1 MiB; Unavailable E-OBJ-04 when the connection breaks."""
        while True:
            with _translated(self._where):
                chunk = self._stream.read(CHUNK_BYTES)
            if not chunk:
                return
            yield chunk

    def close(self) -> None:
        """Close, and drop the connection unless all was read; harmless to repeat."""
        self._stream.close()


def _marked(token: str | None) -> dict[str, Any]:
    return {"Metadata": {"stanchion-put": token}} if token else {}


def _free(token: str | None) -> dict[str, Any]:
    return {"IfNoneMatch": "*"} if token else {}


def _code_of(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


@contextmanager
def _translated(where: str) -> Iterator[None]:
    """What botocore raises, as our errors. Answers are shown by their code alone: their texts may hold key ids."""
    try:
        yield
    except ClientError as error:
        raise _meant(error, where) from error
    except (BotoCoreError, HTTPClientError, OSError) as error:
        raise Unavailable("E-OBJ-04", f"the store does not answer: {type(error).__name__}", where=where) from error


def _meant(error: ClientError, where: str) -> StanchionError | Taken:
    code = _code_of(error)
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in _MISSING:
        return NotFound("E-OBJ-01", f"{where} is not in the store")
    if code in _TAKEN:
        return Taken(code)
    if status >= 500 or status == 429 or code in _LATER:
        return Unavailable("E-OBJ-04", f"the store answers {code}", where=where, http_status=status)
    return Unavailable("E-OBJ-05", f"the store refuses: {code}", where=where, http_status=status)
