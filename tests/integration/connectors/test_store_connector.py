"""Publishing in an object store, a folder and a server alike: once for each name, never over another content."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kit import publish_process
from kit.crew import crew
from kit.effects import finished, ledger
from kit.engine import Engine
from kit.s3 import SECRET, s3_bucket, s3_credentials, s3_endpoint
from kit.stores import FUTURE, HOSTILE, MIB, at_once, whole

from stanchion import Artifact
from stanchion.connectors.store import Publication, Published, Store, TakenBack
from stanchion.embedded.ports import free_port
from stanchion.errors import Rejected, Unavailable
from stanchion.objects import ObjectStore, open_store, s3_client
from stanchion.objects.s3 import S3Store
from stanchion.objects.s3_client import S3Client
from stanchion.testing.conformance import prove
from stanchion.workflow import Ctx, Workflow
from stanchion.workflow.operation import AnyOperation, Call, Effect, NotSent, Refused

ROOT = Path(__file__).parents[3]


@dataclass
class Shelf:
    """A place outside: the connector under test, and the store behind it, which is looked at by itself."""

    url: str
    store: ObjectStore
    public: Store
    names: Callable[[], list[str]]
    publish: AnyOperation

    def content(self, name: str) -> bytes:
        return whole(self.store.open_published(name))


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, S3Client]]:
    """An S3 server of these tests alone, and a bucket on it."""
    with pytest.MonkeyPatch.context() as patch, s3_endpoint(tmp_path_factory.mktemp("s3")) as endpoint:
        s3_credentials(patch)
        client = s3_bucket(endpoint)
        yield endpoint, client
        client.close()


@pytest.fixture(params=["folder", "s3"])
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shelf]:
    if request.param == "s3":
        endpoint, client = request.getfixturevalue("bucket")
        prefix = uuid.uuid4().hex
        url = f"s3://{client.bucket}/{prefix}?endpoint={endpoint}"

        def names() -> list[str]:
            start = f"{prefix}/published/"
            return [entry.key.removeprefix(start) for entry in client.entries(start, 1_000)]
    else:
        folder = tmp_path / "outside"
        url = folder.as_uri()

        def names() -> list[str]:
            return sorted(
                str(p.relative_to(folder / "published")) for p in folder.rglob("published/**/*") if p.is_file()
            )

    public = Store(url)
    with open_store(url) as store:
        yield Shelf(url, store, public, names, public.operation("shelf.publish"))
    public.close()


def call(key: str = "stn_key") -> Call:
    return Call(key, "op_1", "tenant", 60.0)


def check(operation: AnyOperation, *given: Any) -> Any:
    assert operation.check is not None
    return operation.check(*given)


class TestPublishing:
    def test_the_suite_for_connectors(self, shelf: Shelf) -> None:
        """All that is declared holds: keys, look-ups, undoing, refusals."""
        prove(
            shelf.publish,
            [Publication("news/{key}.txt", text="a"), Publication("{key}", value={"b": [1, None]})],
            executions=lambda key: sum(key in name for name in shelf.names()),
            refused=Publication("../{key}", text="a"),
        )

    @pytest.mark.parametrize(
        ("what", "content"),
        [
            (Publication("a/b.txt", text="ä\n"), "ä\n".encode()),
            (Publication("a/b.txt", text=""), b""),
            (Publication("a/b.json", value={"b": 1.0, "a": [True]}), b'{"a":[true],"b":1}'),
            (Publication.of_bytes("a/b.bin", bytes(range(256))), bytes(range(256))),
        ],
    )
    def test_what_is_given_stands_under_its_name(self, shelf: Shelf, what: Publication, content: bytes) -> None:
        receipt = shelf.publish.do(call(), what)
        assert shelf.content(what.name) == content
        assert receipt == Published(what.name, receipt.sha256, len(content))
        assert check(shelf.publish, call(), what) == receipt
        assert shelf.publish.do(call(), what) == receipt

    def test_another_content_is_refused_and_nothing_is_overwritten(self, shelf: Shelf) -> None:
        shelf.publish.do(call("stn_1"), Publication("page", text="first"))
        with pytest.raises(Refused, match="page is taken by another content") as refused:
            shelf.publish.do(call("stn_2"), Publication("page", text="other"))
        assert refused.value.why is not None
        assert "nothing is overwritten" in refused.value.why
        assert check(shelf.publish, call("stn_2"), Publication("page", text="other")) is None
        assert shelf.content("page") == b"first"

    def test_of_many_at_once_one_content_wins(self, shelf: Shelf) -> None:
        """Each of the others is refused for good; the same content is the same publication."""

        def publish(number: int) -> str:
            try:
                shelf.publish.do(call(f"stn_{number}"), Publication("page", text=f"content {number % 3}"))
            except (Refused, Unavailable) as error:
                return type(error).__name__
            return f"content {number % 3}"

        answers = at_once([lambda number=number: publish(number) for number in range(9)])
        content = shelf.content("page").decode()
        assert answers.count(content) == 3
        assert answers.count("Refused") == 6

    @pytest.mark.parametrize("name", HOSTILE, ids=repr)
    def test_hostile_names_are_refused(self, shelf: Shelf, name: str) -> None:
        """No name leads out of the place, and nothing is sent."""
        with pytest.raises(Refused, match="is no name to publish under"):
            shelf.publish.do(call(), Publication(name, text="x"))
        assert shelf.names() == []

    def test_references_that_can_be_none_are_refused(self, shelf: Shelf) -> None:
        for bad in (
            Publication("a", artifact=Artifact("art_1", "x", 1, "../../etc/passwd", 1, "text/plain")),
            Publication("a", base64="no base64!"),
        ):
            with pytest.raises(Refused):
                shelf.publish.do(call(), bad)
        assert shelf.names() == []

    def test_exactly_one_content(self) -> None:
        for contents in ({}, {"text": "a", "value": 1}):
            with pytest.raises(Rejected) as refused:
                Publication("a", **contents)  # type: ignore[arg-type]  # a text and a number
            assert refused.value.code == "E-OP-04"


class TestTakingBack:
    def published(self, shelf: Shelf) -> Effect:
        what = Publication("page", text="ours")
        receipt = shelf.publish.do(call(), what)
        return Effect(shelf.publish.encode(what), shelf.publish.encode_receipt(receipt))

    def test_it_is_removed_once(self, shelf: Shelf) -> None:
        undo, effect = shelf.publish.undo, self.published(shelf)
        assert undo is not None
        assert check(undo, call(), effect) is None
        assert undo.do(call(), effect) == TakenBack("page", removed=True)
        assert undo.do(call(), effect) == TakenBack("page", removed=False)
        assert check(undo, call(), effect) is not None
        assert shelf.names() == []

    def test_what_is_not_ours_any_more_stays(self, shelf: Shelf) -> None:
        """Somebody removed ours and published their own: that is not ours to remove."""
        undo, effect = shelf.publish.undo, self.published(shelf)
        assert undo is not None
        shelf.store.remove_published("page")
        assert shelf.store.put_if_absent("page", [b"theirs"])
        assert undo.do(call(), effect) == TakenBack("page", removed=False)
        assert shelf.content("page") == b"theirs"


class TestFolder:
    @pytest.fixture
    def secret(self, tmp_path: Path) -> Path:
        """Another folder, with a file in it."""
        folder = tmp_path / "secret"
        folder.mkdir()
        (folder / "page").write_text("secret")
        return folder

    @pytest.fixture
    def outside(self, tmp_path: Path) -> Iterator[tuple[Path, AnyOperation]]:
        folder = tmp_path / "outside"
        (folder / "published").mkdir(parents=True)
        public = Store(folder.as_uri())
        yield folder / "published", public.operation("shelf.publish")
        public.close()

    def test_a_link_in_the_way_is_not_followed(self, outside: tuple[Path, AnyOperation], secret: Path) -> None:
        """Neither to write, nor to read, nor to remove what lies behind it."""
        folder, publish = outside
        (folder / "away").symlink_to(secret)
        for name in ("away/new", "away/page", "away/deep/er"):
            with pytest.raises(Refused, match="can't be published"):
                publish.do(call(), Publication(name, text="secret"))
            assert check(publish, call(), Publication(name, text="secret")) is None
        effect = Effect({}, publish.encode_receipt(Published("away/page", "a" * 64, 6)))
        assert publish.undo is not None
        publish.undo.do(call(), effect)
        assert [(p.name, p.read_text()) for p in secret.iterdir()] == [("page", "secret")]

    def test_a_link_in_the_place_of_a_name_is_not_followed(
        self, outside: tuple[Path, AnyOperation], secret: Path
    ) -> None:
        folder, publish = outside
        (folder / "page").symlink_to(secret / "page")
        (folder / "free").symlink_to(secret / "new")
        for name in ("page", "free"):
            with pytest.raises(Refused, match="can't be published"):
                publish.do(call(), Publication(name, text="secret"))
        assert sorted(p.name for p in secret.iterdir()) == ["page"]

    def test_a_name_that_is_a_folder_is_refused(self, outside: tuple[Path, AnyOperation]) -> None:
        publish = outside[1]
        publish.do(call(), Publication("a/b", text="x"))
        for name in ("a", "a/b/c"):
            with pytest.raises(Refused, match="can't be published"):
                publish.do(call(), Publication(name, text="x"))


class TestAway:
    def test_a_store_that_is_away_was_sent_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """So it is certain that it was not done; and nobody can say what stands there."""
        s3_credentials(monkeypatch)
        monkeypatch.setattr(s3_client, "TRIES", 1)
        public = Store(f"s3://bucket?endpoint=http://127.0.0.1:{free_port()}")
        publish = public.operation("shelf.publish")
        with pytest.raises(NotSent):
            publish.do(call(), Publication("page", text="x"))
        with pytest.raises(Unavailable):
            check(publish, call(), Publication("page", text="x"))
        public.close()

    def test_without_credentials_nothing_is_sent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
        with pytest.raises(NotSent, match="AWS_ACCESS_KEY_ID is not set"):
            Store("s3://bucket").operation("shelf.publish").do(call(), Publication("page", text="x"))

    def test_without_a_store_of_artifacts_nothing_is_sent(self, shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("STANCHION_OBJECTS_URL", raising=False)
        pages = Artifact("art_1", "pages", 1, "a" * 64, 1, "text/plain")
        with pytest.raises(NotSent, match="no store to read artifacts from"):
            shelf.publish.do(call(), Publication("page", artifact=pages))
        assert shelf.names() == []


class Unlucky:
    """What becomes of the next puts: their answers are lost, they are lost themselves, or they land later."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *script: str) -> None:
        self.script = list(script)
        self.late: list[Callable[[], bool]] = []
        for kind in (type(open_store("file:///tmp")), S3Store):
            monkeypatch.setattr(kind, "put_if_absent", self.unlucky(kind.put_if_absent))

    def unlucky(self, put: Any) -> Any:
        def put_if_absent(store: ObjectStore, name: str, chunks: Any, **options: Any) -> bool:
            fate = self.script.pop(0) if self.script else "done"
            if fate == "late":
                content = list(chunks)
                self.late.append(lambda: put(store, name, content, **options))
            if fate in ("late", "never"):
                raise Unavailable("E-OBJ-04", "the store does not answer")
            done: bool = put(store, name, chunks, **options)
            if fate == "lost":
                raise Unavailable("E-OBJ-04", "the store does not answer")
            return done

        return put_if_absent


class TestLedger:
    def flow(self, shelf: Shelf, what: Publication) -> Workflow:
        wf = Workflow("publishing", operations=[shelf.publish])

        @wf.step(retry_delay="10ms", retry_cap="10ms")
        async def send(ctx: Ctx) -> Published:
            return await ctx.op(shelf.publish, what, key="spring")

        return wf

    def work(self, engine: Engine, **options: Any) -> None:
        def done() -> bool:
            engine.fire()
            engine.sweep()
            return finished(engine)

        with crew(engine, **options) as worker:
            worker.work(done, 60)

    @pytest.mark.parametrize("fate", ["lost", "never", "late"])
    def test_whatever_becomes_of_a_put_it_is_had_once(
        self, engine: Engine, shelf: Shelf, monkeypatch: pytest.MonkeyPatch, fate: str
    ) -> None:
        """Lost answers are found by a look; what did not arrive is put again; what lands late changes nothing."""
        unlucky = Unlucky(monkeypatch, fate)
        engine.submit(self.flow(shelf, Publication("page", text="once")))
        self.work(engine)
        state, sends, probes = ledger(engine)
        assert (state, sends, probes) == ("confirmed", 1 if fate == "lost" else 2, 1)
        assert [late() for late in unlucky.late] == ([False] if fate == "late" else [])
        assert shelf.names() == ["page"]
        assert shelf.content("page") == b"once"

    def test_a_taken_name_ends_the_step(self, engine: Engine, shelf: Shelf) -> None:
        """A refusal is final: no retry, and what stands there stays."""
        assert shelf.store.put_if_absent("page", [b"theirs"])
        engine.submit(self.flow(shelf, Publication("page", text="ours")))
        self.work(engine)
        assert ledger(engine)[:2] == ("refused", 1)
        (error,) = engine.one("SELECT error FROM stanchion.operation")
        assert error["code"] == "E-OP-08"
        assert "page is taken by another content" in error["what"]
        assert shelf.content("page") == b"theirs"

    def test_a_failed_run_takes_back_what_it_published(self, engine: Engine, shelf: Shelf) -> None:
        wf = Workflow("regret", operations=[shelf.publish], compensate="failed")

        @wf.step(retries=0)
        async def send(ctx: Ctx) -> int:
            await ctx.op(shelf.publish, Publication("page", text="early"), key="spring")
            assert shelf.names() == ["page"]
            raise ValueError("regret")

        engine.submit(wf)
        self.work(engine)
        assert sorted(engine.all("SELECT kind || ' ' || state FROM stanchion.operation")) == [
            "shelf.publish compensated",
            "shelf.publish_undo confirmed",
        ]
        assert shelf.names() == []

    def test_an_artifact_is_published_as_it_is(
        self, engine: Engine, shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        own = (tmp_path / "own").as_uri()
        monkeypatch.setenv("STANCHION_OBJECTS_URL", own)
        wf = Workflow("pages", operations=[shelf.publish])

        @wf.step()
        async def send(ctx: Ctx) -> Published:
            pages = await ctx.artifact("pages.txt", b"a page\n" * 100_000)
            return await ctx.op(shelf.publish, Publication(f"2030/{pages.name}", artifact=pages), key="pages")

        engine.submit(wf)
        self.work(engine, objects_url=own)
        assert ledger(engine)[:2] == ("confirmed", 1)
        assert shelf.content("2030/pages.txt") == b"a page\n" * 100_000

    def test_a_secret_is_nowhere_in_the_ledger(self, engine: Engine, bucket: tuple[str, S3Client]) -> None:
        """Not in what is kept of a store that refuses, and not in what is kept of a publication."""
        endpoint, client = bucket
        public = [Store(f"s3://{name}/secrets?endpoint={endpoint}") for name in (client.bucket, "missing")]
        good, bad = (store.operation(f"shelf.{name}") for store, name in zip(public, ("good", "bad"), strict=True))
        wf = Workflow("secrets", operations=[good, bad])

        @wf.step(retries=0)
        async def send(ctx: Ctx) -> int:
            await ctx.op(good, Publication("page", text="x"), key="good")
            await ctx.op(bad, Publication("page", text="x"), key="bad")
            return 1

        engine.submit(wf)
        self.work(engine)
        kept = json.dumps(
            [
                engine.all(f"SELECT to_jsonb(t)::text FROM stanchion.{table} t")
                for table in ("operation", "operation_probe", "attempt", "step", "event")
            ]
        )
        assert "E-OBJ-05" in kept
        assert SECRET not in kept
        assert "KNOWNTONOBODY" not in kept
        for store in public:
            store.close()


def test_memory_does_not_grow_with_what_is_published(shelf: Shelf, tmp_path: Path) -> None:
    """100 MiB go through in a small part of it, and are found again."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    process = subprocess.run(
        [sys.executable, publish_process.__file__, (tmp_path / "own").as_uri(), shelf.url, "100"],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"PYTHONPATH": paths},
        check=False,
    )
    assert process.returncode == 0, process.stderr
    answer = json.loads(process.stdout)
    assert answer["receipt"] == {"name": "large", "sha256": answer["sha256"], "size": 100 * MIB}
    assert shelf.names() == ["large", "small"]
    assert answer["grown_mib"] < 60
    assert shelf.store.sweep_temporary(FUTURE) == 0
