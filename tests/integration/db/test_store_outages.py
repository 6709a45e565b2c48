"""The object store is away and the database is there, and the other way round: nothing is promised that is not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kit.crew import crew
from kit.effects import step_state
from kit.engine import Engine
from kit.flows import single
from kit.proxy import TcpProxy
from kit.s3 import s3_bucket, s3_credentials, s3_endpoint
from kit.shelf import DAY, Shelf, named
from kit.stores import FUTURE, MIB
from sqlalchemy.engine import make_url

from stanchion.db.engine import Database
from stanchion.errors import Unavailable
from stanchion.objects import s3_client
from stanchion.objects.s3_client import S3Client
from stanchion.workflow import Ctx, Workflow

pytestmark = pytest.mark.usefixtures("agrees")

CHUNKS = 20
"""Of 1 MiB: enough for several parts, so that what is cut off leaves parts behind."""


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An S3 server of these tests alone."""
    with pytest.MonkeyPatch.context() as patch, s3_endpoint(tmp_path_factory.mktemp("s3")) as endpoint:
        s3_credentials(patch)
        yield endpoint


@pytest.fixture(scope="module")
def bucket(endpoint: str) -> Iterator[S3Client]:
    client = s3_bucket(endpoint)
    yield client
    client.close()


@pytest.fixture
def way(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[TcpProxy]:
    """What workers reach the store through. A request is sent once: what is cut stays cut."""
    monkeypatch.setattr(s3_client, "TRIES", 1)
    monkeypatch.setattr("stanchion.sdk.artifacts.TRIES", 1)
    with TcpProxy(("127.0.0.1", int(endpoint.rpartition(":")[2]))) as proxy:
        yield proxy


def at(bucket: S3Client, endpoint: str, prefix: UUID) -> str:
    return f"s3://{bucket.bucket}/{prefix}?endpoint={endpoint}"


@pytest.fixture
def shelf(engine: Engine, bucket: S3Client, endpoint: str, database_url: str) -> Iterator[Shelf]:
    """The tenant's artifacts, as they are seen by who reaches everything."""
    made = Shelf(engine, at(bucket, endpoint, engine.tenant), database_url)
    yield made
    made.check()
    made.close()


def writing(during: Callable[[int, int], None], contents: list[bytes]) -> Workflow:
    """A step that writes its attempt's content in chunks; `during(attempt, chunk)` is called before each, and behind all."""
    wf = Workflow("writing")
    attempts: list[int] = []

    @wf.step(retries=2, retry_delay="10ms", retry_cap="10ms")
    def write(ctx: Ctx) -> str:
        attempts.append(len(attempts) + 1)
        mine = attempts[-1]

        def chunks() -> Iterator[bytes]:
            for number in range(CHUNKS):
                during(mine, number)
                yield (b"%d" % mine) * MIB
            during(mine, CHUNKS)

        found = ctx.artifact("report", chunks()).put()
        contents.append((b"%d" % mine) * MIB * CHUNKS)
        return found.sha256

    return wf


def clean(shelf: Shelf, *contents: bytes) -> None:
    """What is left goes, and only that: afterwards the store has these, and nothing under way."""
    shelf.engine.forward(2 * DAY.total_seconds())
    shelf.sweep()
    shelf.sweeping.sweep_temporary(shelf.engine.tenant)
    assert shelf.objects_there() == {named(content) for content in contents}
    assert shelf.store.sweep_temporary(FUTURE) == 0
    assert shelf.states().get("pending", 0) == 0
    assert shelf.states().get("available", 0) == len(contents)


@pytest.mark.parametrize("chunk", [0, CHUNKS // 2, CHUNKS])
def test_the_store_goes_away_while_something_is_put(
    engine: Engine, shelf: Shelf, bucket: S3Client, way: TcpProxy, chunk: int
) -> None:
    """The attempt fails, nothing of it is seen; the next one, when the store is back, is number 1."""

    def during(attempt: int, number: int) -> None:
        if (attempt, number) == (1, chunk):
            way.cut()

    contents: list[bytes] = []
    engine.submit(writing(during, contents))
    url = at(bucket, f"http://127.0.0.1:{way.port}", engine.tenant)
    with crew(engine, objects_url=url) as worker:
        worker.work(lambda: step_state(engine) == "retry_wait")
        assert engine.one("SELECT error->>'code' FROM stanchion.attempt")[0] == "E-OBJ-04"
        assert shelf.states() == {"pending": 1}
        assert shelf.objects_there() == set()
        way.heal()
        engine.forward(60)
        engine.fire()
        worker.work(lambda: step_state(engine) == "succeeded")
    assert engine.all("SELECT number FROM stanchion.artifact_version WHERE state = 'available'") == [1]
    clean(shelf, *contents)


def test_a_store_that_refuses(engine: Engine, bucket: S3Client, endpoint: str, database_url: str) -> None:
    """Every attempt says why, and nothing is promised; when the store is there the rows that are left go."""
    missing = f"s3://not-yet-{bucket.bucket}?endpoint={endpoint}"
    engine.submit(writing(lambda *_: None, []))
    with crew(engine, objects_url=missing) as worker:

        def failed() -> bool:
            engine.forward(60)
            engine.fire()
            return step_state(engine) == "failed"

        worker.work(failed)
    assert set(engine.all("SELECT error->>'code' FROM stanchion.attempt")) == {"E-OBJ-05"}
    shelf = Shelf(engine, missing, database_url)
    assert shelf.states() == {"pending": 3}
    with pytest.raises(Unavailable) as refused:
        shelf.sweep()
    assert refused.value.code == "E-OBJ-05"
    client = S3Client(f"not-yet-{bucket.bucket}", endpoint=endpoint, region="us-east-1")
    client._client.create_bucket(Bucket=client.bucket)
    client.close()
    clean(shelf)
    assert shelf.states() == {"deleted": 3}
    shelf.close()


def test_somebody_uploads_while_the_store_is_away(
    engine: Engine, shelf: Shelf, bucket: S3Client, way: TcpProxy, database_url: str
) -> None:
    """They are told, and see nothing; when the store is back the same upload is number 1."""
    task = engine.submit(single("upload"))
    away = Shelf(engine, at(bucket, f"http://127.0.0.1:{way.port}", engine.tenant), database_url)
    way.cut()
    with pytest.raises(Unavailable) as told:
        away.uploaded(task.task_id, b"pages")
    assert told.value.code == "E-OBJ-04"
    assert shelf.people.page(engine.tenant, task.task_id, name=None, limit=10).items == []
    way.heal()
    version = away.uploaded(task.task_id, b"pages")
    assert shelf.people.get(engine.tenant, version)["number"] == 1
    clean(shelf, b"pages")
    away.close()


def test_the_database_stays_away_from_who_has_put(
    engine: Engine, tmp_path: Path, database_url: str, eventually: Any
) -> None:
    """Its content is nobody's: another worker's is number 1, and the late flip is refused and kept as evidence."""
    shelf = Shelf(engine, tmp_path / "objects", database_url)
    contents: list[bytes] = []
    url = make_url(engine.worker_database.url)
    assert url.host is not None
    assert url.port is not None
    with TcpProxy((url.host, url.port)) as line:
        through = url.set(host="127.0.0.1", port=line.port).render_as_string(hide_password=False)
        reached = Database(through, name="cut off")

        def during(attempt: int, number: int) -> None:
            if (attempt, number) == (1, CHUNKS):
                line.cut()

        engine.submit(writing(during, contents))
        with crew(engine, database=reached, objects_url=shelf.url) as cut_off:
            cut_off.work(lambda: shelf.objects_there() != set())
            assert shelf.states() == {"pending": 1}
            engine.forward(60)
            assert set(engine.upkeep.reap().values()) == {"ready"}
            with crew(engine, objects_url=shelf.url) as other:
                other.work(lambda: step_state(engine) == "succeeded")
            line.heal()
            eventually(lambda: engine.all("SELECT attempted FROM stanchion.refused_write") != [])
        reached.close()
    assert engine.all("SELECT number FROM stanchion.artifact_version WHERE state = 'available'") == [1]
    shelf.check()
    clean(shelf, contents[-1])
    shelf.close()
