"""Artifacts from inside steps: on the event loop, in threads, in processes of their own; values too large for a row."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kit import artifact_flows as flows
from kit import s3_server
from kit.crew import Crew, crew
from kit.engine import Engine
from kit.flows import result
from kit.proxy import TcpProxy
from sqlalchemy.engine import make_url

from stanchion.authority.artifacts import Artifacts
from stanchion.authority.check import check
from stanchion.authority.objects import Objects
from stanchion.authority.outcomes import Outcomes
from stanchion.authority.planning import Planning
from stanchion.authority.workflows import Workflows
from stanchion.contracts.artifacts import check_name
from stanchion.db.engine import Database
from stanchion.errors import Conflict, Unprocessable
from stanchion.objects.s3_client import S3Client

TARGETS = [f"kit.artifact_flows:{name}" for name in ("press", "bulk", "odd")]
HOSTILE = (
    "../up",
    "a/../b",
    "/root",
    "a//b",
    ".",
    "a\0b",
    "a\u202etxt.exe",
    "a\nb",
    " a",
    "a\\b",
    "e\u0301",
    "",
    "x" * 1_000_000,
)


@pytest.fixture
def objects(tmp_path: Path, engine: Engine) -> Iterator[Objects]:
    """A store of this test alone."""
    made = Objects((tmp_path / "objects").as_uri())
    engine.planning = Planning(engine.orchestrator, Workflows(engine.orchestrator), made)
    yield made
    made.close()


@pytest.fixture
def worker(engine: Engine, objects: Objects, database_url: str) -> Iterator[Crew]:
    """A worker with a store; afterwards the rows are what the events tell."""
    with _worker(engine, objects.url) as made:
        yield made
    root = Database(database_url, name="check")
    differences = [str(difference) for difference in check(root)]
    root.close()
    assert differences == []


def _worker(engine: Engine, url: str | None, **options: Any) -> Any:
    for workflow in (flows.press, flows.bulk, flows.odd):
        engine.register(workflow)
    return crew(engine, targets=TARGETS, objects_url=url, **options)


def ended(engine: Engine, task: Any) -> bool:
    engine.expand()
    engine.sweep()
    return engine.task(task)[0] in ("completed", "failed")


def failure(engine: Engine) -> Any:
    return engine.one("SELECT error FROM stanchion.attempt WHERE state = 'failed'")[0]


def versions(engine: Engine) -> list[Any]:
    return engine.all(
        "SELECT a.name, v.number, v.state, s.node, v.fence, cardinality(v.made_from) FROM stanchion.artifact_version v"
        " JOIN stanchion.artifact a USING (artifact_id) JOIN stanchion.step s USING (step_id) ORDER BY v.created_at"
    )


class TestSteps:
    """The three kinds of steps."""

    def test_write_and_read(self, engine: Engine, worker: Crew) -> None:
        """References travel as results and arguments; each version knows its step, its fence and its sources."""
        task = engine.submit(flows.press, input={"text": "Grüße"})
        worker.work(lambda: ended(engine, task))
        assert result(engine, "last") == "Grüße\nGRÜSSE\ntwo\n\n2"
        assert versions(engine) == [
            ("report.txt", 1, "available", "write", 1, 0),
            ("copy.bin", 1, "available", "write", 1, 1),
            ("report.txt", 2, "available", "check", 1, 1),
            ("lines.txt", 1, "available", "check", 1, 0),
            ("seen.txt", 1, "available", "alone", 1, 0),
        ]
        reference = result(engine, "alone")
        assert set(reference) == {"id", "name", "number", "sha256", "size", "media_type"}

    def test_types_are_shown_in_the_graph(self) -> None:
        """An artifact is a type as any other."""
        assert flows.press.graph().node("alone").result_schema["title"] == "Artifact"

    @pytest.mark.parametrize("what", ["raises", "raises in a thread"])
    def test_an_error_in_the_middle_promotes_nothing(
        self, engine: Engine, worker: Crew, objects: Objects, what: str
    ) -> None:
        """Neither a version nor an object."""
        task = engine.submit(flows.odd, input={"what": what})
        worker.work(lambda: ended(engine, task))
        assert failure(engine)["what"] == "ValueError: in the middle"
        assert {row[2] for row in versions(engine)} <= {"pending"}
        assert list(objects.of(engine.tenant).list(_future())) == []

    @pytest.mark.parametrize(("what", "content"), [("file", b"f" * 2_500_000), ("chunks", b"abc"), ("empty", b"")])
    def test_content_of_any_form(self, engine: Engine, worker: Crew, tmp_path: Path, what: str, content: bytes) -> None:
        """A file, chunks, or nothing at all."""
        (tmp_path / "file").write_bytes(content)
        task = engine.submit(flows.odd, input={"what": what, "path": str(tmp_path / "file")})
        worker.work(lambda: ended(engine, task))
        assert result(engine, "strange") == hashlib.sha256(content).hexdigest()

    @pytest.mark.parametrize(("what", "code"), [("type", "E-ART-02"), ("unknown", "E-FIND-01")])
    def test_what_is_refused(self, engine: Engine, worker: Crew, what: str, code: str) -> None:
        """For good, with its code."""
        task = engine.submit(flows.odd, input={"what": what})
        worker.work(lambda: ended(engine, task))
        assert failure(engine)["code"] == code

    def test_without_a_store(self, engine: Engine) -> None:
        """The error says which variable to set; no row was written."""
        with _worker(engine, None) as worker:
            task = engine.submit(flows.odd, input={"what": "empty"})
            worker.work(lambda: ended(engine, task))
        assert failure(engine)["code"] == "E-OBJ-10"
        assert "STANCHION_OBJECTS_URL" in failure(engine)["fix"]
        assert versions(engine) == []

    def test_the_database_is_cut_off_between_put_and_flip(self, engine: Engine, objects: Objects) -> None:
        """The attempt waits, and the version becomes visible when the database is back: no attempt is spent."""
        url = make_url(engine.worker_database.url)
        assert url.host is not None
        assert url.port is not None
        with TcpProxy((url.host, url.port)) as line:
            reached = Database(
                url.set(host="127.0.0.1", port=line.port).render_as_string(hide_password=False),
                name="cut off",
            )

            def cutting() -> Iterator[bytes]:
                yield b"a"
                line.cut()
                yield b"b"
                _heal_later(line)

            with _worker(engine, objects.url, database=reached) as worker:
                task = engine.submit(flows.odd, input={"what": "chunks"})
                monkey = pytest.MonkeyPatch()
                monkey.setattr("kit.artifact_flows.iter", lambda _chunks: cutting(), raising=False)
                worker.work(lambda: ended(engine, task))
                monkey.undo()
            reached.close()
        assert result(engine, "strange") == hashlib.sha256(b"ab").hexdigest()
        assert engine.all("SELECT attempts FROM stanchion.step") == [1]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names(name: str) -> None:
    """Refused before anything is asked: what leads elsewhere, what nobody sees, what has no end."""
    with pytest.raises(Unprocessable, match="E-ART-01") as refused:
        check_name(name)
    assert len(str(refused.value)) < 1_000


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a bucket behind a server of these tests alone."""
    log = tmp_path_factory.mktemp("s3") / "server.log"
    with log.open("w") as output, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "KNOWNTONOBODY")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "hush-hush")
        command = [sys.executable, s3_server.__file__]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, text=True)
        try:
            assert process.stdout is not None
            endpoint = f"http://127.0.0.1:{process.stdout.readline().strip()}"
            client = S3Client("artifacts", endpoint=endpoint, region="us-east-1")
            client._client.create_bucket(Bucket="artifacts")
            client.close()
            yield f"s3://artifacts/some/prefix?endpoint={endpoint}"
        finally:
            process.kill()
            process.communicate(timeout=30)


def test_the_same_behind_s3(engine: Engine, bucket: str) -> None:
    """On the event loop, in threads and in processes; each tenant has its own part of the bucket."""
    with _worker(engine, bucket) as worker:
        task = engine.submit(flows.press, input={"text": "Grüße"})
        worker.work(lambda: ended(engine, task), seconds=120)
    assert result(engine, "last") == "Grüße\nGRÜSSE\ntwo\n\n2"
    objects = Objects(bucket)
    assert len(list(objects.of(engine.tenant).list(_future()))) == 4, "report.txt and copy.bin are one object"
    objects.close()


class TestLargeValues:
    """Above 8 MiB a value lies in the store, and no reader notices."""

    def test_results_and_lists_of_fan_outs(self, engine: Engine, worker: Crew, objects: Objects) -> None:
        """12 MiB out of a thread, into a fan-out, into a process and out of it again, and into the API's answer."""
        task = engine.submit(flows.bulk, input={"mib": 12})
        worker.work(lambda: ended(engine, task), seconds=120)
        assert engine.task(task)[0] == "completed", engine.all(
            "SELECT error FROM stanchion.attempt WHERE error IS NOT NULL"
        )
        named = [row[0] for row in versions(engine)]
        assert named == ["values/lots", "values/compare"]
        outcomes = Outcomes(engine.service, Workflows(engine.service), objects)
        answer = outcomes.result_of(engine.tenant, task.task_id)["result"]
        assert len(answer) == 12
        assert answer[3].startswith("0000003XXX")

    def test_above_the_limit_it_is_an_artifact_s_business(self, engine: Engine, worker: Crew) -> None:
        """100 MiB are too much for a value; the error says how to go on."""
        task = engine.submit(flows.bulk, input={"mib": 101})
        worker.work(lambda: ended(engine, task), seconds=120)
        assert failure(engine)["code"] == "E-SIZE-01"
        assert "ctx.artifact" in failure(engine)["fix"]

    def test_a_value_is_not_deleted_by_hand(self, engine: Engine, worker: Crew) -> None:
        """Its row would name nothing; it goes with the payloads of its task."""
        task = engine.submit(flows.bulk, input={"mib": 9})
        worker.work(lambda: ended(engine, task), seconds=120)
        (version,) = engine.all(
            "SELECT version_id FROM stanchion.artifact_version JOIN stanchion.artifact USING (artifact_id) WHERE name = 'values/lots'"
        )
        with pytest.raises(Conflict, match="E-ART-06"):
            Artifacts(engine.service).delete(engine.tenant, version, reason="", actor="ann")


def _future() -> datetime:
    return datetime(9999, 1, 1, tzinfo=UTC)


def _heal_later(line: TcpProxy) -> None:
    threading.Timer(0.5, line.heal).start()
