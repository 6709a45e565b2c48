"""Both stores through the same suite, and what only a server can do."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kit.s3 import SECRET, s3_bucket, s3_credentials, s3_endpoint
from kit.stores import FUTURE, MIB, Stand, StoreSuite, bytes_of, in_chunks, whole

from stanchion.embedded.ports import free_port
from stanchion.errors import Unavailable
from stanchion.objects import open_store, s3_client
from stanchion.objects.names import object_key
from stanchion.objects.s3 import S3Store
from stanchion.objects.s3_client import S3Client, Taken


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An S3 server of these tests alone."""
    with s3_endpoint(tmp_path_factory.mktemp("s3")) as endpoint:
        yield endpoint


@pytest.fixture(scope="module", autouse=True)
def credentials() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        s3_credentials(patch)
        yield


@pytest.fixture(scope="module")
def client(endpoint: str, credentials: None) -> Iterator[S3Client]:
    """A client of a fresh bucket; making one takes a third of a second, so each test has its own prefix instead."""
    client = s3_bucket(endpoint)
    yield client
    client.close()


@pytest.fixture
def prefix() -> str:
    return f"some/{uuid.uuid4().hex}"


@pytest.fixture
def s3_stand(client: S3Client, endpoint: str, prefix: str) -> Stand:
    return Stand(
        f"s3://{client.bucket}/{prefix}?endpoint={endpoint}",
        S3Store(client, prefix),
        lambda sha256, data: client.put(f"{prefix}/{object_key(sha256)}", data),
    )


@pytest.fixture(params=["folder", "s3"])
def stand(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stand]:
    if request.param == "s3":
        yield request.getfixturevalue("s3_stand")
        return
    url = f"{tmp_path.as_uri()}/objects"
    with open_store(url) as store:
        yield Stand(
            url, store, lambda sha256, data: (tmp_path / "objects" / object_key(sha256)).write_bytes(data) and None
        )


class TestStores(StoreSuite):
    """All that a store must do, done by both."""


def test_all_keys_stand_under_the_prefix(s3_stand: Stand, client: S3Client, prefix: str) -> None:
    """Two stores in one bucket do not see each other, nor what else lies there."""
    client.put("sha256/notes.txt", b"x")
    client.put(f"{prefix}/sha256/notes.txt", b"x")
    with open_store(s3_stand.url) as store:
        named = store.put([b"x"], most_bytes=1).sha256
        store.put_if_absent("a/b", [b"x"])
    assert [entry.key for entry in client.entries(f"{prefix}/", 1000)] == [
        f"{prefix}/published/a/b",
        f"{prefix}/{object_key(named)}",
        f"{prefix}/sha256/notes.txt",
    ]
    assert [one.sha256 for one in s3_stand.store.list(FUTURE)] == [named]
    other = S3Store(client, f"{prefix}x")
    assert other.stat(named) is None
    assert list(other.list(FUTURE)) == []
    assert list(S3Store(client).list(FUTURE)) == []


def test_listings_come_in_pages(client: S3Client, prefix: str) -> None:
    """A listing of any length holds one page; an object on each edge is listed once."""
    store = S3Store(client, prefix, page=3)
    put = sorted(store.put([bytes_of(size, seed=size)], most_bytes=100) for size in range(1, 11))
    listed = store.list(FUTURE)
    first = next(listed)
    store.delete(put[9].sha256)
    assert [(one.sha256, one.size) for one in (first, *listed)] == put[:9]


def test_large_objects_are_copied_in_pieces(client: S3Client, prefix: str) -> None:
    """Above what one request may copy."""
    store = S3Store(client, prefix, copy_bytes=6 * MIB)
    data = bytes_of(20 * MIB)
    stored = store.put(in_chunks(data), most_bytes=len(data))
    assert store.verify(stored.sha256) == stored
    assert store.sweep_temporary(FUTURE) == 0


@pytest.mark.parametrize("size", [10, 9 * MIB])
def test_a_lost_answer_is_no_refusal(client: S3Client, prefix: str, size: int) -> None:
    """A request that is sent again finds the name taken by itself: the caller has created it."""

    class Forgetful(S3Client):
        def put(self, *arguments: Any, **options: Any) -> None:
            super().put(*arguments, **options)
            raise Taken

        def complete(self, *arguments: Any, **options: Any) -> None:
            super().complete(*arguments, **options)
            raise Taken

    store = S3Store(Forgetful(client.bucket, endpoint=client._client.meta.endpoint_url, region="us-east-1"), prefix)
    try:
        assert store.put_if_absent("name", in_chunks(bytes_of(size)))
        assert not store.put_if_absent("name", [b"another"])
        assert whole(store.open_published("name")) == bytes_of(size)
    finally:
        store.close()


def test_a_race_that_nobody_won_is_tried_again(client: S3Client, prefix: str) -> None:
    """Servers turn away both of two that race; the name may be free still."""

    class Racing(S3Client):
        def put(self, *arguments: Any, **options: Any) -> None:
            raise Taken

    store = S3Store(Racing(client.bucket, endpoint=client._client.meta.endpoint_url, region="us-east-1"), prefix)
    try:
        with pytest.raises(Unavailable) as failed:
            store.put_if_absent("name", [b"x"])
        assert failed.value.code == "E-OBJ-04"
    finally:
        store.close()


def test_a_missing_bucket_is_no_empty_store(endpoint: str) -> None:
    """Nothing is said about objects of a bucket that is not there."""
    with open_store(f"s3://missing/prefix?endpoint={endpoint}") as store:
        for attempt in (
            lambda: store.stat(bytes(32)),
            lambda: store.open(bytes(32)),
            lambda: store.put([b"x"], most_bytes=1),
            lambda: store.put([bytes(9 * MIB)], most_bytes=9 * MIB),
            lambda: store.put_if_absent("name", [b"x"]),
            lambda: list(store.list(FUTURE)),
            lambda: store.sweep_temporary(FUTURE),
        ):
            with pytest.raises(Unavailable) as refused:
                attempt()
            assert refused.value.code == "E-OBJ-05"


def test_a_server_that_is_away_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unavailable, so that the caller backs off."""
    monkeypatch.setattr(s3_client, "TRIES", 1)
    with open_store(f"s3://bucket?endpoint=http://127.0.0.1:{free_port()}") as store:
        for attempt in (lambda: store.stat(bytes(32)), lambda: store.put([b"x"], most_bytes=1)):
            with pytest.raises(Unavailable) as failed:
                attempt()
            assert failed.value.code == "E-OBJ-04"


def test_secrets_stay_out_of_logs_and_errors(s3_stand: Stand, caplog: pytest.LogCaptureFixture, endpoint: str) -> None:
    """Nothing that is written, at the level where logs usually stand, holds the key."""
    caplog.set_level(logging.INFO)
    s3_stand.store.put([b"x"], most_bytes=1)
    with open_store(f"s3://missing?endpoint={endpoint}") as store, pytest.raises(Unavailable) as refused:
        store.put([b"x"], most_bytes=1)
    assert SECRET not in caplog.text + repr(refused.value) + str(refused.value) + repr(vars(s3_stand.store))


def test_threads_share_a_store(s3_stand: Stand) -> None:
    """More threads than kept connections."""
    problems: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            data = bytes_of(1000, seed)
            stored = s3_stand.store.put([data], most_bytes=1000)
            assert whole(s3_stand.store.open_verified(stored.sha256)) == data
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert problems == []
    assert len(list(s3_stand.store.list(FUTURE))) == 40
