"""An S3 server for tests that need one: started, with credentials, and buckets in it."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kit import s3_server
from stanchion.objects.s3_client import S3Client

SECRET = "hush-hush"


@contextmanager
def s3_endpoint(folder: Path) -> Iterator[str]:
    """The address of a server that lives as long as the block; its log lies in the folder."""
    with (folder / "server.log").open("w") as output:
        process = subprocess.Popen(
            [sys.executable, s3_server.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
            cwd=folder,
        )
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            assert port, (folder / "server.log").read_text()
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()
            process.communicate(timeout=30)


def s3_credentials(patch: pytest.MonkeyPatch) -> None:
    """Credentials that any server of these tests takes, and no proxy on the way."""
    patch.setenv("AWS_ACCESS_KEY_ID", "KNOWNTONOBODY")
    patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        patch.delenv(variable, raising=False)


def s3_bucket(endpoint: str) -> S3Client:
    """A client of a fresh bucket; making one takes a third of a second, so tests share one, each with its own prefix."""
    client = S3Client(f"bucket-{uuid.uuid4().hex}", endpoint=endpoint, region="us-east-1")
    client._client.create_bucket(Bucket=client.bucket)
    return client
