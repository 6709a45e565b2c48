"""A store's setting is one string, and holds no secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from stanchion.errors import Unavailable, Unprocessable
from stanchion.objects import open_store
from stanchion.objects.folder import FolderStore
from stanchion.objects.s3 import PART_BYTES, S3Store, _part_bytes

REFUSED = (
    "",
    "objects",
    "/var/objects",
    "http://host/bucket",
    "file:///",
    "file://host/path",
    "file://objects",
    "file:objects",
    "file:///a/../b",
    "file:///a/%2e%2e/b",
    "file:///a%00b",
    "file:///a?b=c",
    "file:///a#b",
    "file:///a b",
    "s3://",
    "s3:///prefix",
    "s3://bucket/../prefix",
    "s3://bucket:80/prefix",
    "s3://..",
    "s3://bucket?secret=x",
    "s3://bucket?endpoint=",
    "s3://bucket?region=a&region=b",
    "s3://bucket?endpoint=ftp://host",
    "s3://bucket?endpoint=http://host:port",
    "s3://bucket?endpoint=http://host/path",
    "s3://bucket?endpoint=http://hush:hush@host",
    "s3://hush:hush@bucket/prefix",
    "s3://hush@bucket/prefix",
    "s3://bucket:99999999/prefix",
    "s3://[bucket/prefix",
)


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "known")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")


@pytest.mark.parametrize("url", REFUSED)
def test_other_urls_are_refused(url: str) -> None:
    """With the reason, and without showing the URL: somebody may have put a password into it."""
    with pytest.raises(Unprocessable) as refused:
        open_store(url)
    assert refused.value.code == "E-OBJ-07"
    assert refused.value.why
    assert "hush" not in str(refused.value) + repr(refused.value.details)


def test_a_folder_is_made(tmp_path: Path) -> None:
    """The folder itself is, its parent is not: a mount that is not there would be written under its mount point."""
    for name in ("objects", "with%20blank"):
        with open_store(f"{tmp_path.as_uri()}/{name}") as store:
            assert isinstance(store, FolderStore)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["objects", "with blank"]
    (tmp_path / "file").touch()
    for name in ("missing/objects", "file", "file/objects"):
        with pytest.raises(Unavailable) as refused:
            open_store(f"{tmp_path.as_uri()}/{name}")
        assert refused.value.code == "E-OBJ-05"


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket",
        "s3://bucket/",
        "s3://bucket.of.ours/prefix/deeper/",
        "s3://bucket?region=eu-central-1",
        "s3://bucket/prefix?endpoint=http://127.0.0.1:9000&region=eu-central-1",
        "s3://bucket/prefix?endpoint=https%3A%2F%2Flocalhost/",
    ],
)
def test_buckets_are_opened_without_a_request(url: str) -> None:
    """Opening needs no network."""
    with open_store(url) as store:
        assert isinstance(store, S3Store)


@pytest.mark.parametrize("variable", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_credentials_come_from_variables_alone(variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file, no profile and no metadata service is asked for what a variable does not hold."""
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    open_store("s3://bucket").close()
    monkeypatch.delenv(variable)
    with pytest.raises(Unprocessable) as refused:
        open_store("s3://bucket")
    assert refused.value.code == "E-OBJ-08"


def test_parts_suffice_for_the_largest_object() -> None:
    """S3 takes 10,000 parts: beyond 80 GiB they grow."""
    assert _part_bytes(0) == _part_bytes(10**9) == PART_BYTES
    for most in (10_000 * PART_BYTES, 10_000 * PART_BYTES + 1, 5 * 1024**4):
        assert 0 <= _part_bytes(most) * 10_000 - most < 10_000 * 1024**2
